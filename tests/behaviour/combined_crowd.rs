//! Batched calls of many callers with minimal polling. Each call is polled only when the waker of
//! its last poll is woken; threads and wakers change. Some calls are cancelled at any stage, and
//! some are polled needlessly. In the later part of each round, calls are neither cancelled nor
//! polled needlessly. A lost or outdated wake-up then leaves a caller waiting.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use redgrid_core::author::{BatchExecutor, Batcher, Server};
use redgrid_core::clock::{Clock, Instant};
use redgrid_core::{Client, Config, Reply};
use redgrid_tests::SOON;
use redgrid_tests::fake_server::FakeServer;
use tokio::sync::{Notify, mpsc};

/// The number of rounds, and the number of results in a round for each place in the crowd.
const ROUNDS: u64 = 1_000;
const EACH: u64 = 10;

/// Returns its own request to each caller, immediately or after a moment. Each request is unique.
#[derive(Clone, Default)]
struct Echo {
    asked: Arc<Mutex<HashSet<u64>>>,
    most: Arc<AtomicU64>,
}

impl BatchExecutor for Echo {
    type Request = u64;
    type Reply = u64;

    fn max_prefix<'a>(&self, asks: impl Iterator<Item = &'a u64>) -> usize {
        asks.take(5).count()
    }

    async fn execute(&self, batch: Vec<u64>, _until: Instant) -> Vec<u64> {
        for _ in 0..fastrand::u8(..3) {
            tokio::task::yield_now().await;
        }
        assert!(batch.iter().all(|what| self.asked.lock().unwrap().insert(*what)), "requested twice: {batch:?}");
        self.most.fetch_max(batch.len() as u64, Ordering::Relaxed);
        batch
    }
}

/// A place in the crowd: it runs one call after another.
#[derive(Default)]
struct Place {
    asks: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// The number of the last poll. A waker of an earlier poll has no effect.
    polled: u64,
    is_over: bool,
}

struct Crowd {
    combiner: Batcher<Echo>,
    client: Client,
    places: Vec<Mutex<Place>>,
    /// The channels of the pollers. A message names a place, and the poll whose waker was woken.
    pollers: Vec<mpsc::UnboundedSender<(usize, u64)>>,
    begun: AtomicU64,
    told: AtomicU64,
    /// The number of results required in this round, and the number of those in progress.
    goal: AtomicU64,
    left: AtomicU64,
    all: Notify,
}

struct Woken {
    crowd: Arc<Crowd>,
    place: usize,
    polled: u64,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        let _ = fastrand::choice(&self.crowd.pollers).unwrap().send((self.place, self.polled));
    }
}

impl Crowd {
    fn is_running(&self) -> bool {
        self.told.load(Ordering::Relaxed) < self.goal.load(Ordering::Relaxed)
    }

    /// Polls the call at a place. If `woken` is given, the poll is done only if it is the number of
    /// the last poll.
    fn poll(self: &Arc<Self>, at: usize, woken: Option<u64>) {
        let mut place = self.places[at].lock().unwrap();
        if place.is_over || woken.is_some_and(|woken| woken != place.polled) {
            return;
        }
        // Some calls are cancelled; new calls replace them.
        if self.is_running() && fastrand::u8(..8) == 0 {
            place.asks = None;
        }
        place.polled += 1;
        let waker = Waker::from(Arc::new(Woken { crowd: Arc::clone(self), place: at, polled: place.polled }));
        let asks = place.asks.get_or_insert_with(|| Box::pin(Arc::clone(self).ask()));
        if asks.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            (place.asks, place.is_over) = (None, true);
            if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
                self.all.notify_one();
            }
        }
    }

    /// Submits requests until all places together have enough results.
    async fn ask(self: Arc<Self>) {
        while self.is_running() {
            let what = self.begun.fetch_add(1, Ordering::Relaxed);
            assert_eq!(self.combiner.submit(&self.client, what).await.unwrap(), what);
            self.told.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn round(self: &Arc<Self>) {
        let size = self.places.len();
        self.left.store(size as u64, Ordering::Relaxed);
        self.goal.fetch_add(EACH * size as u64, Ordering::Relaxed);
        for at in 0..size {
            self.places[at].lock().unwrap().is_over = false;
            self.poll(at, None);
        }
        let in_time = tokio::time::timeout(SOON, self.all.notified()).await;
        let left = self.left.load(Ordering::Relaxed);
        assert!(in_time.is_ok(), "of {size} callers {left} wait for ever: {} done", self.told.load(Ordering::Relaxed));
    }

    async fn run(self: Arc<Self>, mut woken: mpsc::UnboundedReceiver<(usize, u64)>) {
        while let Some((at, polled)) = woken.recv().await {
            self.poll(at, Some(polled));
            // Some calls are polled needlessly, and then have another waker.
            if self.is_running() && fastrand::u8(..4) == 0 {
                self.poll(fastrand::usize(..self.places.len()), None);
            }
        }
    }
}

async fn crowd_of(size: usize) -> Echo {
    let server = Arc::new(FakeServer::new("one:1", |_| Ok(Reply::Int(1))));
    let config = Config::single("one").unwrap().response_timeout(Duration::from_secs(100)).retries(3);
    let client = Client::over_one(server as Arc<dyn Server>, config, Clock::boot()).unwrap();
    let (pollers, woken): (Vec<_>, Vec<_>) = (0..3).map(|_| mpsc::unbounded_channel()).unzip();
    let echo = Echo::default();
    let crowd = Arc::new(Crowd {
        combiner: Batcher::new(echo.clone()),
        client,
        places: (0..size).map(|_| Mutex::default()).collect(),
        pollers,
        begun: AtomicU64::new(0),
        told: AtomicU64::new(0),
        goal: AtomicU64::new(0),
        left: AtomicU64::new(0),
        all: Notify::new(),
    });
    let tasks: Vec<_> = woken.into_iter().map(|woken| tokio::spawn(Arc::clone(&crowd).run(woken))).collect();
    for _ in 0..ROUNDS {
        crowd.round().await;
    }
    for task in tasks {
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
    }
    echo
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn all_callers_get_their_own_results_however_others_leave() {
    for size in [1, 2, 3, 12] {
        let echo = crowd_of(size).await;
        assert_eq!(echo.most.load(Ordering::Relaxed), size.min(5) as u64, "the largest allowed batch");
    }
}
