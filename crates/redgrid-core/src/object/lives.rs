//! How long a value lives that is set.

use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::ObjectError;
use crate::lifetime::{LIFETIMES, LIFETIMES_EXPECTED, TIMES_EXPECTED, describe_time, unix_millis};
use crate::name::Name;

/// What is said of the lifetime of a new value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lives {
    /// Until somebody deletes it.
    #[default]
    On,
    /// As long as the one before.
    AsBefore,
    /// For this time, 1 ms to 3650 days.
    For(Duration),
    /// Until this time by the server's clock.
    Until(SystemTime),
}

impl Lives {
    /// As options of SET.
    ///
    /// # Errors
    ///
    /// [`ObjectError::InvalidArgument`] where it can not be.
    pub fn options(self, name: &Name) -> Result<Vec<Bytes>, ObjectError> {
        self.as_options().map_err(|unfit| unfit.of(name))
    }

    pub(crate) fn as_options(self) -> Result<Vec<Bytes>, Unfit> {
        Ok(match self {
            Lives::On => Vec::new(),
            Lives::AsBefore => vec!["KEEPTTL".into()],
            Lives::For(lifetime) => vec!["PX".into(), checked(lifetime)?],
            // SET refuses 0, which has passed as well as 1.
            Lives::Until(at) => vec!["PXAT".into(), since_1970(at)?.max(1).to_string().into()],
        })
    }
}

/// A lifetime that can not be.
pub(crate) struct Unfit {
    pub(crate) expected: &'static str,
    pub(crate) got: String,
}

impl Unfit {
    fn of(self, name: &Name) -> ObjectError {
        let Unfit { expected, got } = self;
        ObjectError::InvalidArgument { name: name.clone(), option: "lifetime", expected: expected.into(), got }
    }
}

/// A lifetime in milliseconds, as text.
///
/// # Errors
///
/// [`ObjectError::InvalidArgument`] where it is not 1 ms to 3650 days.
pub fn millis(name: &Name, lifetime: Duration) -> Result<Bytes, ObjectError> {
    checked(lifetime).map_err(|unfit| unfit.of(name))
}

/// A time in milliseconds since 1970.
pub(super) fn moment(name: &Name, at: SystemTime) -> Result<u128, ObjectError> {
    since_1970(at).map_err(|unfit| unfit.of(name))
}

fn checked(lifetime: Duration) -> Result<Bytes, Unfit> {
    match LIFETIMES.contains(&lifetime) {
        true => Ok(lifetime.as_millis().to_string().into()),
        false => Err(Unfit { expected: LIFETIMES_EXPECTED, got: format!("{lifetime:?}") }),
    }
}

fn since_1970(at: SystemTime) -> Result<u128, Unfit> {
    unix_millis(at).ok_or_else(|| Unfit { expected: TIMES_EXPECTED, got: describe_time(at) })
}
