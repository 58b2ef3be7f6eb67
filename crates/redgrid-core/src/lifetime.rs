//! Limits and formats of lifetimes.

use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The range of lifetimes that can be set.
///
/// The minimum is 1 ms, because Redis counts whole milliseconds. The maximum is ten years, because
/// a longer lifetime is in practice unlimited.
pub const LIFETIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3650 * 24 * 3600);

/// [`LIFETIMES`] as text, for error messages.
pub const LIFETIMES_EXPECTED: &str = "1 ms to 3650 days";

/// The latest time that can be set, as the duration since 1970: the last second of the year 9999.
const LATEST: Duration = Duration::from_secs(253_402_300_799);

/// The times that [`unix_millis`] accepts, as text.
pub const TIMES_EXPECTED: &str = "a time between the years 1970 and 9999";

/// Returns a time in milliseconds since 1970; `None` if it is not between the years 1970 and 9999.
pub fn unix_millis(at: SystemTime) -> Option<u128> {
    let since = at.duration_since(UNIX_EPOCH).ok()?;
    (since <= LATEST).then_some(since.as_millis())
}

/// Describes a time for an error message, as its distance from the beginning of 1970.
pub fn describe_time(at: SystemTime) -> String {
    match at.duration_since(UNIX_EPOCH) {
        Ok(after) => format!("{after:?} after the beginning of 1970"),
        Err(before) => format!("{:?} before the beginning of 1970", before.duration()),
    }
}
