//! Read-write locks with lost state on the server: a shortened lifetime, a missing hold, and a dead
//! reader.

use std::time::{Duration, Instant};

use redgrid_locks::{DowngradeError, Holder, LostReason, RwLock, UpgradeError};
use redgrid_testkit::{Observer, wait_until};
use redgrid_tests::{SOON, client, client_with, server};

const MS: Duration = Duration::from_millis(1);

/// A lease that ends after every test.
const LONG: Duration = Duration::from_secs(600);

/// The field of the only reader.
async fn reader(observer: &Observer) -> String {
    let fields: Vec<String> = observer.query(&["HKEYS", "a"]).await.unwrap();
    fields.into_iter().find(|field| field != "mode").expect("a reader")
}

async fn left(observer: &Observer, key: &str) -> Duration {
    observer.time_to_live(key).await.ok().flatten().unwrap_or_default()
}

/// Adds a dead Redisson reader to the lock: it has entered twice, and its leases have ended.
async fn add_dead_reader(observer: &Observer) {
    observer.cmd(&["HSET", "a", "6c1d22a4-7f1e-4b5c-9d0e-3b8f0c1d2e3f:47", "2"]).await.unwrap();
}

/// A lifetime that Redisson's watchdog shortened is restored. The watchdog sets the lifetime of the
/// hash to its own lease, and that of the level keys of all fields.
#[tokio::test(flavor = "multi_thread")]
async fn a_lifetime_shortened_by_a_foreign_watchdog_is_restored() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.watchdog_lease(600 * MS)).await;
    let observer = server.observer().await.unwrap();
    let lock = RwLock::new(&client, "a");
    for read in [lock.read().lease(LONG), lock.read().auto_renew(LONG)] {
        let read = read.await.unwrap();
        let level = format!("{{a}}:{}:rwlock_timeout:1", reader(&observer).await);
        for _ in 0..2 {
            for key in ["a", &level] {
                observer.cmd(&["PEXPIRE", key, "5000"]).await.unwrap();
            }
            wait_until(SOON, async || {
                left(&observer, "a").await > LONG / 2 && left(&observer, &level).await > LONG / 2
            })
            .await;
        }
        assert!(read.is_held());
        // The lifetime is not restored to more than the lease.
        assert!(left(&observer, "a").await < LONG + LONG / 10);
        read.release().await.unwrap();
    }
}

/// A server at its memory limit refuses SET. Neither a renewal nor a change of a lease may need it.
#[tokio::test(flavor = "multi_thread")]
async fn reads_are_renewed_and_extended_on_a_full_server() {
    let server = server().await;
    let (lease, observer) = (1500 * MS, server.observer().await.unwrap());
    let client = client_with(&server.url(), |config| config.watchdog_lease(lease)).await;
    let renewed = RwLock::new(&client, "a").read().await.unwrap();
    let fixed = RwLock::new(&client, "b").read().lease(lease).await.unwrap();
    server.out_of_memory(true).await.unwrap();
    fixed.extend(LONG).await.expect("a longer lease needs no memory");
    fixed.extend(LONG / 2).await.expect("nor does a shorter one");
    assert!(left(&observer, "b").await > LONG / 3);
    let began = Instant::now();
    wait_until(SOON, async || {
        assert!(renewed.is_held(), "lost after {:?}", began.elapsed());
        began.elapsed() > 2 * lease
    })
    .await;
    assert!(fixed.is_held());
    server.out_of_memory(false).await.unwrap();
    renewed.release().await.unwrap();
    fixed.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_missing_on_the_server_is_not_converted() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let (here, there) = (RwLock::new(&one, "a"), RwLock::new(&two, "a"));
    let observer = server.observer().await.unwrap();
    let others_write = async || {
        observer.cmd(&["DEL", "a"]).await.unwrap();
        there.write().timeout(SOON).await.unwrap()
    };
    // In the first round, the other writers have left; in the second one, a writer still holds the
    // lock.
    for stay in [false, true] {
        let upgradable = here.upgradable_read().timeout(SOON).await.unwrap();
        let mut writer = Some(others_write().await).filter(|_| stay);
        assert!(matches!(upgradable.upgrade().await, Err(UpgradeError::Lost(_))), "{stay}");
        drop(writer.take());
        let read = here.read().timeout(SOON).await.unwrap();
        let (watch, mut writer) = (read.watch(), Some(others_write().await).filter(|_| stay));
        let Err(UpgradeError::Lost(lost)) = read.try_upgrade().await else { panic!("the read is lost: {stay}") };
        assert!(lost.reason == LostReason::Gone && watch.lost_reason() == Some(LostReason::Gone));
        drop(writer.take());
        let write = here.write().timeout(SOON).await.unwrap();
        let mut writer = Some(others_write().await).filter(|_| stay);
        assert!(matches!(write.downgrade().await, Err(DowngradeError::Lost(_))), "{stay}");
        if let Some(writer) = writer.take() {
            assert!(writer.is_held() && here.try_read().await.unwrap().is_none());
            writer.release().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_under_a_lost_write_waits_like_any_other() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let (here, there) = (RwLock::new(&one, "a"), RwLock::new(&two, "a"));
    let (observer, me) = (server.observer().await.unwrap(), Holder::new());
    let write = here.write().holder(&me).await.unwrap();
    observer.cmd(&["DEL", "a"]).await.unwrap();
    let other = there.write().timeout(SOON).await.unwrap();
    let waiting = tokio::spawn(here.read().holder(&me).timeout(SOON).into_future());
    wait_until(SOON, async || one.stats().waiting == 1).await;
    other.release().await.unwrap();
    let read = waiting.await.unwrap().unwrap();
    assert!(there.try_write().await.unwrap().is_none());
    assert!(write.release().await.is_err(), "the write is lost");
    read.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_does_not_wait_for_a_reader_that_died() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let (here, there) = (RwLock::new(&one, "a"), RwLock::new(&two, "a"));
    let observer = server.observer().await.unwrap();
    let upgradable = here.upgradable_read().await.unwrap();
    let alive = there.read().await.unwrap();
    add_dead_reader(&observer).await;
    let upgrade = tokio::spawn(upgradable.upgrade());
    wait_until(SOON, async || observer.query::<u64>(&["HLEN", "a"]).await.unwrap() == 3).await;
    // The upgrade waits for a live holder.
    assert!(alive.is_held() && !upgrade.is_finished());
    alive.release().await.unwrap();
    let write = tokio::time::timeout(SOON, upgrade).await.expect("no other holder").unwrap().unwrap();
    write.release().await.unwrap();
    there.try_write().await.unwrap().expect("a free lock").release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_waits_for_a_dead_reader_only_until_its_lease_ends() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let observer = server.observer().await.unwrap();
    // This reader leaves, and the lifetime of the lock stays.
    let long = RwLock::new(&one, "a").read().lease(LONG).await.unwrap();
    add_dead_reader(&observer).await;
    let writer = tokio::spawn(RwLock::new(&two, "a").write().timeout(SOON).into_future());
    wait_until(SOON, async || two.stats().waiting == 1).await;
    long.release().await.unwrap();
    let write = writer.await.unwrap().expect("no other holder");
    write.release().await.unwrap();
    wait_until(SOON, async || observer.keys("*").await.unwrap().is_empty()).await;
}

/// A user without permission to set lifetimes cannot force the lock. The attempt does not affect
/// its readers.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_may_not_be_forced_leaves_the_lock_to_its_readers() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    observer.cmd(&["ACL", "SETUSER", "timeless", "on", ">secret", "~*", "&*", "+@all", "-pexpire"]).await.unwrap();
    let (one, forcing) =
        (client(&server).await, client_with(&server.url_for("timeless", "secret"), |config| config).await);
    let read = RwLock::new(&one, "a").read().await.unwrap();
    let told = RwLock::new(&forcing, "a").force_release().await;
    assert!(told.is_err(), "{told:?}");
    let other = client(&server).await;
    let second = RwLock::new(&other, "a").try_read().await.unwrap().expect("readers share it");
    assert!(read.is_held());
    second.release().await.unwrap();
    read.release().await.unwrap();
}
