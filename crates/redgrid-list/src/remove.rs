//! Fewer elements, by what they are.

use std::fmt::Debug;
use std::ops::RangeBounds;

use bytes::Bytes;
use redgrid_codecs::{Codec, Encode};
use redgrid_core::object::{ObjectError, parts};
use redgrid_core::{Request, Script};

use crate::list::List;
use crate::place::{PASSED, bounds, mark, number};
use crate::read::behind;

static REMOVE_ALL: Script<1> = Script::new("list/remove_all", include_str!("scripts/remove_all.lua"));
static RETAIN_ALL: Script<1> = Script::new("list/retain_all", include_str!("scripts/retain_all.lua"));

/// How many elements are compared with those that stay in one step.
const COMPARED: i64 = 10_000;

/// How many bytes of them, about.
const BYTES_COMPARED: i64 = 16 << 20;

/// How many bytes the values that stay may have in all: they go along with each step.
const BYTES_THAT_STAY: usize = 16 << 20;

/// Which of several elements that are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Occurrences {
    /// So many from the front, 1 or more.
    First(u64),
    /// So many from the end, 1 or more.
    Last(u64),
    /// All.
    All,
}

impl<T, C: Encode<T>> List<T, C> {
    /// Removes the first element that is this value; tells whether there was one.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn remove(&self, value: &T) -> Result<bool, ObjectError> {
        Ok(self.remove_some(value, Occurrences::First(1)).await? > 0)
    }

    /// Removes elements that are this value; tells how many.
    ///
    /// # Errors
    ///
    /// As [`List::remove`]; [`ObjectError::InvalidArgument`] of none and of more than a list can have.
    ///
    /// # Cancel safety
    ///
    /// As [`List::remove`].
    #[doc(alias = "remove")]
    pub async fn remove_some(&self, value: &T, which: Occurrences) -> Result<u64, ObjectError> {
        let (name, _) = self.place.named()?;
        let count = match which {
            Occurrences::First(0) | Occurrences::Last(0) => {
                return Err(ObjectError::InvalidArgument {
                    name: name.clone(),
                    option: "occurrences",
                    expected: "1 or more".to_owned(),
                    got: "0".to_owned(),
                });
            }
            Occurrences::First(count) => number(name, "occurrences", count)?,
            Occurrences::Last(count) => -number(name, "occurrences", count)?,
            Occurrences::All => 0,
        };
        self.place.change(self.place.command("LREM")?.int(count).arg(self.encoded(value)?)).await
    }

    /// Removes every element that is one of these values; tells how many. 500 values, about 4 MiB, or a quarter of a million elements
    /// passed at a time: of a longer list the server looks for one value at a time. Each time is one step.
    ///
    /// # Errors
    ///
    /// As [`List::remove`]; those that are some of the first values may be removed.
    ///
    /// # Cancel safety
    ///
    /// As [`List::remove`].
    #[doc(alias = "removeAll")]
    pub async fn remove_all<'a>(&self, values: impl IntoIterator<Item = &'a T>) -> Result<u64, ObjectError>
    where
        T: 'a,
    {
        let (_, key) = self.place.named()?;
        let values = self.encoded_all(values)?;
        let (mut rest, mut removed) = (&values[..], 0);
        while let Some(part) = parts(rest, Bytes::len).next() {
            let request = part.iter().cloned().fold(REMOVE_ALL.with([key.clone()]).int(PASSED), Request::arg);
            let (looked_for, went): (u64, u64) = self.place.change(request).await?;
            removed += went;
            rest = behind(rest, looked_for);
        }
        Ok(removed)
    }

    /// Removes every element that is none of these values; tells how many. One step for a list of up to 10,000 elements and about 16 MiB; in
    /// a larger one so many at a time, from the end to the front: what others add meanwhile may stay, and what they move to the end, too.
    ///
    /// # Errors
    ///
    /// As [`List::remove`]; some of the last elements may be removed. [`ObjectError::InvalidArgument`] of values of more than 16 MiB in all.
    ///
    /// # Cancel safety
    ///
    /// As [`List::remove`].
    #[doc(alias = "retainAll")]
    pub async fn retain_all<'a>(&self, values: impl IntoIterator<Item = &'a T>) -> Result<u64, ObjectError>
    where
        T: 'a,
    {
        let (name, key) = self.place.named()?;
        let values = self.encoded_all(values)?;
        let bytes: usize = values.iter().map(Bytes::len).sum();
        if bytes > BYTES_THAT_STAY {
            return Err(ObjectError::InvalidArgument {
                name: name.clone(),
                option: "values",
                expected: format!("up to {BYTES_THAT_STAY} bytes of them"),
                got: bytes.to_string(),
            });
        }
        let (mut at, mut removed) = (Bytes::new(), 0);
        loop {
            let request = RETAIN_ALL.with([key.clone()]).arg(at).arg(mark()).int(COMPARED).int(BYTES_COMPARED);
            let request = values.iter().cloned().fold(request, Request::arg);
            let (went, left): (u64, u64) = self.place.change(request).await?;
            removed += went;
            if left == 0 {
                return Ok(removed);
            }
            at = left.to_string().into();
        }
    }
}

impl<T, C: Codec> List<T, C> {
    /// Removes every element that is not in the range.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; [`ObjectError::InvalidArgument`] of a range that ends before it begins, or is empty: to have
    /// nothing stay there is [`List::clear`]. A range behind the end leaves nothing, too.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn trim(&self, range: impl RangeBounds<u64> + Debug) -> Result<(), ObjectError> {
        let (name, _) = self.place.named()?;
        let (start, end) = bounds(name, &range)?;
        if end == Some(start) {
            return Err(ObjectError::InvalidArgument {
                name: name.clone(),
                option: "range",
                expected: "one that is not empty".to_owned(),
                got: format!("{range:?}"),
            });
        }
        let request = self.place.command("LTRIM")?.int(start).int(end.map_or(-1, |end| end - 1));
        self.place.change(request).await
    }
}
