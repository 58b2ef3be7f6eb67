//! What is in a list.

use std::fmt::Debug;
use std::ops::RangeBounds;

use bytes::Bytes;
use redgrid_codecs::{Decode, Encode};
use redgrid_core::object::{ObjectError, parts};
use redgrid_core::{Request, Script};

use crate::list::List;
use crate::place::{PASSED, bounds, number};

static GET_EACH: Script<1> = Script::new("list/get_each", include_str!("scripts/get_each.lua"));
static CONTAINS_ALL: Script<1> = Script::new("list/contains_all", include_str!("scripts/contains_all.lua"));

impl<T, C: Decode<T>> List<T, C> {
    /// What is at an index; `None` where it has no such one.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn get(&self, index: u64) -> Result<Option<T>, ObjectError> {
        let (name, _) = self.place.named()?;
        let request = self.place.command("LINDEX")?.int(number(name, "index", index)?);
        let bytes: Option<Bytes> = self.place.read(request).await?;
        bytes.map(|bytes| self.at(index, &bytes)).transpose()
    }

    /// The first element; `None` where it has none.
    ///
    /// # Errors
    ///
    /// As [`List::get`].
    ///
    /// # Cancel safety
    ///
    /// As [`List::get`].
    #[doc(alias = "getFirst")]
    pub async fn first(&self) -> Result<Option<T>, ObjectError> {
        self.get(0).await
    }

    /// The last element; `None` where it has none.
    ///
    /// # Errors
    ///
    /// As [`List::get`].
    ///
    /// # Cancel safety
    ///
    /// As [`List::get`].
    #[doc(alias = "getLast")]
    pub async fn last(&self) -> Result<Option<T>, ObjectError> {
        let bytes: Option<Bytes> = self.place.read(self.place.command("LINDEX")?.int(-1)).await?;
        bytes.map(|bytes| self.one(&bytes, "its end")).transpose()
    }

    /// What is at some indices, in their order; `None` where it has no such one. 500 of them at a time, each time in one step.
    ///
    /// # Errors
    ///
    /// As [`List::get`].
    ///
    /// # Cancel safety
    ///
    /// As [`List::get`].
    #[doc(alias = "get")]
    pub async fn get_each(&self, indices: impl IntoIterator<Item = u64>) -> Result<Vec<Option<T>>, ObjectError> {
        let (name, key) = self.place.named()?;
        let numbered = |index| number(name, "index", index).map(|number| (index, number));
        let indices = indices.into_iter().map(numbered).collect::<Result<Vec<_>, _>>()?;
        let mut found = Vec::with_capacity(indices.len());
        for part in parts(&indices, |_| 0) {
            let request = part.iter().fold(GET_EACH.with([key.clone()]), |request, (_, number)| request.int(*number));
            let elements: Vec<Option<Bytes>> = self.place.read(request).await?;
            for ((index, _), bytes) in part.iter().zip(elements) {
                found.push(bytes.map(|bytes| self.at(*index, &bytes)).transpose()?);
            }
        }
        Ok(found)
    }

    /// The elements of a range, as many as there are, in one answer: as large as all of them.
    ///
    /// ```no_run
    /// # #[cfg(feature = "json")]
    /// # async fn demo(list: &redgrid_list::List<u32>) -> Result<(), redgrid_list::ObjectError> {
    /// let first_three = list.range(..3).await?;
    /// let others = list.range(3..).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`List::get`]; [`ObjectError::InvalidArgument`] of a range that ends before it begins. One that is empty asks nobody.
    ///
    /// # Cancel safety
    ///
    /// As [`List::get`].
    #[doc(alias = "subList")]
    pub async fn range(&self, range: impl RangeBounds<u64> + Debug) -> Result<Vec<T>, ObjectError> {
        let (name, _) = self.place.named()?;
        let (start, end) = bounds(name, &range)?;
        if end == Some(start) {
            return Ok(Vec::new());
        }
        let request = self.place.command("LRANGE")?.int(start).int(end.map_or(-1, |end| end - 1));
        let elements: Vec<Bytes> = self.place.read(request).await?;
        (start.unsigned_abs()..).zip(&elements).map(|(index, bytes)| self.at(index, bytes)).collect()
    }

    /// All elements in one answer: as large as all of them. For large lists there is [`List::stream`].
    ///
    /// # Errors
    ///
    /// As [`List::get`].
    ///
    /// # Cancel safety
    ///
    /// As [`List::get`].
    #[doc(alias = "readAll")]
    #[doc(alias = "toArray")]
    pub async fn read_all(&self) -> Result<Vec<T>, ObjectError> {
        self.range(..).await
    }
}

impl<T, C: Encode<T>> List<T, C> {
    /// Whether an element is this value. The server looks through the list.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn contains(&self, value: &T) -> Result<bool, ObjectError> {
        Ok(self.index_of(value).await?.is_some())
    }

    /// Whether each of the values is an element; of none it is so. 500 of them, about 4 MiB, or a quarter of a million elements passed
    /// at a time: of a longer list the server looks for one value at a time. Each time is one step; in between others may change the list.
    ///
    /// # Errors
    ///
    /// As [`List::contains`].
    ///
    /// # Cancel safety
    ///
    /// As [`List::contains`].
    #[doc(alias = "containsAll")]
    pub async fn contains_all<'a>(&self, values: impl IntoIterator<Item = &'a T>) -> Result<bool, ObjectError>
    where
        T: 'a,
    {
        let (_, key) = self.place.named()?;
        let values = self.encoded_all(values)?;
        let mut rest = &values[..];
        while let Some(part) = parts(rest, Bytes::len).next() {
            let request = part.iter().cloned().fold(CONTAINS_ALL.with([key.clone()]).int(PASSED), Request::arg);
            let (looked_for, found): (u64, bool) = self.place.read(request).await?;
            if !found {
                return Ok(false);
            }
            rest = behind(rest, looked_for);
        }
        Ok(true)
    }

    /// The index of the first element that is this value. The server looks through the list.
    ///
    /// # Errors
    ///
    /// As [`List::contains`].
    ///
    /// # Cancel safety
    ///
    /// As [`List::contains`].
    #[doc(alias = "indexOf")]
    pub async fn index_of(&self, value: &T) -> Result<Option<u64>, ObjectError> {
        self.place.read(self.place.command("LPOS")?.arg(self.encoded(value)?)).await
    }

    /// The index of the last element that is this value. The server looks through the list from its end.
    ///
    /// # Errors
    ///
    /// As [`List::contains`].
    ///
    /// # Cancel safety
    ///
    /// As [`List::contains`].
    #[doc(alias = "lastIndexOf")]
    pub async fn last_index_of(&self, value: &T) -> Result<Option<u64>, ObjectError> {
        self.place.read(self.place.command("LPOS")?.arg(self.encoded(value)?).arg("RANK").int(-1)).await
    }
}

/// What is left behind so many: one at least is done each time.
pub(crate) fn behind(rest: &[Bytes], done: u64) -> &[Bytes] {
    let done = usize::try_from(done).unwrap_or(usize::MAX).clamp(1, rest.len());
    &rest[done..]
}
