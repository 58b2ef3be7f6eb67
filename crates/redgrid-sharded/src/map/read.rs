//! What keys have, of one part or of all.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::ObjectError;
use redgrid_map::Map;

use super::ShardedMap;
use crate::scan::ShardedScan;
use crate::spread::{by_chance, in_order};

impl<K, V, KC: Codec, VC: Decode<V>> ShardedMap<K, V, KC, VC> {
    /// What the key has; `None` where it is not in the map.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "getOrDefault")]
    pub async fn get<Q: ?Sized>(&self, key: &Q) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.read_part(key).await?.get(key).await
    }

    /// What the keys have, in their order: the parts that have them are asked at the same time, each for 500 of its keys at a time.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the parts that could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "getAll")]
    pub async fn get_many<'a, Q: ?Sized + 'a>(
        &self,
        keys: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Option<V>>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let parts = self.spread.to_read().await?;
        let keys = self.divided(&parts, keys, |key| self.encoded(*key))?;
        let ask = |part: Map<K, V, KC, VC>, keys: Vec<(usize, &'a Q)>| async move {
            let found = part.get_many(keys.iter().map(|(_, key)| *key)).await?;
            Ok(keys.into_iter().map(|(at, _)| at).zip(found).collect())
        };
        Ok(in_order(self.spread.each(&parts, keys, ask).await?))
    }

    /// All values in one answer of each part: as large as all of them. For large maps there is [`ShardedMap::values`].
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the parts that could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "readAllValues")]
    pub async fn read_all_values(&self) -> Result<Vec<V>, ObjectError> {
        let parts = self.spread.to_read().await?;
        let ask = |part: Map<K, V, KC, VC>, ()| async move { part.read_all_values().await };
        let told = self.spread.each(&parts, parts.every(), ask).await?;
        Ok(told.into_iter().flat_map(|(_, values)| values).collect())
    }
}

impl<K, V, KC: Codec, VC: Codec> ShardedMap<K, V, KC, VC> {
    /// Whether the key is in the map.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "containsKey")]
    pub async fn contains_key<Q: ?Sized>(&self, key: &Q) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.read_part(key).await?.contains_key(key).await
    }

    /// How many bytes the key's value has as its codec writes it; 0 where it is not in the map.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "valueSize")]
    pub async fn value_size<Q: ?Sized>(&self, key: &Q) -> Result<u64, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.read_part(key).await?.value_size(key).await
    }
}

impl<K, V, KC: Codec, VC: Encode<V>> ShardedMap<K, V, KC, VC> {
    /// Whether a key has this value. The servers look through the parts at the same time, a thousand entries of each at a time; what changes
    /// meanwhile may be missed.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] where those that answered do not have it, and some did not.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "containsValue")]
    pub async fn contains_value(&self, value: &V) -> Result<bool, ObjectError> {
        let parts = self.spread.to_read().await?;
        self.spread.any(&parts, |part, ()| async move { part.contains_value(value).await }).await
    }
}

impl<K, V, KC: Decode<K>, VC: Codec> ShardedMap<K, V, KC, VC> {
    /// All keys in one answer of each part: as large as all of them. For large maps there is [`ShardedMap::keys`].
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the parts that could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "readAllKeySet")]
    pub async fn read_all_keys(&self) -> Result<Vec<K>, ObjectError> {
        let parts = self.spread.to_read().await?;
        let ask = |part: Map<K, V, KC, VC>, ()| async move { part.read_all_keys().await };
        let told = self.spread.each(&parts, parts.every(), ask).await?;
        Ok(told.into_iter().flat_map(|(_, keys)| keys).collect())
    }

    /// Some keys by chance, each once: `count` of them, or all where there are fewer. All parts are asked how many they have, and then those that
    /// chance falls on; there may be fewer where some are removed in between.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the parts that could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "randomKeys")]
    pub async fn random_keys(&self, count: u32) -> Result<Vec<K>, ObjectError> {
        let parts = self.spread.to_read().await?;
        let has = self.spread.each(&parts, parts.every(), |part, ()| async move { part.len().await }).await?;
        let ask = |part: Map<K, V, KC, VC>, count| async move { part.random_keys(count).await };
        let told = self.spread.each(&parts, by_chance(has, count), ask).await?;
        Ok(told.into_iter().flat_map(|(_, keys)| keys).collect())
    }
}

impl<K, V, KC: Decode<K>, VC: Decode<V>> ShardedMap<K, V, KC, VC> {
    /// All entries in one answer of each part: as large as all of them. For large maps there is [`ShardedMap::entries`].
    ///
    /// # Errors
    ///
    /// [`ObjectError::Shards`] names the parts that could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "readAllMap")]
    #[doc(alias = "readAllEntrySet")]
    pub async fn read_all(&self) -> Result<HashMap<K, V>, ObjectError>
    where
        K: Eq + Hash,
    {
        let parts = self.spread.to_read().await?;
        let told = self.spread.each(&parts, parts.every(), |part, ()| async move { part.read_all().await }).await?;
        Ok(told.into_iter().flat_map(|(_, entries)| entries).collect())
    }

    /// Some entries by chance, each once, as [`ShardedMap::random_keys`].
    ///
    /// # Errors
    ///
    /// As [`ShardedMap::random_keys`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "randomEntries")]
    pub async fn random_entries(&self, count: u32) -> Result<Vec<(K, V)>, ObjectError> {
        let parts = self.spread.to_read().await?;
        let has = self.spread.each(&parts, parts.every(), |part, ()| async move { part.len().await }).await?;
        let ask = |part: Map<K, V, KC, VC>, count| async move { part.random_entries(count).await };
        let told = self.spread.each(&parts, by_chance(has, count), ask).await?;
        Ok(told.into_iter().flat_map(|(_, entries)| entries).collect())
    }
}

impl<K: Send + 'static, V: Send + 'static, KC: Decode<K>, VC: Decode<V>> ShardedMap<K, V, KC, VC> {
    /// All entries, as a stream.
    #[doc(alias = "entrySet")]
    #[doc(alias = "forEach")]
    pub fn entries(&self) -> ShardedScan<(K, V)> {
        ShardedScan::of(&self.spread, |part| part.entries())
    }
}

impl<K: Send + 'static, V: 'static, KC: Decode<K>, VC: Codec> ShardedMap<K, V, KC, VC> {
    /// All keys, as a stream.
    #[doc(alias = "keySet")]
    pub fn keys(&self) -> ShardedScan<K> {
        ShardedScan::of(&self.spread, |part| part.keys())
    }
}

impl<K: 'static, V: Send + 'static, KC: Codec, VC: Decode<V>> ShardedMap<K, V, KC, VC> {
    /// All values, as a stream.
    pub fn values(&self) -> ShardedScan<V> {
        ShardedScan::of(&self.spread, |part| part.values())
    }
}
