//! What is given out and not acknowledged yet.

use std::collections::HashMap;
use std::future::IntoFuture;
use std::ops::RangeBounds;
use std::pin::Pin;
use std::time::Duration;

use redgrid_codecs::{Codec, Decode};
use redgrid_core::{FromReply, Pairs, Reply, Request, Script, ServerError};

use crate::entry::{Entry, Raw, Raws};
use crate::error::StreamError;
use crate::group::Group;
use crate::id::{EntryId, ends};
use crate::read::PAGE;

static PENDING_ENTRIES: Script<1> = Script::new("stream/pending_entries", include_str!("scripts/pending_entries.lua"));

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

impl<K, V, KC: Codec, VC: Codec> Group<K, V, KC, VC> {
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
    /// [`StreamError`] says what is true then; [`ObjectError::InvalidArgument`](redgrid_core::object::ObjectError::InvalidArgument) of a limit
    /// above 10,000.
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
pub(crate) fn millis(idle: Duration) -> i64 {
    i64::try_from(idle.as_millis()).unwrap_or(i64::MAX).min(MOST_IDLE)
}

/// About 292,000 years in milliseconds: what is added to a moment of a server still is a moment.
const MOST_IDLE: i64 = i64::MAX / 1_000;
