//! Other values at an index, and none.

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::object::ObjectError;
use redgrid_core::{Request, Script};

use crate::list::List;
use crate::place::{Indexed, mark, number};

static SET: Script<1> = Script::new("list/set", include_str!("scripts/set.lua"));
static COMPARE_AND_SET: Script<1> = Script::new("list/compare_and_set", include_str!("scripts/compare_and_set.lua"));
static REMOVE_AT: Script<1> = Script::new("list/remove_at", include_str!("scripts/remove_at.lua"));

/// Asks to set what is at an index if it is what is expected (first of the two); and, where that is to be told, for what is there instead.
pub(crate) fn compare_and_set(list: &Bytes, told: bool, index: i64, [expected, new]: [Bytes; 2]) -> Request {
    COMPARE_AND_SET.with([list.clone()]).int(told.into()).int(index).arg(expected).arg(new)
}

impl<T, C: Encode<T>> List<T, C> {
    /// Sets what is at an index. Cheaper than [`List::replace`], which tells what was there.
    ///
    /// # Errors
    ///
    /// [`ObjectError::OutOfBounds`] where it has no such index; else [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "fastSet")]
    pub async fn set(&self, index: u64, value: &T) -> Result<(), ObjectError> {
        self.set_to(index, value, false).await.map(drop)
    }

    async fn set_to(&self, index: u64, value: &T, told: bool) -> Result<Option<Bytes>, ObjectError> {
        let (name, key) = self.place.named()?;
        let request = SET.with([key.clone()]).int(number(name, "index", index)?).arg(self.encoded(value)?);
        let done: Indexed = self.place.change(request.int(told.into())).await?;
        done.or_out_of_bounds(name, index)
    }

    /// Sets what is at an index if it is `expected`; tells whether it was. Values are equal whose bytes are.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn compare_and_set(&self, index: u64, expected: &T, new: &T) -> Result<bool, ObjectError> {
        let (name, key) = self.place.named()?;
        let both = [self.encoded(expected)?, self.encoded(new)?];
        self.place.change(compare_and_set(key, false, number(name, "index", index)?, both)).await
    }
}

impl<T, C: Encode<T> + Decode<T>> List<T, C> {
    /// Sets what is at an index; tells what was there.
    ///
    /// # Errors
    ///
    /// As [`List::set`]; it is set also where what was there can not be decoded.
    ///
    /// # Cancel safety
    ///
    /// As [`List::set`].
    #[doc(alias = "set")]
    pub async fn replace(&self, index: u64, value: &T) -> Result<T, ObjectError> {
        let was = self.set_to(index, value, true).await?.unwrap_or_default();
        self.at(index, &was)
    }
}

impl<T, C: Codec> List<T, C> {
    /// Removes what is at an index. Cheaper than [`List::remove_at`], which tells what it was.
    ///
    /// # Errors
    ///
    /// [`ObjectError::OutOfBounds`] where it has no such index; else [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "fastRemove")]
    pub async fn delete_at(&self, index: u64) -> Result<(), ObjectError> {
        self.removed_at(index, false).await.map(drop)
    }

    async fn removed_at(&self, index: u64, told: bool) -> Result<Option<Bytes>, ObjectError> {
        let (name, key) = self.place.named()?;
        let request = REMOVE_AT.with([key.clone()]).int(number(name, "index", index)?).arg(mark()).int(told.into());
        let done: Indexed = self.place.change(request).await?;
        done.or_out_of_bounds(name, index)
    }
}

impl<T, C: Decode<T>> List<T, C> {
    /// Removes what is at an index; tells what it was.
    ///
    /// # Errors
    ///
    /// As [`List::delete_at`]; one that can not be decoded is removed all the same.
    ///
    /// # Cancel safety
    ///
    /// As [`List::delete_at`].
    #[doc(alias = "remove")]
    #[doc(alias = "removeFirst")]
    pub async fn remove_at(&self, index: u64) -> Result<T, ObjectError> {
        let was = self.removed_at(index, true).await?.unwrap_or_default();
        self.at(index, &was)
    }

    /// Removes the last element; tells what it was, `None` where it has none.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; one that can not be decoded is removed all the same.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "removeLast")]
    pub async fn pop(&self) -> Result<Option<T>, ObjectError> {
        let was: Option<Bytes> = self.place.change(self.place.command("RPOP")?).await?;
        was.map(|bytes| self.one(&bytes, "its end")).transpose()
    }
}
