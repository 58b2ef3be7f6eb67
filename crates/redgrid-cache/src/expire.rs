//! New lifetimes for existing entries.

use std::marker::PhantomData;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use redgrid_codecs::{Codec, EncodesFor};
use redgrid_core::into_future;
use redgrid_core::object::{ObjectError, ObjectRef, SetTtl, chunks};

use crate::cache::{Cache, FIELD_LIFETIMES_NEEDED};
use crate::layout::{Layout, Packed};
use crate::put::{Idle, encode_idle_time, encode_lifetime};

/// Sets the lifetime and the idle time of entries when awaited; returned by [`Cache::expire`].
///
/// The result is the number of changed entries. Absent keys do not count. With
/// [`Expire::only_if_no_expiry`], entries that already have an expiry do not count.
#[must_use = "does nothing until awaited"]
#[derive(Clone)]
pub struct Expire<Y> {
    object_ref: ObjectRef,
    fields: Result<Vec<Bytes>, ObjectError>,
    ttl: SetTtl,
    idle: Idle,
    only_if_no_expiry: bool,
    layout: PhantomData<fn() -> Y>,
}

impl<K, V, KC: Codec, VC: Codec, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// Sets the lifetime and the idle time of keys from now on, up to 500 keys a request.
    ///
    /// A time that is not set by an option is removed.
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
    /// [`ObjectError`] states what failed and whether anything may have changed.
    /// [`ObjectError::Unsupported`] for a native map on a server without lifetimes of hash fields.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "updateEntryExpiration")]
    #[doc(alias = "expireEntry")]
    #[doc(alias = "expireEntries")]
    #[doc(alias = "clearExpire")]
    pub fn expire<'a, Q: ?Sized + 'a>(&self, keys: impl IntoIterator<Item = &'a Q>) -> Expire<Y>
    where
        KC: EncodesFor<K, Q>,
    {
        let (object_ref, fields) = (self.object_ref.clone(), self.encode_keys(keys));
        Expire {
            object_ref,
            fields,
            ttl: SetTtl::None,
            idle: Idle::None,
            only_if_no_expiry: false,
            layout: PhantomData,
        }
    }
}

impl<Y: Layout> Expire<Y> {
    /// Lets the entries expire after this time, 1 ms to 3650 days.
    pub fn expires_in(mut self, lifetime: Duration) -> Self {
        self.ttl = SetTtl::For(lifetime);
        self
    }

    /// Lets the entries expire at this time by the server's clock; at once if it has passed.
    ///
    /// Servers accept expiry times of native maps up to November 4199.
    pub fn expires_at(mut self, at: SystemTime) -> Self {
        self.ttl = SetTtl::Until(at);
        self
    }

    /// Changes only entries that have neither a lifetime nor an idle time.
    #[doc(alias = "expireEntryIfNotSet")]
    #[doc(alias = "expireEntriesIfNotSet")]
    pub fn only_if_no_expiry(mut self) -> Self {
        self.only_if_no_expiry = true;
        self
    }

    async fn send(self) -> Result<u64, ObjectError> {
        let (fields, object_ref) = (self.fields?, &self.object_ref);
        let (lifetime, idle) =
            (encode_lifetime(object_ref, self.ttl, Y::LATEST)?, encode_idle_time(object_ref, self.idle)?);
        let mut done = 0;
        for chunk in chunks(&fields, Bytes::len) {
            let request = Y::expire(object_ref, self.only_if_no_expiry, &lifetime, &idle, chunk)?;
            done += object_ref
                .change::<u64>(request)
                .await
                .map_err(|error| error.or_unsupported(FIELD_LIFETIMES_NEEDED))?;
        }
        Ok(done)
    }
}

impl Expire<Packed> {
    /// Lets the entries expire when they were not accessed for this time, 1 ms to 3650 days.
    ///
    /// A lifetime applies as well, if one is set.
    pub fn idle_for(mut self, time: Duration) -> Self {
        self.idle = Idle::For(time);
        self
    }
}

into_future!([Y: Layout] Expire<Y> => Result<u64, ObjectError>, |this| this.send());
