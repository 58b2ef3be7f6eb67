//! Changing a key's value by a function, whatever others do meanwhile.

use std::borrow::Borrow;

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode};
use redgrid_core::Request;
use redgrid_core::object::{Compared, ObjectError, Rounds, in_place};

use crate::compare::{compare_and_remove, compare_and_set};
use crate::map::Map;

impl<K, V, KC: Codec, VC: Encode<V> + Decode<V>> Map<K, V, KC, VC> {
    /// Changes the key's value in place, whatever others do meanwhile: `change` is called anew with each new value. Tells what it is then;
    /// `None`, and nothing is changed, where the key is not in the map.
    ///
    /// Updates of one key by one client come one after another while they go on; one that is not polled is not waited for. After an
    /// unknown answer it does not go on.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Contended`] when others were quicker for as long as a call may take, [`Client::patience`](crate::Client::patience);
    /// else as the rest.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "computeIfPresent")]
    #[doc(alias = "replaceAll")]
    pub async fn update<Q: ?Sized>(&self, key: &Q, change: impl FnMut(&mut V)) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        self.alter(key, in_place(change)).await
    }

    /// Replaces the key's value, or its absence, by what `change` makes of it: `None` removes it. Tells what it is then.
    ///
    /// ```no_run
    /// # #[cfg(feature = "json")]
    /// # async fn demo(words: &redgrid_map::Map<String, u64>) -> Result<(), redgrid_map::ObjectError> {
    /// let so_many = words.alter("hello", |count| Some(count.unwrap_or(0) + 1)).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Map::update`].
    ///
    /// # Cancel safety
    ///
    /// As [`Map::update`].
    #[doc(alias = "compute")]
    #[doc(alias = "computeIfAbsent")]
    #[doc(alias = "merge")]
    pub async fn alter<Q: ?Sized>(
        &self,
        key: &Q,
        mut change: impl FnMut(Option<V>) -> Option<V>,
    ) -> Result<Option<V>, ObjectError>
    where
        K: Borrow<Q>,
        KC: Encode<Q>,
    {
        let field = self.place.encoded(&self.keys, key)?;
        let mut rounds = Rounds::of_part(&self.place, &field).await?;
        loop {
            let was = rounds.stored(|| self.look(&field)).await?;
            let new = change(self.value(&field, was.clone())?);
            match self.step(&rounds, &field, was, new.as_ref()).await? {
                Step::Done => return Ok(new),
                Step::Other(told) => rounds.lost_to(told).await?,
            }
        }
    }

    /// What a key has, from the primary, whatever the read mode: an old value would only be refused.
    pub(crate) async fn stored(&self, rounds: &Rounds, field: &Bytes) -> Result<Option<Bytes>, ObjectError> {
        rounds.read(self.look(field)?).await
    }

    fn look(&self, field: &Bytes) -> Result<Request, ObjectError> {
        Ok(self.place.command("HGET")?.arg(field.clone()))
    }

    /// One round: gives the key a value, or none, where it still has what it had.
    pub(crate) async fn step(
        &self,
        rounds: &Rounds,
        field: &Bytes,
        was: Option<Bytes>,
        new: Option<&V>,
    ) -> Result<Step, ObjectError> {
        let (_, map) = self.place.named()?;
        let new = new.map(|new| self.place.encoded(&self.values, new)).transpose()?;
        let told = match (was, new) {
            (None, None) => Compared::Done,
            (Some(was), Some(new)) => rounds.change(compare_and_set(map, true, [field.clone(), was, new])).await?,
            (Some(was), None) => rounds.change(compare_and_remove(map, true, [field.clone(), was])).await?,
            (None, Some(new)) => {
                let request = self.place.command("HSETNX")?.arg(field.clone()).arg(new);
                return Ok(if rounds.change(request).await? { Step::Done } else { Step::Other(None) });
            }
        };
        Ok(match told {
            Compared::Done => Step::Done,
            Compared::Other(has) => Step::Other(Some(has)),
        })
    }
}

/// What became of a round.
pub(crate) enum Step {
    /// It is as it was to be.
    Done,
    /// Others were quicker; what is there, where that was told.
    Other(Option<Option<Bytes>>),
}
