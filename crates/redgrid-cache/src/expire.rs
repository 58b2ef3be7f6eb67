//! Other lifetimes for entries.

use std::borrow::Borrow;
use std::future::IntoFuture;
use std::marker::PhantomData;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode};
use redgrid_core::object::{Lives, ObjectError, Place, parts};

use crate::cache::{Cache, NEEDED};
use crate::layout::{Layout, Packed};
use crate::put::{Idle, idle, lifetime};

/// Gives entries another lifetime and idle time when awaited; made by [`Cache::expire`]. Tells how many have them: not those that are not there, nor
/// those that have an end already where [`Expire::only_endless`] was said.
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone)]
pub struct Expire<Y> {
    place: Place,
    fields: Result<Vec<Bytes>, ObjectError>,
    lives: Lives,
    idle: Idle,
    only_endless: bool,
    layout: PhantomData<fn() -> Y>,
}

impl<K, V, KC: Codec, VC: Codec, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// Gives keys the lifetime and idle time that are said, from now on, else none; 500 of them at a time.
    ///
    /// ```no_run
    /// # #[cfg(feature = "json")]
    /// # async fn demo(sessions: &redgrid_cache::MapCache<String, u64>) -> Result<(), redgrid_cache::ObjectError> {
    /// use std::time::Duration;
    ///
    /// let is_there = sessions.expire(["4711"]).expires_in(Duration::from_secs(60)).await? == 1;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; [`ObjectError::Unsupported`] of a native one on a server that knows no lifetimes of fields.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "updateEntryExpiration")]
    #[doc(alias = "expireEntry")]
    #[doc(alias = "expireEntries")]
    #[doc(alias = "clearExpire")]
    pub fn expire<'a, Q: ?Sized + 'a>(&self, keys: impl IntoIterator<Item = &'a Q>) -> Expire<Y>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let (place, fields) = (self.place.clone(), self.fields(keys));
        Expire { place, fields, lives: Lives::On, idle: Idle::None, only_endless: false, layout: PhantomData }
    }
}

impl<Y: Layout> Expire<Y> {
    /// Has them end after this time, 1 ms to 3650 days.
    pub fn expires_in(mut self, lifetime: Duration) -> Self {
        self.lives = Lives::For(lifetime);
        self
    }

    /// Has them end at this time by the server's clock; at once where that has passed. Servers keep those of a native map up to November 4199.
    pub fn expires_at(mut self, at: SystemTime) -> Self {
        self.lives = Lives::Until(at);
        self
    }

    /// Only those that have neither a lifetime nor an idle time.
    #[doc(alias = "expireEntryIfNotSet")]
    #[doc(alias = "expireEntriesIfNotSet")]
    pub fn only_endless(mut self) -> Self {
        self.only_endless = true;
        self
    }

    async fn carry_out(self) -> Result<u64, ObjectError> {
        let (fields, place) = (self.fields?, &self.place);
        let (lifetime, idle) = (lifetime(place, self.lives, Y::LATEST)?, idle(place, self.idle)?);
        let mut done = 0;
        for part in parts(&fields, Bytes::len) {
            let request = Y::expire(place, self.only_endless, &lifetime, &idle, part)?;
            done += place.change::<u64>(request).await.map_err(|error| error.or_unsupported(NEEDED))?;
        }
        Ok(done)
    }
}

impl Expire<Packed> {
    /// Has them end when nobody has used them for this time, 1 ms to 3650 days; beside their lifetime, if they get one.
    pub fn idle_for(mut self, time: Duration) -> Self {
        self.idle = Idle::For(time);
        self
    }
}

impl<Y: Layout> IntoFuture for Expire<Y> {
    type Output = Result<u64, ObjectError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.carry_out())
    }
}
