//! Keys that go.

use std::borrow::Borrow;

use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::fence::Write;
use redgrid_core::object::ObjectError;
use redgrid_core::{Script, Token};

use crate::map::Map;

pub(crate) static REMOVE: Script<1> = Script::new("map/remove", include_str!("scripts/remove.lua"));

impl<K, V, KC: Codec, VC: Codec> Map<K, V, KC, VC> {
    /// Removes keys, 500 or about 4 MiB at a time; tells how many were in the map. Cheaper than [`Map::remove`], which tells what one had.
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
        let fields = self.place.encoded_all(&self.keys, keys)?;
        self.place.change_parts(&fields, || self.place.command("HDEL")).await
    }

    /// Removes the key if `token` is not stale; tells whether it was in the map. See [`Map::set_fenced`].
    ///
    /// # Errors
    ///
    /// [`ObjectError::Fenced`] when a newer holder has written; else as [`Map::remove_many`].
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn remove_fenced<Q: ?Sized>(&self, key: &Q, token: Token) -> Result<bool, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let fields = vec![self.place.encoded(&self.keys, key)?];
        Ok(self.place.fenced(Write::HashDelete { fields }, token).await? > 0)
    }
}

impl<K, V, KC: Codec, VC: Decode<V>> Map<K, V, KC, VC> {
    /// Removes the key; tells what it had.
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
        let field = self.place.encoded(&self.keys, key)?;
        let was = self.scripted(&REMOVE, [field.clone()]).await?;
        self.value(&field, was)
    }
}
