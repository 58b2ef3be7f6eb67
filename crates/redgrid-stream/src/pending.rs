//! What is given out and not acknowledged yet, and who takes it over.

use std::collections::HashMap;
use std::future::IntoFuture;
use std::ops::RangeBounds;
use std::pin::Pin;
use std::time::Duration;

use redgrid_codecs::{Codec, Decode};
use redgrid_core::object::ObjectError;
use redgrid_core::{FromReply, Pairs, Reply, Request, Script, ServerError};

use crate::entry::{Entry, Raw, Raws};
use crate::error::StreamError;
use crate::group::Group;
use crate::id::{EntryId, ends};
use crate::read::PAGE;
use crate::stream::Stream;

static PENDING_ENTRIES: Script<1> = Script::new("stream/pending_entries", include_str!("scripts/pending_entries.lua"));

/// Which servers know how to remove what is referred to by groups.
const NEWER: &str = "Redis 8.2 or newer";

/// How many others of a consumer may be pending between those of a page, so that it is still known how often each was given.
const OTHERS: usize = 1_000;

/// What is pending in a group as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
#[doc(alias = "PendingResult")]
pub struct PendingSummary {
    /// How many entries.
    pub total: u64,
    /// The first and the last of them.
    pub range: Option<(EntryId, EntryId)>,
    /// How many for each consumer that has some.
    pub consumers: Vec<(String, u64)>,
}

impl FromReply for PendingSummary {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        type Told = (u64, Option<EntryId>, Option<EntryId>, Option<Pairs<String, u64>>);
        let (total, first, last, consumers): Told = reply.into_typed()?;
        Ok(PendingSummary { total, range: first.zip(last), consumers: consumers.map(|of| of.0).unwrap_or_default() })
    }
}

/// An entry that is given out and not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingEntry {
    /// The entry.
    pub id: EntryId,
    /// Whom it was given to.
    pub consumer: String,
    /// Since when it was given to nobody.
    pub idle: Duration,
    /// How often it was given.
    pub deliveries: u64,
}

impl FromReply for PendingEntry {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        let (id, consumer, idle, deliveries) = reply.into_typed()?;
        Ok(PendingEntry { id, consumer, idle: Duration::from_millis(idle), deliveries })
    }
}

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

/// What becomes of what other groups have pending, where an entry is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum References {
    /// It stays pending, without fields.
    Keep,
    /// It is pending no more.
    Remove,
    /// The entry is removed only where no group has it to give out or pending.
    OnlyAcknowledged,
}

/// What became of an entry that was to be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(alias = "StreamEntryStatus")]
pub enum Removed {
    /// It was not there.
    Absent,
    /// It is removed.
    Removed,
    /// It stays, as other groups refer to it.
    Referred,
}

impl FromReply for Removed {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        match i64::from_reply(reply)? {
            1 => Ok(Removed::Removed),
            2 => Ok(Removed::Referred),
            -1 => Ok(Removed::Absent),
            other => Err(ServerError::Decode { expected: "1, 2 or -1", got: other.to_string() }),
        }
    }
}

impl<K, V, KC: Codec, VC: Codec> Stream<K, V, KC, VC> {
    /// Removes entries and says what becomes of references to them; tells of each what became of it. Redis 8.2 or newer.
    ///
    /// # Errors
    ///
    /// [`StreamError::Unsupported`] of other servers; [`StreamError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "remove")]
    #[doc(alias = "StreamRemoveArgs")]
    pub async fn remove_with(
        &self,
        ids: impl IntoIterator<Item = EntryId>,
        references: References,
    ) -> Result<Vec<Removed>, StreamError> {
        self.removed("XDELEX", self.place.command("XDELEX")?, ids, references).await
    }

    async fn removed(
        &self,
        command: &'static str,
        request: Request,
        ids: impl IntoIterator<Item = EntryId>,
        references: References,
    ) -> Result<Vec<Removed>, StreamError> {
        let ids = self.ids(ids)?;
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let word = match references {
            References::Keep => "KEEPREF",
            References::Remove => "DELREF",
            References::OnlyAcknowledged => "ACKED",
        };
        let request = request.arg(word).arg("IDS").arg(ids.len().to_string());
        let told = self.place.change(ids.into_iter().fold(request, Request::arg)).await;
        told.map_err(|error| StreamError::of_new(&self.place, command, NEWER, error))
    }
}

impl<K, V, KC: Codec, VC: Codec> Group<K, V, KC, VC> {
    /// Acknowledges entries and removes them in one step; tells of each what became of it. Redis 8.2 or newer.
    ///
    /// # Errors
    ///
    /// [`StreamError::Unsupported`] of other servers; [`StreamError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "ack")]
    #[doc(alias = "StreamAckArgs")]
    pub async fn ack_and_remove(
        &self,
        ids: impl IntoIterator<Item = EntryId>,
        references: References,
    ) -> Result<Vec<Removed>, StreamError> {
        self.stream.removed("XACKDEL", self.command("XACKDEL")?, ids, references).await
    }

    /// How much is pending, and for whom.
    ///
    /// # Errors
    ///
    /// [`StreamError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "getPendingInfo")]
    pub async fn pending(&self) -> Result<PendingSummary, StreamError> {
        self.ask(self.command("XPENDING")?).await
    }

    /// What is pending, the first 100 unless [`Pending`] says otherwise, when awaited.
    #[doc(alias = "listPending")]
    pub fn pending_entries(&self) -> Pending<K, V, KC, VC> {
        let whole = Some((EntryId::MIN, EntryId::MAX));
        Pending { group: self.clone(), ends: whole, idle: None, limit: PAGE, consumer: None }
    }

    /// How often these were given to a consumer, as far as the server tells.
    pub(crate) async fn attempts(&self, consumer: &str, of: &[Raw]) -> Result<HashMap<EntryId, u64>, StreamError> {
        let (Some(first), Some(last)) = (of.iter().map(|raw| raw.id).min(), of.iter().map(|raw| raw.id).max()) else {
            return Ok(HashMap::new());
        };
        let request = self.command("XPENDING")?.arg(first.bytes()).arg(last.bytes());
        // Others that it has may be between them.
        let request = request.arg((of.len() + OTHERS).to_string()).arg(consumer.to_owned());
        let told: Vec<PendingEntry> = self.ask(request).await?;
        Ok(told.into_iter().map(|entry| (entry.id, entry.deliveries)).collect())
    }

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
    ) -> Result<Vec<Entry<K, V>>, StreamError>
    where
        KC: Decode<K>,
        VC: Decode<V>,
    {
        let Some(request) = self.claiming(consumer.into(), idle, ids)? else { return Ok(Vec::new()) };
        let claimed: Raws = self.change(request).await?;
        self.stream.all(&claimed.0)
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
    ) -> Result<Claimed<Entry<K, V>>, StreamError>
    where
        KC: Decode<K>,
        VC: Decode<V>,
    {
        let claimed: Claimed<Raw> = self.auto_claimed(&consumer.into(), idle, from, limit).await?;
        let Claimed { next, entries, removed } = claimed;
        Ok(Claimed { next, entries: self.stream.all(&entries)?, removed })
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

/// Tells what is pending when awaited; made by [`Group::pending_entries`].
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone)]
#[doc(alias = "StreamPendingRangeArgs")]
pub struct Pending<K, V, KC, VC> {
    group: Group<K, V, KC, VC>,
    ends: Option<(EntryId, EntryId)>,
    idle: Option<Duration>,
    limit: u32,
    consumer: Option<String>,
}

impl<K, V, KC: Codec, VC: Codec> Pending<K, V, KC, VC> {
    /// Only entries whose ids are in a range.
    pub fn range(self, ids: impl RangeBounds<EntryId>) -> Self {
        Pending { ends: ends(&ids), ..self }
    }

    /// Only what was given to nobody for so long, to the millisecond.
    pub fn idle(self, idle: Duration) -> Self {
        Pending { idle: Some(idle), ..self }
    }

    /// Only what is pending for this consumer.
    pub fn consumer(self, consumer: impl Into<String>) -> Self {
        Pending { consumer: Some(consumer.into()), ..self }
    }

    /// So many at the most, 1 or more; 100 unless set.
    pub fn limit(self, entries: u32) -> Self {
        Pending { limit: entries, ..self }
    }

    /// What XPENDING takes behind the key.
    fn written(&self, request: Request) -> Option<Request> {
        let (first, last) = self.ends?;
        let request = request.arg(self.group.name.clone());
        let request = match self.idle {
            Some(idle) => request.arg("IDLE").int(millis(idle)),
            None => request,
        };
        let request = request.arg(first.bytes()).arg(last.bytes()).int(self.limit.max(1).into());
        Some(self.consumer.iter().fold(request, |request, consumer| request.arg(consumer.clone())))
    }

    /// The entries themselves that are pending so, without those that were removed from the stream. They do not count as given.
    ///
    /// # Errors
    ///
    /// [`StreamError`] says what is true then; [`ObjectError::InvalidArgument`] of a limit above 10,000.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "pendingRange")]
    pub async fn entries(self) -> Result<Vec<Entry<K, V>>, StreamError>
    where
        KC: Decode<K>,
        VC: Decode<V>,
    {
        let place = self.group.place();
        if self.limit > 10_000 {
            return Err(place.invalid("limit", "up to 10000 with their fields", self.limit).into());
        }
        let request = PENDING_ENTRIES.with([place.named()?.1.clone()]);
        let Some(request) = self.written(request) else { return Ok(Vec::new()) };
        let found: Raws = self.group.ask(request).await?;
        self.group.stream.all(&found.0)
    }
}

impl<K: 'static, V: 'static, KC: Codec, VC: Codec> IntoFuture for Pending<K, V, KC, VC> {
    type Output = Result<Vec<PendingEntry>, StreamError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            match self.written(self.group.place().command("XPENDING")?) {
                Some(request) => self.group.ask(request).await,
                None => Ok(Vec::new()),
            }
        })
    }
}

/// As servers take it: to the millisecond, and no more than they can count.
fn millis(idle: Duration) -> i64 {
    i64::try_from(idle.as_millis()).unwrap_or(i64::MAX).min(MOST_IDLE)
}

/// About 292,000 years in milliseconds: what is added to a moment of a server still is a moment.
const MOST_IDLE: i64 = i64::MAX / 1_000;
