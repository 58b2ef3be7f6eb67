//! Times as milliseconds since 1970, which is what servers and stored schedules have.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// 1601-01-01T00:00:00Z, the earliest `SystemTime` of all platforms.
const EARLIEST: i64 = -11_644_473_600_000;

/// 9999-12-31T23:59:59.999Z. A later time has no due time.
pub(crate) const LATEST: i64 = 253_402_300_799_999;

/// Returns the milliseconds since 1970, rounded down. Times outside of the years 1601 to 9999 are
/// replaced by the nearest one inside.
pub(crate) fn to_millis(at: SystemTime) -> i64 {
    let millis = match at.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
        Err(before) => {
            let before = before.duration();
            let rounded = before.as_millis() + u128::from(before.subsec_nanos() % 1_000_000 > 0);
            i64::try_from(rounded).map_or(i64::MIN, |millis| -millis)
        }
    };
    millis.clamp(EARLIEST, LATEST)
}

/// The opposite of [`to_millis`], with the same limits.
pub(crate) fn from_millis(millis: i64) -> SystemTime {
    let millis = millis.clamp(EARLIEST, LATEST);
    let distance = Duration::from_millis(millis.unsigned_abs());
    if millis < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}

/// Returns a duration in milliseconds, rounded down; at most `i64::MAX`.
pub(crate) fn in_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Describes a time for an error message, for example `2027-03-28T01:00:00.000Z`.
pub(crate) fn describe(at: SystemTime) -> String {
    let millis = to_millis(at);
    if millis < 0 {
        return format!("{} ms before 1970", millis.unsigned_abs());
    }
    humantime::format_rfc3339_millis(from_millis(millis)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_become_milliseconds_and_back() {
        for (nanos, millis) in
            [(0, 0), (1, 0), (999_999, 0), (1_000_000, 1), (1_795_219_200_123_999_999, 1_795_219_200_123)]
        {
            assert_eq!(to_millis(UNIX_EPOCH + Duration::from_nanos(nanos)), millis, "{nanos}");
        }
        for (nanos, millis) in [(1, -1), (1_000_000, -1), (1_000_001, -2)] {
            assert_eq!(to_millis(UNIX_EPOCH - Duration::from_nanos(nanos)), millis, "-{nanos}");
        }
        for millis in [EARLIEST, -1, 0, 1, 1_795_219_200_123, LATEST] {
            assert_eq!(to_millis(from_millis(millis)), millis);
        }
    }

    #[test]
    fn times_out_of_range_are_the_nearest_in_range() {
        assert_eq!(to_millis(from_millis(i64::MIN)), EARLIEST);
        assert_eq!(to_millis(from_millis(i64::MAX)), LATEST);
        let far = UNIX_EPOCH + Duration::from_secs(1 << 50);
        assert_eq!(to_millis(far), LATEST);
        assert_eq!(in_millis(Duration::MAX), i64::MAX);
    }

    #[test]
    fn a_time_is_described_in_utc() {
        assert_eq!(describe(from_millis(1_806_195_600_000)), "2027-03-28T01:00:00.000Z");
        assert_eq!(describe(from_millis(LATEST)), "9999-12-31T23:59:59.999Z");
        assert_eq!(describe(from_millis(-5)), "5 ms before 1970");
    }
}
