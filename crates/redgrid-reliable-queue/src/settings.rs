//! What a queue has for all who use it.

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::{LIFETIMES, LIFETIMES_EXPECTED};

use crate::ask::millis;

/// The names of the settings in the queue's hash, in the order of [`QueueSettings::values`].
pub(crate) const NAMES: [&str; 8] =
    ["visibility", "attempts", "size", "window", "lifetime", "dead_lifetime", "capacity", "delay"];

/// Settings of a queue: kept on the server, for all processes alike. What is `None` is as each field says; whoever pushes or receives may
/// say otherwise for a message, where that is possible.
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
// Exhaustive: users write `QueueSettings { capacity, ..QueueSettings::default() }`.
pub struct QueueSettings {
    /// For how long a message is given to nobody else: 1 ms to 3650 days. `None`: 30 s.
    pub visibility: Option<Duration>,
    /// How often a message is given to somebody before it is dead, 1 or more. `None`: without end.
    #[doc(alias = "deliveryLimit")]
    pub max_attempts: Option<u32>,
    /// How many bytes a message may have, with its headers and one byte of ours; 1 or more. `None`: as many as the server takes.
    #[doc(alias = "maxMessageSize")]
    pub max_message_size: Option<u64>,
    /// How long a deduplication id counts: 1 ms to 3650 days. `None`: 5 minutes.
    pub deduplication_window: Option<Duration>,
    /// How long a message may wait to be received before it is dropped: 1 ms to 3650 days. `None`: without end.
    #[doc(alias = "timeToLive")]
    pub lifetime: Option<Duration>,
    /// How long the dead are kept: 1 ms to 3650 days. `None`: until they are moved or removed.
    pub dead_lifetime: Option<Duration>,
    /// How many messages the queue takes, those that are given and the dead among them; 1 or more. `None`: as many as come.
    #[doc(alias = "maxSize")]
    pub capacity: Option<u64>,
    /// How long each message waits before it is ready: zero to 3650 days. `None`: zero.
    pub delay: Option<Duration>,
}

impl QueueSettings {
    /// As names and values; `` is not set.
    pub(crate) fn values(&self, object_ref: &ObjectRef) -> Result<[(&'static str, Bytes); 8], ObjectError> {
        let time = |option, time: Option<Duration>| match time {
            None => Ok(Bytes::new()),
            Some(time) if LIFETIMES.contains(&time) => Ok(millis(time)),
            Some(time) => Err(object_ref.invalid(option, LIFETIMES_EXPECTED, format!("{time:?}"))),
        };
        // What scripts compare is exact up to there.
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
            time("lifetime of the dead", self.dead_lifetime)?,
            number("capacity", self.capacity)?,
            self.delay.map(|delay| delay_of(object_ref, "delay", delay)).transpose()?.unwrap_or_default(),
        ];
        let mut names = NAMES.into_iter();
        Ok(values.map(|value| (names.next().unwrap_or_default(), value)))
    }

    /// What the server has, in the order of [`NAMES`].
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

/// A delay in milliseconds, as text.
pub(crate) fn delay_of(object_ref: &ObjectRef, option: &'static str, delay: Duration) -> Result<Bytes, ObjectError> {
    match delay <= *LIFETIMES.end() {
        true => Ok(millis(delay)),
        false => Err(object_ref.invalid(option, "at most 3650 days", format!("{delay:?}"))),
    }
}

/// A visibility in milliseconds, as text.
pub(crate) fn visibility_of(object_ref: &ObjectRef, visibility: Duration) -> Result<Bytes, ObjectError> {
    match LIFETIMES.contains(&visibility) {
        true => Ok(millis(visibility)),
        false => Err(object_ref.invalid("visibility", LIFETIMES_EXPECTED, format!("{visibility:?}"))),
    }
}

/// Why a message is rejected, as it is kept.
pub(crate) fn reason_of(object_ref: &ObjectRef, reason: &str) -> Result<Bytes, ObjectError> {
    match reason.len() <= 1024 {
        true => Ok(Bytes::copy_from_slice(reason.as_bytes())),
        false => Err(object_ref.invalid("reason", "at most 1024 bytes", format!("{} bytes", reason.len()))),
    }
}
