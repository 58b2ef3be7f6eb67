//! A map within a transaction.

use std::collections::HashMap;
use std::hash::Hash;
use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode, EncodesFor};

use crate::error::TransactionError;
use crate::object::TransactionObject;
use crate::state::Kind;
use crate::transaction::Transaction;

/// A map within a transaction: a `Map` with the reads and writes of the transaction.
///
/// Entries are read from the server once. Writes are sent with the commit of the transaction.
#[derive(Clone)]
pub struct TransactionMap<K, V, KC, VC> {
    pub(crate) object: TransactionObject,
    keys: KC,
    pub(crate) values: VC,
    entries: PhantomData<fn() -> (K, V)>,
}

impl Transaction {
    /// Returns the map with this name, encoded as JSON.
    #[cfg(feature = "json")]
    #[doc(alias = "getMap")]
    pub fn map<K, V>(&self, name: impl AsRef<str>) -> TransactionMap<K, V, redgrid_codecs::Json, redgrid_codecs::Json> {
        self.map_with(name, redgrid_codecs::Json, redgrid_codecs::Json)
    }

    /// Returns the map with this name and these codecs for keys and values.
    pub fn map_with<K, V, KC: Codec, VC: Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> TransactionMap<K, V, KC, VC> {
        TransactionMap { object: TransactionObject::new(self, name, Kind::Map), keys, values, entries: PhantomData }
    }
}

impl<K, V, KC: Codec, VC: Codec> TransactionMap<K, V, KC, VC> {
    /// Returns whether a key is in the map.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "containsKey")]
    pub async fn contains_key<Q: ?Sized>(&self, key: &Q) -> Result<bool, TransactionError>
    where
        KC: EncodesFor<K, Q>,
    {
        Ok(self.object.get(self.field(key)?).await?.is_some())
    }

    /// Returns the number of entries.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "size")]
    pub async fn len(&self) -> Result<u64, TransactionError> {
        self.object.len().await
    }

    /// Returns whether the map is empty.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "isEmpty")]
    pub async fn is_empty(&self) -> Result<bool, TransactionError> {
        Ok(self.len().await? == 0)
    }

    /// Removes keys, and returns the number of those that were in the map.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the transaction unchanged, except for its recorded reads.
    #[doc(alias = "fastRemove")]
    pub async fn remove_many<'a, Q: ?Sized + 'a>(
        &self,
        keys: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, TransactionError>
    where
        KC: EncodesFor<K, Q>,
    {
        let mut fields = keys.into_iter().map(|key| self.field(key)).collect::<Result<Vec<_>, _>>()?;
        fields.sort_unstable();
        fields.dedup();
        let previous = self.object.get_many(fields.clone()).await?;
        fields.into_iter().try_for_each(|field| self.object.remove(field))?;
        Ok(previous.iter().flatten().count() as u64)
    }

    /// Removes all entries that the map has at the time of the commit.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states why the write was not buffered.
    #[doc(alias = "delete")]
    #[doc(alias = "unlink")]
    pub fn clear(&self) -> Result<(), TransactionError> {
        self.object.clear()
    }

    pub(crate) fn field<Q: ?Sized>(&self, key: &Q) -> Result<Bytes, TransactionError>
    where
        KC: Encode<Q>,
    {
        Ok(self.object.object_ref.encoded(&self.keys, key)?)
    }
}

impl<K, V, KC: Codec, VC: Decode<V>> TransactionMap<K, V, KC, VC> {
    /// Returns the value of a key; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "getOrDefault")]
    pub async fn get<Q: ?Sized>(&self, key: &Q) -> Result<Option<V>, TransactionError>
    where
        KC: EncodesFor<K, Q>,
    {
        let field = self.field(key)?;
        let value = self.object.get(field.clone()).await?;
        value.map(|value| self.value(&field, &value)).transpose()
    }

    /// Returns the values of keys, in their order.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "getAll")]
    pub async fn get_many<'a, Q: ?Sized + 'a>(
        &self,
        keys: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Option<V>>, TransactionError>
    where
        KC: EncodesFor<K, Q>,
    {
        let fields = keys.into_iter().map(|key| self.field(key)).collect::<Result<Vec<_>, _>>()?;
        let values = self.object.get_many(fields.clone()).await?;
        let decode = |(field, value): (&Bytes, Option<Bytes>)| value.map(|value| self.value(field, &value)).transpose();
        fields.iter().zip(values).map(decode).collect()
    }

    /// Returns all values, in no particular order. The map may have at most
    /// [`MAX_ELEMENTS`](crate::MAX_ELEMENTS) entries.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "readAllValues")]
    pub async fn read_all_values(&self) -> Result<Vec<V>, TransactionError> {
        self.object.all().await?.iter().map(|(field, value)| self.value(field, value)).collect()
    }

    /// Removes a key, and returns its value.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the transaction unchanged, except for its recorded reads.
    pub async fn remove<Q: ?Sized>(&self, key: &Q) -> Result<Option<V>, TransactionError>
    where
        KC: EncodesFor<K, Q>,
    {
        let previous = self.get(key).await?;
        self.object.remove(self.field(key)?)?;
        Ok(previous)
    }

    fn value(&self, field: &Bytes, value: &Bytes) -> Result<V, TransactionError> {
        let location = || Some(format!("a key of {} bytes", field.len()));
        Ok(self.object.object_ref.decoded(&self.values, value, location)?)
    }
}

impl<K, V, KC: Decode<K>, VC: Codec> TransactionMap<K, V, KC, VC> {
    /// Returns all keys, in no particular order. The map may have at most
    /// [`MAX_ELEMENTS`](crate::MAX_ELEMENTS) entries.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "readAllKeySet")]
    pub async fn read_all_keys(&self) -> Result<Vec<K>, TransactionError> {
        self.object.all().await?.iter().map(|(field, _)| self.key(field)).collect()
    }

    fn key(&self, field: &Bytes) -> Result<K, TransactionError> {
        Ok(self.object.object_ref.decoded(&self.keys, field, || Some("a key".into()))?)
    }
}

impl<K: Eq + Hash, V, KC: Decode<K>, VC: Decode<V>> TransactionMap<K, V, KC, VC> {
    /// Returns all entries. The map may have at most [`MAX_ELEMENTS`](crate::MAX_ELEMENTS) entries.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "readAllMap")]
    #[doc(alias = "readAllEntrySet")]
    pub async fn read_all(&self) -> Result<HashMap<K, V>, TransactionError> {
        let all = self.object.all().await?;
        all.iter().map(|(field, value)| Ok((self.key(field)?, self.value(field, value)?))).collect()
    }
}

redgrid_core::debug_fields!([K, V, KC: std::fmt::Debug, VC: std::fmt::Debug] TransactionMap<K, V, KC, VC>, |it|
    name: it.object.object_ref.name(), keys: it.keys, values: it.values
);
