//! A set within a transaction.

use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};

use crate::error::TransactionError;
use crate::state::Kind;
use crate::transaction::{Part, Transaction};

/// A set, within a transaction: a `Set` as the transaction has it. What it reads it asks for once; what it writes the server hears of when the
/// transaction is committed.
#[derive(Clone)]
pub struct TransactionSet<T, C> {
    part: Part,
    codec: C,
    values: PhantomData<fn() -> T>,
}

impl Transaction {
    /// A set, as JSON.
    #[cfg(feature = "json")]
    #[doc(alias = "getSet")]
    pub fn set<T>(&self, name: impl AsRef<str>) -> TransactionSet<T, redgrid_codecs::Json> {
        self.set_with(name, redgrid_codecs::Json)
    }

    /// A set, as this codec writes its values.
    pub fn set_with<T, C: Codec>(&self, name: impl AsRef<str>, codec: C) -> TransactionSet<T, C> {
        TransactionSet { part: Part::new(self, name, Kind::Set), codec, values: PhantomData }
    }
}

impl<T, C: Codec> TransactionSet<T, C> {
    /// Adds a value; tells whether it is new.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves the transaction as it was, but for what it has read.
    #[doc(alias = "add")]
    pub async fn insert<Q: ?Sized>(&self, value: &Q) -> Result<bool, TransactionError>
    where
        C: Encode<Q>,
    {
        Ok(self.insert_many([value]).await? > 0)
    }

    /// Adds values; tells how many are new.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves the transaction as it was, but for what it has read.
    #[doc(alias = "addAll")]
    #[doc(alias = "addAllCounted")]
    pub async fn insert_many<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, TransactionError>
    where
        C: Encode<Q>,
    {
        self.change(values, false).await
    }

    /// Removes a value; tells whether it was in the set.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves the transaction as it was, but for what it has read.
    pub async fn remove<Q: ?Sized>(&self, value: &Q) -> Result<bool, TransactionError>
    where
        C: Encode<Q>,
    {
        Ok(self.remove_many([value]).await? > 0)
    }

    /// Removes values; tells how many were in the set.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves the transaction as it was, but for what it has read.
    #[doc(alias = "removeAll")]
    #[doc(alias = "removeAllCounted")]
    pub async fn remove_many<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, TransactionError>
    where
        C: Encode<Q>,
    {
        self.change(values, true).await
    }

    /// Whether a value is in it.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it reads and writes nothing.
    pub async fn contains<Q: ?Sized>(&self, value: &Q) -> Result<bool, TransactionError>
    where
        C: Encode<Q>,
    {
        Ok(self.part.get(self.part.place.encoded(&self.codec, value)?).await?.is_some())
    }

    /// Whether all of these are in it.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it reads and writes nothing.
    #[doc(alias = "containsAll")]
    pub async fn contains_all<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<bool, TransactionError>
    where
        C: Encode<Q>,
    {
        Ok(self.part.get_many(self.encoded(values)?).await?.iter().all(Option::is_some))
    }

    /// How many it has.
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

    /// Removes all, whatever they are when it is committed.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says why it is not.
    #[doc(alias = "delete")]
    #[doc(alias = "unlink")]
    pub fn clear(&self) -> Result<(), TransactionError> {
        self.part.clear()
    }

    async fn change<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
        away: bool,
    ) -> Result<u64, TransactionError>
    where
        C: Encode<Q>,
    {
        let mut values = self.encoded(values)?;
        values.sort_unstable();
        values.dedup();
        let were = self.part.get_many(values.clone()).await?;
        for value in values {
            match away {
                true => self.part.remove(value)?,
                false => self.part.put(value, Bytes::new(), Vec::new())?,
            }
        }
        Ok(were.iter().filter(|was| was.is_some() == away).count() as u64)
    }

    fn encoded<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Bytes>, TransactionError>
    where
        C: Encode<Q>,
    {
        let encoded = values.into_iter().map(|value| self.part.place.encoded(&self.codec, value));
        Ok(encoded.collect::<Result<_, _>>()?)
    }
}

impl<T, C: Decode<T>> TransactionSet<T, C> {
    /// All values at once, in no order: up to [`MAX_ELEMENTS`](crate::MAX_ELEMENTS).
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it reads and writes nothing.
    #[doc(alias = "readAll")]
    pub async fn read_all(&self) -> Result<Vec<T>, TransactionError> {
        let all = self.part.all().await?;
        let read = |(value, _): &(Bytes, Bytes)| self.part.place.decoded(&self.codec, value, || Some("a value".into()));
        Ok(all.iter().map(read).collect::<Result<_, _>>()?)
    }
}

impl<T, C: fmt::Debug> fmt::Debug for TransactionSet<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("TransactionSet");
        shown.field("name", &self.part.place.name()).field("codec", &self.codec).finish_non_exhaustive()
    }
}
