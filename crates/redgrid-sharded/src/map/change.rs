//! Values for keys: each concerns one part, and is what it is in a plain map.

use std::borrow::Borrow;

use redgrid_codecs::{Codec, Decode, Encode, Numeric};
use redgrid_core::object::ObjectError;
use redgrid_map::Map;

use super::ShardedMap;

impl<K, V, KC: Codec, VC: Encode<V>> ShardedMap<K, V, KC, VC> {
    /// Gives the key a value; tells whether it is new in the map. Cheaper than [`ShardedMap::insert`], which tells what it had.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "fastPut")]
    pub async fn set<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.part_of(key).await?.set(key, value).await
    }

    /// Gives the key a value if it is not in the map; tells whether it did.
    ///
    /// # Errors
    ///
    /// As [`ShardedMap::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedMap::set`].
    #[doc(alias = "fastPutIfAbsent")]
    pub async fn set_if_absent<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.part_of(key).await?.set_if_absent(key, value).await
    }

    /// Gives the key a value if it is in the map; tells whether it did.
    ///
    /// # Errors
    ///
    /// As [`ShardedMap::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedMap::set`].
    #[doc(alias = "fastReplace")]
    #[doc(alias = "fastPutIfExists")]
    pub async fn set_if_exists<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.part_of(key).await?.set_if_exists(key, value).await
    }

    /// Gives many keys values: the parts that have them are asked at the same time, each for 500 of its entries or about 4 MiB at a time. Of a key
    /// that is named twice the last value counts.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the parts of which some keys may not have their value.
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedMap::set`].
    #[doc(alias = "putAll")]
    pub async fn set_many<'a, Q: ?Sized + 'a>(
        &self,
        entries: impl IntoIterator<Item = (&'a Q, &'a V)>,
    ) -> Result<(), ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
        V: 'a,
    {
        let parts = self.spread.to_change().await?;
        let entries = self.divided(&parts, entries, |(key, _)| self.encoded(*key))?;
        let ask = |part: Map<K, V, KC, VC>, entries: Vec<(usize, (&'a Q, &'a V))>| async move {
            part.set_many(entries.into_iter().map(|(_, entry)| entry)).await
        };
        self.spread.each(&parts, entries, ask).await.map(drop)
    }

    /// Gives the key a value if it has `expected`; tells whether it did. Values are equal whose bytes are.
    ///
    /// # Errors
    ///
    /// As [`ShardedMap::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedMap::set`].
    #[doc(alias = "replace")]
    pub async fn compare_and_set<Q: ?Sized>(&self, key: &Q, expected: &V, new: &V) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.part_of(key).await?.compare_and_set(key, expected, new).await
    }

    /// Removes the key if it has `expected`; tells whether it did. Values are equal whose bytes are.
    ///
    /// # Errors
    ///
    /// As [`ShardedMap::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedMap::set`].
    #[doc(alias = "remove")]
    pub async fn compare_and_remove<Q: ?Sized>(&self, key: &Q, expected: &V) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.read_part(key).await?.compare_and_remove(key, expected).await
    }
}

impl<K, V, KC: Codec, VC: Encode<V> + Decode<V>> ShardedMap<K, V, KC, VC> {
    /// Gives the key a value; tells what it had.
    ///
    /// # Errors
    ///
    /// As [`ShardedMap::set`]; the value is given also where what it had can not be decoded.
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedMap::set`].
    #[doc(alias = "put")]
    pub async fn insert<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.part_of(key).await?.insert(key, value).await
    }

    /// Gives the key a value if it is not in the map; else tells what it has.
    ///
    /// # Errors
    ///
    /// As [`ShardedMap::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedMap::set`].
    #[doc(alias = "putIfAbsent")]
    pub async fn insert_if_absent<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.part_of(key).await?.insert_if_absent(key, value).await
    }

    /// Gives the key a value if it is in the map; tells what it had.
    ///
    /// # Errors
    ///
    /// As [`ShardedMap::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedMap::set`].
    #[doc(alias = "putIfExists")]
    pub async fn replace<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.part_of(key).await?.replace(key, value).await
    }

    /// Changes the key's value in place, whatever others do meanwhile, as [`Map::update`].
    ///
    /// # Errors
    ///
    /// As [`Map::update`].
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedMap::set`].
    #[doc(alias = "computeIfPresent")]
    #[doc(alias = "replaceAll")]
    pub async fn update<Q: ?Sized>(&self, key: &Q, change: impl FnMut(&mut V)) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.part_of(key).await?.update(key, change).await
    }

    /// Replaces the key's value, or its absence, by what `change` makes of it, as [`Map::alter`].
    ///
    /// # Errors
    ///
    /// As [`Map::alter`].
    ///
    /// # Cancel safety
    ///
    /// As [`ShardedMap::set`].
    #[doc(alias = "compute")]
    #[doc(alias = "computeIfAbsent")]
    #[doc(alias = "merge")]
    pub async fn alter<Q: ?Sized>(
        &self,
        key: &Q,
        change: impl FnMut(Option<V>) -> Option<V>,
    ) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.part_of(key).await?.alter(key, change).await
    }
}

impl<K, V, KC: Codec, VC: Codec> ShardedMap<K, V, KC, VC> {
    /// Adds to the key's number on the server, 0 where it is not in the map; tells what it is then.
    ///
    /// # Errors
    ///
    /// As [`Map::add`].
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "addAndGet")]
    pub async fn add<Q: ?Sized>(&self, key: &Q, by: &V) -> Result<V, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
        VC: Numeric<V>,
    {
        self.part_of(key).await?.add(key, by).await
    }

    /// Removes keys: the parts that have them are asked at the same time, each for 500 of its keys or about 4 MiB at a time. Tells how many were in the
    /// map.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the parts of which some keys may be there.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "fastRemove")]
    pub async fn remove_many<'a, Q: ?Sized + 'a>(
        &self,
        keys: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let parts = self.spread.to_read().await?;
        let keys = self.divided(&parts, keys, |key| self.encoded(*key))?;
        let ask = |part: Map<K, V, KC, VC>, keys: Vec<(usize, &'a Q)>| async move {
            part.remove_many(keys.into_iter().map(|(_, key)| key)).await
        };
        self.spread.sum(&parts, keys, ask).await
    }
}

impl<K, V, KC: Codec, VC: Decode<V>> ShardedMap<K, V, KC, VC> {
    /// Removes the key; tells what it had.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; one whose value can not be decoded is removed all the same.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn remove<Q: ?Sized>(&self, key: &Q) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.read_part(key).await?.remove(key).await
    }
}
