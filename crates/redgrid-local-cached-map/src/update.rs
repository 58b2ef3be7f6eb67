//! Changes the value of a key by a function, with optimistic retries.

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode, EncodesFor};
use redgrid_core::object::{CasLoop, ObjectError, in_place};

use crate::map::LocalCachedMap;
use crate::write::Condition;

impl<K, V, KC: Codec, VC: Encode<V> + Decode<V>> LocalCachedMap<K, V, KC, VC> {
    /// Changes the value of a key in place. Returns the new value; `None` if the key is not in the
    /// map.
    ///
    /// `change` is called again if another client has changed the value meanwhile. It receives the
    /// value on the server, whatever is cached.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`LocalCachedMap::alter`].
    #[doc(alias = "computeIfPresent")]
    pub async fn update<Q: ?Sized>(&self, key: &Q, change: impl FnMut(&mut V)) -> Result<Option<V>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        self.alter(key, in_place(change)).await
    }

    /// Replaces the value of a key with the result of `change`. Returns the new value.
    ///
    /// `change` receives `None` if the key is not in the map. If it returns `None`, the key is
    /// removed. It is called again if another client has changed the value meanwhile. It receives
    /// the value on the server, whatever is cached.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Contended`] if other clients changed the value before each attempt, until the
    /// time limit of the call. Otherwise as for [`LocalCachedMap::set`].
    ///
    /// # Cancel safety
    ///
    /// As for [`LocalCachedMap::set`].
    #[doc(alias = "compute")]
    #[doc(alias = "computeIfAbsent")]
    #[doc(alias = "merge")]
    pub async fn alter<Q: ?Sized>(
        &self,
        key: &Q,
        mut change: impl FnMut(Option<V>) -> Option<V>,
    ) -> Result<Option<V>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let field = self.object_ref.encoded(&self.keys, key)?;
        // A [`Map`](redgrid_map::Map) with this name uses the same lock: updates through handles of
        // both types run one after another.
        let mut cas_loop = CasLoop::serialized_part(&self.object_ref, &field).await?;
        loop {
            let previous = cas_loop.stored(|| Ok(self.object_ref.command("HGET")?.arg(field.clone()))).await?;
            let new = change(self.decode_value(&field, previous.as_ref())?);
            let value = new.as_ref().map(|new| self.object_ref.encoded(&self.values, new)).transpose()?;
            let condition = match (previous, &value) {
                (None, None) => return Ok(new),
                (None, Some(_)) => Condition::Absent,
                (Some(previous), _) => Condition::Equal(previous),
            };
            let (changed, current): (bool, Option<Bytes>) = {
                let guard = self.invalidate_on_drop(&[&field])?;
                cas_loop.change(self.change_request(&guard, &field, value, condition, true)?).await?
            };
            if changed {
                return Ok(new);
            }
            cas_loop.lost_to(Some(current)).await?;
        }
    }
}
