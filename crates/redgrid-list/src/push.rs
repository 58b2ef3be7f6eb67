//! More elements.

use bytes::Bytes;
use redgrid_codecs::Encode;
use redgrid_core::object::{ObjectError, parts};
use redgrid_core::{Request, Script};

use crate::list::List;
use crate::place::{PASSED, mark, number};
use crate::read::behind;

static INSERT: Script<1> = Script::new("list/insert", include_str!("scripts/insert.lua"));

impl<T, C: Encode<T>> List<T, C> {
    /// Adds a value at the end; tells how many elements there are then.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "add")]
    #[doc(alias = "addLast")]
    pub async fn push(&self, value: &T) -> Result<u64, ObjectError> {
        self.place.change(self.place.command("RPUSH")?.arg(self.encoded(value)?)).await
    }

    /// Adds values at the end, in their order; tells how many elements there are then. 500 of them or about 4 MiB go in one step; of more,
    /// what others add may come in between.
    ///
    /// # Errors
    ///
    /// As [`List::push`]; some of the first may be added.
    ///
    /// # Cancel safety
    ///
    /// As [`List::push`].
    #[doc(alias = "addAll")]
    pub async fn push_many<'a>(&self, values: impl IntoIterator<Item = &'a T>) -> Result<u64, ObjectError>
    where
        T: 'a,
    {
        let values = self.encoded_all(values)?;
        let mut length = None;
        for part in parts(&values, Bytes::len) {
            let request = part.iter().cloned().fold(self.place.command("RPUSH")?, Request::arg);
            length = Some(self.place.change(request).await?);
        }
        match length {
            Some(length) => Ok(length),
            None => self.place.ask(self.place.command("LLEN")?).await,
        }
    }

    /// Puts a value at an index: what is there and behind it moves on. At the index behind the last it is added at the end. Tells how
    /// many elements there are then.
    ///
    /// # Errors
    ///
    /// As [`List::push`]; [`ObjectError::OutOfBounds`] where the list is shorter than the index.
    ///
    /// # Cancel safety
    ///
    /// As [`List::push`].
    #[doc(alias = "add")]
    #[doc(alias = "addFirst")]
    pub async fn insert(&self, index: u64, value: &T) -> Result<u64, ObjectError> {
        self.inserted(index, vec![self.encoded(value)?]).await
    }

    /// Puts values at an index, in their order. 500 of them or about 4 MiB go in one step, and between others fewer, so that the server
    /// passes a quarter of a million elements at a time: at index 10,000 it is 25 values. The next are put at the index behind them, whatever others
    /// have done in between. Tells how many elements there are then.
    ///
    /// # Errors
    ///
    /// As [`List::insert`]; some of the first may be in.
    ///
    /// # Cancel safety
    ///
    /// As [`List::push`].
    #[doc(alias = "addAll")]
    pub async fn insert_many<'a>(&self, index: u64, values: impl IntoIterator<Item = &'a T>) -> Result<u64, ObjectError>
    where
        T: 'a,
    {
        self.inserted(index, self.encoded_all(values)?).await
    }

    async fn inserted(&self, mut index: u64, values: Vec<Bytes>) -> Result<u64, ObjectError> {
        let (name, key) = self.place.named()?;
        let mut length = None;
        let mut rest = &values[..];
        while let Some(part) = parts(rest, Bytes::len).next() {
            let request = INSERT.with([key.clone()]).int(number(name, "index", index)?).arg(mark()).int(PASSED);
            let request = part.iter().cloned().fold(request, Request::arg);
            let (inserted, now): (i64, u64) = self.place.change(request).await?;
            let inserted = u64::try_from(inserted).map_err(|_| ObjectError::OutOfBounds {
                name: name.clone(),
                index,
                len: now,
            })?;
            rest = behind(rest, inserted);
            index += inserted;
            length = Some(now);
        }
        match length {
            Some(length) => Ok(length),
            None => self.nothing_at(index).await,
        }
    }

    /// Nothing is put at an index: it is to be one all the same.
    async fn nothing_at(&self, index: u64) -> Result<u64, ObjectError> {
        let (name, _) = self.place.named()?;
        number(name, "index", index)?;
        match self.place.ask(self.place.command("LLEN")?).await? {
            len if index > len => Err(ObjectError::OutOfBounds { name: name.clone(), index, len }),
            len => Ok(len),
        }
    }

    /// Puts a value in front of the first element that is `pivot`; tells how many elements there are then, and `None`, and nothing is
    /// done, where none is.
    ///
    /// # Errors
    ///
    /// As [`List::push`].
    ///
    /// # Cancel safety
    ///
    /// As [`List::push`].
    #[doc(alias = "addBefore")]
    pub async fn insert_before(&self, pivot: &T, value: &T) -> Result<Option<u64>, ObjectError> {
        self.inserted_at("BEFORE", pivot, value).await
    }

    /// Puts a value behind the first element that is `pivot`; tells how many elements there are then, and `None`, and nothing is
    /// done, where none is.
    ///
    /// # Errors
    ///
    /// As [`List::push`].
    ///
    /// # Cancel safety
    ///
    /// As [`List::push`].
    #[doc(alias = "addAfter")]
    pub async fn insert_after(&self, pivot: &T, value: &T) -> Result<Option<u64>, ObjectError> {
        self.inserted_at("AFTER", pivot, value).await
    }

    async fn inserted_at(&self, side: &'static str, pivot: &T, value: &T) -> Result<Option<u64>, ObjectError> {
        let request = self.place.command("LINSERT")?.arg(side).arg(self.encoded(pivot)?).arg(self.encoded(value)?);
        // -1 without the pivot, 0 without the list.
        let length: i64 = self.place.change(request).await?;
        Ok(u64::try_from(length).ok().filter(|length| *length > 0))
    }
}
