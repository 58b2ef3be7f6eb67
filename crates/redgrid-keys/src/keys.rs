//! All keys of the servers.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::name::InvalidName;
use redgrid_core::object::key_ownership::{owned_keys, primary_keys, suffixed_companions};
use redgrid_core::object::{Layout, Lifetime, Object, ObjectError, layouts};
use redgrid_core::{Client, LIFETIMES, LIFETIMES_EXPECTED, Name, Request, TIMES_EXPECTED, describe_time, unix_millis};

use crate::bulk::{Locks, Operation, apply_to_each, count_done, to_keys};
use crate::key::Kind;
use crate::key_ownership;
use crate::multimap::{self, MultimapKind};
use crate::scan::Include;
use crate::{Key, KeysError, Listing, ToKey};

/// The keys of all servers of a client, limited to its namespace if it has one. It replaces
/// Redisson's `RKeys`.
///
/// Operations on names apply to objects, including their companions. In a cluster names are grouped
/// by slot, in chunks of about 1,000 keys, with 16 requests in flight. The operation is tried for
/// all names, even if it fails for some.
#[derive(Clone)]
#[doc(alias = "RKeys")]
pub struct Keys {
    pub(crate) client: Client,
}

impl Keys {
    /// Returns the keys of a client.
    pub fn new(client: &Client) -> Self {
        Keys { client: client.clone() }
    }

    /// Returns a stream of the existing objects, without their companions.
    #[doc(alias = "getKeys")]
    #[doc(alias = "getKeysStream")]
    #[doc(alias = "getKeysByPattern")]
    #[doc(alias = "getKeysStreamByPattern")]
    #[doc(alias = "getKeysWithLimit")]
    #[doc(alias = "getKeysAsync")]
    pub fn objects(&self) -> Listing {
        Listing::new(&self.client, Include::Objects)
    }

    /// Returns a stream of all keys of the servers, including companions.
    ///
    /// A pattern applies to the names of objects, also for companions.
    pub fn all(&self) -> Listing {
        Listing::new(&self.client, Include::All)
    }

    /// Returns the number of keys, including companions.
    ///
    /// It sends one DBSIZE to each primary. With a namespace, all keys are streamed instead, and a
    /// key is counted twice if the stream returns it twice.
    ///
    /// # Errors
    ///
    /// [`KeysError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn count(&self) -> Result<u64, KeysError> {
        if !self.client.namespace().as_str().is_empty() {
            let (mut all, mut count) = (self.all(), 0);
            while all.try_next().await?.is_some() {
                count += 1;
            }
            return Ok(count);
        }
        let sizes = self.client.run_on_primaries::<u64>(Request::command("DBSIZE").idempotent()).await;
        let sizes = sizes.map_err(KeysError::of_read)?;
        sizes.into_iter().map(|(_, size)| size.map_err(KeysError::of_read)).sum()
    }

    /// Returns the number of these objects that exist.
    ///
    /// # Errors
    ///
    /// [`KeysError::Partial`] if some objects could not be checked.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "countExists")]
    pub async fn exists<K: ToKey>(&self, names: impl IntoIterator<Item = K>) -> Result<u64, KeysError> {
        self.apply(names, Operation::Count("EXISTS")).await
    }

    /// Marks objects as just used, and returns the number of those that exist.
    ///
    /// # Errors
    ///
    /// [`KeysError::Partial`] if some objects could not be checked.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn touch<K: ToKey>(&self, names: impl IntoIterator<Item = K>) -> Result<u64, KeysError> {
        self.apply(names, Operation::Count("TOUCH")).await
    }

    /// Deletes objects with all keys that belong to them, and returns the number of those that
    /// existed.
    ///
    /// Waiters of a synchronizer notice this at their next poll, and holders at their next renewal.
    /// Fences and token counters are kept, because they protect against late requests.
    ///
    /// # Errors
    ///
    /// [`KeysError::Partial`] contains the objects that were not deleted, as far as known; the
    /// deletion was tried for all. While a slot moves, an object may be partially deleted, which is
    /// reported as an unknown outcome.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped. While a slot
    /// moves, it may affect only some keys of an object.
    pub async fn delete<K: ToKey>(&self, names: impl IntoIterator<Item = K>) -> Result<u64, KeysError> {
        self.apply(names, Operation::Remove("DEL", Locks::Included)).await
    }

    /// Deletes objects like [`Keys::delete`], while the servers free the memory in the background.
    ///
    /// Use it for large objects.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Keys::delete`].
    pub async fn unlink<K: ToKey>(&self, names: impl IntoIterator<Item = K>) -> Result<u64, KeysError> {
        self.apply(names, Operation::Remove("UNLINK", Locks::Included)).await
    }

    /// Sets a TTL of 1 ms to 3650 days on objects and all keys that belong to them, and returns the
    /// number of objects that exist.
    ///
    /// # Errors
    ///
    /// [`KeysError::Partial`] contains the objects without the new TTL, as far as known; the change
    /// was tried for all. While a slot moves, only some keys of an object may be changed, which is
    /// reported as an unknown outcome.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped. While a slot
    /// moves, it may affect only some keys of an object.
    #[doc(alias = "expire")]
    pub async fn expire_in<K: ToKey>(
        &self,
        lifetime: Duration,
        names: impl IntoIterator<Item = K>,
    ) -> Result<u64, KeysError> {
        if !LIFETIMES.contains(&lifetime) {
            return Err(KeysError::invalid("lifetime", LIFETIMES_EXPECTED, format!("{lifetime:?}")));
        }
        self.apply(names, Operation::Expire("PEXPIRE", Some(lifetime.as_millis().to_string().into()), Locks::Included))
            .await
    }

    /// Sets the expiry time of objects and all keys that belong to them, by the servers' clocks,
    /// and returns the number of objects that exist.
    ///
    /// If the time has passed, the objects are deleted at once.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Keys::expire_in`].
    #[doc(alias = "expireAt")]
    pub async fn expire_at<K: ToKey>(
        &self,
        at: SystemTime,
        names: impl IntoIterator<Item = K>,
    ) -> Result<u64, KeysError> {
        let millis =
            unix_millis(at).ok_or_else(|| KeysError::invalid("lifetime", TIMES_EXPECTED, describe_time(at)))?;
        self.apply(names, Operation::Expire("PEXPIREAT", Some(millis.to_string().into()), Locks::Included)).await
    }

    /// Removes the TTLs of objects, and returns the number of objects that had one.
    ///
    /// A lock without a TTL never expires: if its holder is gone, only a forced unlock releases it.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Keys::expire_in`].
    #[doc(alias = "clearExpire")]
    pub async fn persist<K: ToKey>(&self, names: impl IntoIterator<Item = K>) -> Result<u64, KeysError> {
        self.apply(names, Operation::Expire("PERSIST", None, Locks::Included)).await
    }

    /// Returns the lifetime of each object.
    ///
    /// # Errors
    ///
    /// [`KeysError::Partial`] if some objects could not be checked.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "remainTimeToLive")]
    pub async fn lifetimes<K: ToKey>(
        &self,
        names: impl IntoIterator<Item = K>,
    ) -> Result<BTreeMap<Key, Lifetime>, KeysError> {
        let outcomes = apply_to_each(&self.client, to_keys(&self.client, names)?, &Operation::Lifetimes).await;
        if outcomes.iter().any(|(_, outcome)| outcome.is_err()) {
            // The error counts the objects that could be checked as done, whether they exist or
            // not.
            let outcomes = outcomes.into_iter().map(|(key, outcome)| (key, outcome.map(|_| 1))).collect();
            return Err(count_done(outcomes).err().unwrap_or(KeysError::Moving { passes: 0 }));
        }
        Ok(outcomes.into_iter().filter_map(|(key, outcome)| Some((key, Lifetime::of(outcome.ok()?)))).collect())
    }

    /// Returns the type of the object with this name; `None` if it does not exist.
    ///
    /// Objects without a key of the plain name, such as barriers, are found, too.
    ///
    /// # Errors
    ///
    /// [`KeysError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "getType")]
    pub async fn kind(&self, name: impl ToKey) -> Result<Option<Kind>, KeysError> {
        let object = name.to_key(&self.client)?.object_key(self.client.namespace().as_str());
        for key in primary_keys(&object) {
            let request = Request::command("TYPE").key(key).idempotent();
            let type_name: Bytes = self.client.run(request).await.map_err(KeysError::of_read)?;
            if let Some(kind) = Kind::from_type_name(&type_name) {
                return Ok(Some(kind));
            }
        }
        // An empty Bloom filter has only its configuration key.
        let companions = key_ownership::companions(&self.client, &object).await.map_err(KeysError::of_read)?;
        Ok((!companions.is_empty()).then_some(Kind::Hash))
    }

    /// Returns the slot of a name in a cluster, or 0 outside a cluster. No request is sent.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] if the name is invalid.
    #[doc(alias = "getSlot")]
    pub fn slot(&self, name: impl ToKey) -> Result<u16, InvalidName> {
        let namespace = self.client.namespace().as_str();
        name.to_key(&self.client).map(|key| self.client.slot(&key.object_key(namespace)))
    }

    /// Returns the [`Object`] of a name, of any type, with all keys that belong to it.
    ///
    /// This call determines these keys once.
    ///
    /// # Errors
    ///
    /// [`KeysError`] states what failed. A multimap causes
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument), because the values of its
    /// keys would be missing. Its own `object()` includes them, and so do [`Keys::delete`],
    /// [`Keys::expire_in`], [`Keys::rename`] and [`Keys::copy`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn object(&self, name: impl AsRef<str>) -> Result<Object, KeysError> {
        let name = Name::new(name)?;
        if self.multimap(&name).await?.is_some() {
            let (option, got) = ("name", "the name of a multimap, which has its own `object()`".to_owned());
            let expected = "the name of an object other than a multimap".to_owned();
            return Err(ObjectError::invalid_argument(name, option, expected, got).into());
        }
        let key = self.client.key(&name);
        let owned = key_ownership::companions(&self.client, &key).await;
        let owned = owned.map_err(|source| ObjectError::of_read(&name, source))?;
        let [timeout, value, permits, allocation, config] = suffixed_companions(&key);
        let (layout, count): (Layout, _) = if owned.contains(&timeout) {
            (layouts::permit_expirable_semaphore, 1)
        } else if owned.contains(&allocation) {
            (layouts::id_generator, 1)
        } else if owned.contains(&config) {
            (layouts::bloom_filter, 2)
        } else if owned.contains(&value) || owned.contains(&permits) {
            (layouts::rate_limiter, 1)
        } else {
            (owned_keys, primary_keys(&key).len())
        };
        Ok(Object::with_layout(&self.client, Ok(name), layout)
            .with_primary_keys(count)
            .also_renames(key_ownership::token_keys))
    }

    /// Returns the kind of the multimap with this name; `None` if it is not a multimap.
    async fn multimap(&self, name: &Name) -> Result<Option<MultimapKind>, ObjectError> {
        let kind = multimap::detect(&self.client, &self.client.key(name)).await;
        kind.map_err(|source| ObjectError::of_read(name, source))
    }

    /// Renames an object with all keys that belong to it, and replaces an object of the new name.
    /// See [`Object::rename`].
    ///
    /// A separate request first determines the keys that belong to the object. If a semaphore has
    /// no leases at that time, and the first lease is granted meanwhile, its leases are not
    /// renamed. If the type of the object is known, `object().rename(…)` of that type renames
    /// everything.
    ///
    /// # Errors
    ///
    /// [`KeysError::Object`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// As for [`Object::rename`].
    pub async fn rename(&self, from: impl AsRef<str>, to: impl AsRef<str>) -> Result<(), KeysError> {
        let name = Name::new(from)?;
        match self.multimap(&name).await? {
            Some(kind) => kind.rename(&self.client, &name, to.as_ref(), true).await?,
            None => self.object(name).await?.rename(to).await?,
        };
        Ok(())
    }

    /// Renames an object as [`Keys::rename`], unless the new name is taken. Returns whether it was
    /// renamed.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Keys::rename`].
    #[doc(alias = "renamenx")]
    pub async fn rename_unless_taken(&self, from: impl AsRef<str>, to: impl AsRef<str>) -> Result<bool, KeysError> {
        let name = Name::new(from)?;
        Ok(match self.multimap(&name).await? {
            Some(kind) => kind.rename(&self.client, &name, to.as_ref(), false).await?,
            None => self.object(name).await?.rename(to).unless_taken().await?,
        })
    }

    /// Copies an object with all keys that belong to it, unless the new name is taken. Returns
    /// whether it was copied.
    ///
    /// See [`Object::copy_to`]. The keys are determined first, as for [`Keys::rename`].
    ///
    /// # Errors
    ///
    /// [`KeysError::Object`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// As for [`Object::copy_to`].
    pub async fn copy(&self, from: impl AsRef<str>, to: impl AsRef<str>) -> Result<bool, KeysError> {
        let name = Name::new(from)?;
        Ok(match self.multimap(&name).await? {
            Some(kind) => kind.copy(&self.client, &name, to.as_ref()).await?,
            None => self.object(name).await?.copy_to(to).await?,
        })
    }

    async fn apply<K: ToKey>(
        &self,
        names: impl IntoIterator<Item = K>,
        operation: Operation,
    ) -> Result<u64, KeysError> {
        let keys = to_keys(&self.client, names)?;
        count_done(apply_to_each(&self.client, keys, &operation).await)
    }
}

redgrid_core::debug_fields!(Keys, |it| namespace: it.client.namespace());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlushScope;

    fn is_send<T: Send>(_: T) {}

    /// Checks that the futures of all calls can be spawned as tasks.
    #[expect(dead_code, reason = "it is enough that it compiles")]
    fn futures_are_send(keys: &'static Keys, names: &'static [Key]) {
        is_send(keys.count());
        is_send(keys.exists(names));
        is_send(keys.delete(names));
        is_send(keys.unlink(["a"]));
        is_send(keys.expire_in(Duration::ZERO, names));
        is_send(keys.lifetimes(names));
        is_send(keys.delete_by_pattern("a"));
        is_send(keys.flush(FlushScope::Database));
        is_send(keys.random());
        is_send(keys.rename("a", "b"));
        is_send(keys.copy("a", "b"));
        is_send(keys.objects());
    }
}
