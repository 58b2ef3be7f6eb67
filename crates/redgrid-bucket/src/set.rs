//! Setting a value, with options.

use std::future::IntoFuture;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use redgrid_codecs::Decode;
use redgrid_core::fence::{Fence, Write};
use redgrid_core::object::{Lives, ObjectError, Place};
use redgrid_core::{Request, Token};

use crate::bucket::Bucket;

/// What all ways of setting a value have.
#[derive(Clone)]
struct New {
    place: Place,
    value: Result<Bytes, ObjectError>,
    lives: Lives,
}

impl New {
    fn request(self) -> Result<(Place, Request), ObjectError> {
        let value = self.value?;
        let (name, key) = self.place.named()?;
        let request = Request::command("SET").key(key.clone()).arg(value);
        let request = self.lives.options(name)?.into_iter().fold(request, Request::arg);
        Ok((self.place, request))
    }
}

macro_rules! lives {
    () => {
        /// Has it deleted after this time, 1 ms to 3650 days.
        pub fn expires_in(mut self, lifetime: Duration) -> Self {
            self.new.lives = Lives::For(lifetime);
            self
        }

        /// Has it deleted at this time by the server's clock.
        pub fn expires_at(mut self, at: SystemTime) -> Self {
            self.new.lives = Lives::Until(at);
            self
        }

        /// Has it live as long as what was there before.
        pub fn keep_lifetime(mut self) -> Self {
            self.new.lives = Lives::AsBefore;
            self
        }
    };
}

/// Sets a bucket when awaited; made by [`Bucket::set`]. A dropped one sets nothing unless it has left.
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone)]
pub struct Set {
    new: New,
    token: Option<(Token, Option<Fence>)>,
}

impl Set {
    pub(crate) fn new(place: Place, value: Result<Bytes, ObjectError>) -> Self {
        Set { new: New { place, value, lives: Lives::On }, token: None }
    }

    lives!();

    /// Only if no newer holder has written: the server compares the token of a lock with the highest that has written this bucket,
    /// and a stale one ends [`ObjectError::Fenced`]. Sent again after a lost answer, and carried out once.
    ///
    /// All who write must say their token: one who writes without it is not compared. Tokens are to be of one lock, and times, as most
    /// are; for counted ones there is [`Set::fenced_by`]. Where a slot moves it waits until bucket and fence are on one side.
    pub fn fenced(mut self, token: Token) -> Self {
        self.token = Some((token, None));
        self
    }

    /// The same by a fence of your own, which shares the bucket's name or hash tag: for what is written under one fence together, and for
    /// the counted tokens of a `FencedLock`, with [`Fence::without_lifetime`].
    pub fn fenced_by(mut self, fence: &Fence, token: Token) -> Self {
        self.token = Some((token, Some(fence.clone())));
        self
    }

    async fn carry_out(self) -> Result<(), ObjectError> {
        let Some((token, fence)) = self.token else {
            let (place, request) = self.new.request()?;
            return place.change(request).await;
        };
        let New { place, value, lives } = self.new;
        let write = Write::Set { value: value?, lives };
        match fence {
            Some(fence) => place.fenced_by(&fence, write, token).await.map(drop),
            None => place.fenced(write, token).await.map(drop),
        }
    }
}

/// Sets a bucket on a condition when awaited; made by [`Bucket::try_set`] and [`Bucket::set_if_exists`]. Tells whether it did.
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone)]
pub struct SetIf {
    new: New,
    condition: &'static str,
}

impl SetIf {
    pub(crate) fn new(place: Place, value: Result<Bytes, ObjectError>, condition: &'static str) -> Self {
        SetIf { new: New { place, value, lives: Lives::On }, condition }
    }

    lives!();

    async fn carry_out(self) -> Result<bool, ObjectError> {
        let (place, request) = self.new.request()?;
        let done: Option<Bytes> = place.change(request.arg(self.condition)).await?;
        Ok(done.is_some())
    }
}

/// Sets a bucket when awaited, and tells what it was; made by [`Bucket::get_and_set`].
#[must_use = "nothing is asked of the server until this is awaited"]
pub struct GetAndSet<T, C> {
    bucket: Bucket<T, C>,
    new: New,
}

impl<T, C: Decode<T>> GetAndSet<T, C> {
    pub(crate) fn new(bucket: Bucket<T, C>, value: Result<Bytes, ObjectError>) -> Self {
        GetAndSet { new: New { place: bucket.place.clone(), value, lives: Lives::On }, bucket }
    }

    lives!();

    async fn carry_out(self) -> Result<Option<T>, ObjectError> {
        let (place, request) = self.new.request()?;
        let was = place.change(request.arg("GET")).await?;
        self.bucket.read(was)
    }
}

impl IntoFuture for Set {
    type Output = Result<(), ObjectError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.carry_out())
    }
}

impl IntoFuture for SetIf {
    type Output = Result<bool, ObjectError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.carry_out())
    }
}

impl<T: 'static, C: Decode<T>> IntoFuture for GetAndSet<T, C> {
    type Output = Result<Option<T>, ObjectError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.carry_out())
    }
}
