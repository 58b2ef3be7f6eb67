//! The lifetime that a value gets when it is set.

use std::time::{Duration, SystemTime};

use bytes::Bytes;

use crate::failure::Failure;
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
    /// [`Failure::InvalidArgument`] if the lifetime is out of range.
    pub fn options(self, name: &Name) -> Result<Vec<Bytes>, Failure> {
        Ok(match self {
            SetTtl::None => Vec::new(),
            SetTtl::Keep => vec!["KEEPTTL".into()],
            SetTtl::For(lifetime) => vec!["PX".into(), millis(name, lifetime)?],
            // SET refuses the time 0. So the time 1 is sent instead, which is in the past as well.
            SetTtl::Until(at) => vec!["PXAT".into(), unix_time(name, at)?.max(1).to_string().into()],
        })
    }
}

/// Returns a lifetime in milliseconds, as decimal text.
///
/// # Errors
///
/// [`Failure::InvalidArgument`] if `lifetime` is not between 1 ms and 3650 days.
pub fn millis(name: &Name, lifetime: Duration) -> Result<Bytes, Failure> {
    check_lifetime(name, lifetime)?;
    Ok(lifetime.as_millis().to_string().into())
}

pub(crate) fn check_lifetime(name: &Name, lifetime: Duration) -> Result<(), Failure> {
    match LIFETIMES.contains(&lifetime) {
        true => Ok(()),
        false => Err(Failure::invalid_argument(name, "lifetime", LIFETIMES_EXPECTED, format!("{lifetime:?}"))),
    }
}

/// Returns the time `at` in milliseconds since 1970.
pub(super) fn unix_time(name: &Name, at: SystemTime) -> Result<u128, Failure> {
    unix_millis(at).ok_or_else(|| Failure::invalid_argument(name, "lifetime", TIMES_EXPECTED, describe_time(at)))
}
