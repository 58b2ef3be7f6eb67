//! Forgotten guards and unpolled futures beside other guards of the same holder or client.

use std::future::IntoFuture;
use std::time::Duration;

use futures_util::poll;
use redgrid_locks::{AcquireError, Client, Holder, Lock, MultiLock, RwLock};
use redgrid_testkit::wait_until;
use redgrid_tests::{SOON, client, client_with, server};

const MS: Duration = Duration::from_millis(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_write_ends_with_its_lease_although_its_holder_reads() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let one = client_with(&server.url(), |config| config.watchdog_lease(1000 * MS)).await;
    let (two, me) = (client(&server).await, Holder::new());
    let lock = RwLock::new(&one, "a");
    let write = lock.write().holder(&me).await.unwrap();
    let read = lock.read().holder(&me).await.unwrap();
    write.forget();
    assert!(RwLock::new(&two, "a").try_read().await.unwrap().is_none(), "a forgotten write lasts until its lease ends");
    let other = RwLock::new(&two, "a").read().timeout(SOON).await.expect("the lease of the write has ended");
    assert!(read.is_held());
    other.release().await.unwrap();
    read.release().await.unwrap();
    wait_until(SOON, async || !observer.exists("a").await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retained_write_ends_in_time_although_its_holder_reads() {
    let server = server().await;
    let one = client_with(&server.url(), |config| config.watchdog_lease(1000 * MS)).await;
    let (two, me) = (client(&server).await, Holder::new());
    let lock = RwLock::new(&one, "a");
    let write = lock.write().holder(&me).hold_at_least(500 * MS).await.unwrap();
    let read = lock.read().holder(&me).await.unwrap();
    write.release().await.unwrap();
    assert!(RwLock::new(&two, "a").try_read().await.unwrap().is_none(), "the name stays taken");
    let other = RwLock::new(&two, "a").read().timeout(SOON).await.expect("its time has ended");
    assert!(read.is_held());
    other.release().await.unwrap();
    read.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forgotten_read_ends_with_its_lease_although_others_read() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let one = client_with(&server.url(), |config| config.watchdog_lease(1000 * MS)).await;
    let two = client(&server).await;
    let reading = RwLock::new(&two, "a").read().await.unwrap();
    RwLock::new(&one, "a").read().await.unwrap().forget();
    assert_eq!(observer.query::<u64>(&["HLEN", "a"]).await.unwrap(), 3, "its mode, and two readers");
    wait_until(SOON, async || observer.query::<u64>(&["HLEN", "a"]).await.unwrap() == 2).await;
    assert!(reading.is_held());
    reading.try_upgrade().await.expect("the only reader").release().await.unwrap();
}

/// An unpolled acquire does not block other callers. Its holder has acquired the lock through
/// another request meanwhile, and released it.
#[tokio::test(flavor = "multi_thread")]
async fn a_kept_acquire_blocks_no_other_after_its_holder_left() {
    let server = server().await;
    let (client, me) = (client(&server).await, Holder::new());
    let lock = Lock::new(&client, "a");
    let before = lock.acquire().await.unwrap();
    let mut kept = Box::pin(lock.acquire().holder(&me).into_future());
    assert!(poll!(&mut kept).is_pending());
    before.release().await.unwrap();
    wait_until(SOON, async || client.stats().waiting == 0 && client.stats().holds == 1).await;
    lock.acquire().holder(&me).await.unwrap().release().await.unwrap();
    let other = tokio::time::timeout(SOON, lock.acquire().into_future()).await.expect("the kept grant moves on");
    other.unwrap().release().await.unwrap();
    kept.await.unwrap().release().await.unwrap();
    wait_until(SOON, async || client.stats().names == 0).await;
}

/// A guard stays valid if another acquire of the same holder, which got the lock, is dropped before
/// it is polled.
#[tokio::test(flavor = "multi_thread")]
async fn a_guard_stays_when_its_holders_first_request_is_dropped() {
    let server = server().await;
    let (client, me) = (client(&server).await, Holder::new());
    let lock = Lock::new(&client, "a");
    let before = lock.acquire().await.unwrap();
    let mut first = Box::pin(lock.acquire().holder(&me).into_future());
    assert!(poll!(&mut first).is_pending());
    before.release().await.unwrap();
    wait_until(SOON, async || client.stats().waiting == 0 && client.stats().holds == 1).await;
    let guard = lock.acquire().holder(&me).await.unwrap();
    drop(first);
    // The timeout is longer than an unclaimed grant is kept.
    let other = lock.acquire().timeout(Duration::from_secs(3)).await;
    assert!(matches!(other, Err(AcquireError::TimedOut { by_this_client: true, .. })), "{other:?}");
    assert!(guard.is_held());
    guard.release().await.unwrap();
    wait_until(SOON, async || client.stats().names == 0).await;
}

/// A shutdown does not wait for a write that is retained for longer than the shutdown may take.
#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_does_not_wait_for_a_retained_write() {
    let server = server().await;
    let client = client(&server).await;
    RwLock::new(&client, "a").write().hold_at_least(6 * SOON).await.unwrap().release().await.unwrap();
    client.shutdown(SOON).await.unwrap();
    assert!(server.observer().await.unwrap().exists("a").await.unwrap(), "the name stays taken");
}

/// An unpolled request does not block other callers. Two requests of one holder wait, and only one
/// of them is polled.
#[tokio::test(flavor = "multi_thread")]
async fn a_kept_acquire_blocks_no_other_after_two_waits() {
    let server = server().await;
    let (client, me) = (client(&server).await, Holder::new());
    let lock = Lock::new(&client, "a");
    for kept_first in [true, false] {
        let before = lock.acquire().await.unwrap();
        let mut one = Box::pin(lock.acquire().holder(&me).into_future());
        let mut two = Box::pin(lock.acquire().holder(&me).into_future());
        assert!(poll!(&mut one).is_pending() && poll!(&mut two).is_pending());
        before.release().await.unwrap();
        wait_until(SOON, async || client.stats().waiting == 0 && client.stats().holds == 1).await;
        let (kept, polled) = if kept_first { (one, two) } else { (two, one) };
        let guard = polled.await.unwrap();
        guard.release().await.unwrap();
        let other = tokio::time::timeout(SOON, lock.acquire().into_future()).await.expect("the kept grant moves on");
        other.unwrap().release().await.unwrap();
        kept.await.unwrap().release().await.unwrap();
    }
    wait_until(SOON, async || client.stats().names == 0).await;
}

/// A failed attempt for several names does not affect the names that its holder has.
#[tokio::test(flavor = "multi_thread")]
async fn a_kept_acquire_blocks_no_other_after_a_failed_upgrade() {
    let server = server().await;
    let (one, two, me) = (client(&server).await, client(&server).await, Holder::new());
    let lock = Lock::new(&one, "a");
    let _busy = Lock::new(&two, "b").acquire().await.unwrap();
    let before = lock.acquire().await.unwrap();
    let mut kept = Box::pin(lock.acquire().holder(&me).into_future());
    assert!(poll!(&mut kept).is_pending());
    before.release().await.unwrap();
    wait_until(SOON, async || one.stats().waiting == 0 && one.stats().holds == 1).await;
    assert!(MultiLock::new(&one, ["a", "b"]).try_acquire().holder(&me).await.unwrap().is_none());
    let other = tokio::time::timeout(SOON, lock.acquire().into_future()).await.expect("the kept grant moves on");
    other.unwrap().release().await.unwrap();
    drop(kept);
}

// On one thread no reply can arrive during the first poll.
#[tokio::test]
async fn a_kept_takeover_and_a_kept_attach_block_no_other() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let (here, there) = (Lock::new(&one, "a"), Lock::new(&two, "a"));
    let holders = async || observer.query::<Vec<String>>(&["HKEYS", "a"]).await.unwrap();

    let mut steal = Box::pin(here.steal());
    assert!(poll!(&mut steal).is_pending());
    wait_until(SOON, async || !holders().await.is_empty()).await;
    let other = there.acquire().timeout(SOON).await.expect("the stolen lock moves on");
    other.release().await.unwrap();
    // The steal sends a new request when it is polled again.
    steal.await.unwrap().release().await.unwrap();

    let detached = here.acquire().await.unwrap().detach().await.unwrap();
    let before = holders().await;
    let mut attach = Box::pin(here.attach(&detached));
    assert!(poll!(&mut attach).is_pending());
    wait_until(SOON, async || holders().await != before).await;
    there.acquire().timeout(SOON).await.expect("the attached lock moves on").release().await.unwrap();
    attach.await.expect_err("the attached lock was released");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_leaves_a_forgotten_shared_read_to_its_lease() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client_with(&server.url(), |config| config.local_handover_window(500 * MS)).await;
    let lock = RwLock::new(&client, "a");
    let (one, two) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    let fields = observer.query::<u64>(&["HLEN", "a"]).await.unwrap();
    one.forget();
    client.shutdown(SOON).await.unwrap();
    assert!(observer.exists("a").await.unwrap(), "its lease has not ended");
    assert_eq!(fields, 2, "its mode, and one reader for both");
    drop(two);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_holds_a_lock_itself_gets_an_error() {
    let server = server().await;
    let (here, there) = (client(&server).await, client(&server).await);
    let itself = |error: AcquireError| match error {
        AcquireError::TimedOut { by_this_client, .. } => by_this_client,
        other => panic!("{other:?}"),
    };
    let guard = Lock::new(&here, "a").acquire().await.unwrap();
    for wait in [Duration::ZERO, 50 * MS] {
        let of = async |client: &Client| Lock::new(client, "a").acquire().timeout(wait).await.map(drop).unwrap_err();
        assert!(itself(of(&here).await), "{wait:?}");
        assert!(!itself(of(&there).await), "{wait:?}");
    }
    let both = MultiLock::new(&here, ["b", "a"]).acquire().timeout(Duration::ZERO).await;
    assert!(itself(both.map(drop).unwrap_err()), "several");
    guard.release().await.unwrap();

    let read = RwLock::new(&here, "r").read().await.unwrap();
    for wait in [Duration::ZERO, 50 * MS] {
        let of = async |client: &Client| RwLock::new(client, "r").write().timeout(wait).await.map(drop).unwrap_err();
        assert!(itself(of(&here).await), "a reader of its own, {wait:?}");
        assert!(!itself(of(&there).await), "{wait:?}");
    }
    read.release().await.unwrap();
}
