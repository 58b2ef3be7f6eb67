//! Writes of a value, with options.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use redgrid_codecs::Decode;
use redgrid_core::fence::{Fence, Write};
use redgrid_core::into_future;
use redgrid_core::object::{ObjectError, ObjectRef, SetTtl};
use redgrid_core::{Request, Token};

use crate::bucket::Bucket;

/// A write with its options, common to all builders.
#[derive(Clone)]
struct SetRequest {
    object_ref: ObjectRef,
    value: Result<Bytes, ObjectError>,
    ttl: SetTtl,
}

impl SetRequest {
    fn request(self) -> Result<(ObjectRef, Request), ObjectError> {
        let value = self.value?;
        let (name, key) = self.object_ref.name_and_key()?;
        let request = Request::command("SET").key(key.clone()).arg(value);
        let request = self.ttl.options(name)?.into_iter().fold(request, Request::arg);
        Ok((self.object_ref, request))
    }
}

/// Defines the lifetime options of a builder.
macro_rules! lifetime_methods {
    () => {
        /// Lets the value expire after this time, 1 ms to 3650 days.
        pub fn expires_in(mut self, lifetime: Duration) -> Self {
            self.set.ttl = SetTtl::For(lifetime);
            self
        }

        /// Lets the value expire at this time by the server's clock.
        pub fn expires_at(mut self, at: SystemTime) -> Self {
            self.set.ttl = SetTtl::Until(at);
            self
        }

        /// Keeps the lifetime of the previous value.
        pub fn keep_lifetime(mut self) -> Self {
            self.set.ttl = SetTtl::Keep;
            self
        }
    };
}

/// Sets the value of a bucket when awaited; returned by [`Bucket::set`].
///
/// Dropping it before the request is sent sets nothing.
#[must_use = "does nothing until awaited"]
#[derive(Clone)]
pub struct Set {
    set: SetRequest,
    token: Option<(Token, Option<Fence>)>,
}

impl Set {
    pub(crate) fn new(object_ref: ObjectRef, value: Result<Bytes, ObjectError>) -> Self {
        Set { set: SetRequest { object_ref, value, ttl: SetTtl::None }, token: None }
    }

    lifetime_methods!();

    /// Sets the value only if no holder of a newer token has written.
    ///
    /// The server compares the token of a lock with the highest one that has written this bucket.
    /// For a stale token the call returns [`ObjectError::Fenced`]. The request is sent again after
    /// a lost reply, and executed once.
    ///
    /// All writers must pass their token: writes without a token are not compared. The tokens must
    /// come from one lock and be timestamps, as most tokens are; for counted tokens use
    /// [`Set::fenced_by`]. During a slot migration, the call waits until the bucket and the fence
    /// are on the same node.
    pub fn fenced(mut self, token: Token) -> Self {
        self.token = Some((token, None));
        self
    }

    /// Sets the value as [`Set::fenced`], but with a separate fence, which must share the bucket's
    /// name or hash tag.
    ///
    /// Use it for several objects that are written under one fence. With
    /// [`Fence::without_lifetime`], use it for the counted tokens of a `FencedLock`.
    pub fn fenced_by(mut self, fence: &Fence, token: Token) -> Self {
        self.token = Some((token, Some(fence.clone())));
        self
    }

    async fn send(self) -> Result<(), ObjectError> {
        let Some((token, fence)) = self.token else {
            let (object_ref, request) = self.set.request()?;
            return object_ref.change(request).await;
        };
        let SetRequest { object_ref, value, ttl } = self.set;
        let write = Write::Set { value: value?, ttl };
        match fence {
            Some(fence) => object_ref.fenced_by(&fence, write, token).await.map(drop),
            None => object_ref.fenced(write, token).await.map(drop),
        }
    }
}

/// Sets the value of a bucket on a condition when awaited, and returns whether it was set; returned
/// by [`Bucket::try_set`] and [`Bucket::set_if_exists`].
#[must_use = "does nothing until awaited"]
#[derive(Clone)]
pub struct SetIf {
    set: SetRequest,
    condition: &'static str,
}

impl SetIf {
    pub(crate) fn new(object_ref: ObjectRef, value: Result<Bytes, ObjectError>, condition: &'static str) -> Self {
        SetIf { set: SetRequest { object_ref, value, ttl: SetTtl::None }, condition }
    }

    lifetime_methods!();

    async fn send(self) -> Result<bool, ObjectError> {
        let (object_ref, request) = self.set.request()?;
        let done: Option<Bytes> = object_ref.change(request.arg(self.condition)).await?;
        Ok(done.is_some())
    }
}

/// Sets the value of a bucket when awaited, and returns the previous value; returned by
/// [`Bucket::get_and_set`].
#[must_use = "does nothing until awaited"]
pub struct GetAndSet<T, C> {
    bucket: Bucket<T, C>,
    set: SetRequest,
}

impl<T, C: Decode<T>> GetAndSet<T, C> {
    pub(crate) fn new(bucket: Bucket<T, C>, value: Result<Bytes, ObjectError>) -> Self {
        GetAndSet { set: SetRequest { object_ref: bucket.object_ref.clone(), value, ttl: SetTtl::None }, bucket }
    }

    lifetime_methods!();

    async fn send(self) -> Result<Option<T>, ObjectError> {
        let (object_ref, request) = self.set.request()?;
        let previous = object_ref.change(request.arg("GET")).await?;
        self.bucket.decode_option(previous)
    }
}

into_future!(Set => Result<(), ObjectError>, |this| this.send());

into_future!(SetIf => Result<bool, ObjectError>, |this| this.send());

into_future!([T: 'static, C: Decode<T>] GetAndSet<T, C> => Result<Option<T>, ObjectError>, |this| this.send());
