//! Reads of values, from the cache or the server.

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, EncodesFor};
use redgrid_core::author::ClientExt;
use redgrid_core::object::{ObjectError, chunks};

use crate::map::LocalCachedMap;

impl<K, V, KC: Codec, VC: Decode<V>> LocalCachedMap<K, V, KC, VC> {
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
        let (near, field) = (self.near()?, self.object_ref.encoded(&self.keys, key)?);
        if let Some(found) = near.get(&field) {
            return self.decode_value(&field, found.value.as_ref());
        }
        let read = near.begin_read();
        // Read from the primary, whatever the read mode: a replica may not yet have a change that a
        // message has already reported.
        let value: Option<Bytes> =
            self.object_ref.read_primary(self.object_ref.command("HGET")?.arg(field.clone())).await?;
        read.cache(&field, value.clone());
        self.decode_value(&field, value.as_ref())
    }

    /// Returns the values of keys, in their order. Up to 500 values a request are read from the
    /// server.
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
        let near = self.near()?;
        let fields = self.object_ref.encoded_all(&self.keys, keys)?;
        let mut values: Vec<Option<Bytes>> = Vec::with_capacity(fields.len());
        let mut missing = Vec::new();
        for (index, field) in fields.iter().enumerate() {
            match near.get(field) {
                Some(found) => values.push(found.value.clone()),
                None => {
                    values.push(None);
                    missing.push((index, field.clone()));
                }
            }
        }
        for part in chunks(&missing, |(_, field)| field.len()) {
            let read = near.begin_read();
            let request =
                part.iter().fold(self.object_ref.command("HMGET")?, |request, (_, field)| request.arg(field.clone()));
            let fetched: Vec<Option<Bytes>> = self.object_ref.read_primary(request).await?;
            for ((index, field), value) in part.iter().zip(fetched) {
                read.cache(field, value.clone());
                values[*index] = value;
            }
        }
        fields.iter().zip(&values).map(|(field, value)| self.decode_value(field, value.as_ref())).collect()
    }

    pub(crate) fn decode_value(&self, field: &[u8], bytes: Option<&Bytes>) -> Result<Option<V>, ObjectError> {
        bytes.map(|bytes| self.object_ref.decoded(&self.values, bytes, || key_for_error(field))).transpose()
    }
}

impl<K, V, KC: Codec, VC: Codec> LocalCachedMap<K, V, KC, VC> {
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
        let (near, field) = (self.near()?, self.object_ref.encoded(&self.keys, key)?);
        if let Some(found) = near.get(&field) {
            return Ok(found.value.is_some());
        }
        self.object_ref.read_primary(self.object_ref.command("HEXISTS")?.arg(field)).await
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
        let (near, field) = (self.near()?, self.object_ref.encoded(&self.keys, key)?);
        if let Some(found) = near.get(&field) {
            return Ok(found.value.as_ref().map_or(0, |value| value.len() as u64));
        }
        self.object_ref.read_primary(self.object_ref.command("HSTRLEN")?.arg(field)).await
    }

    /// Reads entries of the map into the cache, page by page. Returns how many were cached.
    ///
    /// It ends when the whole map has been read, when `max_entries` are cached, or when entries are
    /// evicted. Entries that are changed meanwhile are not cached.
    ///
    /// It first waits until it is certain that all changes are received. If that takes longer than
    /// the time limit of a call, nothing is cached and the result is 0.
    ///
    /// If the map moves to another server meanwhile, some entries may be missed. The call only
    /// warms up the cache: a missed entry is read from the server when it is needed.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed. Entries that were cached before the error stay cached.
    ///
    /// # Cancel safety
    ///
    /// Entries that were cached before the drop stay cached.
    #[doc(alias = "preloadCache")]
    pub async fn pre_load(&self, max_entries: u64) -> Result<u64, ObjectError> {
        let (near, client) = (self.near()?, self.object_ref.client());
        if !near.wait_until_active(client.clock().now() + client.patience()).await {
            // An unreachable server is reported as an error.
            return self.len().await.map(|_| 0);
        }
        let evictions = near.evictions();
        let (mut cursor, mut cached) = (Bytes::from_static(b"0"), 0);
        while cached < max_entries && near.evictions() == evictions {
            let read = near.begin_read();
            let count = (max_entries - cached).min(PAGE);
            let request = self.object_ref.command("HSCAN")?.arg(cursor).arg("COUNT").int(count as i64);
            let (next, page): (Bytes, Vec<Bytes>) = self.object_ref.read_primary(request).await?;
            for entry in page.chunks_exact(2) {
                if cached == max_entries {
                    break;
                }
                cached += u64::from(read.cache(&entry[0], Some(entry[1].clone())));
            }
            if &*next == b"0" {
                break;
            }
            cursor = next;
        }
        Ok(cached)
    }
}

/// Number of entries of a page: 500, about a millisecond of the server's time.
const PAGE: u64 = 500;

/// Returns a key as shown in errors: its first 64 characters.
pub(crate) fn key_for_error(key: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(key);
    Some(format!("the key `{}`", text.chars().take(64).collect::<String>().escape_debug()))
}
