//! A bucket within a transaction.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::Lives;

use crate::error::TransactionError;
use crate::state::Kind;
use crate::transaction::{Part, Transaction};

/// A value under a name, within a transaction: a `Bucket` as the transaction has it. What it reads it asks for once; what it sets the server
/// hears of when the transaction is committed.
#[derive(Clone)]
pub struct TransactionBucket<T, C> {
    part: Part,
    codec: C,
    value: PhantomData<fn() -> T>,
}

/// The one element it has.
const VALUE: Bytes = Bytes::new();

impl Transaction {
    /// A value under a name, as JSON.
    #[cfg(feature = "json")]
    #[doc(alias = "getBucket")]
    pub fn bucket<T>(&self, name: impl AsRef<str>) -> TransactionBucket<T, redgrid_codecs::Json> {
        self.bucket_with(name, redgrid_codecs::Json)
    }

    /// A value under a name, as this codec writes it.
    pub fn bucket_with<T, C: Codec>(&self, name: impl AsRef<str>, codec: C) -> TransactionBucket<T, C> {
        TransactionBucket { part: Part::new(self, name, Kind::Bucket), codec, value: PhantomData }
    }
}

impl<T, C: Codec> TransactionBucket<T, C> {
    /// Whether there is a value.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it reads and writes nothing.
    #[doc(alias = "isExists")]
    pub async fn exists(&self) -> Result<bool, TransactionError> {
        Ok(self.part.get(VALUE).await?.is_some())
    }

    /// Deletes it; tells whether there was one.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves the transaction as it was, but for what it has read.
    #[doc(alias = "unlink")]
    pub async fn delete(&self) -> Result<bool, TransactionError> {
        let was = self.exists().await?;
        self.part.remove(VALUE)?;
        Ok(was)
    }
}

impl<T, C: Decode<T>> TransactionBucket<T, C> {
    /// What it is; `None` where there is nothing.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it reads and writes nothing.
    pub async fn get(&self) -> Result<Option<T>, TransactionError> {
        let value = self.part.get(VALUE).await?;
        let read = |value: Bytes| self.part.place.decoded(&self.codec, &value, || None);
        Ok(value.map(read).transpose()?)
    }

    /// Deletes it; tells what it was.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves the transaction as it was, but for what it has read.
    #[doc(alias = "getAndDelete")]
    pub async fn get_and_delete(&self) -> Result<Option<T>, TransactionError> {
        let was = self.get().await?;
        self.part.remove(VALUE)?;
        Ok(was)
    }
}

impl<T, C: Encode<T>> TransactionBucket<T, C> {
    /// Sets it, without a lifetime. It is not read, so what others set meanwhile is no conflict.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says why it is not.
    pub fn set(&self, value: &T) -> Result<(), TransactionError> {
        self.put(value, Lives::On)
    }

    /// Sets it, and has it deleted so long after the commit, 1 ms to 3650 days.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says why it is not.
    pub fn set_for(&self, value: &T, lifetime: Duration) -> Result<(), TransactionError> {
        self.put(value, Lives::For(lifetime))
    }

    /// Sets it, to live as long as what is there when it is committed.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says why it is not.
    #[doc(alias = "setAndKeepTTL")]
    pub fn set_and_keep_lifetime(&self, value: &T) -> Result<(), TransactionError> {
        self.put(value, Lives::AsBefore)
    }

    /// Sets it if there is nothing; tells whether it did.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves the transaction as it was, but for what it has read.
    #[doc(alias = "setIfAbsent")]
    #[doc(alias = "trySet")]
    pub async fn try_set(&self, value: &T) -> Result<bool, TransactionError> {
        let is_free = !self.exists().await?;
        if is_free {
            self.set(value)?;
        }
        Ok(is_free)
    }

    /// Sets it if it is `expected`; tells whether it was. Values are equal whose bytes are.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves the transaction as it was, but for what it has read.
    #[doc(alias = "compareAndSet")]
    pub async fn compare_and_set(&self, expected: &T, new: &T) -> Result<bool, TransactionError> {
        let expected = self.part.place.encoded(&self.codec, expected)?;
        let is_so = self.part.get(VALUE).await? == Some(expected);
        if is_so {
            self.set(new)?;
        }
        Ok(is_so)
    }

    fn put(&self, value: &T, lives: Lives) -> Result<(), TransactionError> {
        let (name, _) = self.part.place.named()?;
        self.part.put(VALUE, self.part.place.encoded(&self.codec, value)?, lives.options(name)?)
    }
}

impl<T, C: Encode<T> + Decode<T>> TransactionBucket<T, C> {
    /// Sets it; tells what it was.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves the transaction as it was, but for what it has read.
    #[doc(alias = "getAndSet")]
    pub async fn get_and_set(&self, value: &T) -> Result<Option<T>, TransactionError> {
        let was = self.get().await?;
        self.set(value)?;
        Ok(was)
    }
}

impl<T, C: fmt::Debug> fmt::Debug for TransactionBucket<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("TransactionBucket");
        shown.field("name", &self.part.place.name()).field("codec", &self.codec).finish_non_exhaustive()
    }
}
