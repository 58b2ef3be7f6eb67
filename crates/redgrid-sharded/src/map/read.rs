//! Reads of one shard or of all shards.

use std::collections::HashMap;
use std::hash::Hash;

use redgrid_codecs::{Codec, Decode, Encode, EncodesFor};
use redgrid_core::object::ObjectError;
use redgrid_map::Map;

use super::ShardedMap;
use crate::scan::ShardedScan;

impl<K, V, KC: Codec, VC: Decode<V>> ShardedMap<K, V, KC, VC> {
    /// Returns the value of a key; `None` if it is not in the map.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "getOrDefault")]
    pub async fn get<Q: ?Sized>(&self, key: &Q) -> Result<Option<V>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        self.shard_to_read(key).await?.get(key).await
    }

    /// Returns the values of keys, in their order. The shards are read in parallel. A request
    /// contains up to 500 keys.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the shards that could not be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "getAll")]
    pub async fn get_many<'a, Q: ?Sized + 'a>(
        &self,
        keys: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Option<V>>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let shards = self.sharded.shards_to_read().await?;
        let keys = shards.group(keys, |key| self.encode(*key))?;
        let call = |shard: Map<K, V, KC, VC>, keys: Vec<&'a Q>| async move { shard.get_many(keys).await };
        self.sharded.each(&shards, keys, call).await
    }

    /// Returns all values. Each shard returns its values in one reply, which is as large as all of
    /// them. For large maps use [`ShardedMap::values`].
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the shards that could not be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "readAllValues")]
    pub async fn read_all_values(&self) -> Result<Vec<V>, ObjectError> {
        self.sharded.all(|shard| async move { shard.read_all_values().await }).await
    }
}

impl<K, V, KC: Codec, VC: Codec> ShardedMap<K, V, KC, VC> {
    /// Returns whether a key is in the map.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "containsKey")]
    pub async fn contains_key<Q: ?Sized>(&self, key: &Q) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        self.shard_to_read(key).await?.contains_key(key).await
    }

    /// Returns the size of the key's encoded value in bytes; 0 if the key is not in the map.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "valueSize")]
    pub async fn value_size<Q: ?Sized>(&self, key: &Q) -> Result<u64, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        self.shard_to_read(key).await?.value_size(key).await
    }
}

impl<K, V, KC: Codec, VC: Encode<V>> ShardedMap<K, V, KC, VC> {
    /// Returns whether a key has this value.
    ///
    /// The servers search the shards in parallel, a thousand entries per request. Changes during
    /// the call may be missed.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] if the shards that replied do not contain the value, but others
    /// failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "containsValue")]
    pub async fn contains_value(&self, value: &V) -> Result<bool, ObjectError> {
        self.sharded.any(|shard| async move { shard.contains_value(value).await }).await
    }
}

impl<K, V, KC: Decode<K>, VC: Codec> ShardedMap<K, V, KC, VC> {
    /// Returns all keys. Each shard returns its keys in one reply, which is as large as all of
    /// them. For large maps use [`ShardedMap::keys`].
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the shards that could not be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "readAllKeySet")]
    pub async fn read_all_keys(&self) -> Result<Vec<K>, ObjectError> {
        self.sharded.all(|shard| async move { shard.read_all_keys().await }).await
    }

    /// Returns `count` distinct random keys, or all keys if there are fewer.
    ///
    /// The call reads the sizes of all shards, and then keys from a random choice of shards. If
    /// other clients remove keys during the call, it may return fewer than `count`.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the shards that could not be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "randomKeys")]
    pub async fn random_keys(&self, count: u32) -> Result<Vec<K>, ObjectError> {
        let len = |shard: Map<K, V, KC, VC>| async move { shard.len().await };
        self.sharded.random(count, len, |shard, count| async move { shard.random_keys(count).await }).await
    }
}

impl<K, V, KC: Decode<K>, VC: Decode<V>> ShardedMap<K, V, KC, VC> {
    /// Returns all entries. Each shard returns its entries in one reply, which is as large as all
    /// of them. For large maps use [`ShardedMap::entries`].
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the shards that could not be read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "readAllMap")]
    #[doc(alias = "readAllEntrySet")]
    pub async fn read_all(&self) -> Result<HashMap<K, V>, ObjectError>
    where
        K: Eq + Hash,
    {
        self.sharded.all(|shard| async move { shard.read_all().await }).await
    }

    /// Returns `count` distinct random entries, as [`ShardedMap::random_keys`].
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ShardedMap::random_keys`].
    #[doc(alias = "randomEntries")]
    pub async fn random_entries(&self, count: u32) -> Result<Vec<(K, V)>, ObjectError> {
        let len = |shard: Map<K, V, KC, VC>| async move { shard.len().await };
        self.sharded.random(count, len, |shard, count| async move { shard.random_entries(count).await }).await
    }
}

impl<K: Send + 'static, V: Send + 'static, KC: Decode<K>, VC: Decode<V>> ShardedMap<K, V, KC, VC> {
    /// Returns a stream of all entries.
    #[doc(alias = "entrySet")]
    #[doc(alias = "forEach")]
    pub fn entries(&self) -> ShardedScan<(K, V)> {
        ShardedScan::new(&self.sharded, |shard| shard.entries())
    }
}

impl<K: Send + 'static, V: 'static, KC: Decode<K>, VC: Codec> ShardedMap<K, V, KC, VC> {
    /// Returns a stream of all keys.
    #[doc(alias = "keySet")]
    pub fn keys(&self) -> ShardedScan<K> {
        ShardedScan::new(&self.sharded, |shard| shard.keys())
    }
}

impl<K: 'static, V: Send + 'static, KC: Codec, VC: Decode<V>> ShardedMap<K, V, KC, VC> {
    /// Returns a stream of all values.
    pub fn values(&self) -> ShardedScan<V> {
        ShardedScan::new(&self.sharded, |shard| shard.values())
    }
}
