//! How long a value lives that is set.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use redgrid_core::object::ObjectError;
use redgrid_core::{LIFETIMES, LIFETIMES_EXPECTED, Name};

/// What is said of the lifetime of a new value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lives {
    /// Until somebody deletes it.
    On,
    /// As long as the one before.
    AsBefore,
    For(Duration),
    Until(SystemTime),
}

impl Lives {
    /// As options of SET.
    pub(crate) fn options(self, name: &Name) -> Result<Vec<Bytes>, ObjectError> {
        Ok(match self {
            Lives::On => Vec::new(),
            Lives::AsBefore => vec!["KEEPTTL".into()],
            Lives::For(lifetime) => vec!["PX".into(), millis(name, lifetime)?],
            Lives::Until(at) => {
                let since = at.duration_since(UNIX_EPOCH).ok().filter(|since| !since.is_zero() && *since <= LATEST);
                let since = since.ok_or_else(|| unfit(name, "a time after 1970 and before 9999", format!("{at:?}")))?;
                vec!["PXAT".into(), since.as_millis().to_string().into()]
            }
        })
    }
}

/// The end of the year 9999.
const LATEST: Duration = Duration::from_secs(253_402_300_799);

/// A lifetime in milliseconds, as text.
pub(crate) fn millis(name: &Name, lifetime: Duration) -> Result<Bytes, ObjectError> {
    match LIFETIMES.contains(&lifetime) {
        true => Ok(lifetime.as_millis().to_string().into()),
        false => Err(unfit(name, LIFETIMES_EXPECTED, format!("{lifetime:?}"))),
    }
}

fn unfit(name: &Name, expected: &str, got: String) -> ObjectError {
    ObjectError::InvalidArgument { name: name.clone(), option: "lifetime", expected: expected.into(), got }
}
