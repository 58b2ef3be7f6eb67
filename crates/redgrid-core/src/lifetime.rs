//! How long what is stored may be set to live.

use std::ops::RangeInclusive;
use std::time::Duration;

/// How long a key may be set to live: Redis counts whole milliseconds, and longer than ten years is as good as without a lifetime.
pub const LIFETIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3650 * 24 * 3600);

/// [`LIFETIMES`] in words, for errors that say what was expected.
pub const LIFETIMES_EXPECTED: &str = "1 ms to 3650 days";
