//! Removal of elements by value or by range.

use std::collections::HashSet;
use std::fmt::Debug;
use std::ops::RangeBounds;

use bytes::Bytes;
use redgrid_codecs::{Codec, EncodesFor};
use redgrid_core::object::{ObjectError, chunks};
use redgrid_core::{Request, Script};

use crate::index::{MAX_VISITED, placeholder, range_bounds, server_int};
use crate::list::List;
use crate::read::skip_done;

static REMOVE_ALL: Script<1> = Script::new("list/remove_all", include_str!("scripts/remove_all.lua"));
static RETAIN_ALL: Script<1> = Script::new("list/retain_all", include_str!("scripts/retain_all.lua"));

/// The maximum number of elements that one step compares with the values to retain.
const MAX_COMPARED: i64 = 10_000;

/// The maximum size of the elements that one step compares, approximately.
const MAX_COMPARED_BYTES: i64 = 16 << 20;

/// The maximum size of all values to retain. It is limited because each step sends all of them.
const MAX_RETAINED_BYTES: usize = 16 << 20;

/// The maximum number of values to retain.
const MAX_RETAINED_VALUES: usize = 50_000;

/// Selects which of several equal elements are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Occurrences {
    /// This number from the front, 1 or more.
    First(u64),
    /// This number from the end, 1 or more.
    Last(u64),
    /// All of them.
    All,
}

impl<T, C: Codec> List<T, C> {
    /// Removes the first element that equals the value. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn remove<Q: ?Sized>(&self, value: &Q) -> Result<bool, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        Ok(self.remove_some(value, Occurrences::First(1)).await? > 0)
    }

    /// Removes elements that equal the value. Returns the number of removed elements.
    ///
    /// # Errors
    ///
    /// As for [`List::remove`]. [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for 0
    /// occurrences, and for more than a list can contain.
    ///
    /// # Cancel safety
    ///
    /// As for [`List::remove`].
    #[doc(alias = "remove")]
    pub async fn remove_some<Q: ?Sized>(&self, value: &Q, which: Occurrences) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let (name, _) = self.object_ref.name_and_key()?;
        let count = match which {
            Occurrences::First(0) | Occurrences::Last(0) => {
                return Err(ObjectError::invalid_argument(name, "occurrences", "1 or more", "0"));
            }
            Occurrences::First(count) => server_int(name, "occurrences", count)?,
            Occurrences::Last(count) => -server_int(name, "occurrences", count)?,
            Occurrences::All => 0,
        };
        self.object_ref.change(self.object_ref.command("LREM")?.int(count).arg(self.encode(value)?)).await
    }

    /// Removes every element that equals one of the values. Returns the number of removed elements.
    ///
    /// A step is limited to 500 values, about 4 MiB, and a quarter of a million visited elements:
    /// if the list is longer than that, the server searches one value in each step.
    ///
    /// # Errors
    ///
    /// As for [`List::remove`]. If a later step fails, the error is [`ObjectError::Partial`], with
    /// the number of removed elements, which equal the first values.
    ///
    /// # Cancel safety
    ///
    /// As for [`List::remove`].
    #[doc(alias = "removeAll")]
    pub async fn remove_all<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let (name, key) = self.object_ref.name_and_key()?;
        let values = self.encode_all(values)?;
        let (mut rest, mut removed) = (&values[..], 0);
        while let Some(chunk) = chunks(rest, Bytes::len).next() {
            let request = chunk.iter().cloned().fold(REMOVE_ALL.with([key.clone()]).int(MAX_VISITED), Request::arg);
            let step = self.object_ref.change(request).await;
            let (searched, removed_now): (u64, u64) = step.map_err(|error| error.after(name, removed))?;
            removed += removed_now;
            rest = skip_done(rest, searched);
        }
        Ok(removed)
    }

    /// Removes every element that equals none of the values. Returns the number of removed
    /// elements.
    ///
    /// A list of up to 10,000 elements and about 16 MiB is changed in one step. In a longer list,
    /// each step checks this many elements, starting at the end of the list. Elements that others
    /// add in between, or move to the end, may stay.
    ///
    /// # Errors
    ///
    /// As for [`List::remove`]. If a later step fails, the error is [`ObjectError::Partial`], with
    /// the number of removed elements, counted from the end of the list.
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for more than 50,000 distinct
    /// values, or more than 16 MiB of them: each step sends all values.
    ///
    /// # Cancel safety
    ///
    /// As for [`List::remove`].
    #[doc(alias = "retainAll")]
    pub async fn retain_all<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let (name, key) = self.object_ref.name_and_key()?;
        let values: HashSet<Bytes> = values.into_iter().map(|value| self.encode(value)).collect::<Result<_, _>>()?;
        let too_much = |expected: String, got: usize| ObjectError::invalid_argument(name, "values", expected, got);
        if values.len() > MAX_RETAINED_VALUES {
            return Err(too_much(format!("up to {MAX_RETAINED_VALUES} different values"), values.len()));
        }
        let bytes: usize = values.iter().map(Bytes::len).sum();
        if bytes > MAX_RETAINED_BYTES {
            return Err(too_much(format!("up to {MAX_RETAINED_BYTES} bytes in all"), bytes));
        }
        let (mut end, mut removed) = (Bytes::new(), 0);
        loop {
            let request =
                RETAIN_ALL.with([key.clone()]).arg(end).arg(placeholder()).int(MAX_COMPARED).int(MAX_COMPARED_BYTES);
            let request = values.iter().cloned().fold(request, Request::arg);
            let step = self.object_ref.change(request).await;
            let (removed_now, remaining): (u64, u64) = step.map_err(|error| error.after(name, removed))?;
            removed += removed_now;
            if remaining == 0 {
                return Ok(removed);
            }
            end = remaining.to_string().into();
        }
    }
}

impl<T, C: Codec> List<T, C> {
    /// Removes every element outside of the range.
    ///
    /// A range that begins beyond the end removes all elements.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for a range that is empty or
    /// ends before it begins. To remove all elements, use [`List::clear`].
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn trim(&self, range: impl RangeBounds<u64> + Debug) -> Result<(), ObjectError> {
        let (name, _) = self.object_ref.name_and_key()?;
        let (start, end) = range_bounds(name, &range)?;
        if end == Some(start) {
            return Err(ObjectError::invalid_argument(
                name,
                "range",
                "a range that is not empty",
                format!("{range:?}"),
            ));
        }
        let request = self.object_ref.command("LTRIM")?.int(start).int(end.map_or(-1, |end| end - 1));
        self.object_ref.change(request).await
    }
}
