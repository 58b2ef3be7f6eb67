//! What keys have.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::Pairs;
use redgrid_core::object::{ObjectError, parts};

use crate::map::Map;

impl<K, V, KC: Codec, VC: Decode<V>> Map<K, V, KC, VC> {
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
        let field = self.place.encoded(&self.keys, key)?;
        let value: Option<Bytes> = self.place.read(self.place.command("HGET")?.arg(field.clone())).await?;
        self.value(&field, value)
    }

    /// What the keys have, in their order; 500 of them at a time.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
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
        let fields = self.place.encoded_all(&self.keys, keys)?;
        let mut found = Vec::with_capacity(fields.len());
        for part in parts(&fields, Bytes::len) {
            let request = self.place.command("HMGET")?;
            let request = part.iter().fold(request, |request, field| request.arg(field.clone()));
            let values: Vec<Option<Bytes>> = self.place.read(request).await?;
            for (field, value) in part.iter().zip(values) {
                found.push(self.value(field, value)?);
            }
        }
        Ok(found)
    }

    pub(crate) fn value(&self, field: &Bytes, bytes: Option<Bytes>) -> Result<Option<V>, ObjectError> {
        let read = |bytes: Bytes| self.place.decoded(&self.values, &bytes, || shown(field));
        bytes.map(read).transpose()
    }

    /// All values in one answer: as large as all of them. For large maps there is [`Map::values`].
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
        let values: Vec<Bytes> = self.place.read(self.place.command("HVALS")?).await?;
        values.iter().map(|bytes| self.place.decoded(&self.values, bytes, || Some("a value".into()))).collect()
    }
}

impl<K, V, KC: Codec, VC: Codec> Map<K, V, KC, VC> {
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
        let field = self.place.encoded(&self.keys, key)?;
        self.place.read(self.place.command("HEXISTS")?.arg(field)).await
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
        let field = self.place.encoded(&self.keys, key)?;
        self.place.read(self.place.command("HSTRLEN")?.arg(field)).await
    }
}

impl<K, V, KC: Decode<K>, VC: Codec> Map<K, V, KC, VC> {
    /// All keys in one answer: as large as all of them. For large maps there is [`Map::keys`].
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
        let keys: Vec<Bytes> = self.place.read(self.place.command("HKEYS")?).await?;
        keys.iter().map(|bytes| self.key(bytes)).collect()
    }

    /// Some keys by chance, each once: `count` of them, or all where there are fewer.
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
        let keys: Vec<Bytes> = self.place.read(self.place.command("HRANDFIELD")?.int(count.into())).await?;
        keys.iter().map(|bytes| self.key(bytes)).collect()
    }

    pub(crate) fn key(&self, bytes: &Bytes) -> Result<K, ObjectError> {
        self.place.decoded(&self.keys, bytes, || Some("a key".into()))
    }
}

impl<K, V, KC: Decode<K>, VC: Decode<V>> Map<K, V, KC, VC> {
    /// All entries in one answer: as large as all of them. For large maps there is [`Map::entries`].
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
        let entries: Pairs = self.place.read(self.place.command("HGETALL")?).await?;
        entries.0.iter().map(|(field, value)| self.entry(field, value)).collect()
    }

    /// Some entries by chance, each once: `count` of them, or all where there are fewer.
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
        let request = self.place.command("HRANDFIELD")?.int(count.into()).arg("WITHVALUES");
        let entries: Pairs = self.place.read(request).await?;
        entries.0.iter().map(|(field, value)| self.entry(field, value)).collect()
    }

    pub(crate) fn entry(&self, field: &Bytes, value: &Bytes) -> Result<(K, V), ObjectError> {
        Ok((self.key(field)?, self.place.decoded(&self.values, value, || shown(field))?))
    }
}

/// A key as it is shown in errors: its first 64 characters.
pub(crate) fn shown(key: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(key);
    Some(format!("the key `{}`", text.chars().take(64).collect::<String>().escape_debug()))
}
