//! Checks of times and texts, and their form as arguments.

use std::time::Duration;

use bytes::Bytes;
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::{LIFETIMES, LIFETIMES_EXPECTED};

use crate::request::millis;

/// Returns a delay in milliseconds, as text.
pub fn delay_of(object_ref: &ObjectRef, option: &'static str, delay: Duration) -> Result<Bytes, ObjectError> {
    if delay <= *LIFETIMES.end() {
        Ok(millis(delay))
    } else {
        Err(object_ref.invalid(option, "at most 3650 days", format!("{delay:?}")))
    }
}

/// Returns a visibility in milliseconds, as text.
pub fn visibility_of(object_ref: &ObjectRef, visibility: Duration) -> Result<Bytes, ObjectError> {
    if LIFETIMES.contains(&visibility) {
        Ok(millis(visibility))
    } else {
        Err(object_ref.invalid("visibility", LIFETIMES_EXPECTED, format!("{visibility:?}")))
    }
}

/// Returns the reason of a rejection as it is stored.
pub fn reason_of(object_ref: &ObjectRef, reason: &str) -> Result<Bytes, ObjectError> {
    if reason.len() <= 1024 {
        Ok(Bytes::copy_from_slice(reason.as_bytes()))
    } else {
        Err(object_ref.invalid("reason", "at most 1024 bytes", format!("{} bytes", reason.len())))
    }
}
