//! Where ids come from inside a process: out of blocks, which all who wait ask for together, and ahead of time.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use redgrid_core::clock::Instant;
use redgrid_core::{BatchExecutor, Batcher, Client, Name, ServerError, WeakClient};

use crate::block::{Block, Store, Use};
use crate::error::IdError;

/// How long nothing is asked for ahead of time after that failed: 1 s, far less than a block of any size lasts where it matters, and
/// rarely enough for a server that is down.
const PAUSE: Duration = Duration::from_secs(1);

/// How many callers wait for one block at most.
const MOST: usize = 100_000;

/// Who gives blocks of ids.
pub(crate) trait Source: Send + Sync + 'static {
    /// What has to stay as it is for a block to be good.
    type While: Send + Clone + 'static;
    /// What can be done to where ids come from.
    type Change: Send + 'static;

    /// A block of one id or more. One is asked for at a time.
    fn fetch(
        &self,
        client: &Client,
        need: Need,
        until: Instant,
    ) -> impl Future<Output = Result<Block<Self::While>, IdError>> + Send;

    /// Changes where ids come from, while none are asked for; tells whether it did.
    fn change(&self, client: &Client, change: Self::Change) -> impl Future<Output = Result<bool, IdError>> + Send;

    /// The generator, for errors.
    fn name(&self) -> &Name;

    /// Whether a block is still good.
    fn stands(&self, client: &Client, block: &Self::While) -> bool;

    /// A block of fewer is not worth another one ahead of time.
    const WORTH_MORE: u64;
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Need {
    /// So many wait; 0 where it is asked for ahead of time.
    pub(crate) wanted: u64,
    /// How those before were used.
    pub(crate) used: Use,
}

/// The ids of one generator and client. The client keeps it, and it does not keep the client.
pub(crate) struct Supply<S: Source> {
    shared: Arc<Shared<S>>,
    combiner: Batcher<Refill<S>>,
    /// A block is being asked for ahead of time.
    is_ahead: AtomicBool,
}

struct Shared<S: Source> {
    client: WeakClient,
    source: S,
    store: Mutex<Store<S::While>>,
    /// Nothing is asked for ahead of time before this.
    ahead_from: Mutex<Instant>,
    /// How many wait for an id. Whoever comes later stands behind them.
    waiting: Arc<AtomicUsize>,
}

/// Asks for blocks, one at a time.
struct Refill<S: Source>(Arc<Shared<S>>);

/// What one asks for.
enum Ask<C> {
    /// An id.
    One(#[expect(dead_code, reason = "it counts by being there")] Place),
    /// A block, if there are few ids left.
    Ahead,
    /// A change of where ids come from.
    Change(C),
}

/// That somebody waits for an id which he has not been given yet.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn new(waiting: &Arc<AtomicUsize>) -> Self {
        waiting.fetch_add(1, Ordering::AcqRel);
        Place(Arc::clone(waiting))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl<S: Source> Supply<S> {
    pub(crate) fn new(client: &Client, source: S) -> Self {
        let (store, ahead_from) = (Mutex::default(), Mutex::new(Instant::MIN));
        let shared =
            Arc::new(Shared { client: client.downgrade(), source, store, ahead_from, waiting: Arc::default() });
        let combiner = Batcher::new(Refill(Arc::clone(&shared)));
        Supply { shared, combiner, is_ahead: AtomicBool::new(false) }
    }

    pub(crate) fn source(&self) -> &S {
        &self.shared.source
    }

    /// An id: out of memory, or together with all others who wait.
    pub(crate) async fn next(self: &Arc<Self>, client: &Client) -> Result<i64, IdError> {
        if self.shared.waiting.load(Ordering::Acquire) > 0 {
            return self.wait(client).await;
        }
        let (id, is_low) = self.shared.take(client);
        if is_low {
            self.fetch_ahead(client);
        }
        match id {
            Some(id) => Ok(id),
            None => self.wait(client).await,
        }
    }

    async fn wait(self: &Arc<Self>, client: &Client) -> Result<i64, IdError> {
        let mut waiting = Waiting { supply: self, client, is_over: false };
        let place = Place::new(&self.shared.waiting);
        let answer = self.combiner.submit(client, Ask::One(place)).await;
        waiting.is_over = true;
        answer.map_err(|error| IdError::of_ids(self.shared.source.name(), error))?
    }

    /// Changes where ids come from, and throws away what is in memory if that was done. It stands in the same line as those who wait
    /// for ids: nothing that was asked for before comes after it.
    pub(crate) async fn change(&self, client: &Client, change: S::Change) -> Result<bool, IdError> {
        let answer = self.combiner.submit(client, Ask::Change(change)).await;
        Ok(answer.map_err(|error| IdError::of_change(self.shared.source.name(), error))?? != 0)
    }

    /// Has a block asked for in the background, in the same line as those who wait for an id; one at a time.
    fn fetch_ahead(self: &Arc<Self>, client: &Client) {
        let now = client.clock().now();
        if *self.shared.ahead_from() > now || self.is_ahead.swap(true, Ordering::AcqRel) {
            return;
        }
        let (pending, asking) = (Pending(Arc::clone(self)), client.clone());
        client.run_in_background(async move {
            let (supply, client) = (&pending.0, &asking);
            let answer = tokio::select! {
                biased;
                () = client.closing() => return,
                answer = supply.combiner.submit(client, Ask::Ahead) => answer,
            };
            if !matches!(answer, Ok(Ok(_))) {
                *supply.shared.ahead_from() = client.clock().now() + PAUSE;
            }
        });
    }
}

/// One who waits for an id. When he leaves, what he asked for is asked for in the background: whoever has little patience with a slow
/// server finds it there the next time, for as long as a block is good.
struct Waiting<'a, S: Source> {
    supply: &'a Arc<Supply<S>>,
    client: &'a Client,
    is_over: bool,
}

impl<S: Source> Drop for Waiting<'_, S> {
    fn drop(&mut self) {
        if !self.is_over {
            self.supply.fetch_ahead(self.client);
        }
    }
}

/// That a block is asked for ahead of time, until it is there or given up.
struct Pending<S: Source>(Arc<Supply<S>>);

impl<S: Source> Drop for Pending<S> {
    fn drop(&mut self) {
        self.0.is_ahead.store(false, Ordering::Release);
    }
}

impl<S: Source> Shared<S> {
    fn store(&self) -> MutexGuard<'_, Store<S::While>> {
        self.store.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn ahead_from(&self) -> MutexGuard<'_, Instant> {
        self.ahead_from.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The next id, if there is one in memory; and whether it is time to ask for more.
    fn take(&self, client: &Client) -> (Option<i64>, bool) {
        let now = client.clock().now();
        let mut store = self.store();
        let id = store.take(now, |block| self.source.stands(client, block));
        (id, id.is_some() && store.last_size() >= S::WORTH_MORE && store.is_low())
    }

    /// One more block. Its first ids are for those who wait, whatever becomes of the block meanwhile.
    async fn refill(&self, client: &Client, wanted: usize, until: Instant) -> Result<Vec<i64>, IdError> {
        let used = self.store().used(client.clock().now());
        let need = Need { wanted: u64::try_from(wanted).unwrap_or(u64::MAX), used };
        let block = self.source.fetch(client, need, until).await?;
        let now = client.clock().now();
        let mut store = self.store();
        // Where somebody waits there was nothing left, and nobody else puts anything in.
        store.put(block, now);
        Ok(std::iter::from_fn(|| store.pop(now)).take(wanted).collect())
    }

    async fn change(&self, client: &Client, change: S::Change) -> Result<bool, IdError> {
        let is_done = self.source.change(client, change).await?;
        if is_done {
            self.store().clear();
        }
        Ok(is_done)
    }
}

impl<S: Source> BatchExecutor for Refill<S> {
    type Request = Ask<S::Change>;
    /// An id; whether a change was made; without meaning where a block was asked for.
    type Reply = Result<i64, IdError>;

    /// Whatever is no id goes alone: nobody is to wait for that.
    fn max_prefix<'a>(&self, asks: impl Iterator<Item = &'a Ask<S::Change>>) -> usize {
        asks.take(MOST).take_while(|ask| matches!(ask, Ask::One(_))).count()
    }

    async fn execute(&self, mut batch: Vec<Ask<S::Change>>, until: Instant) -> Vec<Result<i64, IdError>> {
        let Refill(shared) = self;
        let Some(client) = &shared.client.upgrade() else {
            return vec![Err(IdError::of_ids(shared.source.name(), ServerError::ShuttingDown)); batch.len()];
        };
        match batch.pop() {
            Some(Ask::Change(change)) => return vec![shared.change(client, change).await.map(i64::from)],
            Some(Ask::Ahead) => {
                let is_low = shared.store().is_low();
                return vec![if is_low { shared.refill(client, 0, until).await.map(|_| 0) } else { Ok(0) }];
            }
            Some(one) => batch.push(one),
            None => {}
        }
        // What was asked for ahead of time may have arrived since.
        let mut ids: Vec<_> = std::iter::from_fn(|| shared.take(client).0).take(batch.len()).collect();
        let mut failed = None;
        while ids.len() < batch.len() && failed.is_none() {
            match shared.refill(client, batch.len() - ids.len(), until).await {
                Ok(more) => ids.extend(more),
                Err(error) => failed = Some(error),
            }
        }
        let missing = failed.map(|error| vec![Err(error); batch.len() - ids.len()]);
        ids.into_iter().map(Ok).chain(missing.into_iter().flatten()).collect()
    }
}

impl<S: Source> fmt::Debug for Supply<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Supply").finish_non_exhaustive()
    }
}
