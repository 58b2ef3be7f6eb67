//! The operations that set values of a map within a transaction.

use redgrid_codecs::{Codec, Decode, Encode, EncodesFor};

use crate::error::TransactionError;
use crate::map::TransactionMap;

impl<K, V, KC: Codec, VC: Encode<V>> TransactionMap<K, V, KC, VC> {
    /// Sets the value of a key.
    ///
    /// The entry is not read, so concurrent changes of it cause no conflict.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states why the write was not buffered.
    #[doc(alias = "fastPut")]
    pub fn set<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<(), TransactionError>
    where
        KC: EncodesFor<K, Q>,
    {
        self.object.put(self.field(key)?, self.object.object_ref.encoded(&self.values, value)?, Vec::new())
    }

    /// Sets the values of several keys, like [`set`](TransactionMap::set).
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states why the write was not buffered.
    #[doc(alias = "putAll")]
    pub fn set_many<'a, Q: ?Sized + 'a>(
        &self,
        entries: impl IntoIterator<Item = (&'a Q, &'a V)>,
    ) -> Result<(), TransactionError>
    where
        V: 'a,
        KC: EncodesFor<K, Q>,
    {
        entries.into_iter().try_for_each(|(key, value)| self.set(key, value))
    }

    /// Sets the value of a key if it has none, and returns whether it was set.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the transaction unchanged, except for its recorded reads.
    #[doc(alias = "fastPutIfAbsent")]
    pub async fn set_if_absent<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, TransactionError>
    where
        KC: EncodesFor<K, Q>,
    {
        let is_absent = !self.contains_key(key).await?;
        if is_absent {
            self.set(key, value)?;
        }
        Ok(is_absent)
    }

    /// Sets the value of a key if it has one, and returns whether it was set.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the transaction unchanged, except for its recorded reads.
    #[doc(alias = "fastReplace")]
    #[doc(alias = "fastPutIfExists")]
    pub async fn set_if_exists<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<bool, TransactionError>
    where
        KC: EncodesFor<K, Q>,
    {
        let exists = self.contains_key(key).await?;
        if exists {
            self.set(key, value)?;
        }
        Ok(exists)
    }

    /// Sets the value of a key if it equals `expected`, and returns whether it was set. The encoded
    /// bytes are compared.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the transaction unchanged, except for its recorded reads.
    #[doc(alias = "replace")]
    pub async fn compare_and_set<Q: ?Sized>(&self, key: &Q, expected: &V, new: &V) -> Result<bool, TransactionError>
    where
        KC: EncodesFor<K, Q>,
    {
        let is_equal = self.value_equals(key, expected).await?;
        if is_equal {
            self.set(key, new)?;
        }
        Ok(is_equal)
    }

    /// Removes a key if its value equals `expected`, and returns whether it was removed. The
    /// encoded bytes are compared.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the transaction unchanged, except for its recorded reads.
    #[doc(alias = "remove")]
    pub async fn compare_and_remove<Q: ?Sized>(&self, key: &Q, expected: &V) -> Result<bool, TransactionError>
    where
        KC: EncodesFor<K, Q>,
    {
        let is_equal = self.value_equals(key, expected).await?;
        if is_equal {
            self.object.remove(self.field(key)?)?;
        }
        Ok(is_equal)
    }

    async fn value_equals<Q: ?Sized>(&self, key: &Q, expected: &V) -> Result<bool, TransactionError>
    where
        KC: Encode<Q>,
    {
        let expected = self.object.object_ref.encoded(&self.values, expected)?;
        Ok(self.object.get(self.field(key)?).await? == Some(expected))
    }
}

impl<K, V, KC: Codec, VC: Encode<V> + Decode<V>> TransactionMap<K, V, KC, VC> {
    /// Sets the value of a key, and returns the previous one.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the transaction unchanged, except for its recorded reads.
    #[doc(alias = "put")]
    pub async fn insert<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, TransactionError>
    where
        KC: EncodesFor<K, Q>,
    {
        let previous = self.get(key).await?;
        self.set(key, value)?;
        Ok(previous)
    }

    /// Sets the value of a key if it has none, and returns the existing one.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the transaction unchanged, except for its recorded reads.
    #[doc(alias = "putIfAbsent")]
    pub async fn insert_if_absent<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, TransactionError>
    where
        KC: EncodesFor<K, Q>,
    {
        let existing = self.get(key).await?;
        if existing.is_none() {
            self.set(key, value)?;
        }
        Ok(existing)
    }

    /// Sets the value of a key if it has one, and returns the previous one.
    ///
    /// # Errors
    ///
    /// [`TransactionError`] states what failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the transaction unchanged, except for its recorded reads.
    #[doc(alias = "putIfExists")]
    pub async fn replace<Q: ?Sized>(&self, key: &Q, value: &V) -> Result<Option<V>, TransactionError>
    where
        KC: EncodesFor<K, Q>,
    {
        let previous = self.get(key).await?;
        if previous.is_some() {
            self.set(key, value)?;
        }
        Ok(previous)
    }
}
