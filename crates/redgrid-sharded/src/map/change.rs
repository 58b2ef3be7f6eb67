//! Changes of entries. Each concerns one shard, with the guarantees of a plain map.

use redgrid_codecs::{Codec, Decode, Encode, EncodesFor, Numeric};
use redgrid_core::object::ObjectError;
use redgrid_map::Map;

use super::ShardedMap;

impl<K, V, KC: Codec, VC: Encode<V>> ShardedMap<K, V, KC, VC> {
    /// Sets the value of a key. Returns whether the key is new in the map.
    ///
    /// It is cheaper than [`ShardedMap::insert`], which returns the previous value.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "fastPut")]
    pub async fn set<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        self.shard_of(key).await?.set(key, value).await
    }

    /// Sets the value of a key if the key is not in the map. Returns whether it was set.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ShardedMap::set`].
    #[doc(alias = "fastPutIfAbsent")]
    pub async fn set_if_absent<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        self.shard_of(key).await?.set_if_absent(key, value).await
    }

    /// Sets the value of a key if the key is in the map. Returns whether it was set.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ShardedMap::set`].
    #[doc(alias = "fastReplace")]
    #[doc(alias = "fastPutIfExists")]
    pub async fn set_if_exists<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        self.shard_of(key).await?.set_if_exists(key, value).await
    }

    /// Sets the values of many keys, on their shards in parallel. A request contains up to 500
    /// entries or about 4 MiB.
    ///
    /// If a key occurs twice, its last value is set.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the shards in which some values may not have been set.
    ///
    /// # Cancel safety
    ///
    /// As for [`ShardedMap::set`].
    #[doc(alias = "putAll")]
    pub async fn set_many<'a, Q: ?Sized + 'a>(
        &self,
        entries: impl IntoIterator<Item = (&'a Q, &'a V)>,
    ) -> Result<(), ObjectError>
    where
        V: 'a,
        KC: EncodesFor<K, Q>,
    {
        let shards = self.sharded.shards_to_change().await?;
        let entries = shards.group(entries, |(key, _)| self.encode(*key))?;
        let call = |shard: Map<K, V, KC, VC>, (_, entries): (Vec<usize>, Vec<(&'a Q, &'a V)>)| async move {
            shard.set_many(entries).await
        };
        self.sharded.fan_out(&shards, entries, call).await.map(drop)
    }

    /// Sets the value of a key if its current value is `expected`. Returns whether it was set.
    ///
    /// Values are equal if their encoded bytes are equal.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ShardedMap::set`].
    #[doc(alias = "replace")]
    pub async fn compare_and_set<Q: ?Sized>(&self, key: &Q, expected: &V, new: &V) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        self.shard_of(key).await?.compare_and_set(key, expected, new).await
    }

    /// Removes a key if its value is `expected`. Returns whether it was removed.
    ///
    /// Values are equal if their encoded bytes are equal.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ShardedMap::set`].
    #[doc(alias = "remove")]
    pub async fn compare_and_remove<Q: ?Sized>(&self, key: &Q, expected: &V) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        self.shard_to_read(key).await?.compare_and_remove(key, expected).await
    }
}

impl<K, V, KC: Codec, VC: Encode<V> + Decode<V>> ShardedMap<K, V, KC, VC> {
    /// Sets the value of a key. Returns the previous value.
    ///
    /// # Errors
    ///
    /// As for [`ShardedMap::set`]. The value is set even if the previous one cannot be decoded.
    ///
    /// # Cancel safety
    ///
    /// As for [`ShardedMap::set`].
    #[doc(alias = "put")]
    pub async fn insert<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        self.shard_of(key).await?.insert(key, value).await
    }

    /// Sets the value of a key if the key is not in the map. Otherwise returns its value.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ShardedMap::set`].
    #[doc(alias = "putIfAbsent")]
    pub async fn insert_if_absent<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        self.shard_of(key).await?.insert_if_absent(key, value).await
    }

    /// Sets the value of a key if the key is in the map. Returns the previous value.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`ShardedMap::set`].
    #[doc(alias = "putIfExists")]
    pub async fn replace<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        self.shard_of(key).await?.replace(key, value).await
    }

    /// Changes the value of a key, even while others change it concurrently, as [`Map::update`].
    ///
    /// # Errors
    ///
    /// As for [`Map::update`].
    ///
    /// # Cancel safety
    ///
    /// As for [`ShardedMap::set`].
    #[doc(alias = "computeIfPresent")]
    #[doc(alias = "replaceAll")]
    pub async fn update<Q: ?Sized>(&self, key: &Q, change: impl FnMut(&mut V)) -> Result<Option<V>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        self.shard_of(key).await?.update(key, change).await
    }

    /// Replaces the value of a key, or its absence, by the result of `change`, as [`Map::alter`].
    ///
    /// # Errors
    ///
    /// As for [`Map::alter`].
    ///
    /// # Cancel safety
    ///
    /// As for [`ShardedMap::set`].
    #[doc(alias = "compute")]
    #[doc(alias = "computeIfAbsent")]
    #[doc(alias = "merge")]
    pub async fn alter<Q: ?Sized>(
        &self,
        key: &Q,
        change: impl FnMut(Option<V>) -> Option<V>,
    ) -> Result<Option<V>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        self.shard_of(key).await?.alter(key, change).await
    }
}

impl<K, V, KC: Codec, VC: Codec> ShardedMap<K, V, KC, VC> {
    /// Adds to the number of a key on the server. A new key starts at 0. Returns the sum.
    ///
    /// # Errors
    ///
    /// As for [`Map::add`].
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "addAndGet")]
    pub async fn add<Q: ?Sized>(&self, key: &Q, by: &V) -> Result<V, ObjectError>
    where
        VC: Numeric<V>,
        KC: EncodesFor<K, Q>,
    {
        self.shard_of(key).await?.add(key, by).await
    }

    /// Removes keys, on their shards in parallel. A request contains up to 500 keys or about 4 MiB.
    /// Returns the number of keys that were in the map.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the shards in which some keys may remain.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "fastRemove")]
    pub async fn remove_many<'a, Q: ?Sized + 'a>(
        &self,
        keys: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let shards = self.sharded.shards_to_read().await?;
        let keys = shards.group(keys, |key| self.encode(*key))?;
        let call = |shard: Map<K, V, KC, VC>, (_, keys): (Vec<usize>, Vec<&'a Q>)| async move {
            shard.remove_many(keys).await
        };
        self.sharded.fan_out_sum(&shards, keys, call).await
    }
}

impl<K, V, KC: Codec, VC: Decode<V>> ShardedMap<K, V, KC, VC> {
    /// Removes a key. Returns its previous value.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed. A key whose value
    /// cannot be decoded is removed as well.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn remove<Q: ?Sized>(&self, key: &Q) -> Result<Option<V>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        self.shard_to_read(key).await?.remove(key).await
    }
}
