//! Batched calls: a queued caller waits for the batches before it and for its own reply, but not
//! longer.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redgrid_core::author::{BatchExecutor, Batcher, Server};
use redgrid_core::clock::{Clock, Instant};
use redgrid_core::{Client, Config, Reply, ServerError};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;
use redgrid_tests::fake_server::FakeServer;
use tokio::sync::{Notify, Semaphore};

/// Replies to the first batch when the test permits it, and never to another batch.
#[derive(Default)]
struct Slow {
    may: Arc<Notify>,
    batches: Arc<AtomicU64>,
}

impl BatchExecutor for Slow {
    type Request = ();
    type Reply = ();

    fn max_prefix<'a>(&self, asks: impl Iterator<Item = &'a ()>) -> usize {
        asks.count()
    }

    async fn execute(&self, batch: Vec<()>, _until: Instant) -> Vec<()> {
        if self.batches.fetch_add(1, Ordering::Relaxed) > 0 {
            std::future::pending::<()>().await;
        }
        self.may.notified().await;
        batch
    }
}

#[tokio::test]
async fn a_batched_caller_does_not_wait_for_the_batchs_timeout() {
    let server = Arc::new(FakeServer::new("one:1", |_| Ok(Reply::Int(1))));
    let config = Config::single("one").unwrap().response_timeout(Duration::from_millis(500)).retries(3);
    let client = Client::over_one(Arc::clone(&server) as Arc<dyn Server>, config, Clock::boot()).unwrap();
    let slow = Slow::default();
    let (may, batches) = (Arc::clone(&slow.may), Arc::clone(&slow.batches));
    let combiner = Arc::new(Batcher::new(slow));
    let mut first = Box::pin(combiner.submit(&client, ()));
    assert!(futures_util::poll!(&mut first).is_pending());
    let mut behind = Box::pin(combiner.submit(&client, ()));
    assert!(futures_util::poll!(&mut behind).is_pending());
    may.notify_one();
    first.await.unwrap();
    wait_until(SOON, async || batches.load(Ordering::Relaxed) == 2).await;
    let told = tokio::time::timeout(SOON, behind).await.expect("an end at its timeout");
    assert!(matches!(told, Err(ServerError::Unknown { .. })), "{told:?}");
}

/// Returns a client, on the runtime's clock, of a server that receives no requests.
fn asking(timeout: Duration) -> Client {
    client_of(Arc::new(FakeServer::new("one:1", |_| Ok(Reply::Int(1)))), timeout)
}

fn client_of(server: Arc<FakeServer>, timeout: Duration) -> Client {
    let config = Config::single("one").unwrap().response_timeout(timeout).retries(3);
    Client::over_one(server as Arc<dyn Server>, config, Clock::runtime()).unwrap()
}

/// Returns its own request to each caller. The test permits one batch at a time.
#[derive(Clone)]
struct Echo {
    may: Arc<Semaphore>,
    asked: Arc<Mutex<Vec<Vec<u64>>>>,
    given_up: Arc<AtomicU64>,
}

impl Echo {
    fn new(may: usize) -> Self {
        Echo { may: Arc::new(Semaphore::new(may)), asked: Arc::default(), given_up: Arc::default() }
    }

    fn asked(&self) -> Vec<Vec<u64>> {
        self.asked.lock().unwrap().clone()
    }
}

/// Counts abandoned batches: this value is dropped unless the batch gets its reply.
struct Abandoned<'a>(&'a AtomicU64);

impl Drop for Abandoned<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Executing this request panics.
const PANICKING: u64 = 13;

/// Checking whether this request fits into a batch panics.
const CHECK_PANICS: u64 = 14;

/// The reply to this request takes 1.5 seconds of a paused clock.
const LONG: u64 = 15;

impl BatchExecutor for Echo {
    type Request = u64;
    type Reply = u64;

    fn max_prefix<'a>(&self, asks: impl Iterator<Item = &'a u64>) -> usize {
        asks.inspect(|ask| assert_ne!(**ask, CHECK_PANICS, "a request that never fits")).count()
    }

    async fn execute(&self, batch: Vec<u64>, _until: Instant) -> Vec<u64> {
        self.asked.lock().unwrap().push(batch.clone());
        let unanswered = Abandoned(&self.given_up);
        self.may.acquire().await.unwrap().forget();
        assert!(!batch.contains(&PANICKING), "a request that panics");
        tokio::task::yield_now().await;
        if batch.contains(&LONG) {
            // The future is polled once only, so that no caller is notified of its timeout
            // meanwhile.
            let _ = futures_util::poll!(Box::pin(tokio::time::advance(Duration::from_millis(1500))));
        }
        std::mem::forget(unanswered);
        batch
    }
}

/// An echo with a limit on batches in flight.
struct Limited<const WAYS: usize>(Echo);

impl<const WAYS: usize> BatchExecutor for Limited<WAYS> {
    type Request = u64;
    type Reply = u64;

    const MAX_IN_FLIGHT: usize = WAYS;

    fn max_prefix<'a>(&self, asks: impl Iterator<Item = &'a u64>) -> usize {
        self.0.max_prefix(asks)
    }

    async fn execute(&self, batch: Vec<u64>, until: Instant) -> Vec<u64> {
        self.0.execute(batch, until).await
    }
}

/// Starts a task that submits a request, and returns when the request has begun.
async fn asks<C: BatchExecutor<Request = u64, Reply = u64>>(
    combiner: &Arc<Batcher<C>>,
    client: &Client,
    what: u64,
) -> tokio::task::JoinHandle<Answer> {
    let (combiner, client, asked) = (Arc::clone(combiner), client.clone(), Arc::new(Notify::new()));
    let has_asked = Arc::clone(&asked);
    let task = tokio::spawn(async move {
        let mut ask = Box::pin(combiner.submit(&client, what));
        let first = futures_util::poll!(&mut ask);
        has_asked.notify_one();
        match first {
            std::task::Poll::Ready(told) => told,
            std::task::Poll::Pending => ask.await,
        }
    });
    asked.notified().await;
    task
}

type Answer = Result<u64, ServerError>;

#[tokio::test]
async fn a_cancelled_caller_is_not_sent_and_an_abandoned_batch_is_dropped() {
    let (client, echo) = (asking(Duration::from_secs(60)), Echo::new(0));
    let combiner = Arc::new(Batcher::new(echo.clone()));
    let first = asks(&combiner, &client, 1).await;
    let (leaves, third) = (asks(&combiner, &client, 2).await, asks(&combiner, &client, 3).await);
    leaves.abort();
    assert!(leaves.await.unwrap_err().is_cancelled());
    echo.may.add_permits(1);
    assert_eq!(first.await.unwrap().unwrap(), 1);
    wait_until(SOON, async || echo.asked().len() == 2).await;
    assert_eq!(echo.asked(), [vec![1], vec![3]]);
    third.abort();
    wait_until(SOON, async || echo.given_up.load(Ordering::Relaxed) == 1).await;
    echo.may.add_permits(1);
    assert_eq!(combiner.submit(&client, 4).await.unwrap(), 4);
}

/// The callers that waited for the first batch are sent as two batches, each with half of the
/// requests. If one of the two batches is abandoned, the other continues, and each caller gets its
/// own result. The test has one thread.
#[tokio::test]
async fn the_abandoned_one_of_two_batches_is_dropped() {
    for given_up in [0, 1] {
        let (client, echo) = (asking(Duration::from_secs(60)), Echo::new(0));
        let combiner = Arc::new(Batcher::new(Limited::<2>(echo.clone())));
        let first = asks(&combiner, &client, 1).await;
        let mut halves = [Vec::new(), Vec::new()];
        for ask in 2..=11 {
            halves[usize::from(ask > 6)].push((ask, asks(&combiner, &client, ask).await));
        }
        echo.may.add_permits(1);
        assert_eq!(first.await.unwrap().unwrap(), 1);
        wait_until(SOON, async || echo.asked().len() == 3).await;
        assert_eq!(echo.asked(), [vec![1], vec![2, 3, 4, 5, 6], vec![7, 8, 9, 10, 11]]);
        halves[given_up].iter().for_each(|(_, task)| task.abort());
        wait_until(SOON, async || echo.given_up.load(Ordering::Relaxed) == 1).await;
        echo.may.add_permits(1);
        for (ask, task) in &mut halves[1 - given_up] {
            assert_eq!(task.await.unwrap().unwrap(), *ask);
        }
        assert_eq!(echo.given_up.load(Ordering::Relaxed), 1);
        echo.may.add_permits(1);
        assert_eq!(combiner.submit(&client, 12).await.unwrap(), 12);
    }
}

/// The waiters are divided equally among up to three batches. If there are many waiters, two
/// batches are enough.
#[tokio::test]
async fn three_batches_are_in_flight_unless_many_callers_wait() {
    for batches in [vec![6], vec![4, 4, 4], vec![20, 20]] {
        let (client, echo) = (asking(Duration::from_secs(60)), Echo::new(0));
        let combiner = Arc::new(Batcher::new(Limited::<3>(echo.clone())));
        let first = asks(&combiner, &client, 1).await;
        let mut others = Vec::new();
        let all = batches.iter().sum::<usize>();
        for ask in 100..100 + all as u64 {
            others.push((ask, asks(&combiner, &client, ask).await));
        }
        echo.may.add_permits(1);
        assert_eq!(first.await.unwrap().unwrap(), 1);
        wait_until(SOON, async || echo.asked().iter().map(Vec::len).sum::<usize>() == 1 + all).await;
        assert_eq!(echo.asked()[1..].iter().map(Vec::len).collect::<Vec<_>>(), batches);
        echo.may.add_permits(batches.len());
        for (ask, task) in others {
            assert_eq!(task.await.unwrap().unwrap(), ask);
        }
    }
}

/// Two batches get their replies together. When their callers submit again, they again get their
/// own results.
#[tokio::test]
async fn callers_of_two_batches_get_their_own_results() {
    let (client, echo) = (asking(Duration::from_secs(60)), Echo::new(1_000));
    let combiner = Arc::new(Batcher::new(Limited::<2>(echo.clone())));
    let asking = (0..20).map(|who| {
        let (combiner, client) = (Arc::clone(&combiner), client.clone());
        tokio::spawn(async move {
            for round in 0..20 {
                let ask = 100 * (who + 1) + round;
                assert_eq!(combiner.submit(&client, ask).await.unwrap(), ask);
            }
        })
    });
    for task in asking.collect::<Vec<_>>() {
        tokio::time::timeout(SOON, task).await.unwrap().unwrap();
    }
    let asked = echo.asked();
    assert_eq!(asked.iter().map(Vec::len).sum::<usize>(), 400);
    assert!(asked[1..].iter().all(|batch| batch.len() <= 10), "more than half of all: {asked:?}");
}

/// The outcome of every request in flight is unknown, in either batch.
#[tokio::test]
async fn a_shutdown_or_a_panic_notifies_callers_of_two_batches() {
    for panics in [false, true] {
        let (client, echo) = (asking(Duration::from_secs(60)), Echo::new(0));
        let combiner = Arc::new(Batcher::new(Limited::<2>(echo.clone())));
        let first = asks(&combiner, &client, 1).await;
        let mut others = Vec::new();
        for ask in [2, 3, 4, 5, 6, if panics { PANICKING } else { 7 }, 8, 9, 10, 11] {
            others.push(asks(&combiner, &client, ask).await);
        }
        echo.may.add_permits(1);
        assert_eq!(first.await.unwrap().unwrap(), 1);
        wait_until(SOON, async || echo.asked().len() == 3).await;
        let behind = asks(&combiner, &client, 20).await;
        if panics {
            echo.may.add_permits(1);
            let told = tokio::time::timeout(SOON, others.remove(0)).await.unwrap().unwrap();
            assert_eq!(told.unwrap(), 2);
            others.drain(..4).for_each(drop);
            echo.may.add_permits(1);
        } else {
            let _ = client.shutdown(Duration::from_millis(100)).await;
        }
        for task in others {
            let told = tokio::time::timeout(SOON, task).await.unwrap().unwrap();
            assert!(matches!(told, Err(ServerError::Unknown { .. })), "{told:?}");
        }
        let told = tokio::time::timeout(SOON, behind).await.unwrap().unwrap();
        assert!(matches!(told, Err(ServerError::NotSent { .. } | ServerError::ShuttingDown)), "{told:?}");
    }
}

/// A caller that times out leaves its batch early, and its slot is reused. On this clock, only
/// sleeping takes time.
#[tokio::test(start_paused = true)]
async fn an_expired_caller_is_notified_and_a_late_result_goes_to_no_other() {
    let (client, echo) = (asking(Duration::from_millis(500)), Echo::new(0));
    let combiner = Arc::new(Batcher::new(echo.clone()));
    let first = asks(&combiner, &client, 0).await;
    let early = asks(&combiner, &client, 1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let later = asks(&combiner, &client, 2).await;
    echo.may.add_permits(1);
    assert_eq!(first.await.unwrap().unwrap(), 0);
    let began = tokio::time::Instant::now();
    let told = early.await.unwrap();
    assert!(matches!(told, Err(ServerError::Unknown { .. })), "{told:?}");
    // This call began one second ago, and its limit is two seconds. After the limit it waits one
    // more response timeout of half a second.
    assert!((1400..1600).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    let third = asks(&combiner, &client, 3).await;
    echo.may.add_permits(1);
    assert_eq!(later.await.unwrap().unwrap(), 2);
    echo.may.add_permits(1);
    assert_eq!(third.await.unwrap().unwrap(), 3);
    assert_eq!(echo.asked(), [vec![0], vec![1, 2], vec![3]]);

    // From here on no reply arrives. The queued caller is notified first, because its request was
    // not sent.
    let (began, first) = (tokio::time::Instant::now(), asks(&combiner, &client, 4).await);
    let behind = asks(&combiner, &client, 5).await;
    let told = behind.await.unwrap();
    assert!(matches!(told, Err(ServerError::NotSent { .. })), "{told:?}");
    assert!((1900..2100).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
    let told = first.await.unwrap();
    assert!(matches!(told, Err(ServerError::Unknown { .. })), "{told:?}");
    assert!((2400..2600).contains(&began.elapsed().as_millis()), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_shutdown_notifies_callers_in_flight_and_queued() {
    let (client, echo) = (asking(Duration::from_secs(60)), Echo::new(0));
    let combiner = Arc::new(Batcher::new(echo));
    let first = asks(&combiner, &client, 1).await;
    let behind = asks(&combiner, &client, 2).await;
    let _ = client.shutdown(Duration::from_millis(100)).await;
    let told = tokio::time::timeout(SOON, first).await.unwrap().unwrap();
    assert!(matches!(told, Err(ServerError::Unknown { .. })), "{told:?}");
    let told = tokio::time::timeout(SOON, behind).await.unwrap().unwrap();
    assert!(matches!(told, Err(ServerError::NotSent { .. } | ServerError::ShuttingDown)), "{told:?}");
}

/// Without waiters, a batch runs in the caller's own task; with waiters, in a separate one.
#[tokio::test]
async fn a_panic_notifies_callers_in_flight_and_queued() {
    let (client, echo) = (asking(Duration::from_secs(60)), Echo::new(0));
    let combiner = Arc::new(Batcher::new(echo.clone()));
    let alone = asks(&combiner, &client, PANICKING).await;
    echo.may.add_permits(1);
    assert!(alone.await.unwrap_err().is_panic());
    let first = asks(&combiner, &client, PANICKING).await;
    let behind = asks(&combiner, &client, 1).await;
    echo.may.add_permits(1);
    let told = tokio::time::timeout(SOON, first).await.unwrap().unwrap();
    assert!(matches!(told, Err(ServerError::Unknown { .. })), "{told:?}");
    let told = tokio::time::timeout(SOON, behind).await.unwrap().unwrap();
    assert!(matches!(told, Err(ServerError::NotSent { .. })), "{told:?}");
    echo.may.add_permits(1);
    assert_eq!(combiner.submit(&client, 2).await.unwrap(), 2);
}

/// The runtime's tasks have ended, but the connections have not.
#[tokio::test]
async fn callers_during_the_end_of_connections_are_notified() {
    let server = Arc::new(FakeServer::new("one:1", |_| Ok(Reply::Int(1))).never_closed());
    let client = client_of(Arc::clone(&server), Duration::from_secs(60));
    let combiner = Arc::new(Batcher::new(Echo::new(0)));
    let first = asks(&combiner, &client, 1).await;
    let ending = client.clone();
    let ending = tokio::spawn(async move { ending.shutdown(Duration::from_secs(600)).await });
    tokio::time::timeout(SOON, server.closing()).await.unwrap();
    let behind = asks(&combiner, &client, 2).await;
    let told = tokio::time::timeout(SOON, first).await.unwrap().unwrap();
    assert!(matches!(told, Err(ServerError::Unknown { .. })), "{told:?}");
    let told = tokio::time::timeout(SOON, behind).await.unwrap().unwrap();
    assert!(matches!(told, Err(ServerError::NotSent { .. } | ServerError::ShuttingDown)), "{told:?}");
    ending.abort();
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_cancel_counter_leaves_no_caller_waiting() {
    let (client, echo) = (asking(Duration::from_millis(500)), Echo::new(0));
    let combiner = Arc::new(Batcher::new(echo.clone()));
    let first = asks(&combiner, &client, LONG).await;
    let late = asks(&combiner, &client, 1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let unfit = asks(&combiner, &client, CHECK_PANICS).await;
    echo.may.add_permits(1);
    for (who, task) in [("the late one", late), ("the unfit one", unfit)] {
        let told = tokio::time::timeout(SOON, task).await.unwrap_or_else(|_| panic!("{who} was not notified")).unwrap();
        assert!(matches!(told, Err(ServerError::NotSent { .. })), "{who}: {told:?}");
    }
    assert_eq!(first.await.unwrap().unwrap(), LONG);
    assert_eq!(echo.asked(), [vec![LONG]]);
}
