//! Changing a value by a function, whatever others do meanwhile.

use bytes::Bytes;
use redgrid_codecs::{Decode, Encode};
use redgrid_core::Request;
use redgrid_core::object::{Compared, ObjectError, Rounds, in_place};

use crate::bucket::Bucket;
use crate::compare::{compare_and_delete, compare_and_set};

impl<T, C: Encode<T> + Decode<T>> Bucket<T, C> {
    /// Changes the value in place, whatever others do meanwhile: `change` is called anew with each new value. Tells what it is then;
    /// `None`, and nothing is changed, where there is none. Its lifetime stays.
    ///
    /// Updates of one client come one after another while they go on; one that is not polled is not waited for. After an unknown answer
    /// it does not go on.
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
    /// [`ObjectError::Contended`] when others were quicker for as long as a call may take, [`Client::patience`](crate::Client::patience);
    /// else as the rest.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn update(&self, change: impl FnMut(&mut T)) -> Result<Option<T>, ObjectError> {
        self.alter(in_place(change)).await
    }

    /// Replaces the value, or its absence, by what `change` makes of it: `None` deletes it. Tells what it is then. The lifetime of a value
    /// that was there stays; a new one has none.
    ///
    /// # Errors
    ///
    /// As [`Bucket::update`].
    ///
    /// # Cancel safety
    ///
    /// As [`Bucket::update`].
    pub async fn alter(&self, mut change: impl FnMut(Option<T>) -> Option<T>) -> Result<Option<T>, ObjectError> {
        let (name, key) = self.place.named()?;
        let mut rounds = Rounds::in_line(self.place.client(), name, key).await?;
        loop {
            let was = rounds.stored(|| Ok(Request::command("GET").key(key.clone()))).await?;
            let new = change(self.read(was.clone())?);
            let bytes = new.as_ref().map(|new| self.place.encoded(&self.codec, new)).transpose()?;
            let done = match (was, bytes) {
                (None, None) => Compared::Done,
                (Some(was), Some(bytes)) => {
                    rounds.change(compare_and_set(key, true, was, bytes).arg("KEEPTTL")).await?
                }
                (Some(was), None) => rounds.change(compare_and_delete(key, true, was)).await?,
                (None, Some(bytes)) => {
                    let request = Request::command("SET").key(key.clone()).arg(bytes).arg("NX");
                    match rounds.change::<Option<Bytes>>(request).await? {
                        Some(_) => Compared::Done,
                        None => {
                            rounds.lost_to(None).await?;
                            continue;
                        }
                    }
                }
            };
            match done {
                Compared::Done => return Ok(new),
                Compared::Other(told) => rounds.lost_to(Some(told)).await?,
            }
        }
    }
}
