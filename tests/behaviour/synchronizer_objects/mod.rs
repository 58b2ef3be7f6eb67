//! Object operations of every synchronizer act on all its keys.

mod types;

use std::future::IntoFuture;
use std::time::Duration;

use futures_util::future::join_all;
use redgrid_atomic_long::AtomicLong;
use redgrid_barrier::{Barrier, DoubleBarrier, Event, Notify, Phaser};
use redgrid_core::object::{Lifetime, ObjectError};
use redgrid_core::{Client, Failure};
use redgrid_countdown_latch::CountDownLatch;
use redgrid_id_generator::IdGenerator;
use redgrid_locks::{Election, FairLock, FencedLock, Lock, LostReason, RwLock, SpinLock};
use redgrid_permit_expirable_semaphore::PermitExpirableSemaphore;
use redgrid_rate_limiter::{GcraLimiter, Quota, RateLimiter};
use redgrid_semaphore::Semaphore;
use redgrid_testkit::{Observer, wait_until};
use redgrid_tests::{SOON, client, client_with, server};
use tokio::task::JoinHandle;

pub(crate) use types::{TYPES, object_of, one_of};

const HOUR: Duration = Duration::from_secs(3600);

/// The keys of an object that are left. Waiter flags, records of exactly-once calls, and keys that
/// outlive the object are not counted.
async fn left(observer: &Observer, name: &str) -> Vec<String> {
    let stays = |key: &String| {
        ["redgrid_once:", "redgrid_wait:", "redgrid_fence:", "redisson_lock_token:"]
            .iter()
            .any(|of| key.starts_with(of))
            || key.contains(":rwlock_timeout:")
    };
    observer
        .keys("*")
        .await
        .unwrap()
        .into_iter()
        .filter(|key| key.contains(name) && !key.starts_with("lock of") && !stays(key))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn object_operations_act_on_all_keys() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    // A renewal may recreate missing keys. With this lease no renewal occurs during the test.
    let patient = async || client_with(&server.url(), |config| config.watchdog_lease(HOUR)).await;
    for (nth, kind) in TYPES.into_iter().enumerate() {
        let (from, to, name) = (format!("from{nth:02}"), format!("to{nth:02}"), format!("name{nth:02}"));
        let client = patient().await;
        let (object, used) = one_of(kind, &client, &from).await;
        assert!(object.exists().await.unwrap(), "{kind}");
        assert_ne!(object.lifetime().await.unwrap(), Lifetime::Absent, "{kind}");
        assert!(object.memory().await.unwrap().unwrap() > 0, "{kind}");
        drop(used);
        end(client).await;

        let client = patient().await;
        let (object, used) = one_of(kind, &client, &name).await;
        assert!(object.expire_in(2 * HOUR).await.unwrap(), "{kind}");
        for key in left(&observer, &name).await {
            let lives = observer.time_to_live(&key).await.unwrap();
            assert!(lives.is_some_and(|lives| lives > HOUR), "{kind}: {key} {lives:?}");
        }
        // A user of the object would renew its entry, and so recreate the renamed or deleted
        // object. So its client ends first.
        let kept = object.dump().await.unwrap().unwrap();
        drop(used);
        end(client).await;
        let client = patient().await;
        let object = object_of(kind, &client, &name);
        assert!(object.restore(kept).replacing().await.unwrap(), "{kind}");
        assert!(object.rename(&to).await.unwrap(), "{kind}");
        assert!(!object.exists().await.unwrap(), "{kind}");
        assert_eq!(left(&observer, &name).await, Vec::<String>::new(), "{kind}");
        let renamed = object_of(kind, &client, &to);
        assert!(renamed.exists().await.unwrap() && !left(&observer, &to).await.is_empty(), "{kind}");
        assert!(renamed.delete().await.unwrap(), "{kind}");
        assert_eq!(left(&observer, &to).await, Vec::<String>::new(), "{kind}");
        assert!(!renamed.exists().await.unwrap() && !renamed.delete().await.unwrap(), "{kind}");
        end(client).await;
    }
}

/// A task that waits for the object which another client uses; `None` for types without waiting.
fn waiting_for(kind: &str, client: &Client, name: &str) -> Option<JoinHandle<()>> {
    fn wait(waits: impl Future + Send + 'static) -> JoinHandle<()> {
        tokio::spawn(async move { drop(waits.await) })
    }
    Some(match kind {
        "lock" => wait(Lock::new(client, name).acquire().into_future()),
        "fair lock" => wait(FairLock::new(client, name).acquire().into_future()),
        "fenced lock" => wait(FencedLock::new(client, name).acquire().into_future()),
        "spin lock" => wait(SpinLock::new(client, name).acquire().into_future()),
        "read" => wait(RwLock::new(client, name).fair().write().into_future()),
        "upgradable read" => wait(RwLock::new(client, name).upgradable_read().into_future()),
        "write" => wait(RwLock::new(client, name).read().into_future()),
        "election" => wait(Election::new(client, name).campaign().into_future()),
        "semaphore" => wait(Semaphore::plain(client, name).acquire_many(2).into_future()),
        "semaphore with leases" => wait(PermitExpirableSemaphore::new(client, name).acquire_many(2).into_future()),
        "latch" => wait(CountDownLatch::new(client, name).wait().into_future()),
        "barrier" => wait(Barrier::new(client, name, 3).wait().into_future()),
        "double barrier" => wait(DoubleBarrier::new(client, name, 3).enter().into_future()),
        "phaser" => wait(Phaser::new(client, name).wait_advance(0).into_future()),
        "notify" => wait(Notify::new(client, name).notified().into_future()),
        "event" => wait(Event::new(client, name).wait().into_future()),
        "rate" => wait(RateLimiter::new(client, name).acquire().permits(5).into_future()),
        "gcra" => wait(GcraLimiter::new(client, name, Quota::new(5, HOUR)).acquire().permits(5).into_future()),
        _ => return None,
    })
}

/// How an object in use is removed: by renaming or deletion, with or without a waiter. With `kept`,
/// its holder keeps it until the client has shut down.
#[derive(Clone, Copy, Debug)]
struct Removal {
    renamed: bool,
    waits: bool,
    kept: bool,
}

/// Removes an object in use and shuts down its clients. Returns a description if that fails.
async fn removed_in_use(url: &str, kind: &str, name: String, removal: Removal) -> Option<String> {
    // Without the long lease, failing requests would be repeated until a short lease ends.
    let client = async || client_with(url, |config| config.watchdog_lease(HOUR)).await;
    let (one, two) = (client().await, client().await);
    let (object, used) = one_of(kind, &one, &name).await;
    let mut waiting = Vec::new();
    if removal.waits {
        waiting.extend([&one, &two].into_iter().filter_map(|client| waiting_for(kind, client, &name)));
        // Most waiters subscribe to a channel. For the other types, 500 ms are enough.
        let hear = async || two.stats().channels > 0;
        let _ = tokio::time::timeout(Duration::from_millis(500), wait_until(SOON, hear)).await;
    }
    match removal.renamed {
        true => object.rename(format!("{name} elsewhere")).await,
        false => object.delete().await,
    }
    .unwrap();
    let used = removal.kept.then_some(used);
    let began = std::time::Instant::now();
    let ended = tokio::join!(one.shutdown(SOON), two.shutdown(SOON));
    let took = began.elapsed();
    drop(used);
    if ended.0.is_err() || ended.1.is_err() {
        return Some(format!("{kind}, {removal:?}: {ended:?} after {took:?}"));
    }
    for waits in waiting {
        if tokio::time::timeout(SOON, waits).await.is_err() {
            return Some(format!("{kind}, {removal:?}: the waiter did not end"));
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_shuts_down_although_its_keys_are_gone() {
    let server = server().await;
    let (url, mut wrong) = (server.url(), Vec::new());
    for (nth, kind) in TYPES.into_iter().enumerate() {
        let removals = (0..8).map(|of| Removal { renamed: of & 1 != 0, waits: of & 2 != 0, kept: of & 4 != 0 });
        let name = |at: usize| format!("of{nth:02}going{at:02}");
        let ends = removals.enumerate().map(|(at, removal)| removed_in_use(&url, kind, name(at), removal));
        wrong.extend(join_all(ends).await.into_iter().flatten());
    }
    assert_eq!(wrong, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_client_shuts_down_at_once() {
    let server = server().await;
    for _ in 0..20 {
        client(&server).await.shutdown(Duration::ZERO).await.unwrap();
    }
}

/// Shuts the client down, so that none of its requests is in flight.
async fn end(client: Client) {
    let _ = client.shutdown(Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_of_a_renamed_lock_learns_it_by_the_next_renewal() {
    let server = server().await;
    let lease = Duration::from_secs(3);
    let client = client_with(&server.url(), |config| config.watchdog_lease(lease)).await;
    let observer = server.observer().await.unwrap();
    let lock = FencedLock::new(&client, "a");
    let guard = lock.acquire().await.unwrap();
    assert!(lock.object().rename("b").await.unwrap());
    let why = tokio::time::timeout(SOON, guard.watch().lost()).await.expect("the loss is reported");
    assert!(matches!(why, LostReason::Gone | LostReason::Expired), "{why:?}");
    // The token counter was renamed, too, so no token is given twice.
    assert!(observer.exists("redisson_lock_token:{b}").await.unwrap());
    assert!(!observer.exists("redisson_lock_token:{a}").await.unwrap());
    let token = guard.token();
    drop(guard);
    wait_until(SOON, async || !FencedLock::new(&client, "b").is_locked().await.unwrap()).await;
    assert!(FencedLock::new(&client, "b").acquire().timeout(SOON).await.unwrap().token() > token);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_completes_when_its_object_is_deleted() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let lock = Lock::new(&one, "lock");
    let held = lock.acquire().await.unwrap();
    let entering = tokio::spawn(Lock::new(&two, "lock").acquire().timeout(SOON).into_future());
    let fair = FairLock::new(&one, "fair");
    let held_fairly = fair.acquire().await.unwrap();
    let in_line = tokio::spawn(FairLock::new(&two, "fair").acquire().timeout(SOON).into_future());
    let latch = CountDownLatch::new(&one, "latch");
    assert!(latch.try_set_count(1).await.unwrap());
    let opening = tokio::spawn(CountDownLatch::new(&two, "latch").wait().timeout(SOON).into_future());
    wait_until(SOON, async || two.stats().waiting >= 2 && two.stats().channels >= 3).await;
    for object in [lock.object(), fair.object(), latch.object()] {
        assert!(object.delete().await.unwrap());
    }
    drop((entering.await.unwrap().unwrap(), in_line.await.unwrap().unwrap()));
    opening.await.unwrap().unwrap();
    drop((held, held_fairly));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_name_is_reported_by_each_call() {
    let server = server().await;
    let client = client(&server).await;
    for object in [
        Lock::new(&client, "{}").object(),
        RwLock::new(&client, "{}").object(),
        Semaphore::new(&client, "{}", 1).object(),
        CountDownLatch::new(&client, "{}").object(),
        Barrier::new(&client, "{}", 2).object(),
        AtomicLong::new(&client, "{}").object(),
        IdGenerator::new(&client, "{}").object(),
        RateLimiter::new(&client, "{}").object(),
        GcraLimiter::new(&client, "{}", Quota::per_second(1)).object(),
    ] {
        assert!(matches!(object.exists().await, Err(ObjectError::Failed(Failure::InvalidName(_)))));
        assert!(object.name().is_none());
    }
}
