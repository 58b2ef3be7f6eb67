//! Guards that are dropped in unusual places, shutdowns, and holds at the end of a client.

use std::sync::Arc;
use std::time::Duration;

use redgrid_core::clock::Clock;
use redgrid_core::{Client, Config, Failure};
use redgrid_locks::{AcquireError, Lock, LostReason, ReleaseError};
use redgrid_testkit::wait_until;
use redgrid_tests::fake_server::{FakeServer, granting};
use redgrid_tests::{NOTHING, SOON, client, server};

#[test]
fn a_guard_dropped_outside_a_runtime_gives_the_lock_back() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (server, client, guard) = runtime.block_on(async {
        let server = server().await;
        let client = client(&server).await;
        let guard = Lock::new(&client, "a").acquire().await.unwrap();
        (server, client, guard)
    });
    drop(guard);
    runtime.block_on(async {
        let observer = server.observer().await.unwrap();
        wait_until(SOON, async || !observer.exists("a").await.unwrap()).await;
    });
    drop(client);
}

#[test]
fn a_guard_dropped_after_its_runtime_does_no_harm() {
    let other = tokio::runtime::Runtime::new().unwrap();
    let server = other.block_on(server());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (client, guard) = runtime.block_on(async {
        let client = client(&server).await;
        let guard = Lock::new(&client, "a").acquire().await.unwrap();
        (client, guard)
    });
    drop(runtime);
    drop(guard);
    drop(client);
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_releases_in_bulk_notifies_holders_and_wakes_waiters() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let elsewhere = Lock::new(&two, "elsewhere").acquire().await.unwrap();
    let mut guards = Vec::new();
    for n in 0..200 {
        guards.push(Lock::new(&one, format!("name:{n}")).acquire().await.unwrap());
    }
    let waiter = tokio::spawn({
        let one = one.clone();
        async move { Lock::new(&one, "elsewhere").acquire().await.map(|_| ()) }
    });
    wait_until(SOON, async || one.stats().channels == 1).await;
    let watch = guards[0].watch();
    let before = observer.query::<String>(&["INFO", "commandstats"]).await.unwrap();
    one.shutdown(Duration::from_secs(10)).await.unwrap();
    let after = observer.query::<String>(&["INFO", "commandstats"]).await.unwrap();
    assert!(calls(&after, "evalsha") + calls(&after, "eval") - calls(&before, "evalsha") - calls(&before, "eval") <= 4);
    assert_eq!(observer.keys("*").await.unwrap(), ["elsewhere"]);
    assert!(matches!(waiter.await.unwrap(), Err(AcquireError::Failed(Failure::ShuttingDown { .. }))));
    assert_eq!(watch.lost().await, LostReason::ShutDown);
    let released = guards.pop().unwrap().release().await;
    assert!(matches!(released, Err(ReleaseError::Lost { reason: LostReason::ShutDown, .. })), "{released:?}");
    drop(guards);
    let refused = Lock::new(&one, "b").acquire().await;
    assert!(matches!(refused, Err(AcquireError::Failed(Failure::ShuttingDown { .. }))), "{refused:?}");
    drop(elsewhere);
    // A second shutdown has no further effect.
    one.shutdown(Duration::from_secs(1)).await.unwrap();
}

fn calls(info: &str, command: &str) -> i64 {
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn guards_dropped_during_shutdown_do_no_harm() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    let mut guards = Vec::new();
    for n in 0..100 {
        guards.push(Lock::new(&client, format!("name:{n}")).acquire().await.unwrap());
    }
    let dropping = tokio::task::spawn_blocking(move || drop(guards));
    client.shutdown(Duration::from_secs(10)).await.unwrap();
    dropping.await.unwrap();
    wait_until(SOON, async || observer.keys("*").await.unwrap().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_last_handle_releases_all_and_closes_the_connections() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = redgrid_tests::client_with(&server.url(), |config| config.client_name("leaving")).await;
    let guard = Lock::new(&client, "a").acquire().await.unwrap();
    drop(client);
    // The guard keeps the client alive.
    assert!(guard.is_held());
    drop(guard);
    wait_until(SOON, async || {
        let clients = observer.query::<String>(&["CLIENT", "LIST"]).await.unwrap();
        !clients.contains("name=leaving") && !observer.exists("a").await.unwrap()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_lock_is_left_to_its_lease() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    // The lease is long enough for the checks to run before it ends, even if they take seconds.
    Lock::new(&client, "a").acquire().auto_renew(Duration::from_secs(6)).await.unwrap().forget();
    assert!(observer.exists("a").await.unwrap());
    assert!(Lock::new(&client, "a").try_acquire().await.unwrap().is_none());
    let guard = Lock::new(&client, "a").acquire().timeout(SOON).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn reentry_gives_the_lock_back_with_the_last_guard() {
    let server = server().await;
    let client = client(&server).await;
    let lock = Lock::new(&client, "a");
    let first = lock.acquire().await.unwrap();
    let second = first.reenter().unwrap();
    drop(first);
    assert!(second.is_held() && lock.is_locked().await.unwrap());
    second.release().await.unwrap();
    assert!(!lock.is_locked().await.unwrap());
}

/// A lock that is lost and forgotten leaves no entry in the table. The clock is simulated: on a
/// busy machine, a short lease may end before the reply to its acquire arrives.
#[tokio::test(start_paused = true)]
async fn a_lost_and_forgotten_lock_leaves_no_entry() {
    let server = Arc::new(FakeServer::new("one:1", granting("1700000000000000")));
    let client = Client::over_one(server, Config::single("one").unwrap(), Clock::runtime()).unwrap();
    let guard = Lock::new(&client, "a").acquire().lease(Duration::from_secs(2)).await.unwrap();
    guard.lost().await;
    guard.forget();
    wait_until(SOON, async || client.stats() == NOTHING).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_while_holding_releases_and_poisons_nothing() {
    let server = server().await;
    let client = client(&server).await;
    let lock = Lock::new(&client, "a");
    for _ in 0..2 {
        let held = lock.clone();
        let panicked = tokio::spawn(async move {
            let _guard = held.acquire().await.unwrap();
            panic!("while holding");
        });
        assert!(panicked.await.unwrap_err().is_panic());
        lock.acquire().timeout(SOON).await.unwrap().release().await.unwrap();
    }
    wait_until(SOON, async || client.stats() == NOTHING).await;
}
