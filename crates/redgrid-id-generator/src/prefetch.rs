//! The ids of a generator in a process: blocks that are fetched for all waiting calls together, and
//! ahead of demand.
//!
//! Calls do not wait for a change on the server, so they use a [`Batcher`] instead of a
//! [`wait_queue`](redgrid_core::wait_queue).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use redgrid_core::author::{BatchExecutor, Batcher, ClientExt};
use redgrid_core::clock::Instant;
use redgrid_core::{Client, Name, ServerError, WeakClient};

use crate::block::{Block, BlockQueue, Usage};
use crate::error::IdError;

/// The pause of prefetching after a failure: 1 s.
///
/// If blocks last long enough for prefetching to matter, they last much longer than this. It is
/// also long enough not to load a failing server.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The maximum number of calls that wait for one block.
const MAX_WAITERS: usize = 100_000;

/// The source of blocks of ids.
pub(crate) trait BlockSource: Send + Sync + 'static {
    /// The condition under which a block stays valid.
    type Condition: Send + Clone + 'static;
    /// The changes of the generator on the server.
    type Change: Send + 'static;

    /// Fetches a block of at least one id. Only one fetch is in flight at a time.
    fn fetch(
        &self,
        client: &Client,
        demand: Demand,
        until: Instant,
    ) -> impl Future<Output = Result<Block<Self::Condition>, IdError>> + Send;

    /// Changes the generator on the server, while no fetch is in flight. Returns whether it was
    /// changed.
    fn change(&self, client: &Client, change: Self::Change) -> impl Future<Output = Result<bool, IdError>> + Send;

    /// Returns the name of the generator, for errors.
    fn name(&self) -> &Name;

    /// Returns whether a block is still valid.
    fn is_valid(&self, client: &Client, condition: &Self::Condition) -> bool;

    /// The minimum size of a block for which the next one is prefetched.
    const MIN_PREFETCH_SIZE: u64;
}

/// The demand for a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand {
    /// The number of waiting calls; 0 for a prefetch.
    pub(crate) wanted: u64,
    /// The usage of the previous blocks.
    pub(crate) usage: Usage,
}

/// The ids of one generator for one client. The client keeps it alive, but it does not keep the
/// client alive.
pub(crate) struct Prefetcher<S: BlockSource> {
    shared: Arc<Shared<S>>,
    batcher: Batcher<BlockFetcher<S>>,
    /// Whether a prefetch is in flight.
    is_prefetching: AtomicBool,
}

struct Shared<S: BlockSource> {
    client: WeakClient,
    source: S,
    queue: Mutex<BlockQueue<S::Condition>>,
    /// Prefetching is paused until this time.
    prefetch_from: Mutex<Instant>,
    /// The number of calls that wait for an id. Later calls queue behind them.
    waiting: Arc<AtomicUsize>,
}

/// Fetches blocks, one at a time.
struct BlockFetcher<S: BlockSource>(Arc<Shared<S>>);

/// A request to the batcher.
enum IdRequest<C> {
    /// A request for one id.
    Next(#[expect(dead_code, reason = "it counts while it exists")] WaitingCount),
    /// A request for a block if few ids are left.
    Prefetch,
    /// A change of the generator.
    Change(C),
}

/// Counts a call that waits for an id, until it is dropped.
struct WaitingCount(Arc<AtomicUsize>);

impl WaitingCount {
    fn new(waiting: &Arc<AtomicUsize>) -> Self {
        waiting.fetch_add(1, Ordering::AcqRel);
        WaitingCount(Arc::clone(waiting))
    }
}

impl Drop for WaitingCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl<S: BlockSource> Prefetcher<S> {
    pub(crate) fn new(client: &Client, source: S) -> Self {
        let (queue, prefetch_from) = (Mutex::default(), Mutex::new(Instant::MIN));
        let shared =
            Arc::new(Shared { client: client.downgrade(), source, queue, prefetch_from, waiting: Arc::default() });
        let batcher = Batcher::new(BlockFetcher(Arc::clone(&shared)));
        Prefetcher { shared, batcher, is_prefetching: AtomicBool::new(false) }
    }

    pub(crate) fn source(&self) -> &S {
        &self.shared.source
    }

    /// Returns an id from memory. If there is none, waits for a block together with all other
    /// waiting calls.
    pub(crate) async fn next(self: &Arc<Self>, client: &Client) -> Result<i64, IdError> {
        if self.shared.waiting.load(Ordering::Acquire) > 0 {
            return self.wait(client).await;
        }
        let (id, is_low) = self.shared.take(client);
        if is_low {
            self.prefetch(client);
        }
        match id {
            Some(id) => Ok(id),
            None => self.wait(client).await,
        }
    }

    async fn wait(self: &Arc<Self>, client: &Client) -> Result<i64, IdError> {
        let mut guard = PrefetchOnCancel { prefetcher: self, client, is_completed: false };
        let count = WaitingCount::new(&self.shared.waiting);
        let reply = self.batcher.submit(client, IdRequest::Next(count)).await;
        guard.is_completed = true;
        reply.map_err(|error| IdError::of_ids(self.shared.source.name(), error))?
    }

    /// Changes the generator on the server. If it was changed, discards the ids in memory.
    ///
    /// The change is queued with the calls that wait for ids, so no earlier request is executed
    /// after it.
    pub(crate) async fn change(&self, client: &Client, change: S::Change) -> Result<bool, IdError> {
        let reply = self.batcher.submit(client, IdRequest::Change(change)).await;
        Ok(reply.map_err(|error| IdError::of_change(self.shared.source.name(), error))?? != 0)
    }

    /// Fetches a block in the background. The request is queued with the calls that wait for ids;
    /// at most one prefetch is in flight.
    fn prefetch(self: &Arc<Self>, client: &Client) {
        let now = client.clock().now();
        if *self.shared.prefetch_from() > now || self.is_prefetching.swap(true, Ordering::AcqRel) {
            return;
        }
        let (guard, task_client) = (PrefetchGuard(Arc::clone(self)), client.clone());
        client.run_in_background(async move {
            let (prefetcher, client) = (&guard.0, &task_client);
            let reply = tokio::select! {
                biased;
                () = client.closing() => return,
                reply = prefetcher.batcher.submit(client, IdRequest::Prefetch) => reply,
            };
            if !matches!(reply, Ok(Ok(_))) {
                *prefetcher.shared.prefetch_from() = client.clock().now() + RETRY_PAUSE;
            }
        });
    }
}

/// Starts a prefetch when a waiting call is cancelled.
///
/// So a caller with a short timeout and a slow server finds ids at its next call, if their block is
/// still valid.
struct PrefetchOnCancel<'a, S: BlockSource> {
    prefetcher: &'a Arc<Prefetcher<S>>,
    client: &'a Client,
    is_completed: bool,
}

impl<S: BlockSource> Drop for PrefetchOnCancel<'_, S> {
    fn drop(&mut self) {
        if !self.is_completed {
            self.prefetcher.prefetch(self.client);
        }
    }
}

/// Marks a prefetch as in flight until it has completed or is abandoned.
struct PrefetchGuard<S: BlockSource>(Arc<Prefetcher<S>>);

impl<S: BlockSource> Drop for PrefetchGuard<S> {
    fn drop(&mut self) {
        self.0.is_prefetching.store(false, Ordering::Release);
    }
}

impl<S: BlockSource> Shared<S> {
    fn queue(&self) -> MutexGuard<'_, BlockQueue<S::Condition>> {
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn prefetch_from(&self) -> MutexGuard<'_, Instant> {
        self.prefetch_from.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns the next id in memory, if there is one, and whether a prefetch is due.
    fn take(&self, client: &Client) -> (Option<i64>, bool) {
        let now = client.clock().now();
        let mut queue = self.queue();
        let id = queue.take(now, |condition| self.source.is_valid(client, condition));
        (id, id.is_some() && queue.last_size() >= S::MIN_PREFETCH_SIZE && queue.is_low())
    }

    /// Fetches a block. Its first ids are for the waiting calls, even if the block has become
    /// invalid meanwhile.
    async fn fetch(&self, client: &Client, wanted: usize, until: Instant) -> Result<Vec<i64>, IdError> {
        let usage = self.queue().usage(client.clock().now());
        let demand = Demand { wanted: u64::try_from(wanted).unwrap_or(u64::MAX), usage };
        let block = self.source.fetch(client, demand, until).await?;
        let now = client.clock().now();
        let mut queue = self.queue();
        // If calls wait, the queue was empty, and only this fetch adds blocks to it.
        queue.push(block, now);
        Ok(std::iter::from_fn(|| queue.pop(now)).take(wanted).collect())
    }

    async fn change(&self, client: &Client, change: S::Change) -> Result<bool, IdError> {
        let is_done = self.source.change(client, change).await?;
        if is_done {
            self.queue().clear();
        }
        Ok(is_done)
    }
}

impl<S: BlockSource> BatchExecutor for BlockFetcher<S> {
    type Request = IdRequest<S::Change>;
    /// An id, or whether a change was made (0 or 1). For a prefetch it has no meaning.
    type Reply = Result<i64, IdError>;

    /// Returns the number of requests that form a batch. Prefetches and changes are executed alone,
    /// so that no call for an id waits for them.
    fn max_prefix<'a>(&self, requests: impl Iterator<Item = &'a IdRequest<S::Change>>) -> usize {
        requests.take(MAX_WAITERS).take_while(|request| matches!(request, IdRequest::Next(_))).count()
    }

    async fn execute(&self, mut batch: Vec<IdRequest<S::Change>>, until: Instant) -> Vec<Result<i64, IdError>> {
        let BlockFetcher(shared) = self;
        let Some(client) = &shared.client.upgrade() else {
            return vec![Err(IdError::of_ids(shared.source.name(), ServerError::ShuttingDown)); batch.len()];
        };
        match batch.pop() {
            Some(IdRequest::Change(change)) => return vec![shared.change(client, change).await.map(i64::from)],
            Some(IdRequest::Prefetch) => {
                let is_low = shared.queue().is_low();
                return vec![if is_low { shared.fetch(client, 0, until).await.map(|_| 0) } else { Ok(0) }];
            }
            Some(next) => batch.push(next),
            None => {}
        }
        // A prefetched block may have arrived meanwhile.
        let mut ids: Vec<_> = std::iter::from_fn(|| shared.take(client).0).take(batch.len()).collect();
        let mut failure = None;
        while ids.len() < batch.len() && failure.is_none() {
            match shared.fetch(client, batch.len() - ids.len(), until).await {
                Ok(fetched) => ids.extend(fetched),
                Err(error) => failure = Some(error),
            }
        }
        let missing = failure.map(|error| vec![Err(error); batch.len() - ids.len()]);
        ids.into_iter().map(Ok).chain(missing.into_iter().flatten()).collect()
    }
}

redgrid_core::debug_fields!([S: BlockSource] Prefetcher<S>, |_it| );
