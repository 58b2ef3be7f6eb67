//! What gives the keys of a map within a transaction values.

use std::borrow::Borrow;

use redgrid_codecs::{Codec, Decode, Encode};

use crate::error::TransactionError;
use crate::map::TransactionMap;

impl<K, V, KC: Codec, VC: Encode<V>> TransactionMap<K, V, KC, VC> {
    /// Gives a key a value. It is not read, so what others set meanwhile is no conflict.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says why it is not.
    #[doc(alias = "fastPut")]
    pub fn set<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<(), TransactionError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.part.put(self.field(key)?, self.part.place.encoded(&self.values, value)?, Vec::new())
    }

    /// The same of several.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says why it is not.
    #[doc(alias = "putAll")]
    pub fn set_many<'a, Q: ?Sized + 'a>(
        &self,
        entries: impl IntoIterator<Item = (&'a Q, &'a V)>,
    ) -> Result<(), TransactionError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
        V: 'a,
    {
        entries.into_iter().try_for_each(|(key, value)| self.set(key, value))
    }

    /// Gives a key a value if it has none; tells whether it did.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves the transaction as it was, but for what it has read.
    #[doc(alias = "fastPutIfAbsent")]
    pub async fn set_if_absent<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, TransactionError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let is_free = !self.contains_key(key).await?;
        if is_free {
            self.set(key, value)?;
        }
        Ok(is_free)
    }

    /// Gives a key a value if it has one; tells whether it did.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves the transaction as it was, but for what it has read.
    #[doc(alias = "fastReplace")]
    #[doc(alias = "fastPutIfExists")]
    pub async fn set_if_exists<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, TransactionError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let is_there = self.contains_key(key).await?;
        if is_there {
            self.set(key, value)?;
        }
        Ok(is_there)
    }

    /// Gives a key a value if it has the one that is `expected`; tells whether it had. Values are equal whose bytes are.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves the transaction as it was, but for what it has read.
    #[doc(alias = "replace")]
    pub async fn compare_and_set<Q: ?Sized>(&self, key: &Q, expected: &V, new: &V) -> Result<bool, TransactionError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let is_so = self.has(key, expected).await?;
        if is_so {
            self.set(key, new)?;
        }
        Ok(is_so)
    }

    /// Removes a key if it has the value that is `expected`; tells whether it had. Values are equal whose bytes are.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves the transaction as it was, but for what it has read.
    #[doc(alias = "remove")]
    pub async fn compare_and_remove<Q: ?Sized>(&self, key: &Q, expected: &V) -> Result<bool, TransactionError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let is_so = self.has(key, expected).await?;
        if is_so {
            self.part.remove(self.field(key)?)?;
        }
        Ok(is_so)
    }

    async fn has<Q: ?Sized>(&self, key: &Q, expected: &V) -> Result<bool, TransactionError>
    where
        KC: Encode<Q>,
    {
        let expected = self.part.place.encoded(&self.values, expected)?;
        Ok(self.part.get(self.field(key)?).await? == Some(expected))
    }
}

impl<K, V, KC: Codec, VC: Encode<V> + Decode<V>> TransactionMap<K, V, KC, VC> {
    /// Gives a key a value; tells what it had.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves the transaction as it was, but for what it has read.
    #[doc(alias = "put")]
    pub async fn insert<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, TransactionError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let was = self.get(key).await?;
        self.set(key, value)?;
        Ok(was)
    }

    /// Gives a key a value if it has none; tells what it has.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves the transaction as it was, but for what it has read.
    #[doc(alias = "putIfAbsent")]
    pub async fn insert_if_absent<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, TransactionError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let has = self.get(key).await?;
        if has.is_none() {
            self.set(key, value)?;
        }
        Ok(has)
    }

    /// Gives a key a value if it has one; tells what that was.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves the transaction as it was, but for what it has read.
    #[doc(alias = "putIfExists")]
    pub async fn replace<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, TransactionError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let was = self.get(key).await?;
        if was.is_some() {
            self.set(key, value)?;
        }
        Ok(was)
    }
}
