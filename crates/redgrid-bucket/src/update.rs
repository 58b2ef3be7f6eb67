//! Read-modify-write of a value, with optimistic retries.

use bytes::Bytes;
use redgrid_codecs::{Decode, Encode};
use redgrid_core::Request;
use redgrid_core::object::{CasLoop, CasReply, ObjectError, in_place};

use crate::bucket::Bucket;
use crate::compare::{compare_and_delete, compare_and_set};

impl<T, C: Encode<T> + Decode<T>> Bucket<T, C> {
    /// Changes the value, even while others change it concurrently. Returns the new value.
    ///
    /// If another client has set a new value meanwhile, `change` is called again with that value.
    /// If there is no value, nothing is changed and the result is `None`. The value keeps its
    /// lifetime.
    ///
    /// Updates by one client run one after another while they make progress. An update that is not
    /// polled does not block the others. After an unknown outcome the update is not retried.
    ///
    /// ```no_run
    /// # #[cfg(feature = "json")]
    /// # async fn demo(visits: &redgrid_bucket::Bucket<u64>) -> Result<(), Box<dyn std::error::Error>> {
    /// if let Some(so_many) = visits.update(|visits| *visits += 1).await? {
    ///     println!("{so_many}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ObjectError::Contended`] if other clients changed the value before each attempt, until the
    /// call's time limit, `response_timeout × (retries + 1)`. Otherwise [`ObjectError`] states what
    /// failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn update(&self, change: impl FnMut(&mut T)) -> Result<Option<T>, ObjectError> {
        self.alter(in_place(change)).await
    }

    /// Replaces the value, or its absence, by the result of `change`. `None` deletes the value.
    /// Returns the new value.
    ///
    /// A value that existed keeps its lifetime; a new one has none.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Bucket::update`].
    pub async fn alter(&self, mut change: impl FnMut(Option<T>) -> Option<T>) -> Result<Option<T>, ObjectError> {
        let (name, key) = self.object_ref.name_and_key()?;
        let mut cas_loop = CasLoop::serialized(self.object_ref.client(), name, key).await?;
        loop {
            let previous = cas_loop.stored(|| Ok(Request::command("GET").key(key.clone()))).await?;
            let new = change(self.decode_option(previous.clone())?);
            let bytes = new.as_ref().map(|new| self.object_ref.encoded(&self.codec, new)).transpose()?;
            let done = match (previous, bytes) {
                (None, None) => CasReply::Done,
                (Some(previous), Some(bytes)) => {
                    cas_loop.change(compare_and_set(key, true, previous, bytes).arg("KEEPTTL")).await?
                }
                (Some(previous), None) => cas_loop.change(compare_and_delete(key, true, previous)).await?,
                (None, Some(bytes)) => {
                    let request = Request::command("SET").key(key.clone()).arg(bytes).arg("NX");
                    match cas_loop.change::<Option<Bytes>>(request).await? {
                        Some(_) => CasReply::Done,
                        None => {
                            cas_loop.lost_to(None).await?;
                            continue;
                        }
                    }
                }
            };
            match done {
                CasReply::Done => return Ok(new),
                CasReply::Other(current) => cas_loop.lost_to(Some(current)).await?,
            }
        }
    }
}
