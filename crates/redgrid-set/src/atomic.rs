//! Atomic changes of several values.

use redgrid_codecs::{Codec, EncodesFor};
use redgrid_core::object::ObjectError;
use redgrid_core::{Request, Script};

use crate::set::Set;

static INSERT_ALL: Script<1> = Script::new("set/insert_all", include_str!("scripts/insert_all.lua"));
pub(crate) static RETAIN: Script<1> =
    Script::new("set/retain", concat!(include_str!("scripts/retain.lua"), include_str!("scripts/retained.lua")));

impl<T, C: Codec> Set<T, C> {
    /// Inserts all of the values, up to 100,000, if the set contains none of them. Returns whether
    /// they were inserted.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for more than 100,000 values.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "tryAdd")]
    pub async fn try_insert_all<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let values = self.inner.encode_limited(values)?;
        let request = values.into_iter().fold(self.inner.script(&INSERT_ALL)?, Request::arg);
        self.inner.object_ref.change(request).await
    }

    /// Moves a value to another set, in one step. Returns whether this set contained it.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) if the name is in another slot
    /// of a cluster.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "move")]
    pub async fn move_to<Q: ?Sized>(&self, other: impl AsRef<str>, value: &Q) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let (_, key) = self.inner.object_ref.name_and_key()?;
        let other = self.inner.object_ref.same_slot_key("name", other)?;
        let value = self.inner.encode(value)?;
        self.inner.object_ref.change(Request::command("SMOVE").key(key.clone()).key(other).arg(value)).await
    }
}
