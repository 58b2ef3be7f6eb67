//! Changes the value of a key by a function, with optimistic retries.

use bytes::Bytes;
use redgrid_codecs::{Codec, Decode, Encode, EncodesFor};
use redgrid_core::Request;
use redgrid_core::object::{CasLoop, CasReply, ObjectError, in_place};

use crate::compare::{compare_and_remove, compare_and_set};
use crate::map::Map;

impl<K, V, KC: Codec, VC: Encode<V> + Decode<V>> Map<K, V, KC, VC> {
    /// Changes the value of a key in place. Returns the new value.
    ///
    /// `change` is called again if another client has changed the value meanwhile. If the key is
    /// not in the map, nothing is changed and the result is `None`.
    ///
    /// Concurrent updates of one key by one client run one after another. An update that is not
    /// polled does not block the others. An unknown outcome ends the update.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Contended`] if other clients changed the value before each attempt, until the
    /// time limit of a call, `response_timeout × (retries + 1)`. Otherwise as for [`Map::set`].
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    #[doc(alias = "computeIfPresent")]
    #[doc(alias = "replaceAll")]
    pub async fn update<Q: ?Sized>(&self, key: &Q, change: impl FnMut(&mut V)) -> Result<Option<V>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        self.alter(key, in_place(change)).await
    }

    /// Replaces the value of a key with the result of `change`. Returns the new value.
    ///
    /// `change` receives `None` if the key is not in the map. If it returns `None`, the key is
    /// removed.
    ///
    /// ```no_run
    /// # #[cfg(feature = "json")]
    /// # async fn demo(words: &redgrid_map::Map<String, u64>) -> Result<(), redgrid_map::ObjectError> {
    /// let total = words.alter("hello", |count| Some(count.unwrap_or(0) + 1)).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Map::update`].
    #[doc(alias = "compute")]
    #[doc(alias = "computeIfAbsent")]
    #[doc(alias = "merge")]
    pub async fn alter<Q: ?Sized>(
        &self,
        key: &Q,
        mut change: impl FnMut(Option<V>) -> Option<V>,
    ) -> Result<Option<V>, ObjectError>
    where
        KC: EncodesFor<K, Q>,
    {
        let field = self.object_ref.encoded(&self.keys, key)?;
        let mut cas_loop = CasLoop::serialized_part(&self.object_ref, &field).await?;
        loop {
            let previous = cas_loop.stored(|| self.read_request(&field)).await?;
            let new = change(self.decode_value(&field, previous.clone())?);
            match self.try_replace(&cas_loop, &field, previous, new.as_ref()).await? {
                Attempt::Done => return Ok(new),
                Attempt::Conflict(current) => cas_loop.lost_to(current).await?,
            }
        }
    }

    /// Reads the value of a key from the primary, whatever the read mode. A change based on an
    /// outdated value would only be rejected.
    pub(crate) async fn read_stored(&self, cas_loop: &CasLoop, field: &Bytes) -> Result<Option<Bytes>, ObjectError> {
        cas_loop.read(self.read_request(field)?).await
    }

    fn read_request(&self, field: &Bytes) -> Result<Request, ObjectError> {
        Ok(self.object_ref.command("HGET")?.arg(field.clone()))
    }

    /// Makes one attempt: sets or removes the value of a key if it is still `previous`.
    pub(crate) async fn try_replace(
        &self,
        cas_loop: &CasLoop,
        field: &Bytes,
        previous: Option<Bytes>,
        new: Option<&V>,
    ) -> Result<Attempt, ObjectError> {
        let (_, map) = self.object_ref.name_and_key()?;
        let new = new.map(|new| self.object_ref.encoded(&self.values, new)).transpose()?;
        let reply = match (previous, new) {
            (None, None) => CasReply::Done,
            (Some(previous), Some(new)) => {
                cas_loop.change(compare_and_set(map, true, [field.clone(), previous, new])).await?
            }
            (Some(previous), None) => cas_loop.change(compare_and_remove(map, true, [field.clone(), previous])).await?,
            (None, Some(new)) => {
                let request = self.object_ref.command("HSETNX")?.arg(field.clone()).arg(new);
                return Ok(if cas_loop.change(request).await? { Attempt::Done } else { Attempt::Conflict(None) });
            }
        };
        Ok(match reply {
            CasReply::Done => Attempt::Done,
            CasReply::Other(current) => Attempt::Conflict(Some(current)),
        })
    }
}

/// The outcome of one attempt.
pub(crate) enum Attempt {
    /// The change was made.
    Done,
    /// Another client has changed the value. Contains the current value if the reply contained it;
    /// `Some(None)` if the key is not in the map.
    Conflict(Option<Option<Bytes>>),
}
