//! Views of the cache, and reads of the whole map.

use std::collections::HashMap;
use std::hash::Hash;

use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::{ObjectError, Scan};

use crate::map::LocalCachedMap;
use crate::read::key_for_error;

impl<K, V, KC: Decode<K>, VC: Codec> LocalCachedMap<K, V, KC, VC> {
    /// Returns the keys whose values would be returned from the cache now, in no particular order.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Decode`] if a key or value cannot be decoded;
    /// [`Failure::InvalidName`](crate::Failure::InvalidName) or
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) if the name or an option is
    /// invalid.
    #[doc(alias = "cachedKeySet")]
    pub fn cached_keys(&self) -> Result<Vec<K>, ObjectError> {
        self.near()?.all().iter().map(|found| self.decode_key(&found.field)).collect()
    }

    fn decode_key(&self, field: &bytes::Bytes) -> Result<K, ObjectError> {
        self.object_ref.decoded(&self.keys, field, || Some("a key".into()))
    }

    /// Returns all keys on the server in one reply, which is as large as all of them.
    ///
    /// For large maps use [`LocalCachedMap::keys`].
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "readAllKeySet")]
    pub async fn read_all_keys(&self) -> Result<Vec<K>, ObjectError> {
        self.map.read_all_keys().await
    }

    /// Returns random keys on the server, each at most once: `count` of them, or all if there are
    /// fewer.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "randomKeys")]
    pub async fn random_keys(&self, count: u32) -> Result<Vec<K>, ObjectError> {
        self.map.random_keys(count).await
    }
}

impl<K, V, KC: Codec, VC: Decode<V>> LocalCachedMap<K, V, KC, VC> {
    /// Returns the values that would be returned from the cache now, in no particular order.
    ///
    /// # Errors
    ///
    /// As for [`LocalCachedMap::cached_keys`].
    #[doc(alias = "cachedValues")]
    pub fn cached_values(&self) -> Result<Vec<V>, ObjectError> {
        let found = self.near()?.all();
        found.iter().filter_map(|found| self.decode_value(&found.field, found.value.as_ref()).transpose()).collect()
    }

    /// Returns all values on the server in one reply, which is as large as all of them.
    ///
    /// For large maps use [`LocalCachedMap::values`].
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "readAllValues")]
    pub async fn read_all_values(&self) -> Result<Vec<V>, ObjectError> {
        self.map.read_all_values().await
    }
}

impl<K, V, KC: Decode<K>, VC: Decode<V>> LocalCachedMap<K, V, KC, VC> {
    /// Returns the entries that would be returned from the cache now.
    ///
    /// # Errors
    ///
    /// As for [`LocalCachedMap::cached_keys`].
    #[doc(alias = "cachedEntrySet")]
    #[doc(alias = "getCachedMap")]
    pub fn cached_entries(&self) -> Result<HashMap<K, V>, ObjectError>
    where
        K: Eq + Hash,
    {
        let mut entries = HashMap::new();
        for found in self.near()?.all() {
            if let Some(value) = &found.value {
                let value = self.object_ref.decoded(&self.values, value, || key_for_error(&found.field))?;
                entries.insert(self.decode_key(&found.field)?, value);
            }
        }
        Ok(entries)
    }

    /// Returns all entries on the server in one reply, which is as large as all of them.
    ///
    /// For large maps use [`LocalCachedMap::entries`].
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
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
        self.map.read_all().await
    }

    /// Returns random entries on the server, each at most once: `count` of them, or all if there
    /// are fewer.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "randomEntries")]
    pub async fn random_entries(&self, count: u32) -> Result<Vec<(K, V)>, ObjectError> {
        self.map.random_entries(count).await
    }
}

impl<K, V, KC: Codec, VC: Encode<V>> LocalCachedMap<K, V, KC, VC> {
    /// Returns whether any key has this value on the server. See
    /// [`Map::contains_value`](redgrid_map::Map::contains_value).
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "containsValue")]
    pub async fn contains_value(&self, value: &V) -> Result<bool, ObjectError> {
        self.map.contains_value(value).await
    }
}

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Decode<V>> LocalCachedMap<K, V, KC, VC> {
    /// Returns a stream of all entries on the server, a page at a time. See
    /// [`Map::entries`](redgrid_map::Map::entries).
    #[doc(alias = "entrySet")]
    #[doc(alias = "forEach")]
    pub fn entries(&self) -> Scan<(K, V)> {
        self.map.entries()
    }
}

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Codec> LocalCachedMap<K, V, KC, VC> {
    /// Returns a stream of all keys on the server, a page at a time. See
    /// [`Map::keys`](redgrid_map::Map::keys).
    #[doc(alias = "keySet")]
    pub fn keys(&self) -> Scan<K> {
        self.map.keys()
    }
}

impl<K: 'static, V: 'static, KC: Codec, VC: Decode<V>> LocalCachedMap<K, V, KC, VC> {
    /// Returns a stream of all values on the server, a page at a time. See
    /// [`Map::values`](redgrid_map::Map::values).
    pub fn values(&self) -> Scan<V> {
        self.map.values()
    }
}
