//! Changing a key's value by a function, whatever others do meanwhile.

use std::borrow::Borrow;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::{ObjectError, Rounds, in_place};

use crate::map::LocalCachedMap;
use crate::write::When;

impl<K, V, KC: Codec, VC: Encode<V> + Decode<V>> LocalCachedMap<K, V, KC, VC> {
    /// Changes what the key has by a function, which is called again when others have changed it meanwhile; tells what it has then,
    /// `None` where it is not in the map. It begins with what the server has, whatever is kept.
    ///
    /// # Errors
    ///
    /// As [`LocalCachedMap::alter`].
    ///
    /// # Cancel safety
    ///
    /// As [`LocalCachedMap::set`].
    #[doc(alias = "computeIfPresent")]
    pub async fn update<Q: ?Sized>(&self, key: &Q, change: impl FnMut(&mut V)) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.alter(key, in_place(change)).await
    }

    /// Changes what the key has, or has not, by a function that tells what it is to have; it is called again when others have
    /// changed it meanwhile. It begins with what the server has, whatever is kept.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Contended`] where others were faster until its time was over; else as [`LocalCachedMap::set`].
    ///
    /// # Cancel safety
    ///
    /// As [`LocalCachedMap::set`].
    #[doc(alias = "compute")]
    #[doc(alias = "computeIfAbsent")]
    #[doc(alias = "merge")]
    pub async fn alter<Q: ?Sized>(
        &self,
        key: &Q,
        mut change: impl FnMut(Option<V>) -> Option<V>,
    ) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let field = self.place.encoded(&self.keys, key)?;
        // The same line as a map's: handles of either kind do not overtake each other.
        let mut rounds = Rounds::of_part(&self.place, &field).await?;
        loop {
            let was = rounds.stored(|| Ok(self.place.command("HGET")?.arg(field.clone()))).await?;
            let new = change(self.value(&field, was.as_ref())?);
            let value = new.as_ref().map(|new| self.place.encoded(&self.values, new)).transpose()?;
            let when = match (was, &value) {
                (None, None) => return Ok(new),
                (None, Some(_)) => When::Absent,
                (Some(was), _) => When::Equal(was),
            };
            let told: (bool, Option<Bytes>) = {
                let changing = self.changing(&[&field])?;
                rounds.change(self.changed(&changing, &field, value, when, true)?).await?
            };
            match told {
                (true, _) => return Ok(new),
                (false, has) => rounds.lost_to(Some(has)).await?,
            }
        }
    }
}
