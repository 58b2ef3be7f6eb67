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
    /// As [`List::push`]; behind the first part [`ObjectError::Partial`]: as many as it says of the first values are added.
    ///
    /// # Cancel safety
    ///
    /// As [`List::push`].
    #[doc(alias = "addAll")]
    pub async fn push_many<'a>(&self, values: impl IntoIterator<Item = &'a T>) -> Result<u64, ObjectError>
    where
        T: 'a,
    {
        let (name, _) = self.place.named()?;
        let values = self.encoded_all(values)?;
        let (mut length, mut done) = (None, 0);
        for part in parts(&values, Bytes::len) {
            let request = part.iter().cloned().fold(self.place.command("RPUSH")?, Request::arg);
            length = Some(self.place.change(request).await.map_err(|error| error.after(name, done))?);
            done += part.len() as u64;
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
        self.insert_some(index, &[self.encoded(value)?], false).await.map(|(_, now)| now)
    }

    /// Puts values at an index, in their order. 500 of them or about 4 MiB go in one step, and between others fewer, so that the server
    /// passes a quarter of a million elements at a time: at index 10,000 it is 25 values. Of several steps the last values go first, all to
    /// this index, whatever others have done in between; at the end of the list the first do, each step behind the one before. Tells how
    /// many elements there are then.
    ///
    /// # Errors
    ///
    /// As [`List::insert`]; behind the first step [`ObjectError::Partial`]: as many as it says of the last values are in, or, at the end of
    /// the list, of the first.
    ///
    /// # Cancel safety
    ///
    /// As [`List::push`].
    #[doc(alias = "addAll")]
    pub async fn insert_many<'a>(&self, index: u64, values: impl IntoIterator<Item = &'a T>) -> Result<u64, ObjectError>
    where
        T: 'a,
    {
        let (name, _) = self.place.named()?;
        number(name, "index", index)?;
        let values = self.encoded_all(values)?;
        if values.is_empty() {
            return self.nothing_at(index).await;
        }
        match self.is_at_end(index, &values).await? {
            true => self.inserted_on(index, &values).await,
            false => self.inserted_back(index, &values).await,
        }
    }

    /// Whether values that go in several steps are to be put at the end.
    async fn is_at_end(&self, index: u64, values: &[Bytes]) -> Result<bool, ObjectError> {
        let in_one = (values.len() as u64).saturating_mul(index) <= PASSED.unsigned_abs()
            && parts(values, Bytes::len).nth(1).is_none();
        if index == 0 || in_one {
            return Ok(false);
        }
        let len: u64 = self.place.ask(self.place.command("LLEN")?).await?;
        Ok(index >= len)
    }

    /// The first values first, each step at the index behind the one before.
    async fn inserted_on(&self, index: u64, values: &[Bytes]) -> Result<u64, ObjectError> {
        let (name, _) = self.place.named()?;
        let (mut rest, mut done, mut now) = (values, 0, 0);
        while let Some(part) = parts(rest, Bytes::len).next() {
            let step = self.insert_some(index + done, part, false).await;
            let (inserted, length) = step.map_err(|error| error.after(name, done))?;
            (rest, done, now) = (behind(rest, inserted), done + inserted, length);
        }
        Ok(now)
    }

    /// The last values first, all at the index: behind those before, each would be looked for by way of all of them.
    async fn inserted_back(&self, index: u64, values: &[Bytes]) -> Result<u64, ObjectError> {
        let (name, _) = self.place.named()?;
        let all: Vec<&[Bytes]> = parts(values, Bytes::len).collect();
        let (mut done, mut now) = (0, 0);
        for mut part in all.into_iter().rev() {
            while !part.is_empty() {
                let step = self.insert_some(index, part, true).await;
                let (inserted, length) = step.map_err(|error| error.after(name, done))?;
                (part, done, now) = (in_front_of(part, inserted), done + inserted, length);
            }
        }
        Ok(now)
    }

    /// As many of these values as one step allows, the first or the last of them; tells how many they are, and how many elements there are then.
    async fn insert_some(&self, index: u64, part: &[Bytes], last_first: bool) -> Result<(u64, u64), ObjectError> {
        let (name, key) = self.place.named()?;
        let request = INSERT.with([key.clone()]).int(number(name, "index", index)?).arg(mark()).int(PASSED);
        let request = part.iter().cloned().fold(request.int(last_first.into()), Request::arg);
        let (inserted, now): (i64, u64) = self.place.change(request).await?;
        match u64::try_from(inserted) {
            Ok(inserted) => Ok((inserted, now)),
            Err(_) => Err(ObjectError::OutOfBounds { name: name.clone(), index, len: now }),
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

/// What is left in front of so many: one at least is done each time.
fn in_front_of(part: &[Bytes], done: u64) -> &[Bytes] {
    let done = usize::try_from(done).unwrap_or(usize::MAX).clamp(1, part.len());
    &part[..part.len() - done]
}
