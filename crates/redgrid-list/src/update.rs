//! Read-modify-write of the element at an index, with optimistic retries.

use redgrid_codecs::{Decode, Encode};
use redgrid_core::object::{CasLoop, CasReply, ObjectError};

use crate::change::compare_and_set;
use crate::index::server_int;
use crate::list::List;

impl<T, C: Encode<T> + Decode<T>> List<T, C> {
    /// Changes the element at an index, even while others change it concurrently. Returns the new
    /// element.
    ///
    /// If another client has changed the element meanwhile, `change` is called again with the
    /// current element. If the list has no such index, nothing is changed and the result is `None`.
    ///
    /// If others insert or remove elements, each call of `change` may get the element of another
    /// position. Updates of one index by one client run one after another while they make progress.
    /// An update that is not polled does not block the others. After an unknown outcome the update
    /// is not retried.
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
    /// [`ObjectError::Contended`] if other clients changed the element before each attempt, until
    /// the call's time limit, `response_timeout × (retries + 1)`. Otherwise [`ObjectError`] states
    /// what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "replaceAll")]
    pub async fn update_at(&self, index: u64, mut change: impl FnMut(&mut T)) -> Result<Option<T>, ObjectError> {
        let (name, key) = self.object_ref.name_and_key()?;
        let at = server_int(name, "index", index)?;
        let mut cas_loop = CasLoop::serialized_part(&self.object_ref, at.to_string().as_bytes()).await?;
        loop {
            let previous = cas_loop.stored(|| Ok(self.object_ref.command("LINDEX")?.int(at))).await?;
            let Some(previous) = previous else { return Ok(None) };
            let mut value = self.decode_at(index, &previous)?;
            change(&mut value);
            let new = self.encode(&value)?;
            match cas_loop.change(compare_and_set(key, true, at, [previous, new])).await? {
                CasReply::Done => return Ok(Some(value)),
                CasReply::Other(current) => cas_loop.lost_to(Some(current)).await?,
            }
        }
    }
}
