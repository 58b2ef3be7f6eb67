//! How much is allowed.

use std::time::Duration;

use redgrid_core::{LIFETIMES, LIFETIMES_EXPECTED, Name};

use crate::error::LimitError;

/// The most permits of a rate: 2^53, up to which scripts count exactly.
pub(crate) const MOST: u64 = 1 << 53;
const MOST_EXPECTED: &str = "1 to 9007199254740992";

/// Whom a rate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RateKind {
    /// All clients together.
    Overall,
    /// Each client for itself: all that goes through one [`Client`](crate::Client).
    PerClient,
}

/// So many permits in any time of this length.
#[doc(alias = "RateLimiterConfig")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rate {
    /// How many, 1 to 2^53.
    pub permits: u64,
    /// In how long a time, 1 ms to 3,650 days in whole milliseconds.
    pub per: Duration,
    /// For whom.
    pub kind: RateKind,
    /// How long the limiter lives after it was used last, for ever unless set. No shorter than `per`.
    pub keep_alive: Option<Duration>,
}

impl Rate {
    /// For all clients together.
    pub fn overall(permits: u64, per: Duration) -> Self {
        Rate { permits, per, kind: RateKind::Overall, keep_alive: None }
    }

    /// For each client by itself.
    pub fn per_client(permits: u64, per: Duration) -> Self {
        Rate { kind: RateKind::PerClient, ..Rate::overall(permits, per) }
    }

    /// Has the limiter go, its rate with it, when it was not used for so long: no shorter than the rate's own time. For ever
    /// unless set.
    #[doc(alias = "keepAliveTime")]
    #[must_use]
    pub fn keep_alive(self, keep_alive: Duration) -> Self {
        Rate { keep_alive: Some(keep_alive), ..self }
    }

    pub(crate) fn check(&self, name: &Name) -> Result<(), LimitError> {
        if !(1..=MOST).contains(&self.permits) {
            return Err(LimitError::argument(name, "permits", MOST_EXPECTED, self.permits));
        }
        if !LIFETIMES.contains(&self.per) {
            return Err(LimitError::argument(name, "per", LIFETIMES_EXPECTED, format!("{:?}", self.per)));
        }
        match self.keep_alive {
            Some(keep) if !LIFETIMES.contains(&keep) => {
                Err(LimitError::argument(name, "keep_alive", LIFETIMES_EXPECTED, format!("{keep:?}")))
            }
            Some(keep) if keep < self.per => {
                let got = format!("{keep:?}, and per is {:?}", self.per);
                Err(LimitError::argument(name, "keep_alive", "at least as long as per", got))
            }
            _ => Ok(()),
        }
    }

    /// As the hash has it: rate, interval, type, keepAliveTime.
    pub(crate) fn fields(&self) -> [String; 4] {
        let kind = if self.kind == RateKind::PerClient { "1" } else { "0" };
        let keep = self.keep_alive.map_or(0, |keep| keep.as_millis());
        [self.permits.to_string(), self.per.as_millis().to_string(), kind.into(), keep.to_string()]
    }

    /// What the hash says; none where it says nothing, and its words where they are no rate.
    pub(crate) fn read(fields: &[Option<String>]) -> Result<Option<Rate>, String> {
        let [Some(rate), Some(interval), Some(kind), keep] = fields else { return Ok(None) };
        let read = || {
            let millis = |text: &str| Some(Duration::from_millis(text.parse().ok()?));
            let kind = match kind.as_str() {
                "0" => RateKind::Overall,
                "1" => RateKind::PerClient,
                _ => return None,
            };
            let keep = keep.as_deref().map_or(Some(Duration::ZERO), millis)?;
            let keep_alive = Some(keep).filter(|keep| !keep.is_zero());
            Some(Rate { permits: rate.parse().ok()?, per: millis(interval)?, kind, keep_alive })
        };
        read().map(Some).ok_or_else(|| format!("{fields:?}"))
    }
}

/// So many permits in a time, replenished one by one, of which so many may be taken at once: what a
/// [`GcraLimiter`](crate::GcraLimiter) allows. Said by who asks, not kept on the server: all who use a name should say the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quota {
    /// How many are replenished, 1 to 2^32 − 1.
    pub permits: u64,
    /// In how long a time, 1 ms to 3,650 days in whole microseconds.
    pub per: Duration,
    /// How many may be taken at once after a time of rest, 1 to 2^32 − 1; as many as `permits` unless set.
    pub burst: u64,
}

impl Quota {
    /// So many in this time, and at once.
    pub fn new(permits: u64, per: Duration) -> Self {
        Quota { permits, per, burst: permits }
    }

    /// So many a second, and at once.
    pub fn per_second(permits: u64) -> Self {
        Quota::new(permits, Duration::from_secs(1))
    }

    /// How many may be taken at once, after a time of rest. With 1 they come one at a time, evenly; more make up for who asks
    /// late.
    #[must_use]
    pub fn burst(self, burst: u64) -> Self {
        Quota { burst, ..self }
    }

    /// Permits, and microseconds they are replenished in, without common divisor.
    pub(crate) fn check(&self, name: &Name) -> Result<(u64, u64), LimitError> {
        for (option, got) in [("permits", self.permits), ("burst", self.burst)] {
            if !(1..=MOST_AT_ONCE).contains(&got) {
                return Err(LimitError::argument(name, option, MOST_AT_ONCE_EXPECTED, got));
            }
        }
        if !LIFETIMES.contains(&self.per) {
            return Err(LimitError::argument(name, "per", LIFETIMES_EXPECTED, format!("{:?}", self.per)));
        }
        let per = u64::try_from(self.per.as_micros()).unwrap_or(u64::MAX);
        let divisor = gcd(self.permits, per);
        let (permits, per) = (self.permits / divisor, per / divisor);
        // Scripts count in parts of a microsecond, and up to 2^53.
        if u128::from(self.burst + 1) * u128::from(per) > u128::from(MOST) {
            let got = format!("{} at {} in {:?}", self.burst, self.permits, self.per);
            return Err(LimitError::argument(name, "burst", "burst × per up to 285 years", got));
        }
        Ok((permits, per))
    }
}

/// The most permits of one request: Redisson's log has four bytes for them.
pub(crate) const MOST_AT_ONCE: u64 = u32::MAX as u64;
pub(crate) const MOST_AT_ONCE_EXPECTED: &str = "1 to 4294967295";

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_read_as_it_was_written() {
        let rate = Rate::per_client(7, Duration::from_millis(250)).keep_alive(Duration::from_secs(9));
        let fields = rate.fields().map(Some);
        assert_eq!(Rate::read(&fields), Ok(Some(rate)));
        let older = [Some("5".into()), Some("1000".into()), Some("0".into()), None];
        assert_eq!(Rate::read(&older), Ok(Some(Rate::overall(5, Duration::from_secs(1)))));
        assert_eq!(Rate::read(&[None, Some("1".into()), Some("0".into()), None]), Ok(None));
        assert!(Rate::read(&[Some("x".into()), Some("1".into()), Some("0".into()), None]).is_err());
        assert!(Rate::read(&[Some("1".into()), Some("1".into()), Some("7".into()), None]).is_err());
    }

    #[test]
    fn what_can_not_be_is_refused() {
        let (name, second) = (Name::new("a").unwrap(), Duration::from_secs(1));
        assert!(Rate::overall(1, second).check(&name).is_ok() && Rate::overall(MOST, second).check(&name).is_ok());
        let bad = [
            Rate::overall(0, second),
            Rate::overall(MOST + 1, second),
            Rate::overall(1, Duration::from_micros(999)),
            Rate::overall(1, second).keep_alive(Duration::from_millis(999)),
            Rate::overall(1, second).keep_alive(Duration::from_secs(3651 * 24 * 3600)),
        ];
        assert!(bad.iter().all(|rate| rate.check(&name).is_err()));
        assert_eq!(Quota::per_second(1000).check(&name).unwrap(), (1, 1000));
        assert_eq!(Quota::per_second(3).check(&name).unwrap(), (3, 1_000_000));
        let century = Duration::from_secs(3650 * 24 * 3600);
        assert!(Quota::new(1, century).burst(30).check(&name).is_err());
        assert!(Quota::per_second(0).check(&name).is_err() && Quota::per_second(1).burst(0).check(&name).is_err());
    }
}
