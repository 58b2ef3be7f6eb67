//! The rates and quotas of limiters.

use std::time::Duration;

use redgrid_core::{LIFETIMES, LIFETIMES_EXPECTED, Name};

use crate::error::LimitError;

/// Maximum number of permits of a rate: 2^53, up to which scripts count exactly.
const MAX_RATE: u64 = 1 << 53;
const MAX_RATE_EXPECTED: &str = "1 to 9007199254740992";

/// Maximum number of permits of one request: an entry of Redisson's log has four bytes for it.
pub(crate) const MAX_PERMITS: u64 = u32::MAX as u64;
pub(crate) const MAX_PERMITS_EXPECTED: &str = "1 to 4294967295";

/// Which clients share a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RateKind {
    /// All clients together.
    Overall,
    /// Each [`Client`](crate::Client) by itself.
    PerClient,
}

/// The number of permits in any period of a given length.
#[doc(alias = "RateLimiterConfig")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rate {
    /// The number of permits, 1 to 2^53.
    pub permits: u64,
    /// The length of the period: 1 ms to 3,650 days, in whole milliseconds.
    pub per: Duration,
    /// The clients that share the rate.
    pub kind: RateKind,
    /// How long the limiter lives after its last use, at least `per`. `None`: for ever.
    pub keep_alive: Option<Duration>,
}

impl Rate {
    /// Returns a rate for all clients together.
    pub fn overall(permits: u64, per: Duration) -> Self {
        Rate { permits, per, kind: RateKind::Overall, keep_alive: None }
    }

    /// Returns a rate for each client by itself.
    pub fn per_client(permits: u64, per: Duration) -> Self {
        Rate { kind: RateKind::PerClient, ..Rate::overall(permits, per) }
    }

    /// Deletes the limiter and its rate when it was not used for this long, at least
    /// [`per`](Rate::per). By default, it lives for ever.
    #[doc(alias = "keepAliveTime")]
    #[must_use]
    pub fn keep_alive(self, keep_alive: Duration) -> Self {
        Rate { keep_alive: Some(keep_alive), ..self }
    }

    pub(crate) fn check(&self, name: &Name) -> Result<(), LimitError> {
        if !(1..=MAX_RATE).contains(&self.permits) {
            return Err(LimitError::argument(name, "permits", MAX_RATE_EXPECTED, self.permits));
        }
        if !LIFETIMES.contains(&self.per) {
            return Err(LimitError::argument(name, "per", LIFETIMES_EXPECTED, format!("{:?}", self.per)));
        }
        match self.keep_alive {
            Some(keep) if !LIFETIMES.contains(&keep) => {
                Err(LimitError::argument(name, "keep_alive", LIFETIMES_EXPECTED, format!("{keep:?}")))
            }
            Some(keep) if keep < self.per => {
                let got = format!("{keep:?} with a `per` of {:?}", self.per);
                Err(LimitError::argument(name, "keep_alive", "at least as long as `per`", got))
            }
            _ => Ok(()),
        }
    }

    /// Returns the fields of the hash: rate, interval, type, keepAliveTime.
    pub(crate) fn fields(&self) -> [String; 4] {
        let kind = if self.kind == RateKind::PerClient { "1" } else { "0" };
        let keep = self.keep_alive.map_or(0, |keep| keep.as_millis());
        [self.permits.to_string(), self.per.as_millis().to_string(), kind.into(), keep.to_string()]
    }

    /// Reads the fields of the hash; `None` if they are missing. The error contains the fields if
    /// they are not a rate.
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

/// The quota of a [`GcraLimiter`](crate::GcraLimiter): permits that are replenished one by one.
///
/// It is not stored on the server: all callers of a name should use the same quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quota {
    /// The number of permits that are replenished in `per`, 1 to 2^32 − 1.
    pub permits: u64,
    /// The time in which they are replenished: 1 ms to 3,650 days, in whole microseconds.
    pub per: Duration,
    /// The maximum number of permits at once, after a pause: 1 to 2^32 − 1.
    pub burst: u64,
}

impl Quota {
    /// Returns a quota with a burst of `permits`.
    pub fn new(permits: u64, per: Duration) -> Self {
        Quota { permits, per, burst: permits }
    }

    /// Returns a quota of this many permits a second, which is its burst too.
    pub fn per_second(permits: u64) -> Self {
        Quota::new(permits, Duration::from_secs(1))
    }

    /// Sets the maximum number of permits at once.
    ///
    /// With 1, permits are available one at a time, evenly. With more, permits that were not used
    /// during a pause can be used after it.
    #[must_use]
    pub fn burst(self, burst: u64) -> Self {
        Quota { burst, ..self }
    }

    /// Checks the ranges. Returns the permits and the microseconds, without a common divisor.
    pub(crate) fn check(&self, name: &Name) -> Result<(u64, u64), LimitError> {
        for (option, got) in [("permits", self.permits), ("burst", self.burst)] {
            if !(1..=MAX_PERMITS).contains(&got) {
                return Err(LimitError::argument(name, option, MAX_PERMITS_EXPECTED, got));
            }
        }
        if !LIFETIMES.contains(&self.per) {
            return Err(LimitError::argument(name, "per", LIFETIMES_EXPECTED, format!("{:?}", self.per)));
        }
        let per = u64::try_from(self.per.as_micros()).unwrap_or(u64::MAX);
        let divisor = gcd(self.permits, per);
        let (permits, per) = (self.permits / divisor, per / divisor);
        // Scripts count in fractions of a microsecond, and exactly up to 2^53.
        if u128::from(self.burst + 1) * u128::from(per) > u128::from(MAX_RATE) {
            let got = format!("{} at {} in {:?}", self.burst, self.permits, self.per);
            return Err(LimitError::argument(name, "burst", "burst × per up to 285 years", got));
        }
        Ok((permits, per))
    }
}

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
    fn values_out_of_range_are_rejected() {
        let (name, second) = (Name::new("a").unwrap(), Duration::from_secs(1));
        assert!(Rate::overall(1, second).check(&name).is_ok() && Rate::overall(MAX_RATE, second).check(&name).is_ok());
        let bad = [
            Rate::overall(0, second),
            Rate::overall(MAX_RATE + 1, second),
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
