//! Keys that go.

use std::borrow::Borrow;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::{ObjectError, parts};

use crate::cache::Cache;
use crate::layout::Layout;

impl<K, V, KC: Codec, VC: Codec, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// Removes keys, 500 or about 4 MiB at a time; tells how many were in the map, and not over.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; of many some may be removed.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "fastRemove")]
    pub async fn remove_many<'a, Q: ?Sized + 'a>(
        &self,
        keys: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let (fields, mut removed) = (self.fields(keys)?, 0);
        for part in parts(&fields, Bytes::len) {
            let done = self.removed(false, part, None).await?;
            removed += done.into_iter().map(|(done, _)| u64::from(done)).sum::<u64>();
        }
        Ok(removed)
    }

    pub(crate) async fn removed(
        &self,
        told: bool,
        fields: &[Bytes],
        expected: Option<Bytes>,
    ) -> Result<Vec<(bool, Option<Bytes>)>, ObjectError> {
        self.place.change(Y::remove(&self.place, told, fields, expected)?).await
    }
}

impl<K, V, KC: Codec, VC: Encode<V>, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// Removes the key if it has `expected`; tells whether it did. Values are equal whose bytes are.
    ///
    /// # Errors
    ///
    /// As [`Cache::remove_many`].
    ///
    /// # Cancel safety
    ///
    /// As [`Cache::remove_many`].
    #[doc(alias = "remove")]
    pub async fn compare_and_remove<Q: ?Sized>(&self, key: &Q, expected: &V) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let expected = self.place.encoded(&self.values, expected)?;
        let done = self.removed(false, &self.fields([key])?, Some(expected)).await?;
        Ok(done.into_iter().any(|(done, _)| done))
    }
}

impl<K, V, KC: Codec, VC: Decode<V>, Y: Layout> Cache<K, V, KC, VC, Y> {
    /// Removes the key; tells what it had, if it was not over.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; one whose value can not be decoded is removed all the same.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn remove<Q: ?Sized>(&self, key: &Q) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let field = self.field(key)?;
        let was = self.removed(true, std::slice::from_ref(&field), None).await?.pop().and_then(|(_, was)| was);
        was.map(|bytes| self.value(&field, &bytes)).transpose()
    }
}
