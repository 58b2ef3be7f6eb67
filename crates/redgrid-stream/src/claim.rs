//! Claiming the pending entries of other consumers.

use std::time::Duration;

use redgrid_codecs::{Codec, Decode};
use redgrid_core::object::ObjectError;
use redgrid_core::{FromReply, Reply, Request, ServerError};

use crate::entry::{Entry, RawEntries, RawEntry};
use crate::error::StreamError;
use crate::group::Group;
use crate::id::EntryId;
use crate::pending::millis;

/// The result of [`Group::auto_claim`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
#[doc(alias = "AutoClaimResult")]
#[doc(alias = "FastAutoClaimResult")]
pub struct Claimed<T> {
    /// The id from which to continue; `None` if all pending entries were checked.
    pub next: Option<EntryId>,
    /// The claimed entries, which are pending for the new consumer.
    pub entries: Vec<T>,
    /// Entries that do not exist in the stream, and that were therefore removed from the pending
    /// entries. Redis 7.0 or newer.
    pub removed: Vec<EntryId>,
}

impl<T> Claimed<T> {
    fn parse(
        mut reply: Vec<Reply>,
        parse_entries: impl FnOnce(Reply) -> Result<Vec<T>, ServerError>,
    ) -> Result<Self, ServerError> {
        let mut part = |at: usize| reply.get_mut(at).map_or(Reply::Nil, |part| std::mem::replace(part, Reply::Nil));
        let next: EntryId = part(0).into_typed()?;
        let entries = parse_entries(part(1))?;
        let removed: Option<Vec<EntryId>> = part(2).into_typed()?;
        let next = (next != EntryId::MIN).then_some(next);
        Ok(Claimed { next, entries, removed: removed.unwrap_or_default() })
    }
}

impl FromReply for Claimed<RawEntry> {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        Claimed::parse(reply.into_typed()?, |entries| Ok(entries.into_typed::<RawEntries>()?.0))
    }
}

impl FromReply for Claimed<EntryId> {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        Claimed::parse(reply.into_typed()?, Reply::into_typed)
    }
}

impl<K, V, KC: Codec, VC: Codec> Group<K, V, KC, VC> {
    /// Claims entries for a consumer, and returns them with their fields. Entries that were
    /// delivered less than `idle` ago are left out.
    ///
    /// This counts as a delivery.
    ///
    /// # Errors
    ///
    /// [`StreamError`] states what failed and whether anything may have changed. It is
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for more than 10,000 ids.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped: in that case the
    /// entries are pending for the consumer.
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
        let Some(request) = self.claim_request(consumer.into(), idle, ids)? else { return Ok(Vec::new()) };
        let claimed: RawEntries = self.change(request).await?;
        Ok(self.stream.decode_each(&claimed.0))
    }

    /// Claims entries like [`Group::claim`], and returns only their ids. This does not count as a
    /// delivery.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Group::claim`].
    #[doc(alias = "fastClaim")]
    pub async fn fast_claim(
        &self,
        consumer: impl Into<String>,
        idle: Duration,
        ids: impl IntoIterator<Item = EntryId>,
    ) -> Result<Vec<EntryId>, StreamError> {
        match self.claim_request(consumer.into(), idle, ids)? {
            Some(request) => self.change(request.arg("JUSTID")).await,
            None => Ok(Vec::new()),
        }
    }

    fn claim_request(
        &self,
        consumer: String,
        idle: Duration,
        ids: impl IntoIterator<Item = EntryId>,
    ) -> Result<Option<Request>, ObjectError> {
        let ids = self.stream.id_args(ids)?;
        let request = self.command("XCLAIM")?.arg(consumer).int(millis(idle));
        Ok((!ids.is_empty()).then(|| ids.into_iter().fold(request, Request::arg)))
    }

    /// Claims up to `limit` pending entries for a consumer, from the id `from` on, and returns them
    /// with their fields. Entries that were delivered less than `idle` ago are left out.
    ///
    /// This counts as a delivery. The server checks at most ten times as many entries as `limit`.
    ///
    /// # Errors
    ///
    /// [`StreamError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// As for [`Group::claim`].
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
        let claimed: Claimed<RawEntry> = self.auto_claim_raw(&consumer.into(), idle, from, limit).await?;
        let Claimed { next, entries, removed } = claimed;
        Ok(Claimed { next, entries: self.stream.decode_each(&entries), removed })
    }

    pub(crate) async fn auto_claim_raw(
        &self,
        consumer: &str,
        idle: Duration,
        from: EntryId,
        limit: u32,
    ) -> Result<Claimed<RawEntry>, StreamError> {
        self.change(self.auto_claim_request(consumer, idle, from, limit)?).await
    }

    /// Claims entries like [`Group::auto_claim`], and returns only their ids. This does not count
    /// as a delivery.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Group::auto_claim`].
    #[doc(alias = "fastAutoClaim")]
    pub async fn fast_auto_claim(
        &self,
        consumer: impl Into<String>,
        idle: Duration,
        from: EntryId,
        limit: u32,
    ) -> Result<Claimed<EntryId>, StreamError> {
        self.change(self.auto_claim_request(&consumer.into(), idle, from, limit)?.arg("JUSTID")).await
    }

    fn auto_claim_request(
        &self,
        consumer: &str,
        idle: Duration,
        from: EntryId,
        limit: u32,
    ) -> Result<Request, ObjectError> {
        let request = self.command("XAUTOCLAIM")?.arg(consumer.to_owned()).int(millis(idle));
        Ok(request.arg(from.to_bytes()).arg("COUNT").int(limit.max(1).into()))
    }
}
