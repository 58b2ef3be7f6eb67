//! Read-modify-write of the element at an index, with optimistic retries.

use redgrid_codecs::{Decode, Encode};
use redgrid_core::object::{Compared, ObjectError, Rounds};

use crate::change::compare_and_set;
use crate::index::server_int;
use crate::list::List;

impl<T, C: Encode<T> + Decode<T>> List<T, C> {
    /// Changes the element at an index in place, whatever others do meanwhile. Returns the new
    /// element.
    ///
    /// `change` is called again with each new element that another client has set. If the list has
    /// no such index, nothing is changed and the result is `None`.
    ///
    /// If others insert and remove, each call of `change` may get a different element. Updates of
    /// one index by one client run one after another while they make progress. An update that is
    /// not polled does not block the others. After an unknown outcome the update is not retried.
    ///
    /// ```no_run
    /// # #[cfg(feature = "json")]
    /// # async fn demo(scores: &redgrid_list::List<u64>) -> Result<(), redgrid_list::ObjectError> {
    /// if let Some(score) = scores.update_at(3, |score| *score += 1).await? {
    ///     println!("{score}");
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ObjectError::Contended`] if others were faster until the call's time limit,
    /// `response_timeout × (retries + 1)`. Otherwise [`ObjectError`] states what failed
    /// and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "replaceAll")]
    pub async fn update_at(&self, index: u64, mut change: impl FnMut(&mut T)) -> Result<Option<T>, ObjectError> {
        let (name, key) = self.place.named()?;
        let at = server_int(name, "index", index)?;
        let mut rounds = Rounds::of_part(&self.place, at.to_string().as_bytes()).await?;
        loop {
            let previous = rounds.stored(|| Ok(self.place.command("LINDEX")?.int(at))).await?;
            let Some(previous) = previous else { return Ok(None) };
            let mut value = self.decode_at(index, &previous)?;
            change(&mut value);
            let new = self.encode(&value)?;
            match rounds.change(compare_and_set(key, true, at, [previous, new])).await? {
                Compared::Done => return Ok(Some(value)),
                Compared::Other(current) => rounds.lost_to(Some(current)).await?,
            }
        }
    }
}
