//! Removal of keys.

use redgrid_codecs::{Codec, Decode, EncodesFor};
use redgrid_core::fence::Write;
use redgrid_core::object::ObjectError;
use redgrid_core::{Script, Token};

use crate::map::Map;

pub(crate) static REMOVE: Script<1> = Script::new("map/remove", include_str!("scripts/remove.lua"));

impl<K, V, KC: Codec, VC: Codec> Map<K, V, KC, VC> {
    /// Removes keys, up to 500 or about 4 MiB a request. Returns how many were in the map.
    ///
    /// This is cheaper than [`Map::remove`], which returns the removed value.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed. Some of the keys
    /// may have been removed.
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
        let fields = self.object_ref.encoded_all(&self.keys, keys)?;
        self.object_ref.change_chunks(&fields, || self.object_ref.command("HDEL")).await
    }

    /// Removes a key if `token` is not stale. Returns whether it was in the map. See
    /// [`Map::set_fenced`].
    ///
    /// # Errors
    ///
    /// [`ObjectError::Fenced`] if a newer holder has written. Otherwise as for
    /// [`Map::remove_many`].
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn remove_fenced<Q: ?Sized>(&self, key: &Q, token: Token) -> Result<bool, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let fields = vec![self.object_ref.encoded(&self.keys, key)?];
        Ok(self.object_ref.fenced(Write::HashDelete { fields }, token).await? > 0)
    }
}

impl<K, V, KC: Codec, VC: Decode<V>> Map<K, V, KC, VC> {
    /// Removes a key. Returns the removed value.
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
        let field = self.object_ref.encoded(&self.keys, key)?;
        let removed = self.run_script(&REMOVE, [field.clone()]).await?;
        self.decode_value(&field, removed)
    }
}
