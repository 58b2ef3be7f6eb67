//! The settings of a queue.

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::{LIFETIMES, LIFETIMES_EXPECTED};
use redgrid_work::{delay_of, millis};

/// The names of the settings in the queue's hash, in the order of [`QueueSettings::values`].
pub(crate) const NAMES: [&str; 8] =
    ["visibility", "attempts", "size", "window", "lifetime", "dead_lifetime", "capacity", "delay"];

/// Settings of a queue, stored on the server and shared by all processes. A push or a receive may
/// override some of them for its message.
///
/// ```
/// use std::time::Duration;
/// use redgrid_reliable_queue::QueueSettings;
///
/// let settings = QueueSettings {
///     visibility: Some(Duration::from_secs(60)),
///     max_attempts: Some(5),
///     ..QueueSettings::default()
/// };
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[doc(alias = "QueueConfig")]
// Not `#[non_exhaustive]`: users write `QueueSettings { capacity, ..QueueSettings::default() }`.
pub struct QueueSettings {
    /// How long no other consumer receives a message: 1 ms to 3650 days. `None`: 30 s.
    pub visibility: Option<Duration>,
    /// Maximum number of deliveries before a message becomes a dead letter, 1 or more. `None`:
    /// unlimited.
    #[doc(alias = "deliveryLimit")]
    pub max_attempts: Option<u32>,
    /// Maximum size of a message in bytes, with its headers and one byte of framing; 1 or more.
    /// `None`: the server's limit.
    #[doc(alias = "maxMessageSize")]
    pub max_message_size: Option<u64>,
    /// How long a deduplication id counts: 1 ms to 3650 days. `None`: 5 minutes.
    pub deduplication_window: Option<Duration>,
    /// How long a message may wait to be received before it is dropped: 1 ms to 3650 days. `None`:
    /// unlimited.
    #[doc(alias = "timeToLive")]
    pub lifetime: Option<Duration>,
    /// How long dead letters are kept: 1 ms to 3650 days. `None`: until they are redriven or
    /// removed.
    pub dead_lifetime: Option<Duration>,
    /// Maximum number of messages, including those in flight and dead letters; 1 or more. `None`:
    /// unlimited.
    #[doc(alias = "maxSize")]
    pub capacity: Option<u64>,
    /// How long each message waits before it is ready: zero to 3650 days. `None`: zero.
    pub delay: Option<Duration>,
}

impl QueueSettings {
    /// Returns the names and values; an empty value means that the setting is unset.
    pub(crate) fn values(&self, object_ref: &ObjectRef) -> Result<[(&'static str, Bytes); 8], ObjectError> {
        let time = |option, time: Option<Duration>| match time {
            None => Ok(Bytes::new()),
            Some(time) if LIFETIMES.contains(&time) => Ok(millis(time)),
            Some(time) => Err(object_ref.invalid(option, LIFETIMES_EXPECTED, format!("{time:?}"))),
        };
        // Lua compares integers exactly up to this bound.
        let number = |option, number: Option<u64>| match number {
            None => Ok(Bytes::new()),
            Some(number @ 1..=9_007_199_254_740_992) => Ok(number.to_string().into()),
            Some(number) => Err(object_ref.invalid(option, "1 to 9007199254740992", number)),
        };
        let values = [
            time("visibility", self.visibility)?,
            number("number of attempts", self.max_attempts.map(u64::from))?,
            number("size of a message", self.max_message_size)?,
            time("deduplication window", self.deduplication_window)?,
            time("lifetime", self.lifetime)?,
            time("lifetime of dead letters", self.dead_lifetime)?,
            number("capacity", self.capacity)?,
            self.delay.map(|delay| delay_of(object_ref, "delay", delay)).transpose()?.unwrap_or_default(),
        ];
        let mut names = NAMES.into_iter();
        Ok(values.map(|value| (names.next().unwrap_or_default(), value)))
    }

    /// Parses the server's values, in the order of [`NAMES`].
    pub(crate) fn read(values: &[Option<u64>]) -> Option<QueueSettings> {
        let &[visibility, attempts, size, window, lifetime, dead_lifetime, capacity, delay] = values else {
            return None;
        };
        let time = |millis: Option<u64>| millis.map(Duration::from_millis);
        Some(QueueSettings {
            visibility: time(visibility),
            max_attempts: attempts.map(|attempts| u32::try_from(attempts).unwrap_or(u32::MAX)),
            max_message_size: size,
            deduplication_window: time(window),
            lifetime: time(lifetime),
            dead_lifetime: time(dead_lifetime),
            capacity,
            delay: time(delay),
        })
    }
}
