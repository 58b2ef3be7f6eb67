//! What keys have, kept or asked for.

use std::borrow::Borrow;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::{ObjectError, parts};

use crate::map::LocalCachedMap;

impl<K, V, KC: Codec, VC: Decode<V>> LocalCachedMap<K, V, KC, VC> {
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
        let (near, field) = (self.near()?, self.place.encoded(&self.keys, key)?);
        if let Some(found) = near.get(&field) {
            return self.value(&field, found.value.as_ref());
        }
        let flight = near.begin();
        // From the primary, whatever the read mode: a replica may not have what a message has told of already.
        let value: Option<Bytes> = self.place.ask(self.place.command("HGET")?.arg(field.clone())).await?;
        flight.keep(&field, value.clone());
        self.value(&field, value.as_ref())
    }

    /// What the keys have, in their order; of those that are not kept 500 are asked for at a time.
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
        let near = self.near()?;
        let fields = self.place.encoded_all(&self.keys, keys)?;
        let mut values: Vec<Option<Bytes>> = Vec::with_capacity(fields.len());
        let mut missing = Vec::new();
        for (place, field) in fields.iter().enumerate() {
            match near.get(field) {
                Some(found) => values.push(found.value.clone()),
                None => {
                    values.push(None);
                    missing.push((place, field.clone()));
                }
            }
        }
        for part in parts(&missing, |(_, field)| field.len()) {
            let flight = near.begin();
            let request =
                part.iter().fold(self.place.command("HMGET")?, |request, (_, field)| request.arg(field.clone()));
            let brought: Vec<Option<Bytes>> = self.place.ask(request).await?;
            for ((place, field), value) in part.iter().zip(brought) {
                flight.keep(field, value.clone());
                values[*place] = value;
            }
        }
        fields.iter().zip(&values).map(|(field, value)| self.value(field, value.as_ref())).collect()
    }

    pub(crate) fn value(&self, field: &[u8], bytes: Option<&Bytes>) -> Result<Option<V>, ObjectError> {
        bytes.map(|bytes| self.place.decoded(&self.values, bytes, || shown(field))).transpose()
    }
}

impl<K, V, KC: Codec, VC: Codec> LocalCachedMap<K, V, KC, VC> {
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
        let (near, field) = (self.near()?, self.place.encoded(&self.keys, key)?);
        if let Some(found) = near.get(&field) {
            return Ok(found.value.is_some());
        }
        self.place.ask(self.place.command("HEXISTS")?.arg(field)).await
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
        let (near, field) = (self.near()?, self.place.encoded(&self.keys, key)?);
        if let Some(found) = near.get(&field) {
            return Ok(found.value.as_ref().map_or(0, |value| value.len() as u64));
        }
        self.place.ask(self.place.command("HSTRLEN")?.arg(field)).await
    }

    /// Reads the map into the cache, page by page, until it has been all read, `most` entries are kept or others are put out to make room;
    /// tells how many were kept. As a first call it waits until all changes are certain to be heard; where they are not for as long as a call
    /// waits, nothing is brought, and it tells 0. What is changed meanwhile is not kept. A second pass over a map that moves to another
    /// server meanwhile is not made: it is a help, and nothing depends on it.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; what was brought before stays.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves what it has brought.
    #[doc(alias = "preloadCache")]
    pub async fn pre_load(&self, most: u64) -> Result<u64, ObjectError> {
        let (near, client) = (self.near()?, self.place.client());
        if !near.come_into_force(client.clock().now() + client.patience()).await {
            // Whoever is not answered at all is told so.
            return self.len().await.map(|_| 0);
        }
        let evictions = near.evictions();
        let (mut at, mut kept) = (Bytes::from_static(b"0"), 0);
        while kept < most && near.evictions() == evictions {
            let flight = near.begin();
            let count = (most - kept).min(PAGE);
            let request = self.place.command("HSCAN")?.arg(at).arg("COUNT").int(count as i64);
            let (next, page): (Bytes, Vec<Bytes>) = self.place.ask(request).await?;
            for entry in page.chunks_exact(2) {
                if kept == most {
                    break;
                }
                kept += u64::from(flight.keep(&entry[0], Some(entry[1].clone())));
            }
            at = match &*next {
                b"0" => break,
                _ => next,
            };
        }
        Ok(kept)
    }
}

/// Entries that are read at a time: 500, a millisecond's work of the server.
const PAGE: u64 = 500;

/// A key as it is shown in errors: its first 64 characters.
pub(crate) fn shown(key: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(key);
    Some(format!("the key `{}`", text.chars().take(64).collect::<String>().escape_debug()))
}
