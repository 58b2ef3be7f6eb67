//! Compare-and-set and compare-and-delete.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use redgrid_core::into_future;
use redgrid_core::object::{ObjectError, ObjectRef, SetTtl};
use redgrid_core::{Request, Script};

static COMPARE_AND_SET: Script<1> = Script::new("bucket/compare_and_set", include_str!("scripts/compare_and_set.lua"));
static COMPARE_AND_DELETE: Script<1> =
    Script::new("bucket/compare_and_delete", include_str!("scripts/compare_and_delete.lua"));

/// Sets the value of a bucket when awaited, if it is the expected one, and returns whether it was
/// set; returned by [`Bucket::compare_and_set`](crate::Bucket::compare_and_set).
///
/// The new value has no lifetime, as in Redisson, unless an option sets one.
#[must_use = "does nothing until awaited"]
#[derive(Clone)]
pub struct CompareAndSet {
    object_ref: ObjectRef,
    values: Result<(Bytes, Bytes), ObjectError>,
    ttl: SetTtl,
}

impl CompareAndSet {
    pub(crate) fn new(object_ref: ObjectRef, values: Result<(Bytes, Bytes), ObjectError>) -> Self {
        CompareAndSet { object_ref, values, ttl: SetTtl::None }
    }

    /// Lets the value expire after this time, 1 ms to 3650 days.
    pub fn expires_in(mut self, lifetime: Duration) -> Self {
        self.ttl = SetTtl::For(lifetime);
        self
    }

    /// Lets the value expire at this time by the server's clock.
    pub fn expires_at(mut self, at: SystemTime) -> Self {
        self.ttl = SetTtl::Until(at);
        self
    }

    /// Keeps the lifetime of the previous value.
    pub fn keep_lifetime(mut self) -> Self {
        self.ttl = SetTtl::Keep;
        self
    }

    async fn send(self) -> Result<bool, ObjectError> {
        let (expected, new) = self.values?;
        let (name, key) = self.object_ref.name_and_key()?;
        let request = compare_and_set(key, false, expected, new);
        self.object_ref.change(self.ttl.options(name)?.into_iter().fold(request, Request::arg)).await
    }
}

/// Builds a compare-and-set; options of SET may follow. With `return_current`, the reply contains
/// the current value if it is not the expected one.
pub(crate) fn compare_and_set(key: &Bytes, return_current: bool, expected: Bytes, new: Bytes) -> Request {
    COMPARE_AND_SET.with([key.clone()]).int(return_current.into()).arg(expected).arg(new)
}

/// Builds a compare-and-delete. `return_current` has the same meaning as for [`compare_and_set`].
pub(crate) fn compare_and_delete(key: &Bytes, return_current: bool, expected: Bytes) -> Request {
    COMPARE_AND_DELETE.with([key.clone()]).int(return_current.into()).arg(expected)
}

into_future!(CompareAndSet => Result<bool, ObjectError>, |this| this.send());
