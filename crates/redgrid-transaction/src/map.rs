//! A map within a transaction.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};

use crate::error::TransactionError;
use crate::state::Kind;
use crate::transaction::{Part, Transaction};

/// A map, within a transaction: a `Map` as the transaction has it. What it reads it asks for once; what it writes the server hears of when the
/// transaction is committed.
#[derive(Clone)]
pub struct TransactionMap<K, V, KC, VC> {
    pub(crate) part: Part,
    keys: KC,
    pub(crate) values: VC,
    entries: PhantomData<fn() -> (K, V)>,
}

impl Transaction {
    /// A map, as JSON.
    #[cfg(feature = "json")]
    #[doc(alias = "getMap")]
    pub fn map<K, V>(&self, name: impl AsRef<str>) -> TransactionMap<K, V, redgrid_codecs::Json, redgrid_codecs::Json> {
        self.map_with(name, redgrid_codecs::Json, redgrid_codecs::Json)
    }

    /// A map, as these codecs write its keys and values.
    pub fn map_with<K, V, KC: Codec, VC: Codec>(
        &self,
        name: impl AsRef<str>,
        keys: KC,
        values: VC,
    ) -> TransactionMap<K, V, KC, VC> {
        TransactionMap { part: Part::new(self, name, Kind::Map), keys, values, entries: PhantomData }
    }
}

impl<K, V, KC: Codec, VC: Codec> TransactionMap<K, V, KC, VC> {
    /// Whether a key is in it.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it reads and writes nothing.
    #[doc(alias = "containsKey")]
    pub async fn contains_key<Q: ?Sized>(&self, key: &Q) -> Result<bool, TransactionError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        Ok(self.part.get(self.field(key)?).await?.is_some())
    }

    /// How many entries it has.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it reads and writes nothing.
    #[doc(alias = "size")]
    pub async fn len(&self) -> Result<u64, TransactionError> {
        self.part.len().await
    }

    /// Whether it has none.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it reads and writes nothing.
    #[doc(alias = "isEmpty")]
    pub async fn is_empty(&self) -> Result<bool, TransactionError> {
        Ok(self.len().await? == 0)
    }

    /// Removes keys; tells how many were in it.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves the transaction as it was, but for what it has read.
    #[doc(alias = "fastRemove")]
    pub async fn remove_many<'a, Q: ?Sized + 'a>(
        &self,
        keys: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, TransactionError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let mut fields = keys.into_iter().map(|key| self.field(key)).collect::<Result<Vec<_>, _>>()?;
        fields.sort_unstable();
        fields.dedup();
        let were = self.part.get_many(fields.clone()).await?;
        fields.into_iter().try_for_each(|field| self.part.remove(field))?;
        Ok(were.iter().flatten().count() as u64)
    }

    /// Removes all entries, whatever they are when it is committed.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says why it is not.
    #[doc(alias = "delete")]
    #[doc(alias = "unlink")]
    pub fn clear(&self) -> Result<(), TransactionError> {
        self.part.clear()
    }

    pub(crate) fn field<Q: ?Sized>(&self, key: &Q) -> Result<Bytes, TransactionError>
    where
        KC: Encode<Q>,
    {
        Ok(self.part.place.encoded(&self.keys, key)?)
    }
}

impl<K, V, KC: Codec, VC: Decode<V>> TransactionMap<K, V, KC, VC> {
    /// The value of a key; `None` where there is none.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it reads and writes nothing.
    #[doc(alias = "getOrDefault")]
    pub async fn get<Q: ?Sized>(&self, key: &Q) -> Result<Option<V>, TransactionError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let field = self.field(key)?;
        let value = self.part.get(field.clone()).await?;
        value.map(|value| self.value(&field, &value)).transpose()
    }

    /// The values of keys, in their order.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it reads and writes nothing.
    #[doc(alias = "getAll")]
    pub async fn get_many<'a, Q: ?Sized + 'a>(
        &self,
        keys: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Option<V>>, TransactionError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let fields = keys.into_iter().map(|key| self.field(key)).collect::<Result<Vec<_>, _>>()?;
        let values = self.part.get_many(fields.clone()).await?;
        let read = |(field, value): (&Bytes, Option<Bytes>)| value.map(|value| self.value(field, &value)).transpose();
        fields.iter().zip(values).map(read).collect()
    }

    /// All values at once, in no order: of up to [`MAX_ELEMENTS`](crate::MAX_ELEMENTS) entries.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it reads and writes nothing.
    #[doc(alias = "readAllValues")]
    pub async fn read_all_values(&self) -> Result<Vec<V>, TransactionError> {
        self.part.all().await?.iter().map(|(field, value)| self.value(field, value)).collect()
    }

    /// Removes a key; tells what it had.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves the transaction as it was, but for what it has read.
    pub async fn remove<Q: ?Sized>(&self, key: &Q) -> Result<Option<V>, TransactionError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let was = self.get(key).await?;
        self.part.remove(self.field(key)?)?;
        Ok(was)
    }

    fn value(&self, field: &Bytes, value: &Bytes) -> Result<V, TransactionError> {
        let at = || Some(format!("a key of {} bytes", field.len()));
        Ok(self.part.place.decoded(&self.values, value, at)?)
    }
}

impl<K, V, KC: Decode<K>, VC: Codec> TransactionMap<K, V, KC, VC> {
    /// All keys at once, in no order: up to [`MAX_ELEMENTS`](crate::MAX_ELEMENTS).
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it reads and writes nothing.
    #[doc(alias = "readAllKeySet")]
    pub async fn read_all_keys(&self) -> Result<Vec<K>, TransactionError> {
        self.part.all().await?.iter().map(|(field, _)| self.key(field)).collect()
    }

    fn key(&self, field: &Bytes) -> Result<K, TransactionError> {
        Ok(self.part.place.decoded(&self.keys, field, || Some("a key".into()))?)
    }
}

impl<K: Eq + Hash, V, KC: Decode<K>, VC: Decode<V>> TransactionMap<K, V, KC, VC> {
    /// All entries at once: up to [`MAX_ELEMENTS`](crate::MAX_ELEMENTS).
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it reads and writes nothing.
    #[doc(alias = "readAllMap")]
    #[doc(alias = "readAllEntrySet")]
    pub async fn read_all(&self) -> Result<HashMap<K, V>, TransactionError> {
        let all = self.part.all().await?;
        all.iter().map(|(field, value)| Ok((self.key(field)?, self.value(field, value)?))).collect()
    }
}

impl<K, V, KC: fmt::Debug, VC: fmt::Debug> fmt::Debug for TransactionMap<K, V, KC, VC> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("TransactionMap");
        shown.field("name", &self.part.place.name()).field("keys", &self.keys).field("values", &self.values);
        shown.finish_non_exhaustive()
    }
}
