//! Removal of keys.

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode, EncodesFor};
use redgrid_core::object::{ObjectError, chunks};

use crate::cache::Cache;
use crate::layout::Layout;

impl<K, V, KC: Codec, VC: Codec, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// Removes keys, up to 500 or about 4 MiB a request. Returns the number of keys that were in
    /// the map and not expired.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed. Some of several
    /// keys may have been removed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "fastRemove")]
    pub async fn remove_many<'a, Q: ?Sized + 'a>(
        &self,
        keys: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let (fields, mut removed) = (self.encode_keys(keys)?, 0);
        for chunk in chunks(&fields, Bytes::len) {
            let done = self.remove_fields(false, chunk, None).await?;
            removed += done.into_iter().map(|(done, _)| u64::from(done)).sum::<u64>();
        }
        Ok(removed)
    }

    pub(crate) async fn remove_fields(
        &self,
        return_previous: bool,
        fields: &[Bytes],
        expected: Option<Bytes>,
    ) -> Result<Vec<(bool, Option<Bytes>)>, ObjectError> {
        self.object_ref.change(Y::remove(&self.object_ref, return_previous, fields, expected)?).await
    }
}

impl<K, V, KC: Codec, VC: Encode<V>, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// Removes a key if its value is `expected`. Returns whether it was removed.
    ///
    /// Values are equal if their encoded bytes are equal.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Cache::remove_many`].
    #[doc(alias = "remove")]
    pub async fn compare_and_remove<Q: ?Sized>(&self, key: &Q, expected: &V) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let expected = self.object_ref.encoded(&self.values, expected)?;
        let done = self.remove_fields(false, &self.encode_keys([key])?, Some(expected)).await?;
        Ok(done.into_iter().any(|(done, _)| done))
    }
}

impl<K, V, KC: Codec, VC: Decode<V>, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// Removes a key. Returns its previous value, unless it was expired.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed. A key whose value
    /// cannot be decoded is removed as well.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn remove<Q: ?Sized>(&self, key: &Q) -> Result<Option<V>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let field = self.encode_key(key)?;
        let previous = self
            .remove_fields(true, std::slice::from_ref(&field), None)
            .await?
            .pop()
            .and_then(|(_, previous)| previous);
        previous.map(|bytes| self.decode_value(&field, &bytes)).transpose()
    }
}
