//! A bucket within a transaction.

use std::marker::PhantomData;
use std::time::Duration;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::SetTtl;

use crate::error::TransactionError;
use crate::object::TransactionObject;
use crate::state::Kind;
use crate::transaction::Transaction;

/// A value under a name, within a transaction: a `Bucket` with the reads and writes of the
/// transaction.
///
/// A value is read from the server once. Writes are sent with the commit of the transaction.
#[derive(Clone)]
pub struct TransactionBucket<T, C> {
    object: TransactionObject,
    codec: C,
    value: PhantomData<fn() -> T>,
}

/// The name of the only element of a bucket.
const VALUE: Bytes = Bytes::new();

impl Transaction {
    /// Returns the bucket with this name, encoded as JSON.
    #[cfg(feature = "json")]
    #[doc(alias = "getBucket")]
    pub fn bucket<T>(&self, name: impl AsRef<str>) -> TransactionBucket<T, redgrid_codecs::Json> {
        self.bucket_with(name, redgrid_codecs::Json)
    }

    /// Returns the bucket with this name and this codec.
    pub fn bucket_with<T, C: Codec>(&self, name: impl AsRef<str>, codec: C) -> TransactionBucket<T, C> {
        TransactionBucket { object: TransactionObject::new(self, name, Kind::Bucket), codec, value: PhantomData }
    }
}

impl<T, C: Codec> TransactionBucket<T, C> {
    /// Returns whether there is a value.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "isExists")]
    pub async fn exists(&self) -> Result<bool, TransactionError> {
        Ok(self.object.get(VALUE).await?.is_some())
    }

    /// Deletes the value, and returns whether there was one.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the transaction unchanged, except for its recorded reads.
    #[doc(alias = "unlink")]
    pub async fn delete(&self) -> Result<bool, TransactionError> {
        let existed = self.exists().await?;
        self.object.remove(VALUE)?;
        Ok(existed)
    }
}

impl<T, C: Decode<T>> TransactionBucket<T, C> {
    /// Returns the value; `None` if there is none.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn get(&self) -> Result<Option<T>, TransactionError> {
        let value = self.object.get(VALUE).await?;
        let decode = |value: Bytes| self.object.object_ref.decoded(&self.codec, &value, || None);
        Ok(value.map(decode).transpose()?)
    }

    /// Deletes the value, and returns it.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the transaction unchanged, except for its recorded reads.
    #[doc(alias = "getAndDelete")]
    pub async fn get_and_delete(&self) -> Result<Option<T>, TransactionError> {
        let previous = self.get().await?;
        self.object.remove(VALUE)?;
        Ok(previous)
    }
}

impl<T, C: Encode<T>> TransactionBucket<T, C> {
    /// Sets the value, without a lifetime.
    ///
    /// The value is not read, so concurrent changes of it cause no conflict.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states why the write was not buffered.
    pub fn set(&self, value: &T) -> Result<(), TransactionError> {
        self.put(value, SetTtl::None)
    }

    /// Sets the value with a lifetime that begins at the commit, 1 ms to 3650 days.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states why the write was not buffered.
    pub fn set_for(&self, value: &T, lifetime: Duration) -> Result<(), TransactionError> {
        self.put(value, SetTtl::For(lifetime))
    }

    /// Sets the value, and keeps the lifetime that the stored value has at the commit.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states why the write was not buffered.
    #[doc(alias = "setAndKeepTTL")]
    pub fn set_and_keep_lifetime(&self, value: &T) -> Result<(), TransactionError> {
        self.put(value, SetTtl::Keep)
    }

    /// Sets the value if there is none, and returns whether it was set.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the transaction unchanged, except for its recorded reads.
    #[doc(alias = "setIfAbsent")]
    #[doc(alias = "trySet")]
    pub async fn try_set(&self, value: &T) -> Result<bool, TransactionError> {
        let is_absent = !self.exists().await?;
        if is_absent {
            self.set(value)?;
        }
        Ok(is_absent)
    }

    /// Sets the value if it equals `expected`, and returns whether it was set. The encoded bytes
    /// are compared.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the transaction unchanged, except for its recorded reads.
    #[doc(alias = "compareAndSet")]
    pub async fn compare_and_set(&self, expected: &T, new: &T) -> Result<bool, TransactionError> {
        let expected = self.object.object_ref.encoded(&self.codec, expected)?;
        let is_equal = self.object.get(VALUE).await? == Some(expected);
        if is_equal {
            self.set(new)?;
        }
        Ok(is_equal)
    }

    fn put(&self, value: &T, lifetime: SetTtl) -> Result<(), TransactionError> {
        let (name, _) = self.object.object_ref.name_and_key()?;
        self.object.put(VALUE, self.object.object_ref.encoded(&self.codec, value)?, lifetime.options(name)?)
    }
}

impl<T, C: Encode<T> + Decode<T>> TransactionBucket<T, C> {
    /// Sets the value, and returns the previous one.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the transaction unchanged, except for its recorded reads.
    #[doc(alias = "getAndSet")]
    pub async fn get_and_set(&self, value: &T) -> Result<Option<T>, TransactionError> {
        let previous = self.get().await?;
        self.set(value)?;
        Ok(previous)
    }
}

redgrid_core::debug_fields!([T, C: std::fmt::Debug] TransactionBucket<T, C>, |it|
    name: it.object.object_ref.name(), codec: it.codec
);
