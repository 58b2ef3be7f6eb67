//! A set within a transaction.

use std::marker::PhantomData;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};

use crate::error::TransactionError;
use crate::object::TransactionObject;
use crate::state::Kind;
use crate::transaction::Transaction;

/// A set within a transaction: a `Set` with the reads and writes of the transaction.
///
/// Values are read from the server once. Writes are sent with the commit of the transaction.
#[derive(Clone)]
pub struct TransactionSet<T, C> {
    object: TransactionObject,
    codec: C,
    values: PhantomData<fn() -> T>,
}

impl Transaction {
    /// Returns the set with this name, encoded as JSON.
    #[cfg(feature = "json")]
    #[doc(alias = "getSet")]
    pub fn set<T>(&self, name: impl AsRef<str>) -> TransactionSet<T, redgrid_codecs::Json> {
        self.set_with(name, redgrid_codecs::Json)
    }

    /// Returns the set with this name and this codec.
    pub fn set_with<T, C: Codec>(&self, name: impl AsRef<str>, codec: C) -> TransactionSet<T, C> {
        TransactionSet { object: TransactionObject::new(self, name, Kind::Set), codec, values: PhantomData }
    }
}

impl<T, C: Codec> TransactionSet<T, C> {
    /// Adds a value, and returns whether it is new.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the transaction unchanged, except for its recorded reads.
    #[doc(alias = "add")]
    pub async fn insert<Q: ?Sized>(&self, value: &Q) -> Result<bool, TransactionError>
    where
        C: Encode<Q>,
    {
        Ok(self.insert_many([value]).await? > 0)
    }

    /// Adds values, and returns the number of new ones.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the transaction unchanged, except for its recorded reads.
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

    /// Removes a value, and returns whether it was in the set.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the transaction unchanged, except for its recorded reads.
    pub async fn remove<Q: ?Sized>(&self, value: &Q) -> Result<bool, TransactionError>
    where
        C: Encode<Q>,
    {
        Ok(self.remove_many([value]).await? > 0)
    }

    /// Removes values, and returns the number of those that were in the set.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the transaction unchanged, except for its recorded reads.
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

    /// Returns whether a value is in the set.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn contains<Q: ?Sized>(&self, value: &Q) -> Result<bool, TransactionError>
    where
        C: Encode<Q>,
    {
        Ok(self.object.get(self.object.object_ref.encoded(&self.codec, value)?).await?.is_some())
    }

    /// Returns whether all of these values are in the set.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "containsAll")]
    pub async fn contains_all<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<bool, TransactionError>
    where
        C: Encode<Q>,
    {
        Ok(self.object.get_many(self.encoded(values)?).await?.iter().all(Option::is_some))
    }

    /// Returns the number of values.
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

    /// Returns whether the set is empty.
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

    /// Removes all values that the set has at the time of the commit.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states why the write was not buffered.
    #[doc(alias = "delete")]
    #[doc(alias = "unlink")]
    pub fn clear(&self) -> Result<(), TransactionError> {
        self.object.clear()
    }

    async fn change<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
        removes: bool,
    ) -> Result<u64, TransactionError>
    where
        C: Encode<Q>,
    {
        let mut values = self.encoded(values)?;
        values.sort_unstable();
        values.dedup();
        let previous = self.object.get_many(values.clone()).await?;
        for value in values {
            if removes {
                self.object.remove(value)?;
            } else {
                self.object.put(value, Bytes::new(), Vec::new())?;
            }
        }
        Ok(previous.iter().filter(|value| value.is_some() == removes).count() as u64)
    }

    fn encoded<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<Vec<Bytes>, TransactionError>
    where
        C: Encode<Q>,
    {
        let encoded = values.into_iter().map(|value| self.object.object_ref.encoded(&self.codec, value));
        Ok(encoded.collect::<Result<_, _>>()?)
    }
}

impl<T, C: Decode<T>> TransactionSet<T, C> {
    /// Returns all values, in no particular order. The set may have at most
    /// [`MAX_ELEMENTS`](crate::MAX_ELEMENTS) values.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "readAll")]
    pub async fn read_all(&self) -> Result<Vec<T>, TransactionError> {
        let all = self.object.all().await?;
        let decode =
            |(value, _): &(Bytes, Bytes)| self.object.object_ref.decoded(&self.codec, value, || Some("a value".into()));
        Ok(all.iter().map(decode).collect::<Result<_, _>>()?)
    }
}

redgrid_core::debug_fields!([T, C: std::fmt::Debug] TransactionSet<T, C>, |it|
    name: it.object.object_ref.name(), codec: it.codec
);
