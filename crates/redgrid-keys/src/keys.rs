//! All keys of the servers.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use redgrid_core::name::InvalidName;
use redgrid_core::object::belongings::{belongings, beside, faces};
use redgrid_core::object::{Layout, Lifetime, Object, ObjectError, layouts};
use redgrid_core::{Client, LIFETIMES, LIFETIMES_EXPECTED, Name, Request, TIMES_EXPECTED, describe_time, unix_millis};

use crate::key::Kind;
use crate::many::{Deed, counted, each, keys_of};
use crate::multimap;
use crate::row;
use crate::walk::Shown;
use crate::{Key, KeysError, Listing, ToKey};

/// The keys of all servers of a client; behind its namespace, where it has one. Redisson's `RKeys`.
///
/// What is done by names is done to objects: their companions go with them. In a cluster names are grouped by slot, in parts of about
/// 1,000 keys, 16 at a time; all are tried, whatever becomes of others.
#[derive(Clone)]
#[doc(alias = "RKeys")]
pub struct Keys {
    pub(crate) client: Client,
}

impl Keys {
    /// Those of a client.
    pub fn new(client: &Client) -> Self {
        Keys { client: client.clone() }
    }

    /// A stream of the objects that there are, each under its name, without what is beside them.
    #[doc(alias = "getKeys")]
    #[doc(alias = "getKeysStream")]
    #[doc(alias = "getKeysByPattern")]
    #[doc(alias = "getKeysStreamByPattern")]
    #[doc(alias = "getKeysWithLimit")]
    #[doc(alias = "getKeysAsync")]
    pub fn objects(&self) -> Listing {
        Listing::new(&self.client, Shown::Objects)
    }

    /// The same with all that is beside them: every key that the servers have. A pattern is about the names of objects here, too.
    pub fn all(&self) -> Listing {
        Listing::new(&self.client, Shown::All)
    }

    /// How many keys there are, companions too. By one DBSIZE a primary; with a namespace by a stream of all keys, where one may count
    /// twice, as a stream may tell it twice.
    ///
    /// # Errors
    ///
    /// [`KeysError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
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

    /// How many of these objects there are.
    ///
    /// # Errors
    ///
    /// [`KeysError::Partial`] where some could not be asked about.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "countExists")]
    pub async fn exists<K: ToKey>(&self, names: impl IntoIterator<Item = K>) -> Result<u64, KeysError> {
        self.done(names, Deed::Count("EXISTS")).await
    }

    /// Has the servers take them for just used; tells how many there are.
    ///
    /// # Errors
    ///
    /// [`KeysError::Partial`] where some could not be asked about.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn touch<K: ToKey>(&self, names: impl IntoIterator<Item = K>) -> Result<u64, KeysError> {
        self.done(names, Deed::Count("TOUCH")).await
    }

    /// Deletes them with all that belongs to them; tells how many there were.
    ///
    /// Who waits on a synchronizer finds out when it looks for itself, and who holds one at its next renewal. Fences and counters of
    /// tokens stay: they protect from those who are late.
    ///
    /// # Errors
    ///
    /// [`KeysError::Partial`] says which were not deleted, as far as is known; all were tried. While a slot moves, an object may be
    /// deleted in part: that is told as an outcome that is unknown.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it. While a slot moves, it may be done to some keys of an object only.
    pub async fn delete<K: ToKey>(&self, names: impl IntoIterator<Item = K>) -> Result<u64, KeysError> {
        self.done(names, Deed::Remove("DEL")).await
    }

    /// The same, and the servers free the memory in the background: for large ones.
    ///
    /// # Errors
    ///
    /// As [`Keys::delete`].
    ///
    /// # Cancel safety
    ///
    /// As [`Keys::delete`].
    pub async fn unlink<K: ToKey>(&self, names: impl IntoIterator<Item = K>) -> Result<u64, KeysError> {
        self.done(names, Deed::Remove("UNLINK")).await
    }

    /// Has them deleted after this time, 1 ms to 3650 days, with all that belongs to them; tells how many there are.
    ///
    /// # Errors
    ///
    /// [`KeysError::Partial`] says which were not given an end, as far as is known; all were tried. While a slot moves, it may be done
    /// to some keys of an object only: that is told as an outcome that is unknown.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it. While a slot moves, it may be done to some keys of an object only.
    #[doc(alias = "expire")]
    pub async fn expire_in<K: ToKey>(
        &self,
        lifetime: Duration,
        names: impl IntoIterator<Item = K>,
    ) -> Result<u64, KeysError> {
        if !LIFETIMES.contains(&lifetime) {
            return Err(KeysError::invalid("lifetime", LIFETIMES_EXPECTED, format!("{lifetime:?}")));
        }
        self.done(names, Deed::Live("PEXPIRE", Some(lifetime.as_millis().to_string().into()))).await
    }

    /// Has them deleted at this time by the servers' clocks, with all that belongs to them, at once where it has passed; tells how many
    /// there are.
    ///
    /// # Errors
    ///
    /// As [`Keys::expire_in`].
    ///
    /// # Cancel safety
    ///
    /// As [`Keys::expire_in`].
    #[doc(alias = "expireAt")]
    pub async fn expire_at<K: ToKey>(
        &self,
        at: SystemTime,
        names: impl IntoIterator<Item = K>,
    ) -> Result<u64, KeysError> {
        let millis =
            unix_millis(at).ok_or_else(|| KeysError::invalid("lifetime", TIMES_EXPECTED, describe_time(at)))?;
        self.done(names, Deed::Live("PEXPIREAT", Some(millis.to_string().into()))).await
    }

    /// Has them live on without an end; tells how many had one.
    ///
    /// A lock without an end is nobody's to free but by force.
    ///
    /// # Errors
    ///
    /// As [`Keys::expire_in`].
    ///
    /// # Cancel safety
    ///
    /// As [`Keys::expire_in`].
    #[doc(alias = "clearExpire")]
    pub async fn persist<K: ToKey>(&self, names: impl IntoIterator<Item = K>) -> Result<u64, KeysError> {
        self.done(names, Deed::Live("PERSIST", None)).await
    }

    /// How long they live, each of them.
    ///
    /// # Errors
    ///
    /// [`KeysError::Partial`] where some could not be asked about.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "remainTimeToLive")]
    pub async fn lifetimes<K: ToKey>(
        &self,
        names: impl IntoIterator<Item = K>,
    ) -> Result<BTreeMap<Key, Lifetime>, KeysError> {
        let outcomes = each(&self.client, keys_of(&self.client, names)?, &Deed::Lifetimes).await;
        if outcomes.iter().any(|(_, told)| told.is_err()) {
            // Those that could be asked about are counted as done, whether they are there or not.
            let told = outcomes.into_iter().map(|(key, told)| (key, told.map(|_| 1))).collect();
            return Err(counted(told).err().unwrap_or(KeysError::Moving { passes: 0 }));
        }
        Ok(outcomes.into_iter().filter_map(|(key, told)| Some((key, Lifetime::of(told.ok()?)))).collect())
    }

    /// What the object of this name is kept as; `None` where there is none. What has no key of its plain name, as a barrier, is found too.
    ///
    /// # Errors
    ///
    /// [`KeysError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "getType")]
    pub async fn kind(&self, name: impl ToKey) -> Result<Option<Kind>, KeysError> {
        let object = name.to_key(&self.client)?.object(self.client.namespace().as_str());
        for face in faces(&object) {
            let request = Request::command("TYPE").key(face).idempotent();
            let word: Bytes = self.client.run(request).await.map_err(KeysError::of_read)?;
            if let Some(kind) = Kind::of(&word) {
                return Ok(Some(kind));
            }
        }
        // An empty Bloom filter is its configuration.
        let beside = row::beside(&self.client, &object).await.map_err(KeysError::of_read)?;
        Ok((!beside.is_empty()).then_some(Kind::Hash))
    }

    /// The slot of a name in a cluster; 0 where there are no slots. Asks nobody.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] where it breaks the rules of names.
    #[doc(alias = "getSlot")]
    pub fn slot(&self, name: impl ToKey) -> Result<u16, InvalidName> {
        let namespace = self.client.namespace().as_str();
        name.to_key(&self.client).map(|key| self.client.slot(&key.object(namespace)))
    }

    /// The object of a name, whatever its type, with all keys that belong to it. They are looked up for that, once.
    ///
    /// # Errors
    ///
    /// [`KeysError`] says what is true then. A multimap is [`ObjectError::InvalidArgument`]: its own `object()` knows the values of its
    /// keys, and so do [`Keys::delete`], [`Keys::expire_in`], [`Keys::rename`] and [`Keys::copy`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn object(&self, name: impl AsRef<str>) -> Result<Object, KeysError> {
        let name = Name::new(name)?;
        if self.multimap(&name).await?.is_some() {
            let (option, got) = ("name", "that of a multimap, which has an `object()` of its own".to_owned());
            let expected = "one whose keys its name tells".to_owned();
            return Err(ObjectError::InvalidArgument { name, option, expected, got }.into());
        }
        let key = self.client.key(&name);
        let own = row::beside(&self.client, &key).await.map_err(|source| ObjectError::of_read(&name, source))?;
        let [timeout, value, permits, allocation, config] = beside(&key);
        let (layout, count): (Layout, _) = if own.contains(&timeout) {
            (layouts::permit_expirable_semaphore, 1)
        } else if own.contains(&allocation) {
            (layouts::id_generator, 1)
        } else if own.contains(&config) {
            (layouts::bloom_filter, 2)
        } else if own.contains(&value) || own.contains(&permits) {
            (layouts::rate_limiter, 1)
        } else {
            (belongings, faces(&key).len())
        };
        Ok(Object::with_layout(&self.client, Ok(name), layout).and_faces(count).and_along(beside_tokens))
    }

    /// What kind of multimap a name has, if it has one.
    async fn multimap(&self, name: &Name) -> Result<Option<multimap::Found>, ObjectError> {
        let looked = multimap::look(&self.client, &self.client.key(name)).await;
        looked.map_err(|source| ObjectError::of_read(name, source))
    }

    /// Gives an object another name, with all that belongs to it; what has that name is replaced. See [`Object::rename`].
    ///
    /// What could be somebody's own is looked at before, by a request of its own: leases of a semaphore that had none then, and of which
    /// the first is given meanwhile, stay behind. Of an object whose type is known its own `object().rename(…)` takes everything.
    ///
    /// # Errors
    ///
    /// [`KeysError::Object`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// As [`Object::rename`].
    pub async fn rename(&self, from: impl AsRef<str>, to: impl AsRef<str>) -> Result<(), KeysError> {
        let name = Name::new(from)?;
        match self.multimap(&name).await? {
            Some(found) => found.rename(&self.client, &name, to.as_ref(), true).await?,
            None => self.object(name).await?.rename(to).await?,
        };
        Ok(())
    }

    /// The same unless something has that name; tells whether it did.
    ///
    /// # Errors
    ///
    /// As [`Keys::rename`].
    ///
    /// # Cancel safety
    ///
    /// As [`Keys::rename`].
    #[doc(alias = "renamenx")]
    pub async fn rename_unless_taken(&self, from: impl AsRef<str>, to: impl AsRef<str>) -> Result<bool, KeysError> {
        let name = Name::new(from)?;
        Ok(match self.multimap(&name).await? {
            Some(found) => found.rename(&self.client, &name, to.as_ref(), false).await?,
            None => self.object(name).await?.rename(to).unless_taken().await?,
        })
    }

    /// Makes a second object with another name, with all that belongs to it, unless something has that name; tells whether it did.
    /// See [`Object::copy_to`]; what is looked at before is as with [`Keys::rename`].
    ///
    /// # Errors
    ///
    /// [`KeysError::Object`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// As [`Object::copy_to`].
    pub async fn copy(&self, from: impl AsRef<str>, to: impl AsRef<str>) -> Result<bool, KeysError> {
        let name = Name::new(from)?;
        Ok(match self.multimap(&name).await? {
            Some(found) => found.copy(&self.client, &name, to.as_ref()).await?,
            None => self.object(name).await?.copy_to(to).await?,
        })
    }

    async fn done<K: ToKey>(&self, names: impl IntoIterator<Item = K>, deed: Deed) -> Result<u64, KeysError> {
        let keys = keys_of(&self.client, names)?;
        counted(each(&self.client, keys, &deed).await)
    }
}

/// What goes along to another name and else has a life of its own.
fn beside_tokens(key: &[u8]) -> Vec<Bytes> {
    [redgrid_core::object::fence(key), layouts::fenced_lock_token(key)].concat()
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("namespace", &self.client.namespace()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Everything;

    fn is_send<T: Send>(_: T) {}

    /// Every call can be made in a task of its own.
    #[expect(dead_code, reason = "it is enough that it compiles")]
    fn futures_are_send(keys: &'static Keys, names: &'static [Key]) {
        is_send(keys.count());
        is_send(keys.exists(names));
        is_send(keys.delete(names));
        is_send(keys.unlink(["a"]));
        is_send(keys.expire_in(Duration::ZERO, names));
        is_send(keys.lifetimes(names));
        is_send(keys.delete_by_pattern("a"));
        is_send(keys.flush(Everything::InThisDatabase));
        is_send(keys.random());
        is_send(keys.rename("a", "b"));
        is_send(keys.copy("a", "b"));
        is_send(keys.objects());
    }
}
