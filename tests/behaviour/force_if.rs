//! Conditional takeover: the hold is taken only if the expected holder has it.

use std::time::Duration;

use redgrid_core::Client;
use redgrid_locks::{AcquireError, Failure, FairLock, Lock, LockGuard, LockHolder, RwLock};
use redgrid_testkit::{Action, Proxy, RedisServer, wait_until};
use redgrid_tests::{SOON, client, client_with, listening, script, server};

async fn lost(lost: impl Future<Output = redgrid_locks::LostReason>) {
    tokio::time::timeout(SOON, lost).await.expect("the holder is notified");
}

/// Returns the only holder of a lock that is held.
async fn only_holder(lock: &Lock) -> LockHolder {
    lock.inspect().await.unwrap().expect("a held lock").holders.remove(0)
}

/// Lets a client hold the lock "a". Returns this client, another one that is to free the lock, the
/// guard, and the holder as the other client sees it.
async fn held_lock(server: &RedisServer) -> (Client, Client, LockGuard, LockHolder) {
    let (holder, forcing) = (client(server).await, client(server).await);
    listening(server, &holder).await;
    let held = Lock::new(&holder, "a").acquire().await.unwrap();
    let seen = only_holder(&Lock::new(&forcing, "a")).await;
    (holder, forcing, held, seen)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_holder_keeps_the_lock() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    listening(&server, &two).await;
    let lock = Lock::new(&one, "a");
    let first = lock.acquire().await.unwrap();
    let seen = only_holder(&lock).await;
    first.release().await.unwrap();
    assert!(!lock.force_release_if(&seen).await.unwrap().is_done(), "the lock is free");

    let second = Lock::new(&two, "a").acquire().await.unwrap();
    assert!(!lock.force_release_if(&seen).await.unwrap().is_done(), "another holder has it");
    assert!(second.is_held());
    let seen = only_holder(&lock).await;
    assert_eq!(LockHolder::from_field(seen.field()), seen);
    assert!(lock.force_release_if(&seen).await.unwrap().is_done());
    lost(second.lost()).await;
    let third = lock.acquire().timeout(SOON).await.unwrap();
    assert!(third.token() > second.token());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_of_a_fair_queue_follows_the_expected_holder() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    listening(&server, &one).await;
    let lock = FairLock::new(&two, "a");
    let held = FairLock::new(&one, "a").acquire().await.unwrap();
    let seen = lock.inspect().await.unwrap().expect("a held lock").holders.remove(0);
    let next = tokio::spawn(lock.acquire().into_future());
    wait_until(SOON, async || lock.waiting().await.unwrap().len() == 1).await;
    assert!(lock.force_release_if(&seen).await.unwrap().is_done());
    lost(held.lost()).await;
    let next = tokio::time::timeout(SOON, next).await.unwrap().unwrap().unwrap();
    assert!(next.token() > held.token());
    assert!(!lock.force_release_if(&seen).await.unwrap().is_done());
    assert!(next.is_held() && observer.exists("a").await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_expected_reader_or_writer_loses_its_hold() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    listening(&server, &one).await;
    listening(&server, &two).await;
    let (here, there) = (RwLock::new(&one, "a"), RwLock::new(&two, "a"));
    let (mine, theirs) = (here.read().await.unwrap(), there.read().await.unwrap());
    let readers = here.inspect().await.unwrap().expect("a read lock").readers;
    let theirs_seen = readers.iter().find(|reader| reader.client == two.id()).expect("a reader");
    assert!(here.force_release_if(theirs_seen).await.unwrap().is_done());
    lost(theirs.lost()).await;
    assert!(!here.force_release_if(theirs_seen).await.unwrap().is_done(), "no longer a reader");
    assert!(mine.is_held(), "other readers stay");
    assert_eq!(here.inspect().await.unwrap().expect("a read lock").holder_count, 1);

    // A writer that waits for the last reader is woken by the takeover.
    let write = tokio::spawn(there.write().into_future());
    wait_until(SOON, async || observer.exists("redgrid_rw_wait:{a}").await.unwrap()).await;
    let mine_seen = here.inspect().await.unwrap().expect("a read lock").readers.remove(0);
    assert!(there.force_release_if(&mine_seen).await.unwrap().is_done());
    lost(mine.lost()).await;
    let write = tokio::time::timeout(SOON, write).await.unwrap().unwrap().unwrap();

    assert!(
        !here.force_release_if(&mine_seen).await.unwrap().is_done(),
        "a reader that has gone does not free the writer"
    );
    let writer = here.inspect().await.unwrap().expect("a held lock").writer.expect("a writer");
    assert!(here.force_release_if(&writer).await.unwrap().is_done());
    lost(write.lost()).await;
    assert!(!observer.exists("a").await.unwrap());

    // A holder that reads and writes loses both.
    let fields = ["0f8fad5b-d9cb-469f-a165-70867728950e:1", "0f8fad5b-d9cb-469f-a165-70867728950e:1:write"];
    observer.cmd(&["HSET", "a", "mode", "write", fields[0], "1", fields[1], "1"]).await.unwrap();
    let writer = here.inspect().await.unwrap().expect("a held lock").writer.expect("a writer");
    assert!(here.force_release_if(&writer).await.unwrap().is_done());
    assert!(!observer.exists("a").await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_does_not_make_a_takeover_look_undone() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let forcing = client_with(&server.url_via(proxy.addr()), |config| config).await;
    let holder = client(&server).await;
    // The server has cached the script after this.
    drop(Lock::new(&forcing, "warm").steal().await.unwrap());
    let held = Lock::new(&holder, "a").acquire().await.unwrap();
    let lock = Lock::new(&forcing, "a");
    let seen = only_holder(&lock).await;
    proxy.next(1, script!("takeover"), Action::CutAfterForward);
    assert!(lock.force_release_if(&seen).await.unwrap().is_done(), "the second copy finds the first");
    lost(held.lost()).await;
    assert!(lock.inspect().await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_polls_late_learns_that_the_holder_has_lost_the_lock() {
    let server = server().await;
    let (holder, forcing, held, seen) = held_lock(&server).await;
    let lock = Lock::new(&forcing, "a");
    let mut forced = std::pin::pin!(lock.force_release_if(&seen));
    assert!(futures_util::poll!(&mut forced).is_pending());
    lost(held.lost()).await;
    // The grant of the takeover is offered for a second, and then released.
    let next = Lock::new(&holder, "a").acquire().timeout(SOON).await.unwrap();
    let forced = tokio::time::timeout(SOON, forced).await.expect("in time").unwrap();
    assert!(forced.is_done(), "{forced:?}");
    assert!(next.is_held(), "the next holder keeps the lock");
    next.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_after_the_takeover_leaves_the_outcome_unknown() {
    let server = server().await;
    let (_holder, forcing, held, seen) = held_lock(&server).await;
    let lock = Lock::new(&forcing, "a");
    let forced = tokio::spawn(async move { lock.force_release_if(&seen).await });
    // The takeover waits for half a second after this.
    lost(held.lost()).await;
    forcing.shutdown(SOON).await.unwrap();
    let forced = tokio::time::timeout(SOON, forced).await.expect("in time").unwrap();
    assert!(
        matches!(&forced, Err(AcquireError::Failed(Failure::OutcomeUnknown { .. }))),
        "the holder has lost the lock: {forced:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_hash_is_read_in_a_bounded_part() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    let fill = "for i = 1, 5000 do redis.call('HSET', KEYS[1], 'field:' .. i, '1') end";
    observer.cmd(&["EVAL", fill, "1", "visits"]).await.unwrap();
    let state = Lock::new(&client, "visits").inspect().await.unwrap().expect("there are fields");
    assert_eq!((state.holders.len(), state.holder_count), (1000, 5000));
    // A waiting writer checks for dead readers once a second. This check also reads only a part of
    // the fields.
    observer.cmd(&["HSET", "visits", "mode", "read"]).await.unwrap();
    observer.cmd(&["CONFIG", "RESETSTAT"]).await.unwrap();
    let wait = Duration::from_millis(2500);
    let waited = RwLock::new(&client, "visits").write().timeout(wait).await;
    assert!(matches!(waited, Err(AcquireError::TimedOut { .. })), "{waited:?}");
    let stats: String = observer.query(&["INFO", "commandstats"]).await.unwrap();
    assert!(stats.contains("cmdstat_hrandfield:") && !stats.contains("cmdstat_hkeys:"), "{stats}");
}
