//! Dropping a future leaves no trace on the server or in the client.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use redgrid_locks::{Client, Holder, Lock};
use redgrid_testkit::{Observer, wait_until};
use redgrid_tests::cancel::at_most;
use redgrid_tests::{NOTHING, SOON, client, server};

/// The time after which traces of cancelled callers are checked.
const AFTER: Duration = Duration::from_secs(1);

async fn nothing_is_left(observer: &Observer, clients: &[&Client]) {
    wait_until(AFTER, async || {
        let keys = observer.keys("*").await.unwrap();
        let channels = observer.pubsub_channels("redisson*").await.unwrap();
        keys.is_empty() && channels.is_empty() && clients.iter().all(|client| client.stats() == NOTHING)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_acquisitions_dropped_at_random_leave_nothing() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let mut tasks = Vec::new();
    for n in 0..20_u64 {
        let clients = [one.clone(), two.clone()];
        tasks.push(tokio::spawn(async move {
            let mut random = fastrand::Rng::with_seed(n);
            let mut granted = 0;
            for _ in 0..500 {
                let lock = Lock::new(&clients[random.usize(..2)], format!("name:{}", random.u8(..6)));
                let me = Holder::new();
                let mut ask = lock.acquire();
                if random.u8(..3) == 0 {
                    ask = ask.holder(&me);
                }
                if random.bool() {
                    ask = ask.timeout(Duration::from_millis(random.u64(1..20)));
                }
                if random.u8(..4) == 0 {
                    ask = ask.lease(Duration::from_secs(5));
                }
                let got = match random.u8(..3) {
                    0 => at_most(random.usize(1..8), ask.into_future()).await,
                    1 => tokio::time::timeout(Duration::from_micros(random.u64(..3000)), ask).await.ok(),
                    _ => at_most(1, lock.try_acquire().into_future()).await.map(|tried| match tried {
                        Ok(Some(guard)) => Ok(guard),
                        Ok(None) => ask_never(),
                        Err(error) => Err(error),
                    }),
                };
                let Some(Ok(guard)) = got else { continue };
                granted += 1;
                match random.u8(..4) {
                    0 => drop(guard),
                    1 => drop(at_most(1, guard.release()).await),
                    2 => drop((guard.reenter(), guard)),
                    _ => guard.release().await.unwrap(),
                }
            }
            granted
        }));
    }
    let mut granted = 0;
    for task in tasks {
        granted += task.await.unwrap();
    }
    assert!(granted > 500, "some acquires succeed: {granted}");
    nothing_is_left(&observer, &[&one, &two]).await;
    // The next caller acquires the lock immediately.
    for name in 0..6 {
        Lock::new(&one, format!("name:{name}")).try_acquire().await.unwrap().unwrap().release().await.unwrap();
    }
}

fn ask_never() -> Result<redgrid_locks::LockGuard, redgrid_locks::AcquireError> {
    let name = "busy".try_into().unwrap();
    Err(redgrid_locks::AcquireError::TimedOut { name, waited: Duration::ZERO, by_this_client: false })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unpolled_first_waiter_delays_no_other() {
    let server = server().await;
    let client = client(&server).await;
    let lock = Lock::new(&client, "a");
    // The future is polled once, and no other waiter exists. Its request is in flight, and only
    // this future can continue it.
    server.pause().await.unwrap();
    let mut stuck = Box::pin(lock.acquire().into_future());
    let polled = futures_util::poll!(&mut stuck);
    server.resume().await.unwrap();
    assert!(polled.is_pending(), "{polled:?}");
    let second = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().timeout(SOON).await }
    });
    let observer = server.observer().await.unwrap();
    wait_until(SOON, async || observer.exists("a").await.unwrap()).await;
    // A grant that is not claimed is offered to the next waiter after a second.
    second.await.unwrap().unwrap().release().await.unwrap();
    // When the first waiter is polled again, it sends a new request.
    stuck.await.unwrap().release().await.unwrap();

    // The lock is held by another process. The first waiter is polled once and never again; the
    // second one still enters.
    let other = redgrid_tests::client(&server).await;
    let held = Lock::new(&other, "b").acquire().await.unwrap();
    let lock = Lock::new(&client, "b");
    let mut stuck = Box::pin(lock.acquire().into_future());
    assert!(futures_util::poll!(&mut stuck).is_pending());
    let second = lock.acquire().timeout(SOON).into_future();
    let drive = tokio::spawn(second);
    wait_until(SOON, async || client.stats().channels == 1).await;
    held.release().await.unwrap();
    drive.await.unwrap().unwrap().release().await.unwrap();
    drop(stuck);
    nothing_is_left(&observer, &[&client, &other]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unpolled_release_delays_no_other() {
    let server = server().await;
    let client = client(&server).await;
    let lock = Lock::new(&client, "a");
    let held = lock.acquire().await.unwrap();
    // The future is polled once, and no other caller exists. Its request is in flight, and only
    // this future can continue it.
    server.pause().await.unwrap();
    let mut stuck = Box::pin(held.release());
    let polled = futures_util::poll!(&mut stuck);
    server.resume().await.unwrap();
    assert!(polled.is_pending(), "{polled:?}");
    lock.acquire().timeout(SOON).await.unwrap().release().await.unwrap();
    stuck.await.unwrap();
    nothing_is_left(&server.observer().await.unwrap(), &[&client]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_leaves_ends_its_subscription() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (holder, waiter) = (client(&server).await, client(&server).await);
    let held = Lock::new(&holder, "a").acquire().await.unwrap();
    for _ in 0..3 {
        let waited = Lock::new(&waiter, "a").acquire().timeout(Duration::from_millis(500)).await;
        assert!(matches!(waited, Err(redgrid_locks::AcquireError::TimedOut { .. })), "{waited:?}");
    }
    held.release().await.unwrap();
    nothing_is_left(&observer, &[&holder, &waiter]).await;
}

/// The job did not run, so its name is not retained.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_acquire_does_not_retain_the_name() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let lock = Lock::new(&client, "a");
    let job = || lock.acquire().hold_at_least(Duration::from_secs(600)).timeout(SOON).into_future();
    let free = async || client.stats().names == 0 && !observer.exists("a").await.unwrap();
    for polls in 0..20 {
        // In turn: the lock has no owner, or a task of this process owns it and releases it
        // meanwhile.
        let before = if polls % 2 == 1 { Some(lock.acquire().timeout(SOON).await.unwrap()) } else { None };
        let releasing = async { drop(before) };
        let (got, ()) = tokio::join!(at_most(polls / 2 + 1, job()), releasing);
        if got.is_some() {
            // The call was granted, so its name is retained, and the test must free it.
            drop(got);
            lock.force_release().await.unwrap();
        }
        wait_until(SOON, free).await;
    }
    // The call is granted but not polled again, so the grant is not claimed.
    let before = lock.acquire().await.unwrap();
    let mut waiting = Box::pin(job());
    assert!(futures_util::poll!(&mut waiting).is_pending());
    before.release().await.unwrap();
    wait_until(SOON, async || client.stats().waiting == 0 && client.stats().holds == 1).await;
    drop(waiting);
    wait_until(SOON, free).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_release_continues() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    for polls in 0..3 {
        let guard = Lock::new(&client, "a").acquire().await.unwrap();
        drop(at_most(polls, guard.release()).await);
        wait_until(AFTER, async || !observer.exists("a").await.unwrap()).await;
    }
    nothing_is_left(&observer, &[&client]).await;
}

/// A lock is released at the same moment as its waiter is cancelled on another processor.
/// Afterwards the lock is free, and can be acquired.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_waiter_cancelled_during_a_handover_does_not_keep_the_name() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let lock = Lock::new(&client, "name");
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..1000 {
        let guard = lock.acquire().timeout(SOON).await.expect("the name is free");
        let mut waiting = lock.acquire().into_future();
        assert!(std::future::poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx).is_pending())).await);
        // The release and the cancellation begin within less than a microsecond.
        let here = Arc::new(AtomicUsize::new(0));
        let begin = move |here: Arc<AtomicUsize>, spins: usize| {
            here.fetch_add(1, Ordering::AcqRel);
            while here.load(Ordering::Acquire) < 2 {
                std::hint::spin_loop();
            }
            (0..spins).for_each(|_| std::hint::spin_loop());
        };
        let (one, other, spins) = (Arc::clone(&here), here, [random.usize(..60), random.usize(..60)]);
        let leaving = tokio::task::spawn_blocking(move || {
            begin(one, spins[0]);
            drop(waiting);
        });
        let releasing = tokio::task::spawn_blocking(move || {
            begin(other, spins[1]);
            drop(guard);
        });
        leaving.await.unwrap();
        releasing.await.unwrap();
    }
    nothing_is_left(&observer, &[&client]).await;
}
