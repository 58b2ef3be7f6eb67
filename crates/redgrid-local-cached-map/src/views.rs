//! What this process keeps, and the map as a whole.

use std::collections::HashMap;
use std::hash::Hash;

use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::{ObjectError, Scan};

use crate::map::LocalCachedMap;
use crate::read::shown;

impl<K, V, KC: Decode<K>, VC: Codec> LocalCachedMap<K, V, KC, VC> {
    /// The keys whose values would be given out without the server at this moment, in no order.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Decode`] where one can not be decoded, [`ObjectError::InvalidName`] and what the options are refused by.
    #[doc(alias = "cachedKeySet")]
    pub fn cached_keys(&self) -> Result<Vec<K>, ObjectError> {
        self.near()?.all().iter().map(|found| self.key(&found.field)).collect()
    }

    fn key(&self, field: &bytes::Bytes) -> Result<K, ObjectError> {
        self.place.decoded(&self.keys, field, || Some("a key".into()))
    }

    /// All keys of the server in one answer: as large as all of them. For large maps there is [`LocalCachedMap::keys`].
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "readAllKeySet")]
    pub async fn read_all_keys(&self) -> Result<Vec<K>, ObjectError> {
        self.map.read_all_keys().await
    }

    /// Some keys of the server by chance, each once: `count` of them, or all where there are fewer.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "randomKeys")]
    pub async fn random_keys(&self, count: u32) -> Result<Vec<K>, ObjectError> {
        self.map.random_keys(count).await
    }
}

impl<K, V, KC: Codec, VC: Decode<V>> LocalCachedMap<K, V, KC, VC> {
    /// The values that would be given out without the server at this moment, in no order.
    ///
    /// # Errors
    ///
    /// As [`LocalCachedMap::cached_keys`].
    #[doc(alias = "cachedValues")]
    pub fn cached_values(&self) -> Result<Vec<V>, ObjectError> {
        let found = self.near()?.all();
        found.iter().filter_map(|found| self.value(&found.field, found.value.as_ref()).transpose()).collect()
    }

    /// All values of the server in one answer: as large as all of them. For large maps there is [`LocalCachedMap::values`].
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "readAllValues")]
    pub async fn read_all_values(&self) -> Result<Vec<V>, ObjectError> {
        self.map.read_all_values().await
    }
}

impl<K, V, KC: Decode<K>, VC: Decode<V>> LocalCachedMap<K, V, KC, VC> {
    /// The entries that would be given out without the server at this moment.
    ///
    /// # Errors
    ///
    /// As [`LocalCachedMap::cached_keys`].
    #[doc(alias = "cachedEntrySet")]
    #[doc(alias = "getCachedMap")]
    pub fn cached_entries(&self) -> Result<HashMap<K, V>, ObjectError>
    where
        K: Eq + Hash,
    {
        let mut entries = HashMap::new();
        for found in self.near()?.all() {
            if let Some(value) = &found.value {
                let value = self.place.decoded(&self.values, value, || shown(&found.field))?;
                entries.insert(self.key(&found.field)?, value);
            }
        }
        Ok(entries)
    }

    /// All entries of the server in one answer: as large as all of them. For large maps there is [`LocalCachedMap::entries`].
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
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
        self.map.read_all().await
    }

    /// Some entries of the server by chance, each once: `count` of them, or all where there are fewer.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "randomEntries")]
    pub async fn random_entries(&self, count: u32) -> Result<Vec<(K, V)>, ObjectError> {
        self.map.random_entries(count).await
    }
}

impl<K, V, KC: Codec, VC: Encode<V>> LocalCachedMap<K, V, KC, VC> {
    /// Whether a key has this value on the server. See [`Map::contains_value`](redgrid_map::Map::contains_value).
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "containsValue")]
    pub async fn contains_value(&self, value: &V) -> Result<bool, ObjectError> {
        self.map.contains_value(value).await
    }
}

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Decode<V>> LocalCachedMap<K, V, KC, VC> {
    /// A stream of all entries of the server, a page at a time. See [`Map::entries`](redgrid_map::Map::entries).
    #[doc(alias = "entrySet")]
    #[doc(alias = "forEach")]
    pub fn entries(&self) -> Scan<(K, V)> {
        self.map.entries()
    }
}

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Codec> LocalCachedMap<K, V, KC, VC> {
    /// A stream of all keys of the server, a page at a time. See [`Map::keys`](redgrid_map::Map::keys).
    #[doc(alias = "keySet")]
    pub fn keys(&self) -> Scan<K> {
        self.map.keys()
    }
}

impl<K: 'static, V: 'static, KC: Codec, VC: Decode<V>> LocalCachedMap<K, V, KC, VC> {
    /// A stream of all values of the server, a page at a time. See [`Map::values`](redgrid_map::Map::values).
    pub fn values(&self) -> Scan<V> {
        self.map.values()
    }
}
