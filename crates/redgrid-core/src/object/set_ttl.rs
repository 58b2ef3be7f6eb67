//! The lifetime that a value gets when it is set.

use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::ObjectError;
use crate::lifetime::{LIFETIMES, LIFETIMES_EXPECTED, TIMES_EXPECTED, describe_time, unix_millis};
use crate::name::Name;

/// The lifetime of a new value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub enum SetTtl {
    /// The value does not expire.
    #[default]
    None,
    /// The value keeps the lifetime of the previous value (`KEEPTTL`).
    Keep,
    /// The value expires after this time: 1 ms to 3650 days.
    For(Duration),
    /// The value expires at this time, by the server's clock.
    Until(SystemTime),
}

impl SetTtl {
    /// Returns the options of SET for this lifetime.
    ///
    /// # Errors
    ///
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) if the lifetime is out of
    /// range.
    pub fn options(self, name: &Name) -> Result<Vec<Bytes>, ObjectError> {
        self.as_options().map_err(|invalid| invalid.into_error(name))
    }

    pub(crate) fn as_options(self) -> Result<Vec<Bytes>, InvalidLifetime> {
        Ok(match self {
            SetTtl::None => Vec::new(),
            SetTtl::Keep => vec!["KEEPTTL".into()],
            SetTtl::For(lifetime) => vec!["PX".into(), checked_millis(lifetime)?],
            // SET refuses the time 0. So the time 1 is sent instead, which is in the past as well.
            SetTtl::Until(at) => vec!["PXAT".into(), checked_unix_time(at)?.max(1).to_string().into()],
        })
    }
}

pub(crate) struct InvalidLifetime {
    pub(crate) expected: &'static str,
    pub(crate) got: String,
}

impl InvalidLifetime {
    fn into_error(self, name: &Name) -> ObjectError {
        let InvalidLifetime { expected, got } = self;
        ObjectError::invalid_argument(name, "lifetime", expected, got)
    }
}

/// Returns a lifetime in milliseconds, as decimal text.
///
/// # Errors
///
/// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) if `lifetime` is not between 1 ms
/// and 3650 days.
pub fn millis(name: &Name, lifetime: Duration) -> Result<Bytes, ObjectError> {
    checked_millis(lifetime).map_err(|invalid| invalid.into_error(name))
}

/// Returns the time `at` in milliseconds since 1970.
pub(super) fn unix_time(name: &Name, at: SystemTime) -> Result<u128, ObjectError> {
    checked_unix_time(at).map_err(|invalid| invalid.into_error(name))
}

fn checked_millis(lifetime: Duration) -> Result<Bytes, InvalidLifetime> {
    match LIFETIMES.contains(&lifetime) {
        true => Ok(lifetime.as_millis().to_string().into()),
        false => Err(InvalidLifetime { expected: LIFETIMES_EXPECTED, got: format!("{lifetime:?}") }),
    }
}

fn checked_unix_time(at: SystemTime) -> Result<u128, InvalidLifetime> {
    unix_millis(at).ok_or_else(|| InvalidLifetime { expected: TIMES_EXPECTED, got: describe_time(at) })
}
