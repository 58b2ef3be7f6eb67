//! Reads of elements.

use std::fmt::Debug;
use std::ops::RangeBounds;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, EncodesFor};
use redgrid_core::object::{ObjectError, chunks};
use redgrid_core::{Request, Script};

use crate::index::{MAX_VISITED, range_bounds, server_int};
use crate::list::List;

static GET_EACH: Script<1> = Script::new("list/get_each", include_str!("scripts/get_each.lua"));
static CONTAINS_ALL: Script<1> = Script::new("list/contains_all", include_str!("scripts/contains_all.lua"));

impl<T, C: Decode<T>> List<T, C> {
    /// Returns the element at an index; `None` if the list has no such index.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn get(&self, index: u64) -> Result<Option<T>, ObjectError> {
        let (name, _) = self.object_ref.name_and_key()?;
        let request = self.object_ref.command("LINDEX")?.int(server_int(name, "index", index)?);
        let bytes: Option<Bytes> = self.object_ref.read(request).await?;
        bytes.map(|bytes| self.decode_at(index, &bytes)).transpose()
    }

    /// Returns the first element; `None` if the list is empty.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`List::get`].
    #[doc(alias = "getFirst")]
    pub async fn first(&self) -> Result<Option<T>, ObjectError> {
        self.get(0).await
    }

    /// Returns the last element; `None` if the list is empty.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`List::get`].
    #[doc(alias = "getLast")]
    pub async fn last(&self) -> Result<Option<T>, ObjectError> {
        let bytes: Option<Bytes> = self.object_ref.read(self.object_ref.command("LINDEX")?.int(-1)).await?;
        bytes.map(|bytes| self.decode(&bytes, "its end")).transpose()
    }

    /// Returns the elements at some indices, in the order of the indices; `None` for indices that
    /// the list does not have. Up to 500 indices are read in one step.
    ///
    /// # Errors
    ///
    /// As for [`List::get`]. If one element cannot be decoded, the call fails.
    ///
    /// # Cancel safety
    ///
    /// As for [`List::get`].
    #[doc(alias = "get")]
    pub async fn get_each(&self, indices: impl IntoIterator<Item = u64>) -> Result<Vec<Option<T>>, ObjectError> {
        let (name, key) = self.object_ref.name_and_key()?;
        let numbered = |index| server_int(name, "index", index).map(|number| (index, number));
        let indices = indices.into_iter().map(numbered).collect::<Result<Vec<_>, _>>()?;
        let mut found = Vec::with_capacity(indices.len());
        for chunk in chunks(&indices, |_| 0) {
            let request = chunk.iter().fold(GET_EACH.with([key.clone()]), |request, (_, number)| request.int(*number));
            let elements: Vec<Option<Bytes>> = self.object_ref.read(request).await?;
            for ((index, _), bytes) in chunk.iter().zip(elements) {
                found.push(bytes.map(|bytes| self.decode_at(*index, &bytes)).transpose()?);
            }
        }
        Ok(found)
    }

    /// Returns the elements of a range, as far as they exist, in one reply, which is as large as
    /// all of these elements.
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
    /// As for [`List::get`]. [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for a
    /// range that ends before it begins. For an empty range, no request is sent. If one element
    /// cannot be decoded, the call fails; [`List::stream`] continues after such an element.
    ///
    /// # Cancel safety
    ///
    /// As for [`List::get`].
    #[doc(alias = "subList")]
    pub async fn range(&self, range: impl RangeBounds<u64> + Debug) -> Result<Vec<T>, ObjectError> {
        let (name, _) = self.object_ref.name_and_key()?;
        let (start, end) = range_bounds(name, &range)?;
        if end == Some(start) {
            return Ok(Vec::new());
        }
        let request = self.object_ref.command("LRANGE")?.int(start).int(end.map_or(-1, |end| end - 1));
        let elements: Vec<Bytes> = self.object_ref.read(request).await?;
        (start.unsigned_abs()..).zip(&elements).map(|(index, bytes)| self.decode_at(index, bytes)).collect()
    }

    /// Returns all elements in one reply, which is as large as all of them. For large lists use
    /// [`List::stream`].
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`List::get`].
    #[doc(alias = "readAll")]
    #[doc(alias = "toArray")]
    pub async fn read_all(&self) -> Result<Vec<T>, ObjectError> {
        self.range(..).await
    }
}

impl<T, C: Codec> List<T, C> {
    /// Returns whether an element equals the value. The server searches the list.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn contains<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        Ok(self.index_of(value).await?.is_some())
    }

    /// Returns whether the list contains all of the values; true for no values.
    ///
    /// A step is limited to 500 values, about 4 MiB, and a quarter of a million visited elements:
    /// if the list is longer than that, the server searches one value in each step. Between steps,
    /// others may change the list.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`List::contains`].
    #[doc(alias = "containsAll")]
    pub async fn contains_all<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let (_, key) = self.object_ref.name_and_key()?;
        let values = self.encode_all(values)?;
        let mut rest = &values[..];
        while let Some(chunk) = chunks(rest, Bytes::len).next() {
            let request = chunk.iter().cloned().fold(CONTAINS_ALL.with([key.clone()]).int(MAX_VISITED), Request::arg);
            let (searched, found): (u64, bool) = self.object_ref.read(request).await?;
            if !found {
                return Ok(false);
            }
            rest = skip_done(rest, searched);
        }
        Ok(true)
    }

    /// Returns the index of the first element that equals the value. The server searches the list.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`List::contains`].
    #[doc(alias = "indexOf")]
    pub async fn index_of<Q: ?Sized>(&self, value: &Q) -> Result<Option<u64>, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.object_ref.read(self.object_ref.command("LPOS")?.arg(self.encode(value)?)).await
    }

    /// Returns the index of the last element that equals the value. The server searches the list
    /// from its end.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`List::contains`].
    #[doc(alias = "lastIndexOf")]
    pub async fn last_index_of<Q: ?Sized>(&self, value: &Q) -> Result<Option<u64>, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.object_ref.read(self.object_ref.command("LPOS")?.arg(self.encode(value)?).arg("RANK").int(-1)).await
    }
}

/// Returns the values after the first `done` ones, but at least after one, so that each step makes
/// progress.
pub(crate) fn skip_done(rest: &[Bytes], done: u64) -> &[Bytes] {
    let done = usize::try_from(done).unwrap_or(usize::MAX).clamp(1, rest.len());
    &rest[done..]
}
