//! Replacement and removal of the element at an index.

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, EncodesFor};
use redgrid_core::object::ObjectError;
use redgrid_core::{Request, Script};

use crate::index::{IndexReply, placeholder, server_int};
use crate::list::List;

static SET: Script<1> = Script::new("list/set", include_str!("scripts/set.lua"));
static COMPARE_AND_SET: Script<1> = Script::new("list/compare_and_set", include_str!("scripts/compare_and_set.lua"));
static REMOVE_AT: Script<1> = Script::new("list/remove_at", include_str!("scripts/remove_at.lua"));

/// Builds a compare-and-set of the element at an index, from the expected value and the new one.
///
/// With `return_current`, the reply contains the current element if the expected one is not found.
pub(crate) fn compare_and_set(list: &Bytes, return_current: bool, index: i64, [expected, new]: [Bytes; 2]) -> Request {
    COMPARE_AND_SET.with([list.clone()]).int(return_current.into()).int(index).arg(expected).arg(new)
}

impl<T, C: Codec> List<T, C> {
    /// Sets the element at an index. It is cheaper than [`List::replace`], which returns the
    /// previous element.
    ///
    /// # Errors
    ///
    /// [`ObjectError::OutOfBounds`] if the list has no such index. Otherwise [`ObjectError`] states
    /// what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "fastSet")]
    pub async fn set<Q: ?Sized>(&self, index: u64, value: &Q) -> Result<(), ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.set_at(index, value, false).await.map(drop)
    }

    async fn set_at<Q: ?Sized>(
        &self,
        index: u64,
        value: &Q,
        return_previous: bool,
    ) -> Result<Option<Bytes>, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let (name, key) = self.object_ref.name_and_key()?;
        let request = SET.with([key.clone()]).int(server_int(name, "index", index)?).arg(self.encode(value)?);
        let done: IndexReply = self.object_ref.change(request.int(return_previous.into())).await?;
        done.or_out_of_bounds(name, index)
    }

    /// Sets the element at an index if the current element is `expected`. Returns whether it was
    /// set.
    ///
    /// Values are equal if their encoded bytes are equal.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn compare_and_set<P: ?Sized, Q: ?Sized>(
        &self,
        index: u64,
        expected: &P,
        new: &Q,
    ) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, P> + EncodesFor<T, Q>,
    {
        let (name, key) = self.object_ref.name_and_key()?;
        let both = [self.encode(expected)?, self.encode(new)?];
        self.object_ref.change(compare_and_set(key, false, server_int(name, "index", index)?, both)).await
    }
}

impl<T, C: Decode<T>> List<T, C> {
    /// Sets the element at an index. Returns the previous element.
    ///
    /// # Errors
    ///
    /// As for [`List::set`]. The element is set even if the previous one cannot be decoded.
    ///
    /// # Cancel safety
    ///
    /// As for [`List::set`].
    #[doc(alias = "set")]
    pub async fn replace<Q: ?Sized>(&self, index: u64, value: &Q) -> Result<T, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let previous = self.set_at(index, value, true).await?.unwrap_or_default();
        self.decode_at(index, &previous)
    }
}

impl<T, C: Codec> List<T, C> {
    /// Removes the element at an index. It is cheaper than [`List::remove_at`], which returns the
    /// element.
    ///
    /// # Errors
    ///
    /// [`ObjectError::OutOfBounds`] if the list has no such index. Otherwise [`ObjectError`] states
    /// what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "fastRemove")]
    pub async fn delete_at(&self, index: u64) -> Result<(), ObjectError> {
        self.remove_index(index, false).await.map(drop)
    }

    async fn remove_index(&self, index: u64, return_previous: bool) -> Result<Option<Bytes>, ObjectError> {
        let (name, key) = self.object_ref.name_and_key()?;
        let request = REMOVE_AT
            .with([key.clone()])
            .int(server_int(name, "index", index)?)
            .arg(placeholder())
            .int(return_previous.into());
        let done: IndexReply = self.object_ref.change(request).await?;
        done.or_out_of_bounds(name, index)
    }
}

impl<T, C: Decode<T>> List<T, C> {
    /// Removes the element at an index and returns it.
    ///
    /// # Errors
    ///
    /// As for [`List::delete_at`]. An element that cannot be decoded is removed as well.
    ///
    /// # Cancel safety
    ///
    /// As for [`List::delete_at`].
    #[doc(alias = "remove")]
    pub async fn remove_at(&self, index: u64) -> Result<T, ObjectError> {
        let previous = self.remove_index(index, true).await?.unwrap_or_default();
        self.decode_at(index, &previous)
    }

    /// Removes the first element and returns it; `None` if the list is empty.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`List::pop`].
    #[doc(alias = "removeFirst")]
    pub async fn pop_first(&self) -> Result<Option<T>, ObjectError> {
        let previous: Option<Bytes> = self.object_ref.change(self.object_ref.command("LPOP")?).await?;
        previous.map(|bytes| self.decode(&bytes, "its front")).transpose()
    }

    /// Removes the last element and returns it; `None` if the list is empty.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed. An element that
    /// cannot be decoded is removed as well.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "removeLast")]
    pub async fn pop(&self) -> Result<Option<T>, ObjectError> {
        let previous: Option<Bytes> = self.object_ref.change(self.object_ref.command("RPOP")?).await?;
        previous.map(|bytes| self.decode(&bytes, "its end")).transpose()
    }
}
