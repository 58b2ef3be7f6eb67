//! Delivered entries that are not acknowledged yet.

use std::collections::HashMap;
use std::ops::RangeBounds;
use std::time::Duration;

use redgrid_codecs::{Codec, Decode};
use redgrid_core::into_future;
use redgrid_core::{FromReply, Pairs, Reply, Request, Script, ServerError};

use crate::entry::{Entry, RawEntries, RawEntry};
use crate::error::StreamError;
use crate::group::Group;
use crate::id::{EntryId, range_ends};
use crate::read::PAGE;

static PENDING_ENTRIES: Script<1> = Script::new("stream/pending_entries", include_str!("scripts/pending_entries.lua"));

/// The maximum number of other pending entries of a consumer between the entries of a page. If
/// there are more, some delivery counts are unknown.
const MAX_INTERLEAVED: usize = 1_000;

/// A summary of the pending entries of a group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
#[doc(alias = "PendingResult")]
pub struct PendingSummary {
    /// The number of pending entries.
    pub total: u64,
    /// The first and the last id.
    pub range: Option<(EntryId, EntryId)>,
    /// The number for each consumer that has pending entries.
    pub consumers: Vec<(String, u64)>,
}

impl FromReply for PendingSummary {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        type SummaryReply = (u64, Option<EntryId>, Option<EntryId>, Option<Pairs<String, u64>>);
        let (total, first, last, consumers): SummaryReply = reply.into_typed()?;
        let consumers = consumers.map(|counts| counts.0).unwrap_or_default();
        Ok(PendingSummary { total, range: first.zip(last), consumers })
    }
}

/// An entry that was delivered and not acknowledged.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PendingEntry {
    /// The id of the entry.
    pub id: EntryId,
    /// The consumer to which it was delivered last.
    pub consumer: String,
    /// The time since the last delivery.
    pub idle: Duration,
    /// The number of deliveries.
    pub deliveries: u64,
}

impl FromReply for PendingEntry {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        let (id, consumer, idle, deliveries) = reply.into_typed()?;
        Ok(PendingEntry { id, consumer, idle: Duration::from_millis(idle), deliveries })
    }
}

impl<K, V, KC: Codec, VC: Codec> Group<K, V, KC, VC> {
    /// Returns how many entries are pending, in total and for each consumer.
    ///
    /// # Errors
    ///
    /// [`StreamError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "getPendingInfo")]
    pub async fn pending(&self) -> Result<PendingSummary, StreamError> {
        self.query(self.command("XPENDING")?).await
    }

    /// Lists the pending entries, when awaited: the first 100, unless [`Pending::limit`] is set.
    #[doc(alias = "listPending")]
    pub fn pending_entries(&self) -> Pending<K, V, KC, VC> {
        let all = Some((EntryId::MIN, EntryId::MAX));
        Pending { group: self.clone(), ends: all, idle: None, limit: PAGE, consumer: None }
    }

    /// Returns how often these entries were delivered, as far as the server returns them.
    pub(crate) async fn delivery_counts(
        &self,
        consumer: &str,
        entries: &[RawEntry],
    ) -> Result<HashMap<EntryId, u64>, StreamError> {
        let ids = || entries.iter().map(|raw| raw.id);
        let (Some(first), Some(last)) = (ids().min(), ids().max()) else {
            return Ok(HashMap::new());
        };
        let request = self.command("XPENDING")?.arg(first.to_bytes()).arg(last.to_bytes());
        // Other pending entries of the consumer may lie between them.
        let request = request.arg((entries.len() + MAX_INTERLEAVED).to_string()).arg(consumer.to_owned());
        let pending: Vec<PendingEntry> = self.query(request).await?;
        Ok(pending.into_iter().map(|entry| (entry.id, entry.deliveries)).collect())
    }
}

/// Lists pending entries when awaited; made by [`Group::pending_entries`].
#[must_use = "does nothing until awaited"]
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
    /// Lists only entries with ids in a range.
    pub fn range(self, ids: impl RangeBounds<EntryId>) -> Self {
        Pending { ends: range_ends(&ids), ..self }
    }

    /// Lists only entries that were not delivered for at least this long, in whole milliseconds.
    pub fn idle(self, idle: Duration) -> Self {
        Pending { idle: Some(idle), ..self }
    }

    /// Lists only entries that are pending for this consumer.
    pub fn consumer(self, consumer: impl Into<String>) -> Self {
        Pending { consumer: Some(consumer.into()), ..self }
    }

    /// Limits the number of entries, 1 or more. The default is 100.
    pub fn limit(self, entries: u32) -> Self {
        Pending { limit: entries, ..self }
    }

    /// Adds the arguments of XPENDING after the key; `None` if the range is empty.
    fn add_args(&self, request: Request) -> Option<Request> {
        let (first, last) = self.ends?;
        let request = request.arg(self.group.name.clone());
        let request = match self.idle {
            Some(idle) => request.arg("IDLE").int(millis(idle)),
            None => request,
        };
        let request = request.arg(first.to_bytes()).arg(last.to_bytes()).int(self.limit.max(1).into());
        Some(self.consumer.iter().fold(request, |request, consumer| request.arg(consumer.clone())))
    }

    /// Reads the pending entries with their fields, without those that were removed from the
    /// stream.
    ///
    /// This does not count as a delivery.
    ///
    /// # Errors
    ///
    /// [`StreamError`] states what failed and whether anything may have changed. It is
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) for a
    /// limit above 10,000.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "pendingRange")]
    pub async fn entries(self) -> Result<Vec<Entry<K, V>>, StreamError>
    where
        KC: Decode<K>,
        VC: Decode<V>,
    {
        let object_ref = self.group.object_ref();
        if self.limit > 10_000 {
            return Err(object_ref.invalid("limit", "up to 10000 with their fields", self.limit).into());
        }
        let request = PENDING_ENTRIES.with([object_ref.name_and_key()?.1.clone()]);
        let Some(request) = self.add_args(request) else { return Ok(Vec::new()) };
        let found: RawEntries = self.group.query(request).await?;
        self.group.stream.decode_all(&found.0)
    }
}

into_future!(
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    [K: 'static, V: 'static, KC: Codec, VC: Codec] Pending<K, V, KC, VC> => Result<Vec<PendingEntry>, StreamError>,
    |this| async move {
        match this.add_args(this.group.object_ref().command("XPENDING")?) {
            Some(request) => this.group.query(request).await,
            None => Ok(Vec::new()),
        }
    }
);

/// Converts an idle time to milliseconds, limited to [`MAX_IDLE_MS`].
pub(crate) fn millis(idle: Duration) -> i64 {
    i64::try_from(idle.as_millis()).unwrap_or(i64::MAX).min(MAX_IDLE_MS)
}

/// About 292,000 years in milliseconds. The server can add this to its time without an overflow.
const MAX_IDLE_MS: i64 = i64::MAX / 1_000;
