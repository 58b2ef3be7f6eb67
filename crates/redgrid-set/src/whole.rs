//! What is done to a set as a whole: all or nothing.

use std::borrow::Borrow;

use redgrid_codecs::{Codec, Encode};
use redgrid_core::object::ObjectError;
use redgrid_core::{Request, Script};

use crate::set::Set;

static INSERT_ALL: Script<1> = Script::new("set/insert_all", include_str!("scripts/insert_all.lua"));
pub(crate) static RETAIN: Script<1> =
    Script::new("set/retain", concat!(include_str!("scripts/retain.lua"), include_str!("scripts/retained.lua")));

impl<T, C: Codec> Set<T, C> {
    /// Inserts all of these, up to 100,000, if none of them is in; tells whether it did.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; [`ObjectError::InvalidArgument`] of more.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "tryAdd")]
    pub async fn try_insert_all<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let values = self.of.encoded_together(values)?;
        let request = values.into_iter().fold(self.of.script(&INSERT_ALL)?, Request::arg);
        self.of.place.change(request).await
    }

    /// Moves a value to another set, in one step; tells whether it was in this one.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; [`ObjectError::InvalidArgument`] of a name in another slot of a cluster.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "move")]
    pub async fn move_to<Q: ?Sized>(&self, other: impl AsRef<str>, value: &Q) -> Result<bool, ObjectError>
    where
        T: Borrow<Q>,
        C: Encode<Q>,
    {
        let (_, key) = self.of.place.named()?;
        let other = self.of.place.beside("name", other)?;
        let value = self.of.encoded(value)?;
        self.of.place.change(Request::command("SMOVE").key(key.clone()).key(other).arg(value)).await
    }
}
