//! How long what is stored may be set to live.

use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long a key may be set to live: Redis counts whole milliseconds, and longer than ten years is as good as without a lifetime.
pub const LIFETIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3650 * 24 * 3600);

/// [`LIFETIMES`] in words, for errors that say what was expected.
pub const LIFETIMES_EXPECTED: &str = "1 ms to 3650 days";

/// The latest end that may be set: that of the year 9999.
const LATEST: Duration = Duration::from_secs(253_402_300_799);

/// What [`unix_millis`] takes, in words.
pub const TIMES_EXPECTED: &str = "a time between the years 1970 and 9999";

/// A time as servers count it; `None` where it is not between the years 1970 and 9999.
pub fn unix_millis(at: SystemTime) -> Option<u128> {
    let since = at.duration_since(UNIX_EPOCH).ok()?;
    (since <= LATEST).then_some(since.as_millis())
}

/// A time in an error: how long before or after the begin of 1970 it is.
pub fn describe_time(at: SystemTime) -> String {
    match at.duration_since(UNIX_EPOCH) {
        Ok(after) => format!("{after:?} after the begin of 1970"),
        Err(before) => format!("{:?} before the begin of 1970", before.duration()),
    }
}
