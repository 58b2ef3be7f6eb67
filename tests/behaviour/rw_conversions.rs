//! Upgrades and downgrades.

use std::time::{Duration, Instant};

use redgrid_locks::{Client, DowngradeError, Holder, RwLock, UpgradeError};
use redgrid_testkit::{Action, Proxy, RedisServer, wait_until};
use redgrid_tests::{SOON, client, client_with, server};

const MS: Duration = Duration::from_millis(1);

/// A time longer than a message takes on a busy machine, and shorter than the poll interval of
/// [`patient`] clients.
const AT_ONCE: Duration = SOON;

/// A client with a poll interval longer than any test waits.
async fn patient(server: &RedisServer) -> Client {
    client_with(&server.url(), |config| config.poll_interval(10 * SOON).local_handover_window(400 * MS)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_downgrade_admits_readers_at_once_and_no_writer() {
    let server = server().await;
    let one = client(&server).await;
    let two = client_with(&server.url(), |config| config.poll_interval(10 * SOON)).await;
    let (here, there) = (RwLock::new(&one, "a"), RwLock::new(&two, "a"));
    let write = here.write().await.unwrap();
    let waiting = tokio::spawn(there.read().timeout(SOON).into_future());
    let observer = server.observer().await.unwrap();
    wait_until(SOON, async || observer.pubsub_channels("redisson_rwlock*").await.unwrap().len() == 1).await;
    wait_until(SOON, async || two.stats().channels == 1).await;
    let read = write.downgrade().await.unwrap();
    let other = tokio::time::timeout(AT_ONCE, waiting).await.expect("woken").unwrap().unwrap();
    assert!(here.try_write().await.unwrap().is_none() && there.try_write().await.unwrap().is_none());
    other.release().await.unwrap();
    read.release().await.unwrap();
    there.try_write().await.unwrap().expect("a free lock").release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_local_waiting_writer_does_not_get_a_downgraded_lock() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.local_handover_window(500 * MS)).await;
    let lock = RwLock::new(&client, "a");
    let write = lock.write().await.unwrap();
    let next = tokio::spawn(lock.write().timeout(SOON).into_future());
    wait_until(SOON, async || client.stats().waiting == 1).await;
    let read = write.downgrade().await.unwrap();
    assert!(read.is_held() && !next.is_finished());
    read.release().await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_hold_is_not_downgraded_and_an_unanswered_one_is_released() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.response_timeout(1000 * MS).retries(0)).await;
    let lock = RwLock::new(&client, "a");
    let write = lock.write().lease(1000 * MS).await.unwrap();
    write.lost().await;
    assert!(matches!(write.downgrade().await, Err(DowngradeError::Lost(_))));
    let read = lock.read().timeout(SOON).lease(1000 * MS).await.unwrap();
    read.lost().await;
    assert!(matches!(read.try_upgrade().await, Err(UpgradeError::Lost(_))));
    let write = lock.write().timeout(SOON).await.unwrap();
    server.kill().await.unwrap();
    let Err(DowngradeError::Held { guard, .. }) = write.downgrade().await else { panic!("the server is unreachable") };
    assert!(guard.is_held());
    guard.forget();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_only_reader_may_upgrade() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let (here, there) = (RwLock::new(&one, "a"), RwLock::new(&two, "a"));
    let (mine, theirs) = (here.read().await.unwrap(), there.read().await.unwrap());
    let Err(UpgradeError::Busy(mine)) = mine.try_upgrade().await else { panic!("another reads") };
    let Err(UpgradeError::Busy(theirs)) = theirs.try_upgrade().await else { panic!("another reads") };
    theirs.release().await.unwrap();
    // A waiting writer does not prevent an upgrade.
    let writer = tokio::spawn(here.write().timeout(SOON).into_future());
    wait_until(SOON, async || one.stats().waiting == 1).await;
    let write = mine.try_upgrade().await.unwrap();
    assert!(there.try_read().await.unwrap().is_none());
    let observer = server.observer().await.unwrap();
    // The read is released in the background. Then two fields are left: the mode and the writer.
    let fields = async || observer.query::<usize>(&["HLEN", "a"]).await.unwrap();
    wait_until(SOON, async || fields().await == 2).await;
    write.release().await.unwrap();
    writer.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_shares_a_read_does_not_write_beside_others() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.local_handover_window(500 * MS)).await;
    let lock = RwLock::new(&client, "a");
    let (one, two) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    let Err(UpgradeError::Busy(one)) = one.try_upgrade().await else { panic!("another reads") };
    two.release().await.unwrap();
    let write = one.try_upgrade().await.unwrap();
    // The hand-over window is not over, but a reader does not share the lock with the writer.
    assert!(lock.try_read().await.unwrap().is_none());
    write.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgradable_reader_waits_for_readers_and_is_unique() {
    let server = server().await;
    let (one, two) = (patient(&server).await, client(&server).await);
    let (here, there) = (RwLock::new(&one, "a"), RwLock::new(&two, "a"));
    let first = here.upgradable_read().await.unwrap();
    let reader = there.read().await.unwrap();
    assert!(there.upgradable_read().timeout(100 * MS).await.is_err(), "another may write");
    let upgrade = tokio::spawn(first.upgrade());
    // New readers wait for the upgrade.
    wait_until(SOON, async || there.try_read().await.unwrap().is_none()).await;
    assert!(reader.is_held() && !upgrade.is_finished());
    reader.release().await.unwrap();
    let write = tokio::time::timeout(AT_ONCE, upgrade).await.expect("the upgrade completes").unwrap().unwrap();
    assert!(there.try_read().await.unwrap().is_none());
    write.release().await.unwrap();
    there.upgradable_read().timeout(SOON).await.unwrap().release().await.unwrap();
    let observer = server.observer().await.unwrap();
    wait_until(SOON, async || observer.keys("*").await.unwrap().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn upgrades_and_downgrades_of_many_lose_no_update() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await];
    let value = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let tasks: Vec<_> = (0..12)
        .map(|task| {
            let (lock, value) = (RwLock::new(&clients[task % 2], "a"), value.clone());
            tokio::spawn(async move {
                use std::sync::atomic::Ordering::SeqCst;
                for _ in 0..20 {
                    let seen = lock.upgradable_read().timeout(SOON).await.unwrap();
                    let before = value.load(SeqCst);
                    tokio::task::yield_now().await;
                    let write = seen.upgrade().await.unwrap();
                    assert_eq!(value.load(SeqCst), before, "no task wrote since the read");
                    value.store(before + 1, SeqCst);
                    let read = write.downgrade().await.unwrap();
                    assert_eq!(value.load(SeqCst), before + 1);
                    read.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(value.load(std::sync::atomic::Ordering::SeqCst), 240);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_is_notified_by_the_last_local_reader() {
    let server = server().await;
    let (client, observer) = (patient(&server).await, server.observer().await.unwrap());
    let lock = RwLock::new(&client, "a");
    let (upgradable, beside) = (lock.upgradable_read().await.unwrap(), lock.read().await.unwrap());
    let upgrade = tokio::spawn(upgradable.upgrade());
    // Waits for the sixth announcement. By then the upgrade has polled, is subscribed and waits,
    // and no other request is due.
    wait_until(SOON, async || {
        let words: Vec<String> = observer.query(&["HVALS", "redgrid_rw_wait:{a}"]).await.unwrap();
        words.iter().any(|word| word.rsplit(' ').next().is_some_and(|number| number.parse::<u64>().unwrap() >= 6))
    })
    .await;
    assert!(!upgrade.is_finished());
    beside.release().await.unwrap();
    let write = tokio::time::timeout(AT_ONCE, upgrade).await.expect("the upgrade ends").unwrap().unwrap();
    write.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_writes_already_does_not_wait_for_itself_to_upgrade() {
    let server = server().await;
    let client = client(&server).await;
    let (lock, me) = (RwLock::new(&client, "a"), Holder::new());
    let write = lock.write().holder(&me).await.unwrap();
    let upgradable = lock.upgradable_read().holder(&me).await.unwrap();
    let again = tokio::time::timeout(SOON, upgradable.upgrade()).await.expect("the upgrade ends").unwrap();
    assert_eq!(again.token(), write.token());
    let read = lock.read().holder(&me).await.unwrap();
    let third = tokio::time::timeout(SOON, read.try_upgrade()).await.expect("the upgrade ends").unwrap();
    write.release().await.unwrap();
    third.release().await.unwrap();
    assert!(again.is_held() && lock.try_read().await.unwrap().is_none());
    again.release().await.unwrap();
    let observer = server.observer().await.unwrap();
    wait_until(SOON, async || observer.keys("*").await.unwrap().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retained_write_is_retained_for_reading_and_others_may_read() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let (here, there) = (RwLock::new(&one, "a"), RwLock::new(&two, "a"));
    let (asked, keep) = (Instant::now(), 3000 * MS);
    let read = here.write().hold_at_least(keep).await.unwrap().downgrade().await.unwrap();
    there.try_read().await.unwrap().expect("no writer any more").release().await.unwrap();
    read.release().await.unwrap();
    let early = there.try_write().await.unwrap().is_some();
    assert!(!early || asked.elapsed() >= keep);
    there.write().timeout(SOON).await.unwrap().release().await.unwrap();
    assert!(asked.elapsed() >= keep);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgradable_read_lasts_as_long_as_its_guard() {
    let server = server().await;
    let (observer, gate) = (server.observer().await.unwrap(), "redgrid_rw_upgrade:{a}");
    let one = client_with(&server.url(), |config| config.watchdog_lease(900 * MS)).await;
    let two = client(&server).await;
    // The mark of an upgradable read is renewed, even if its lease is fixed.
    let lock = RwLock::new(&two, "a");
    let fixed = lock.upgradable_read().lease(2000 * MS).hold_at_most(1000 * MS).await.unwrap();
    assert!(observer.time_to_live(gate).await.unwrap().unwrap() > Duration::from_secs(10));
    fixed.release().await.unwrap();
    let upgradable = RwLock::new(&one, "a").upgradable_read().await.unwrap();
    observer.cmd(&["DEL", gate]).await.unwrap();
    upgradable.lost().await;
    assert!(matches!(upgradable.upgrade().await, Err(UpgradeError::Lost(_))));
    wait_until(SOON, async || !observer.exists("a").await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_waits_for_a_forgotten_read_until_its_lease_ends() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    // Both reads share one grant of the server, which the upgradable one keeps renewing.
    let client =
        client_with(&server.url(), |config| config.watchdog_lease(2000 * MS).local_handover_window(500 * MS)).await;
    let lock = RwLock::new(&client, "a");
    let upgradable = lock.upgradable_read().await.unwrap();
    let shared = lock.read().await.unwrap();
    assert_eq!(observer.query::<u64>(&["HLEN", "a"]).await.unwrap(), 2, "its mode, and one reader");
    let over = Instant::now() + shared.remaining();
    shared.forget();
    let write = tokio::time::timeout(SOON, upgradable.upgrade()).await.expect("the upgrade ends").unwrap();
    // The tolerance of 100 ms is for the time between reading `remaining` and forgetting the lock.
    assert!(Instant::now() + 100 * MS >= over, "a forgotten read lasts until its lease ends");
    write.release().await.unwrap();
    wait_until(SOON, async || !observer.exists("a").await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_waits_for_a_read_that_was_forgotten_before_it_until_its_lease_is_over() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client =
        client_with(&server.url(), |config| config.watchdog_lease(2000 * MS).local_handover_window(500 * MS)).await;
    let lock = RwLock::new(&client, "a");
    // A forgotten lock is not shared; the next caller requests a read lock of its own.
    lock.read().await.unwrap().forget();
    let upgradable = lock.upgradable_read().await.unwrap();
    let fields = observer.query::<u64>(&["HLEN", "a"]).await.unwrap();
    let write =
        tokio::time::timeout(SOON, upgradable.upgrade()).await.expect("a forgotten read is not renewed").unwrap();
    assert_eq!(fields, 3, "its mode, and two readers");
    write.release().await.unwrap();
    wait_until(SOON, async || !observer.exists("a").await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn local_readers_wait_behind_a_waiting_upgrade() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    // The window is long enough for the next reader to share the grant of the first two.
    let client = client_with(&server.url(), |config| config.local_handover_window(500 * MS)).await;
    let lock = RwLock::new(&client, "a");
    let (reading, upgradable) = (lock.read().await.unwrap(), lock.upgradable_read().await.unwrap());
    let upgrade = tokio::spawn(upgradable.upgrade());
    wait_until(SOON, async || observer.query::<u64>(&["HLEN", "redgrid_rw_wait:{a}"]).await.unwrap() == 1).await;
    assert!(lock.try_read().await.unwrap().is_none(), "an upgrade waits");
    reading.release().await.unwrap();
    tokio::time::timeout(SOON, upgrade).await.unwrap().unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_upgrade_withdraws_only_its_own_announcement() {
    let server = server().await;
    // Within the hand-over window, readers of a process share its grant without a request.
    let (one, two) =
        (client(&server).await, client_with(&server.url(), |config| config.local_handover_window(MS)).await);
    let (here, there) = (RwLock::new(&one, "a"), RwLock::new(&two, "a"));
    let (observer, words) = (server.observer().await.unwrap(), "redgrid_rw_wait:{a}");
    let said = async || observer.query::<Vec<String>>(&["HKEYS", words]).await.unwrap();
    let reading = there.read().await.unwrap();
    let upgrade = tokio::spawn(here.upgradable_read().await.unwrap().upgrade());
    wait_until(SOON, async || said().await.len() == 1).await;
    let writer = tokio::spawn(here.write().timeout(SOON).into_future());
    wait_until(SOON, async || said().await.len() == 2).await;
    upgrade.abort();
    wait_until(SOON, async || said().await == [one.id()]).await;
    assert!(there.try_read().await.unwrap().is_none(), "a writer waits still");
    writer.abort();
    wait_until(SOON, async || said().await.is_empty()).await;
    // With a long lifetime, the announcement disappears only because the upgrade withdraws it.
    let upgrade = tokio::spawn(here.upgradable_read().timeout(SOON).await.unwrap().upgrade());
    wait_until(SOON, async || said().await.len() == 1).await;
    upgrade.abort();
    assert!(upgrade.await.is_err());
    observer.cmd(&["PEXPIRE", words, "600000"]).await.unwrap();
    wait_until(SOON, async || said().await.is_empty()).await;
    reading.release().await.unwrap();
}

/// Runs the scripts themselves: a late withdrawal does not remove a later announcement.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_withdrawal_keeps_a_later_announcement() {
    const ANNOUNCE: &str = include_str!("../../crates/redgrid-locks/src/scripts/rw_announce.lua");
    const WITHDRAW: &str = include_str!("../../crates/redgrid-locks/src/scripts/rw_withdraw.lua");
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let say = async |number: &str| {
        observer.query::<u64>(&["EVAL", ANNOUNCE, "1", "words", "client", "60000", number]).await.unwrap()
    };
    let withdraw = async |number: &str| {
        let asked = ["EVAL", WITHDRAW, "2", "words", "a", "client", number, "PUBLISH", "channel"];
        observer.query::<u64>(&asked).await.unwrap()
    };
    assert_eq!((say("4").await, withdraw("3").await), (1, 0));
    // A repeated announcement keeps its start time, but not its number.
    let word = async || observer.query::<String>(&["HGET", "words", "client"]).await.unwrap();
    let first = word().await;
    say("10").await;
    let second = word().await;
    assert_eq!(first.split(' ').next(), second.split(' ').next());
    assert_eq!((withdraw("9").await, withdraw("11").await, withdraw("11").await), (0, 1, 0));
}

/// An upgrade does not wait for the release of its read lock. The reply to the release may arrive
/// after the write lock was released.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_released_late_behind_an_upgrade_does_not_stay() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let observer = server.observer().await.unwrap();
    let slow =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(200 * MS).watchdog_lease(600 * MS))
            .await;
    let lock = RwLock::new(&slow, "a");
    // The next requests for this name are the one for the write lock, and then the releases.
    for (count, action) in
        (1..=4).flat_map(|n| [Action::Hold, Action::SwallowReply, Action::CutAfterForward].map(|a| (n, a)))
    {
        let read = lock.upgradable_read().await.unwrap();
        proxy.next(count, "{a}", action);
        let upgraded = tokio::time::timeout(SOON, read.upgrade()).await.expect("an end");
        drop(upgraded);
        proxy.cut_all();
        proxy.release_held().await;
        wait_until(SOON, async || !observer.exists("a").await.unwrap()).await;
        client_is_idle(&slow).await;
    }
}

async fn client_is_idle(client: &Client) {
    wait_until(SOON, async || client.stats().names == 0).await;
}
