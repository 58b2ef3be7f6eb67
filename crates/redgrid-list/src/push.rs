//! Insertion of elements.

use bytes::Bytes;
use redgrid_codecs::{Codec, EncodesFor};
use redgrid_core::object::{ObjectError, chunks};
use redgrid_core::{Request, Script};

use crate::index::{MAX_VISITED, placeholder, server_int};
use crate::list::List;
use crate::read::skip_done;

static INSERT: Script<1> = Script::new("list/insert", include_str!("scripts/insert.lua"));

impl<T, C: Codec> List<T, C> {
    /// Appends a value. Returns the new number of elements.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "add")]
    #[doc(alias = "addLast")]
    pub async fn push<Q: ?Sized>(&self, value: &Q) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.object_ref.change(self.object_ref.command("RPUSH")?.arg(self.encode(value)?)).await
    }

    /// Appends values, in their order. Returns the new number of elements.
    ///
    /// Up to 500 values or about 4 MiB are appended in one step. Between steps, others may also
    /// append.
    ///
    /// # Errors
    ///
    /// As for [`List::push`]. After the first step the error is [`ObjectError::Partial`], with the
    /// number of values that were appended; these are the first ones.
    ///
    /// # Cancel safety
    ///
    /// As for [`List::push`].
    #[doc(alias = "addAll")]
    pub async fn push_many<'a, Q: ?Sized + 'a>(
        &self,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let (name, _) = self.object_ref.name_and_key()?;
        let values = self.encode_all(values)?;
        let (mut length, mut done) = (None, 0);
        for chunk in chunks(&values, Bytes::len) {
            let request = chunk.iter().cloned().fold(self.object_ref.command("RPUSH")?, Request::arg);
            length = Some(self.object_ref.change(request).await.map_err(|error| error.after(name, done))?);
            done += chunk.len() as u64;
        }
        match length {
            Some(length) => Ok(length),
            None => self.object_ref.read_primary(self.object_ref.command("LLEN")?).await,
        }
    }

    /// Inserts a value at an index, before the element there. Returns the new number of elements.
    ///
    /// The index after the last element appends the value.
    ///
    /// # Errors
    ///
    /// As for [`List::push`]. [`ObjectError::OutOfBounds`] if the list is shorter than the index.
    ///
    /// # Cancel safety
    ///
    /// As for [`List::push`].
    #[doc(alias = "add")]
    #[doc(alias = "addFirst")]
    pub async fn insert<Q: ?Sized>(&self, index: u64, value: &Q) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        self.insert_chunk(index, &[self.encode(value)?], false).await.map(|(_, new_length)| new_length)
    }

    /// Inserts values at an index, in their order. Returns the new number of elements.
    ///
    /// Up to 500 values or about 4 MiB are inserted in one step. In the middle of the list a step
    /// has fewer values, so that the server visits at most a quarter of a million elements a step:
    /// 25 values at index 10,000. If several steps are needed, the last values are inserted first.
    /// All steps use this index, whatever others have inserted or removed in between. At the end of
    /// the list the first values are inserted first, and each step continues after the previous
    /// one.
    ///
    /// # Errors
    ///
    /// As for [`List::insert`]. After the first step the error is [`ObjectError::Partial`], with
    /// the number of values that were inserted. These are the last ones. At the end of the list
    /// they are the first ones.
    ///
    /// # Cancel safety
    ///
    /// As for [`List::push`].
    #[doc(alias = "addAll")]
    pub async fn insert_many<'a, Q: ?Sized + 'a>(
        &self,
        index: u64,
        values: impl IntoIterator<Item = &'a Q>,
    ) -> Result<u64, ObjectError>
    where
        C: EncodesFor<T, Q>,
    {
        let (name, _) = self.object_ref.name_and_key()?;
        server_int(name, "index", index)?;
        let values = self.encode_all(values)?;
        if values.is_empty() {
            return self.check_index(index).await;
        }
        match self.is_at_end(index, &values).await? {
            true => self.insert_forward(index, &values).await,
            false => self.insert_backward(index, &values).await,
        }
    }

    /// Returns whether the values need several steps and the index is the end of the list.
    async fn is_at_end(&self, index: u64, values: &[Bytes]) -> Result<bool, ObjectError> {
        let in_one = (values.len() as u64).saturating_mul(index) <= MAX_VISITED.unsigned_abs()
            && chunks(values, Bytes::len).nth(1).is_none();
        if index == 0 || in_one {
            return Ok(false);
        }
        let len: u64 = self.object_ref.read_primary(self.object_ref.command("LLEN")?).await?;
        Ok(index >= len)
    }

    /// Inserts the first values first. The index of each step is after the values of the previous
    /// one.
    async fn insert_forward(&self, index: u64, values: &[Bytes]) -> Result<u64, ObjectError> {
        let (name, _) = self.object_ref.name_and_key()?;
        let (mut rest, mut done, mut new_length) = (values, 0, 0);
        while let Some(chunk) = chunks(rest, Bytes::len).next() {
            let step = self.insert_chunk(index + done, chunk, false).await;
            let (inserted, length) = step.map_err(|error| error.after(name, done))?;
            rest = skip_done(rest, inserted);
            done += inserted;
            new_length = length;
        }
        Ok(new_length)
    }

    /// Inserts the last values first, all at the same index. If the index grew, the server would
    /// have to visit the values of the previous steps in each step.
    async fn insert_backward(&self, index: u64, values: &[Bytes]) -> Result<u64, ObjectError> {
        let (name, _) = self.object_ref.name_and_key()?;
        let all: Vec<&[Bytes]> = chunks(values, Bytes::len).collect();
        let (mut done, mut new_length) = (0, 0);
        for mut chunk in all.into_iter().rev() {
            while !chunk.is_empty() {
                let step = self.insert_chunk(index, chunk, true).await;
                let (inserted, length) = step.map_err(|error| error.after(name, done))?;
                chunk = drop_last_done(chunk, inserted);
                done += inserted;
                new_length = length;
            }
        }
        Ok(new_length)
    }

    /// Inserts as many values as one step allows: the first or the last ones. Returns the number of
    /// inserted values, and the new number of elements.
    async fn insert_chunk(&self, index: u64, chunk: &[Bytes], last_first: bool) -> Result<(u64, u64), ObjectError> {
        let (name, key) = self.object_ref.name_and_key()?;
        let request =
            INSERT.with([key.clone()]).int(server_int(name, "index", index)?).arg(placeholder()).int(MAX_VISITED);
        let request = chunk.iter().cloned().fold(request.int(last_first.into()), Request::arg);
        let (inserted, new_length): (i64, u64) = self.object_ref.change(request).await?;
        match u64::try_from(inserted) {
            Ok(inserted) => Ok((inserted, new_length)),
            Err(_) => Err(ObjectError::OutOfBounds { name: name.clone(), index, len: new_length }),
        }
    }

    /// Checks that the list has the index, without inserting.
    async fn check_index(&self, index: u64) -> Result<u64, ObjectError> {
        let (name, _) = self.object_ref.name_and_key()?;
        server_int(name, "index", index)?;
        match self.object_ref.read_primary(self.object_ref.command("LLEN")?).await? {
            len if index > len => Err(ObjectError::OutOfBounds { name: name.clone(), index, len }),
            len => Ok(len),
        }
    }

    /// Inserts a value before the first element that equals `pivot`. Returns the new number of
    /// elements. If no element equals `pivot`, nothing is inserted, and the result is `None`.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`List::push`].
    #[doc(alias = "addBefore")]
    pub async fn insert_before<P: ?Sized, Q: ?Sized>(&self, pivot: &P, value: &Q) -> Result<Option<u64>, ObjectError>
    where
        C: EncodesFor<T, P> + EncodesFor<T, Q>,
    {
        self.insert_beside("BEFORE", pivot, value).await
    }

    /// Inserts a value after the first element that equals `pivot`. Returns the new number of
    /// elements. If no element equals `pivot`, nothing is inserted, and the result is `None`.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`List::push`].
    #[doc(alias = "addAfter")]
    pub async fn insert_after<P: ?Sized, Q: ?Sized>(&self, pivot: &P, value: &Q) -> Result<Option<u64>, ObjectError>
    where
        C: EncodesFor<T, P> + EncodesFor<T, Q>,
    {
        self.insert_beside("AFTER", pivot, value).await
    }

    async fn insert_beside<P: ?Sized, Q: ?Sized>(
        &self,
        side: &'static str,
        pivot: &P,
        value: &Q,
    ) -> Result<Option<u64>, ObjectError>
    where
        C: EncodesFor<T, P> + EncodesFor<T, Q>,
    {
        let request = self.object_ref.command("LINSERT")?.arg(side).arg(self.encode(pivot)?).arg(self.encode(value)?);
        // The reply is -1 if there is no pivot, and 0 if there is no list.
        let length: i64 = self.object_ref.change(request).await?;
        Ok(u64::try_from(length).ok().filter(|length| *length > 0))
    }
}

/// Returns the values without the last `done` ones, but at least without one, so that each step
/// makes progress.
fn drop_last_done(chunk: &[Bytes], done: u64) -> &[Bytes] {
    let done = usize::try_from(done).unwrap_or(usize::MAX).clamp(1, chunk.len());
    &chunk[..chunk.len() - done]
}
