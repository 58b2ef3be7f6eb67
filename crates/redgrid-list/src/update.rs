//! Changing what is at an index by a function, whatever others do meanwhile.

use redgrid_codecs::{Decode, Encode};
use redgrid_core::object::{Compared, ObjectError, Rounds};

use crate::change::compare_and_set;
use crate::list::List;
use crate::place::number;

impl<T, C: Encode<T> + Decode<T>> List<T, C> {
    /// Changes what is at an index in place, whatever others do meanwhile: `change` is called anew with each new value. Tells what it is then;
    /// `None`, and nothing is changed, where it has no such index.
    ///
    /// What is at the index may be another element each time, where others insert and remove. Updates of one index by one client come one
    /// after another while they go on; one that is not polled is not waited for. After an unknown answer it does not go on.
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
    /// [`ObjectError::Contended`] when others were quicker for as long as a call may take, [`Client::patience`](crate::Client::patience);
    /// else as the rest.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "replaceAll")]
    pub async fn update_at(&self, index: u64, mut change: impl FnMut(&mut T)) -> Result<Option<T>, ObjectError> {
        let (name, key) = self.place.named()?;
        let at = number(name, "index", index)?;
        let mut rounds = Rounds::of_part(&self.place, at.to_string().as_bytes()).await?;
        loop {
            let was = rounds.stored(|| Ok(self.place.command("LINDEX")?.int(at))).await?;
            let Some(was) = was else { return Ok(None) };
            let mut value = self.at(index, &was)?;
            change(&mut value);
            let new = self.encoded(&value)?;
            match rounds.change(compare_and_set(key, true, at, [was, new])).await? {
                Compared::Done => return Ok(Some(value)),
                Compared::Other(told) => rounds.lost_to(Some(told)).await?,
            }
        }
    }
}
