//! A limit of failed logins for each address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Failed logins of an address within [`WINDOW`].
const FAILURES: u32 = 5;

/// The window starts with its first failure.
const WINDOW: Duration = Duration::from_secs(60);

/// Addresses that are remembered; a further address shares one counter with all others of its
/// kind.
const ADDRESSES: usize = 1_024;

/// Counts failed logins. The address is `None` if the server does not report it.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    failures: Mutex<HashMap<Option<IpAddr>, (Instant, u32)>>,
}

impl Throttle {
    /// Returns whether this address may try a token now.
    pub(crate) fn permits(&self, address: Option<IpAddr>, now: Instant) -> bool {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let key = if failures.contains_key(&address) || failures.len() < ADDRESSES { address } else { None };
        failures.get(&key).is_none_or(|(since, count)| *count < FAILURES || now.duration_since(*since) >= WINDOW)
    }

    /// Counts a failure.
    pub(crate) fn failed(&self, address: Option<IpAddr>, now: Instant) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= ADDRESSES {
            failures.retain(|_, (since, _)| now.duration_since(*since) < WINDOW);
        }
        let key = if failures.contains_key(&address) || failures.len() < ADDRESSES { address } else { None };
        let entry = failures.entry(key).or_insert((now, 0));
        if now.duration_since(entry.0) >= WINDOW {
            *entry = (now, 0);
        }
        entry.1 = entry.1.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u32) -> Option<IpAddr> {
        Some(IpAddr::from(n.to_be_bytes()))
    }

    #[test]
    fn the_sixth_try_of_an_address_waits_for_a_minute() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        for _ in 0..FAILURES {
            assert!(throttle.permits(address(1), start));
            throttle.failed(address(1), start);
        }
        assert!(!throttle.permits(address(1), start + WINDOW - Duration::from_millis(1)));
        assert!(throttle.permits(address(2), start) && throttle.permits(None, start));
        assert!(throttle.permits(address(1), start + WINDOW));
        throttle.failed(address(1), start + WINDOW);
        assert!(throttle.permits(address(1), start + WINDOW));
    }

    #[test]
    fn many_addresses_take_bounded_memory_and_are_limited_together() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        for n in 0..5_000 {
            throttle.failed(address(n), start);
        }
        assert!(throttle.failures.lock().unwrap().len() <= ADDRESSES + 1);
        assert!(!throttle.permits(address(9_999), start));
        assert!(throttle.permits(address(9_999), start + WINDOW));
    }
}
