//! Changing a value by a function, whatever others do meanwhile.

use bytes::Bytes;
use redgrid_codecs::{Decode, Encode};
use redgrid_core::Request;
use redgrid_core::object::ObjectError;
use tokio::sync::Mutex;

use crate::bucket::Bucket;
use crate::compare::{CompareAndSet, compare_and_delete};

/// How often an update that others overtake is tried.
const ROUNDS: u32 = 100;

/// Whose turn it is to update a bucket: those of one client do not overtake each other.
#[derive(Default)]
struct Turn(Mutex<()>);

impl<T, C: Encode<T> + Decode<T>> Bucket<T, C> {
    /// Changes the value in place, whatever others do meanwhile: `change` is called anew with each new value. Tells what it is then;
    /// `None`, and nothing is changed, where there is none. Its lifetime stays.
    ///
    /// Updates of one client come one after another. After an unknown answer it does not go on.
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
    /// [`ObjectError::Contended`] when other clients were quicker 100 times; else as the rest.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn update(&self, mut change: impl FnMut(&mut T)) -> Result<Option<T>, ObjectError> {
        self.alter(|value| {
            value.map(|mut value| {
                change(&mut value);
                value
            })
        })
        .await
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
        let turn = self.place.client.shared(key, Turn::default);
        let _turn = turn.0.lock().await;
        for _ in 0..ROUNDS {
            // From the primary, whatever the read mode: an old value would only be refused.
            let was: Option<Bytes> = self.place.read(Request::command("GET").key(key.clone()).idempotent()).await?;
            let new = change(self.read(was.clone())?);
            let bytes = new.as_ref().map(|new| self.place.encoded(&self.codec, new)).transpose()?;
            let done = match (was, bytes) {
                (None, None) => true,
                (Some(was), Some(bytes)) => {
                    CompareAndSet::new(self.place.clone(), Ok((was, bytes))).keep_lifetime().carry_out().await?
                }
                (Some(was), None) => compare_and_delete(&self.place, was).await?,
                (None, Some(bytes)) => {
                    let request = Request::command("SET").key(key.clone()).arg(bytes).arg("NX");
                    self.place.change::<Option<Bytes>>(request).await?.is_some()
                }
            };
            if done {
                return Ok(new);
            }
        }
        Err(ObjectError::Contended { name: name.clone(), times: ROUNDS })
    }
}
