//! A server at `maxmemory` grants no new holds. Existing holds and queue positions are kept.

use std::time::Duration;

use redgrid_barrier::{DoubleBarrier, Notify, Phaser};
use redgrid_core::object::Lifetime;
use redgrid_locks::{FairLock, Lock, NextWaiter};
use redgrid_permit_expirable_semaphore::PermitExpirableSemaphore;
use redgrid_tests::{SOON, client, client_with, server};

const LEASE: Duration = Duration::from_millis(1500);

#[tokio::test(flavor = "multi_thread")]
async fn held_and_queued_requests_survive_a_full_server() {
    let server = server().await;
    let (observer, others) = (server.observer().await.unwrap(), client(&server).await);
    let client = client_with(&server.url(), |config| config.watchdog_lease(LEASE)).await;
    let phaser = Phaser::new(&client, "phaser");
    let parties = phaser.bulk_register(2).await.unwrap();
    let inside = DoubleBarrier::new(&client, "double", 1).enter().await.unwrap();
    let permits = PermitExpirableSemaphore::new(&client, "permits");
    assert!(permits.try_set_permits(1).await.unwrap());
    let permit = permits.acquire().lease(2 * LEASE).await.unwrap();
    let held = FairLock::new(&others, "fair").acquire().await.unwrap();
    let fair = tokio::spawn(FairLock::new(&client, "fair").acquire().into_future());
    let notify = Notify::new(&client, "notify");
    let notified = tokio::spawn(notify.notified().into_future());
    let stand = async |key: &str| observer.query::<u64>(&["EXISTS", key]).await.unwrap() == 1;
    redgrid_testkit::wait_until(SOON, async || stand("redisson_lock_queue:{fair}").await).await;
    redgrid_testkit::wait_until(SOON, async || client.stats().channels >= 2).await;

    server.set_config("maxmemory", "1").await.unwrap();
    let id = permit.ids().next().unwrap();
    assert!(permits.update_lease(id, 20 * LEASE).await.unwrap());
    // Without a renewal, the hold would have ended within three leases.
    tokio::time::sleep(3 * LEASE).await;
    assert_eq!(phaser.state().await.unwrap().registered, 2);
    assert!(!inside.is_lost());
    assert!(!fair.is_finished() && !notified.is_finished(), "{fair:?} {notified:?}");
    server.set_config("maxmemory", "0").await.unwrap();

    held.release().await.unwrap();
    tokio::time::timeout(SOON, fair).await.expect("the lock").unwrap().unwrap().release().await.unwrap();
    assert!(notify.notify_one().await.unwrap());
    tokio::time::timeout(SOON, notified).await.expect("a notification").unwrap().unwrap();
    assert_ne!(permits.remaining_lease(id).await.unwrap(), Lifetime::Absent);
    permit.forget();
    inside.leave().await.unwrap();
    drop(parties);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_does_not_keep_a_waiter_from_being_woken() {
    let server = server().await;
    let (observer, client) = (server.observer().await.unwrap(), client(&server).await);
    // A position of redgrid whose keepalive is over, as after a pause of the server.
    let position = "8c1b1c5e-0000-8000-8000-000000000001:1";
    observer.cmd(&["RPUSH", "redisson_lock_queue:{fair}", position]).await.unwrap();
    observer.cmd(&["ZADD", "redisson_lock_timeout:{fair}", "9000000000000", position]).await.unwrap();
    observer.cmd(&["ZADD", "redgrid_fair:{fair}", "1000", position]).await.unwrap();
    let fair = FairLock::new(&client, "fair");
    // The server knows the script after this.
    assert_eq!(FairLock::new(&client, "warm").wake_next().await.unwrap(), NextWaiter::Absent);
    server.set_config("maxmemory", "1").await.unwrap();
    assert_eq!(fair.wake_next().await.unwrap(), NextWaiter::Notified);
    server.set_config("maxmemory", "0").await.unwrap();
    let held = Lock::new(&client, "fair").acquire().await.unwrap();
    assert_eq!(fair.wake_next().await.unwrap(), NextWaiter::LockHeld);
    held.release().await.unwrap();
}
