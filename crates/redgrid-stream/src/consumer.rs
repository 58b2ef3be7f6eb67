//! A consumer of a group as a stream of deliveries.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt;
use redgrid_codecs::{Codec, Decode};
use redgrid_core::Failure;
use redgrid_core::author::{Backoff, ClientExt};
use redgrid_core::clock::Instant;
use redgrid_core::object::ObjectError;
use redgrid_core::wait_queue::WaitQueue;

use crate::create::Start;
use crate::delivery::{Delivery, Origin};
use crate::entry::{Entry, RawEntry};
use crate::error::StreamError;
use crate::group::Group;
use crate::id::EntryId;
use crate::new_entries::{NewEntries, shut_down};
use crate::outstanding::{FetchedEntry, OutstandingEntries};
use crate::read::PAGE;

/// The pauses after consecutive errors.
const ERROR_PAUSES: Backoff = Backoff { first: Duration::from_millis(10), longest: Duration::from_secs(1) };

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Decode<V>> Group<K, V, KC, VC> {
    /// Returns a stream of the deliveries to the consumer with this name: see [`Consumer`].
    ///
    /// No request is sent until it is polled.
    ///
    /// A name may be used by one consumer at a time. A second one, in this or another process,
    /// would receive the entries that the first has not acknowledged. A process that is restarted
    /// under the same name continues with these. A process that uses a new name each time leaves
    /// them to [`Consumer::claim_idle`]. It should then remove the old names with
    /// [`Group::remove_consumer`], once nothing is pending for them.
    pub fn consumer(&self, name: impl Into<String>) -> Consumer<K, V> {
        let options = Options { page: PAGE, claim: None, create: None };
        Consumer {
            source: Box::new(ConsumerSource { group: self.clone(), consumer: name.into().into() }),
            options,
            state: None,
            fetching: None,
            fetched: VecDeque::new(),
            ended: false,
        }
    }
}

/// A stream of the deliveries of a group to one of its consumers; made by [`Group::consumer`].
///
/// The entries that are pending for the consumer come first, as after a restart. New entries follow
/// as they are added. Each entry is delivered at least once, and is pending until
/// [`Delivery::ack`]. The entries of a consumer that crashes are delivered to it when it restarts
/// under the same name, or to others by [`Consumer::claim_idle`]. The next page is requested when
/// the current one has been consumed. So one page is in memory, and at most one page and the
/// unacknowledged deliveries are pending for the consumer.
///
/// After a lost reply, and once a moment after the start, the consumer reads all its pending
/// entries again: a request that was in flight may have delivered entries without a reply. Entries
/// that the user holds as a [`Delivery`] are skipped. Those that were dropped without an
/// acknowledgement are delivered again then.
///
/// A call that was started and is no longer polled counts as waiting until an entry is added, and
/// the client polls for entries once a second. Drop it when it is no longer needed.
///
/// The stream never ends by itself, unless the name of the stream is invalid. An error is an item
/// of the stream, which continues with the next call after a pause. It ends only after the error
/// that reports the shutdown of the client. An entry that cannot be decoded is
/// [`StreamError::Undecodable`] and stays pending: [`Group::ack`] discards it.
///
/// ```no_run
/// # #[cfg(feature = "json")]
/// # async fn demo(orders: redgrid_stream::Stream<String, String>) -> Result<(), redgrid_stream::StreamError> {
/// use std::time::Duration;
///
/// use redgrid_stream::Start;
///
/// let billing = orders.group("billing");
/// let mut deliveries =
///     billing.consumer("billing-1").create_if_missing(Start::Beginning).claim_idle(Duration::from_secs(60));
/// while let Some(delivery) = deliveries.try_next().await? {
///     println!("{} for the {}th time: {:?}", delivery.id, delivery.attempt(), delivery.fields);
///     delivery.ack().await?;
/// }
/// # Ok(()) }
/// ```
#[must_use = "streams do nothing unless polled"]
pub struct Consumer<K, V> {
    source: Box<dyn PageSource<K, V>>,
    options: Options,
    /// The state between two pages; `None` while a page is fetched, and before the first.
    state: Option<State>,
    fetching: Option<PageFuture>,
    fetched: VecDeque<FetchedEntry>,
    ended: bool,
}

#[derive(Debug, Clone, Copy)]
struct Options {
    page: u32,
    claim: Option<Duration>,
    create: Option<Start>,
}

/// What the consumer reads next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NextRead {
    /// Its pending entries after this id.
    PendingAfter(EntryId),
    New,
}

/// The state of a consumer between two pages.
struct State {
    next: NextRead,
    /// When all pending entries are read again. By then, requests that were in flight before can no
    /// longer deliver entries.
    reread_pending_at: Instant,
    outstanding: OutstandingEntries,
    /// The last page was claimed: new entries are read before more are claimed.
    claimed_last: bool,
    /// When the consumer claims idle entries.
    claim_at: Instant,
    /// The id from which it claims.
    claim_from: EntryId,
    /// The number of consecutive errors.
    failures: u32,
    new_entries: Arc<WaitQueue<NewEntries>>,
}

type Page = Result<Vec<FetchedEntry>, StreamError>;

/// Returns the page and the new state; no state if the consumer has ended.
type PageFuture = Pin<Box<dyn Future<Output = (Option<State>, Page)> + Send>>;

/// The source of a consumer's pages, with erased codec types.
trait PageSource<K, V>: Send + Sync {
    fn fetch(&self, options: Options, state: Option<State>) -> PageFuture;
    fn decode(&self, raw: &RawEntry) -> Result<Entry<K, V>, StreamError>;
    fn origin(&self) -> Origin;
}

struct ConsumerSource<K, V, KC, VC> {
    group: Group<K, V, KC, VC>,
    consumer: Arc<str>,
}

impl<K, V, KC: Clone, VC: Clone> Clone for ConsumerSource<K, V, KC, VC> {
    fn clone(&self) -> Self {
        ConsumerSource { group: self.group.clone(), consumer: Arc::clone(&self.consumer) }
    }
}

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
            // A request of an earlier consumer with this name may still be in flight.
            reread_pending_at: self.in_flight_end(),
            outstanding: OutstandingEntries::default(),
            claimed_last: false,
            claim_at: now,
            claim_from: EntryId::MIN,
            failures: 0,
            new_entries,
        })
    }

    /// Returns when requests that were sent until now can no longer deliver entries.
    ///
    /// The margin is for servers whose clocks run slightly slower.
    fn in_flight_end(&self) -> Instant {
        let client = self.group.object_ref().client();
        client.clock().now() + client.response_timeout() + client.response_timeout() / 100 + Duration::from_millis(1)
    }

    /// Returns the next page that has entries, and waits for it.
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

    /// Reads the next page. It is empty if there is more to read, and `None` if there is nothing.
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
            // If this fails, it is tried again when they are read again. The other entries are
            // delivered in any case.
            let _ = self.group.ack(removed.into_iter().map(|raw| raw.id)).await;
        }
        let counts = self.group.delivery_counts(&self.consumer, &found).await.unwrap_or_default();
        // If the count is unknown: at least once before, and now.
        let attempt = |raw: &RawEntry| counts.get(&raw.id).copied().unwrap_or(2);
        found
            .into_iter()
            .map(|raw| (attempt(&raw), raw))
            .map(|(attempt, raw)| outstanding.insert(raw, attempt))
            .collect()
    }

    /// Prepares to continue after an error, or returns the error.
    async fn recover(&self, options: Options, state: &mut State, error: StreamError) -> Result<(), StreamError> {
        if error.is_no_group() {
            // The pending entries were deleted with the group. In another, the same ids may be
            // other entries.
            state.outstanding.clear();
        }
        match (error, options.create) {
            // Entries that the request delivered or claimed are pending for this consumer, and no
            // other receives them: they are pending now, or shortly if the request is in flight.
            (StreamError::Object(ObjectError::Failed(Failure::OutcomeUnknown { .. })), _) => {
                (state.next, state.reread_pending_at) = (NextRead::PendingAfter(EntryId::MIN), self.in_flight_end());
                Ok(())
            }
            (StreamError::NoGroup { .. }, Some(start)) => match self.group.create().from(start).make_stream().await {
                // Another consumer may have created it.
                Ok(()) | Err(StreamError::GroupExists { .. }) => Ok(()),
                Err(error) => Err(error),
            },
            (error, _) => Err(error),
        }
    }
}

impl<K, V> Consumer<K, V> {
    /// Sets the number of entries of a page, at least 1. The default is 100.
    ///
    /// Larger pages need fewer requests. With smaller pages, fewer entries wait behind a consumer
    /// that is slow or crashes.
    pub fn page(mut self, entries: u32) -> Self {
        self.options.page = entries.max(1);
        self
    }

    /// Claims entries that were not delivered for this long, from other consumers and from its own.
    ///
    /// They are claimed a page at a time, before new entries: at the start, and then every half of
    /// that time. If the reply to a claim is lost and the claim is executed late, the claimed
    /// entries are idle for another such period. Choose more time than the work on a page takes;
    /// otherwise the work is done twice. Without this option nothing is claimed. The smallest value
    /// is 10 ms.
    pub fn claim_idle(mut self, idle: Duration) -> Self {
        // The server counts milliseconds, and each check is a request.
        self.options.claim = Some(idle.max(Duration::from_millis(10)));
        self
    }

    /// Creates the group and the stream if they are missing.
    ///
    /// This applies at the start, after a failover that has lost the group, and after it was
    /// removed. [`Start::Beginning`] loses no entry that was added and not delivered by then;
    /// entries that were delivered before are delivered again. Without this option, a missing group
    /// is [`StreamError::NoGroup`].
    pub fn create_if_missing(mut self, start: Start) -> Self {
        self.options.create = Some(start);
        self
    }

    /// Returns the next delivery; `None` after the client has ended.
    ///
    /// # Errors
    ///
    /// [`StreamError`]; the next call continues after it.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, nothing is lost: the next call returns the entries that were
    /// requested. If the consumer is dropped, the entries that were not returned stay pending, and
    /// are delivered first to the next consumer of its name.
    pub async fn try_next(&mut self) -> Result<Option<Delivery<K, V>>, StreamError> {
        self.next().await.transpose()
    }
}

impl<K, V> futures_util::Stream for Consumer<K, V> {
    type Item = Result<Delivery<K, V>, StreamError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(FetchedEntry { raw, attempt, outstanding }) = this.fetched.pop_front() {
                let (entry, origin) = (this.source.decode(&raw), this.source.origin());
                return Poll::Ready(Some(entry.map(|entry| Delivery {
                    entry,
                    attempt,
                    origin,
                    _outstanding: outstanding,
                })));
            }
            if this.ended {
                return Poll::Ready(None);
            }
            let mut fetching =
                this.fetching.take().unwrap_or_else(|| this.source.fetch(this.options, this.state.take()));
            match fetching.as_mut().poll(cx) {
                Poll::Pending => {
                    this.fetching = Some(fetching);
                    return Poll::Pending;
                }
                Poll::Ready((state, page)) => {
                    (this.ended, this.state) = (state.is_none(), state);
                    match page {
                        Ok(page) => this.fetched.extend(page),
                        Err(error) => return Poll::Ready(Some(Err(error))),
                    }
                }
            }
        }
    }
}

impl<K, V> Unpin for Consumer<K, V> {}

impl<K, V> fmt::Debug for Consumer<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Origin { object_ref, group } = self.source.origin();
        let mut debug = f.debug_struct("Consumer");
        debug
            .field("name", &object_ref.name())
            .field("group", &group)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
