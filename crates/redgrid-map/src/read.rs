//! Reads of values, keys and entries.

use std::collections::HashMap;
use std::hash::Hash;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, EncodesFor};
use redgrid_core::Pairs;
use redgrid_core::object::{ObjectError, chunks};

use crate::map::Map;

impl<K, V, KC: Codec, VC: Decode<V>> Map<K, V, KC, VC> {
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
        let field = self.object_ref.encoded(&self.keys, key)?;
        let value: Option<Bytes> = self.object_ref.read(self.object_ref.command("HGET")?.arg(field.clone())).await?;
        self.decode_value(&field, value)
    }

    /// Returns the values of keys, in their order, up to 500 keys a request.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
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
        let fields = self.object_ref.encoded_all(&self.keys, keys)?;
        let mut found = Vec::with_capacity(fields.len());
        for part in chunks(&fields, Bytes::len) {
            let request = self.object_ref.command("HMGET")?;
            let request = part.iter().fold(request, |request, field| request.arg(field.clone()));
            let values: Vec<Option<Bytes>> = self.object_ref.read(request).await?;
            for (field, value) in part.iter().zip(values) {
                found.push(self.decode_value(field, value)?);
            }
        }
        Ok(found)
    }

    pub(crate) fn decode_value(&self, field: &Bytes, bytes: Option<Bytes>) -> Result<Option<V>, ObjectError> {
        let read = |bytes: Bytes| self.object_ref.decoded(&self.values, &bytes, || key_for_error(field));
        bytes.map(read).transpose()
    }

    /// Returns all values in one reply, which is as large as all of them.
    ///
    /// For large maps use [`Map::values`].
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
        let values: Vec<Bytes> = self.object_ref.read(self.object_ref.command("HVALS")?).await?;
        values.iter().map(|bytes| self.object_ref.decoded(&self.values, bytes, || Some("a value".into()))).collect()
    }
}

impl<K, V, KC: Codec, VC: Codec> Map<K, V, KC, VC> {
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
        let field = self.object_ref.encoded(&self.keys, key)?;
        self.object_ref.read(self.object_ref.command("HEXISTS")?.arg(field)).await
    }

    /// Returns the size of a key's encoded value in bytes; 0 if the key is not in the map.
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
        let field = self.object_ref.encoded(&self.keys, key)?;
        self.object_ref.read(self.object_ref.command("HSTRLEN")?.arg(field)).await
    }
}

impl<K, V, KC: Decode<K>, VC: Codec> Map<K, V, KC, VC> {
    /// Returns all keys in one reply, which is as large as all of them.
    ///
    /// For large maps use [`Map::keys`].
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
        let keys: Vec<Bytes> = self.object_ref.read(self.object_ref.command("HKEYS")?).await?;
        keys.iter().map(|bytes| self.decode_key(bytes)).collect()
    }

    /// Returns random keys, each at most once: `count` of them, or all if there are fewer.
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
        let keys: Vec<Bytes> = self.object_ref.read(self.object_ref.command("HRANDFIELD")?.int(count.into())).await?;
        keys.iter().map(|bytes| self.decode_key(bytes)).collect()
    }

    pub(crate) fn decode_key(&self, bytes: &Bytes) -> Result<K, ObjectError> {
        self.object_ref.decoded(&self.keys, bytes, || Some("a key".into()))
    }
}

impl<K, V, KC: Decode<K>, VC: Decode<V>> Map<K, V, KC, VC> {
    /// Returns all entries in one reply, which is as large as all of them.
    ///
    /// For large maps use [`Map::entries`].
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
        let entries: Pairs = self.object_ref.read(self.object_ref.command("HGETALL")?).await?;
        entries.0.iter().map(|(field, value)| self.decode_entry(field, value)).collect()
    }

    /// Returns random entries, each at most once: `count` of them, or all if there are fewer.
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
        let request = self.object_ref.command("HRANDFIELD")?.int(count.into()).arg("WITHVALUES");
        let entries: Pairs = self.object_ref.read(request).await?;
        entries.0.iter().map(|(field, value)| self.decode_entry(field, value)).collect()
    }

    pub(crate) fn decode_entry(&self, field: &Bytes, value: &Bytes) -> Result<(K, V), ObjectError> {
        Ok((self.decode_key(field)?, self.object_ref.decoded(&self.values, value, || key_for_error(field))?))
    }
}

/// Returns a key as shown in errors: its first 64 characters.
pub(crate) fn key_for_error(key: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(key);
    Some(format!("the key `{}`", text.chars().take(64).collect::<String>().escape_debug()))
}
