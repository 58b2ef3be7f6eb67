//! Changes that depend on what is there.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use redgrid_core::object::{Lives, ObjectError, Place};
use redgrid_core::{Request, Script};

static COMPARE_AND_SET: Script<1> = Script::new("bucket/compare_and_set", include_str!("scripts/compare_and_set.lua"));
static COMPARE_AND_DELETE: Script<1> =
    Script::new("bucket/compare_and_delete", include_str!("scripts/compare_and_delete.lua"));

/// Sets a bucket when awaited if it is what is expected; made by [`Bucket::compare_and_set`](crate::Bucket::compare_and_set). Tells
/// whether it did. The new value has no lifetime, as with Redisson, unless an option says so.
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone)]
pub struct CompareAndSet {
    place: Place,
    both: Result<(Bytes, Bytes), ObjectError>,
    lives: Lives,
}

impl CompareAndSet {
    pub(crate) fn new(place: Place, both: Result<(Bytes, Bytes), ObjectError>) -> Self {
        CompareAndSet { place, both, lives: Lives::On }
    }

    /// Has it deleted after this time, 1 ms to 3650 days.
    pub fn expires_in(mut self, lifetime: Duration) -> Self {
        self.lives = Lives::For(lifetime);
        self
    }

    /// Has it deleted at this time by the server's clock.
    pub fn expires_at(mut self, at: SystemTime) -> Self {
        self.lives = Lives::Until(at);
        self
    }

    /// Has it live as long as what was there before.
    pub fn keep_lifetime(mut self) -> Self {
        self.lives = Lives::AsBefore;
        self
    }

    async fn carry_out(self) -> Result<bool, ObjectError> {
        let (expected, new) = self.both?;
        let (name, key) = self.place.named()?;
        let request = compare_and_set(key, false, expected, new);
        self.place.change(self.lives.options(name)?.into_iter().fold(request, Request::arg)).await
    }
}

/// Asks to set it if it is what is expected; and, where that is to be told, for what is there instead. Options of SET may follow.
pub(crate) fn compare_and_set(key: &Bytes, told: bool, expected: Bytes, new: Bytes) -> Request {
    COMPARE_AND_SET.with([key.clone()]).int(told.into()).arg(expected).arg(new)
}

/// The same of deleting it.
pub(crate) fn compare_and_delete(key: &Bytes, told: bool, expected: Bytes) -> Request {
    COMPARE_AND_DELETE.with([key.clone()]).int(told.into()).arg(expected)
}

impl IntoFuture for CompareAndSet {
    type Output = Result<bool, ObjectError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.carry_out())
    }
}
