//! A limit of wrong tokens for each address.
//!
//! For requests that may not read, the right token is always accepted: behind a proxy all requests
//! come from one address, and one wrong script must not lock out all users. Tokens are too long to
//! be guessed; the limit keeps tries cheap and visible. Requests that may read get no answer about
//! their token. After five wrong ones, their header is ignored, so the right one is not accepted.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Failed logins of an address within [`WINDOW`] that are answered as wrong tokens.
const FAILURES: u32 = 5;

/// The window starts with its first failure.
const WINDOW: Duration = Duration::from_secs(60);

/// Addresses that are remembered; a further one replaces the one with the oldest window.
const ADDRESSES: usize = 1_024;

/// Counts failed logins. The address is `None` if the server does not report it.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    failures: Mutex<HashMap<Option<IpAddr>, (Instant, u32)>>,
}

impl Throttle {
    /// Counts a failure. Returns whether it is one of the first five of its address in a minute.
    pub(crate) fn failed(&self, address: Option<IpAddr>, now: Instant) -> bool {
        let key = address.map(network);
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= ADDRESSES && !failures.contains_key(&key) {
            let oldest = failures.iter().min_by_key(|(_, (since, _))| *since).map(|(key, _)| *key);
            if let Some(oldest) = oldest {
                failures.remove(&oldest);
            }
        }
        let entry = failures.entry(key).or_insert((now, 0));
        if now.duration_since(entry.0) >= WINDOW {
            *entry = (now, 0);
        }
        entry.1 = entry.1.saturating_add(1);
        entry.1 <= FAILURES
    }

    /// Returns whether an address has failed five times in this minute.
    pub(crate) fn is_exhausted(&self, address: Option<IpAddr>, now: Instant) -> bool {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let last = failures.get(&address.map(network));
        last.is_some_and(|(since, count)| now.duration_since(*since) < WINDOW && *count >= FAILURES)
    }
}

/// Returns what addresses have in common that one user can choose among: of IPv6 a network of 64
/// bits.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => address.into(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u32) -> Option<IpAddr> {
        Some(IpAddr::from(n.to_be_bytes()))
    }

    #[test]
    fn the_sixth_failure_of_an_address_in_a_minute_is_one_too_many() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        for _ in 0..FAILURES {
            assert!(!throttle.is_exhausted(address(1), start));
            assert!(throttle.failed(address(1), start));
        }
        let ends = start + WINDOW;
        assert!(throttle.is_exhausted(address(1), start) && !throttle.is_exhausted(address(1), ends));
        assert!(!throttle.failed(address(1), start + WINDOW - Duration::from_millis(1)));
        assert!(throttle.failed(address(2), start) && throttle.failed(None, start));
        assert!(throttle.failed(address(1), start + WINDOW));
    }

    #[test]
    fn the_addresses_of_one_network_are_counted_together() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        let of = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        for n in 0..FAILURES {
            assert!(throttle.failed(of(&format!("2001:db8:1:2::{n}")), start));
        }
        assert!(!throttle.failed(of("2001:db8:1:2:ffff::"), start));
        assert!(throttle.failed(of("2001:db8:1:3::"), start));
        for _ in 0..FAILURES {
            throttle.failed(of("::ffff:10.0.0.1"), start);
        }
        assert!(!throttle.failed(of("10.0.0.1"), start) && throttle.failed(of("::ffff:10.0.0.2"), start));
    }

    #[test]
    fn many_addresses_take_bounded_memory_and_do_not_lock_out_new_ones() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        for n in 0..5_000 {
            throttle.failed(address(n), start + Duration::from_millis(n.into()));
        }
        assert_eq!(throttle.failures.lock().unwrap().len(), ADDRESSES);
        assert!(throttle.failed(address(9_999), start + Duration::from_secs(6)));
    }
}
