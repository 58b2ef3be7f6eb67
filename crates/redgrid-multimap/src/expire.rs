//! Lifetimes of keys.

use std::borrow::Borrow;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode};
use redgrid_core::TIMES_EXPECTED;
use redgrid_core::object::{Lifetime, ObjectError, millis};
use redgrid_core::{describe_time, unix_millis};

use crate::kind::Lifetimes;
use crate::kind::sealed::Way;
use crate::multimap::{Multimap, script};

script!(EXPIRE, "expire");
script!(LEFT, "left");

/// What is told where the server knows no lifetimes of fields.
const NEEDED: &str = "lifetimes of fields of hashes are known to Redis from 7.4 and to Valkey from 9.0";

/// The last time at which a field may end, in milliseconds since 1970: Redis keeps 46 bits.
const LATEST: u128 = (1 << 46) - 1;

impl<K, V, KC: Codec, VC: Codec, Y: Lifetimes> Multimap<K, V, KC, VC, Y> {
    /// Gives a key a lifetime from now on, by the server's clock, 1 ms to 3650 days: after it the key is gone with all its values. Tells whether it has it:
    /// not where there is no such key. What is inserted meanwhile has the lifetime of its key; a key that is removed has none when it comes again.
    ///
    /// ```no_run
    /// # #[cfg(feature = "json")]
    /// # async fn demo(tags: &redgrid_multimap::SetMultimapCache<String, u64>) -> Result<(), redgrid_multimap::ObjectError> {
    /// use std::time::Duration;
    ///
    /// tags.insert("session 4711", &1).await?;
    /// let is_there = tags.expire_key("session 4711", Duration::from_secs(600)).await?;
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
    #[doc(alias = "expireKey")]
    pub async fn expire_key<Q: ?Sized>(&self, key: &Q, lifetime: Duration) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.lives(key, millis(self.place.named()?.0, lifetime)?).await
    }

    /// Has a key end at this time by the server's clock; at once where that has passed. Tells whether there was such a key. Servers keep the ends of a
    /// native map up to November 4199.
    ///
    /// # Errors
    ///
    /// As [`Multimap::expire_key`].
    ///
    /// # Cancel safety
    ///
    /// As [`Multimap::expire_key`].
    pub async fn expire_key_at<Q: ?Sized>(&self, key: &Q, at: SystemTime) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let fits = |millis: &u128| Y::WAY != Way::Native || *millis <= LATEST;
        match unix_millis(at).filter(fits) {
            Some(millis) => self.lives(key, format!("@{}", millis.max(1)).into()).await,
            None => Err(self.place.invalid("lifetime", TIMES_EXPECTED, describe_time(at))),
        }
    }

    /// Has a key live on without an end, as long as the map does; tells whether there is such a key.
    ///
    /// # Errors
    ///
    /// As [`Multimap::expire_key`].
    ///
    /// # Cancel safety
    ///
    /// As [`Multimap::expire_key`].
    pub async fn persist_key<Q: ?Sized>(&self, key: &Q) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.lives(key, "0".into()).await
    }

    async fn lives<Q: ?Sized>(&self, key: &Q, said: Bytes) -> Result<bool, ObjectError>
    where
        KC: Encode<Q>,
    {
        let found = self.found(key)?;
        let request = self.script(&EXPIRE, [found.values])?.arg(found.field).arg(said);
        self.place.change(request).await.map_err(|error| error.or_unsupported(NEEDED))
    }

    /// How long a key lives.
    ///
    /// # Errors
    ///
    /// As [`Multimap::expire_key`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn key_lifetime<Q: ?Sized>(&self, key: &Q) -> Result<Lifetime, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let found = self.found(key)?;
        let request = self.script(&LEFT, [found.values])?.arg(found.field);
        let left = self.place.ask(request).await.map_err(|error: ObjectError| error.or_unsupported(NEEDED))?;
        Ok(Lifetime::of(left))
    }
}
