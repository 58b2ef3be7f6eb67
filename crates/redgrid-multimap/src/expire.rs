//! Lifetimes of keys.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode, EncodesFor};
use redgrid_core::TIMES_EXPECTED;
use redgrid_core::object::{Lifetime, ObjectError, millis};
use redgrid_core::{describe_time, unix_millis};

use crate::kind::Lifetimes;
use crate::kind::sealed::LifetimeMode;
use crate::multimap::{Multimap, script};

script!(EXPIRE, "expire");
script!(KEY_TTL, "key_ttl");

/// The error text for servers without lifetimes of fields.
const FIELD_LIFETIMES_NEEDED: &str = "lifetimes of hash fields need Redis 7.4 or newer, or Valkey 9.0 or newer";

/// The latest expiry of a field, in milliseconds since 1970: Redis stores 46 bits.
const MAX_FIELD_EXPIRY: u128 = (1 << 46) - 1;

impl<K, V, KC: Codec, VC: Codec, Y: Lifetimes> Multimap<K, V, KC, VC, Y> {
    /// Sets the lifetime of a key from now on, by the server's clock, 1 ms to 3650 days. Returns
    /// whether it was set; false if there is no such key.
    ///
    /// After its lifetime the key is gone with all its values. Values that are inserted meanwhile
    /// have the lifetime of their key. A key that was removed and is inserted again has no
    /// lifetime.
    ///
    /// ```no_run
    /// # #[cfg(feature = "json")]
    /// # use redgrid_multimap::{ObjectError, SetMultimapCache};
    /// # async fn demo(tags: &SetMultimapCache<String, u64>) -> Result<(), ObjectError> {
    /// use std::time::Duration;
    ///
    /// tags.insert("session 4711", &1).await?;
    /// let is_there = tags.expire_key("session 4711", Duration::from_secs(600)).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    /// [`ObjectError::Unsupported`] for a native multimap on a server without lifetimes of fields.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "expireKey")]
    pub async fn expire_key<Q: ?Sized>(&self, key: &Q, lifetime: Duration) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        self.set_lifetime(key, millis(self.object_ref.name_and_key()?.0, lifetime)?).await
    }

    /// Sets the expiry of a key by the server's clock; a past time removes it at once. Returns
    /// whether there was such a key.
    ///
    /// Servers store expiries of a native map up to November 4199.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Multimap::expire_key`].
    pub async fn expire_key_at<Q: ?Sized>(&self, key: &Q, at: SystemTime) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let fits = |millis: &u128| Y::LIFETIME_MODE != LifetimeMode::Native || *millis <= MAX_FIELD_EXPIRY;
        match unix_millis(at).filter(fits) {
            Some(millis) => self.set_lifetime(key, format!("@{}", millis.max(1)).into()).await,
            None => Err(self.object_ref.invalid("lifetime", TIMES_EXPECTED, describe_time(at))),
        }
    }

    /// Removes the lifetime of a key: it then lives as long as the map. Returns whether there is
    /// such a key.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Multimap::expire_key`].
    pub async fn persist_key<Q: ?Sized>(&self, key: &Q) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        self.set_lifetime(key, "0".into()).await
    }

    async fn set_lifetime<Q: ?Sized>(&self, key: &Q, lifetime: Bytes) -> Result<bool, ObjectError>
    where
        KC: Encode<Q>,
    {
        let key = self.key_ref(key)?;
        let request = self.script_request(&EXPIRE, [key.values_key])?.arg(key.field).arg(lifetime);
        self.object_ref.change(request).await.map_err(|error| error.or_unsupported(FIELD_LIFETIMES_NEEDED))
    }

    /// Returns the remaining lifetime of a key.
    ///
    /// # Errors
    ///
    /// As for [`Multimap::expire_key`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn key_lifetime<Q: ?Sized>(&self, key: &Q) -> Result<Lifetime, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let key = self.key_ref(key)?;
        let request = self.script_request(&KEY_TTL, [key.values_key])?.arg(key.field);
        let ttl = self
            .object_ref
            .read_primary(request)
            .await
            .map_err(|error: ObjectError| error.or_unsupported(FIELD_LIFETIMES_NEEDED))?;
        Ok(Lifetime::of(ttl))
    }
}
