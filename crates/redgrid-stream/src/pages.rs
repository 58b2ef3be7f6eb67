//! The pages of entries that a consumer reads.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redgrid_codecs::{Codec, Decode};
use redgrid_core::Failure;
use redgrid_core::author::{Backoff, ClientExt};
use redgrid_core::clock::Instant;
use redgrid_core::object::ObjectError;
use redgrid_core::wait_queue::WaitQueue;

use crate::create::Start;
use crate::delivery::Origin;
use crate::entry::{Entry, RawEntry};
use crate::error::StreamError;
use crate::group::Group;
use crate::id::EntryId;
use crate::new_entries::{NewEntries, shut_down};
use crate::outstanding::{FetchedEntry, OutstandingEntries};

/// The pauses after consecutive errors.
const ERROR_PAUSES: Backoff = Backoff { first: Duration::from_millis(10), longest: Duration::from_secs(1) };

#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    pub(crate) page: u32,
    pub(crate) claim: Option<Duration>,
    pub(crate) create: Option<Start>,
}

/// The entries that the consumer reads next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextRead {
    /// The pending entries of the consumer after this id.
    PendingAfter(EntryId),
    New,
}

/// The state of a consumer between two pages.
pub(crate) struct State {
    next: NextRead,
    /// When to read all pending entries again. Requests that are in flight now can no longer
    /// deliver entries at that time.
    reread_pending_at: Instant,
    outstanding: OutstandingEntries,
    /// Whether the last page was claimed. If so, new entries are read before more are claimed.
    claimed_last: bool,
    /// When the consumer claims idle entries next.
    claim_at: Instant,
    /// The id at which the next claim starts.
    claim_from: EntryId,
    /// The number of consecutive errors.
    failures: u32,
    new_entries: Arc<WaitQueue<NewEntries>>,
}

pub(crate) type Page = Result<Vec<FetchedEntry>, StreamError>;

/// Returns the page and the new state; without a state, the consumer has ended.
pub(crate) type PageFuture = Pin<Box<dyn Future<Output = (Option<State>, Page)> + Send>>;

/// The source of a consumer's pages, with erased codec types.
pub(crate) trait PageSource<K, V>: Send + Sync {
    fn fetch(&self, options: Options, state: Option<State>) -> PageFuture;
    fn decode(&self, raw: &RawEntry) -> Result<Entry<K, V>, StreamError>;
    fn origin(&self) -> Origin;
}

pub(crate) struct ConsumerSource<K, V, KC, VC> {
    pub(crate) group: Group<K, V, KC, VC>,
    pub(crate) consumer: Arc<str>,
}

redgrid_core::clone_fields!([K, V, KC: Clone, VC: Clone] ConsumerSource<K, V, KC, VC> { group, consumer });

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Decode<V>> PageSource<K, V> for ConsumerSource<K, V, KC, VC> {
    fn fetch(&self, options: Options, state: Option<State>) -> PageFuture {
        let source = self.clone();
        Box::pin(async move {
            let mut state = match state.map_or_else(|| source.initial_state(), Ok) {
                Ok(state) => state,
                Err(error) => return (None, Err(error.into())),
            };
            let page = source.next_page(options, &mut state).await;
            state.failures = if page.is_ok() { 0 } else { state.failures.saturating_add(1) };
            let ended = page.is_err() && source.group.object_ref().client().is_shut_down();
            ((!ended).then_some(state), page)
        })
    }

    fn decode(&self, raw: &RawEntry) -> Result<Entry<K, V>, StreamError> {
        self.group.stream.decode_entry(raw)
    }

    fn origin(&self) -> Origin {
        Origin { object_ref: self.group.object_ref().clone(), group: self.group.name.clone().into() }
    }
}

impl<K, V, KC: Codec, VC: Codec> ConsumerSource<K, V, KC, VC> {
    fn initial_state(&self) -> Result<State, ObjectError> {
        let object_ref = self.group.object_ref();
        let new_entries = NewEntries::queue(object_ref)?;
        let now = object_ref.client().clock().now();
        Ok(State {
            next: NextRead::PendingAfter(EntryId::MIN),
            // A request of an earlier consumer with this name may be in flight.
            reread_pending_at: self.in_flight_end(),
            outstanding: OutstandingEntries::default(),
            claimed_last: false,
            claim_at: now,
            claim_from: EntryId::MIN,
            failures: 0,
            new_entries,
        })
    }

    /// Returns the time from which requests that were already sent can deliver no more entries.
    ///
    /// It includes a margin for servers whose clocks run slightly slower.
    fn in_flight_end(&self) -> Instant {
        let client = self.group.object_ref().client();
        client.clock().now() + client.response_timeout() + client.response_timeout() / 100 + Duration::from_millis(1)
    }

    /// Waits for the next page that has entries, and returns it.
    async fn next_page(&self, options: Options, state: &mut State) -> Page {
        let client = self.group.object_ref().client();
        if state.failures > 0 {
            let pause = ERROR_PAUSES.after(state.failures - 1);
            tokio::select! {
                biased;
                () = client.closing() => {}
                () = client.clock().sleep_until(client.clock().now() + pause) => {}
            }
        }
        loop {
            if client.is_shut_down() {
                return Err(shut_down(self.group.object_ref()).into());
            }
            let wakeups = state.new_entries.resource().wakeups();
            let found = match self.poll_page(options, state).await {
                Err(error) => {
                    self.recover(options, state, error).await?;
                    continue;
                }
                Ok(found) => found,
            };
            match found {
                Some(found) if found.is_empty() => {}
                Some(found) => return Ok(found),
                None => {
                    let claim_at = options.claim.map_or(Instant::MAX, |_| state.claim_at);
                    state.new_entries.enter(wakeups).ended_by(claim_at.min(state.reread_pending_at)).await;
                }
            }
        }
    }

    /// Reads the next page. An empty page means that there is more to read; `None` means that there
    /// is not.
    async fn poll_page(&self, options: Options, state: &mut State) -> Result<Option<Vec<FetchedEntry>>, StreamError> {
        let clock = self.group.object_ref().client().clock();
        if state.next == NextRead::New && clock.now() >= state.reread_pending_at {
            (state.next, state.reread_pending_at) = (NextRead::PendingAfter(EntryId::MIN), Instant::MAX);
        }
        if let NextRead::PendingAfter(after) = state.next {
            let mut found = self.group.pending_after(&self.consumer, after, options.page).await?;
            state.next = found.last().map_or(NextRead::New, |last| NextRead::PendingAfter(last.id));
            found.retain(|raw| !state.outstanding.contains(raw.id));
            return Ok(Some(self.with_attempts(&mut state.outstanding, found).await));
        }
        if let Some(idle) = options.claim.filter(|_| !state.claimed_last && clock.now() >= state.claim_at) {
            let claimed = self.group.auto_claim_raw(&self.consumer, idle, state.claim_from, options.page).await?;
            match claimed.next {
                Some(next) => state.claim_from = next,
                None => (state.claim_at, state.claim_from) = (clock.now() + idle / 2, EntryId::MIN),
            }
            // Claimed pages alternate with pages of new entries.
            if !claimed.entries.is_empty() {
                state.claimed_last = true;
                return Ok(Some(self.with_attempts(&mut state.outstanding, claimed.entries).await));
            }
        }
        let found = self.group.read_new(&self.consumer, options.page, false).await?;
        state.claimed_last = false;
        let Some(last) = found.last().map(|last| last.id) else {
            let claim_continues = options.claim.is_some() && state.claim_from != EntryId::MIN;
            return Ok(claim_continues.then(Vec::new));
        };
        NewEntries::has_read(&state.new_entries, last);
        Ok(Some(found.into_iter().map(|raw| state.outstanding.insert(raw, 1)).collect()))
    }

    /// Adds the number of deliveries to each entry.
    ///
    /// Entries that are no longer in the stream are acknowledged and left out.
    async fn with_attempts(&self, outstanding: &mut OutstandingEntries, found: Vec<RawEntry>) -> Vec<FetchedEntry> {
        let (found, removed): (Vec<_>, Vec<_>) = found.into_iter().partition(|raw| raw.fields.is_some());
        if !removed.is_empty() {
            // If this fails, the acknowledgement is repeated when the entries are read again. The
            // other entries are delivered in any case.
            let _ = self.group.ack(removed.into_iter().map(|raw| raw.id)).await;
        }
        let counts = self.group.delivery_counts(&self.consumer, &found).await.unwrap_or_default();
        // If the count is unknown, assume one earlier delivery and this one.
        let attempt = |raw: &RawEntry| counts.get(&raw.id).copied().unwrap_or(2);
        found
            .into_iter()
            .map(|raw| {
                let attempt = attempt(&raw);
                outstanding.insert(raw, attempt)
            })
            .collect()
    }

    /// Prepares to continue after an error, or returns the error.
    async fn recover(&self, options: Options, state: &mut State, error: StreamError) -> Result<(), StreamError> {
        if error.is_no_group() {
            // The pending entries were deleted with the group. In a new group, the same ids may
            // belong to other entries.
            state.outstanding.clear();
        }
        match (error, options.create) {
            // Entries that the request delivers or claims are pending for this consumer, and no
            // other consumer receives them. They are pending now, or later if the request is still
            // in flight.
            (StreamError::Object(ObjectError::Failed(Failure::OutcomeUnknown { .. })), _) => {
                (state.next, state.reread_pending_at) = (NextRead::PendingAfter(EntryId::MIN), self.in_flight_end());
                Ok(())
            }
            (StreamError::NoGroup { .. }, Some(start)) => match self.group.create().from(start).make_stream().await {
                // If the group exists, another consumer has created it.
                Ok(()) | Err(StreamError::GroupExists { .. }) => Ok(()),
                Err(error) => Err(error),
            },
            (error, _) => Err(error),
        }
    }
}
