//! Taking over what others were given.

use std::time::Duration;

use redgrid_codecs::{Codec, Decode};
use redgrid_core::object::ObjectError;
use redgrid_core::{FromReply, Reply, Request, ServerError};

use crate::entry::{Entry, Raw, Raws};
use crate::error::StreamError;
use crate::group::Group;
use crate::id::EntryId;
use crate::pending::millis;

/// What a consumer has taken over by [`Group::auto_claim`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[doc(alias = "AutoClaimResult")]
#[doc(alias = "FastAutoClaimResult")]
pub struct Claimed<T> {
    /// Where to go on; `None` where all that was pending has been looked at.
    pub next: Option<EntryId>,
    /// What is pending for the consumer now.
    pub entries: Vec<T>,
    /// What is not in the stream any more, and not pending either, from Redis 7.0 on.
    pub removed: Vec<EntryId>,
}

impl<T> Claimed<T> {
    fn of(
        mut told: Vec<Reply>,
        entries: impl FnOnce(Reply) -> Result<Vec<T>, ServerError>,
    ) -> Result<Self, ServerError> {
        let mut part = |at: usize| told.get_mut(at).map_or(Reply::Nil, |part| std::mem::replace(part, Reply::Nil));
        let next: EntryId = part(0).into_typed()?;
        let entries = entries(part(1))?;
        let removed: Option<Vec<EntryId>> = part(2).into_typed()?;
        let next = (next != EntryId::MIN).then_some(next);
        Ok(Claimed { next, entries, removed: removed.unwrap_or_default() })
    }
}

impl FromReply for Claimed<Raw> {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        Claimed::of(reply.into_typed()?, |entries| Ok(entries.into_typed::<Raws>()?.0))
    }
}

impl FromReply for Claimed<EntryId> {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        Claimed::of(reply.into_typed()?, Reply::into_typed)
    }
}

impl<K, V, KC: Codec, VC: Codec> Group<K, V, KC, VC> {
    /// Takes over for a consumer those of these entries that were given to nobody for so long; tells which, with their fields. They
    /// count as given once more.
    ///
    /// # Errors
    ///
    /// [`StreamError`] says what is true then; [`ObjectError::InvalidArgument`] of more than 10,000 ids.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it: the entries are pending for the consumer.
    pub async fn claim(
        &self,
        consumer: impl Into<String>,
        idle: Duration,
        ids: impl IntoIterator<Item = EntryId>,
    ) -> Result<Vec<Result<Entry<K, V>, StreamError>>, StreamError>
    where
        KC: Decode<K>,
        VC: Decode<V>,
    {
        let Some(request) = self.claiming(consumer.into(), idle, ids)? else { return Ok(Vec::new()) };
        let claimed: Raws = self.change(request).await?;
        Ok(self.stream.each(&claimed.0))
    }

    /// The same without fields: tells only which, and they do not count as given.
    ///
    /// # Errors
    ///
    /// As [`Group::claim`].
    ///
    /// # Cancel safety
    ///
    /// As [`Group::claim`].
    #[doc(alias = "fastClaim")]
    pub async fn fast_claim(
        &self,
        consumer: impl Into<String>,
        idle: Duration,
        ids: impl IntoIterator<Item = EntryId>,
    ) -> Result<Vec<EntryId>, StreamError> {
        match self.claiming(consumer.into(), idle, ids)? {
            Some(request) => self.change(request.arg("JUSTID")).await,
            None => Ok(Vec::new()),
        }
    }

    fn claiming(
        &self,
        consumer: String,
        idle: Duration,
        ids: impl IntoIterator<Item = EntryId>,
    ) -> Result<Option<Request>, ObjectError> {
        let ids = self.stream.ids(ids)?;
        let request = self.command("XCLAIM")?.arg(consumer).int(millis(idle));
        Ok((!ids.is_empty()).then(|| ids.into_iter().fold(request, Request::arg)))
    }

    /// Takes over for a consumer what was given to nobody for so long, of the entries from an id on, so many at the most; tells which, with their
    /// fields. They count as given once more. The server looks at ten times as many at the most.
    ///
    /// # Errors
    ///
    /// [`StreamError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// As [`Group::claim`].
    #[doc(alias = "autoClaim")]
    pub async fn auto_claim(
        &self,
        consumer: impl Into<String>,
        idle: Duration,
        from: EntryId,
        limit: u32,
    ) -> Result<Claimed<Result<Entry<K, V>, StreamError>>, StreamError>
    where
        KC: Decode<K>,
        VC: Decode<V>,
    {
        let claimed: Claimed<Raw> = self.auto_claimed(&consumer.into(), idle, from, limit).await?;
        let Claimed { next, entries, removed } = claimed;
        Ok(Claimed { next, entries: self.stream.each(&entries), removed })
    }

    pub(crate) async fn auto_claimed(
        &self,
        consumer: &str,
        idle: Duration,
        from: EntryId,
        limit: u32,
    ) -> Result<Claimed<Raw>, StreamError> {
        self.change(self.auto_claiming(consumer, idle, from, limit)?).await
    }

    /// The same without fields: tells only which, and they do not count as given.
    ///
    /// # Errors
    ///
    /// As [`Group::auto_claim`].
    ///
    /// # Cancel safety
    ///
    /// As [`Group::claim`].
    #[doc(alias = "fastAutoClaim")]
    pub async fn fast_auto_claim(
        &self,
        consumer: impl Into<String>,
        idle: Duration,
        from: EntryId,
        limit: u32,
    ) -> Result<Claimed<EntryId>, StreamError> {
        self.change(self.auto_claiming(&consumer.into(), idle, from, limit)?.arg("JUSTID")).await
    }

    fn auto_claiming(&self, consumer: &str, idle: Duration, from: EntryId, limit: u32) -> Result<Request, ObjectError> {
        let request = self.command("XAUTOCLAIM")?.arg(consumer.to_owned()).int(millis(idle));
        Ok(request.arg(from.bytes()).arg("COUNT").int(limit.max(1).into()))
    }
}
