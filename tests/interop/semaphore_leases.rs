//! Leased permits of Rust, shared with Redisson's RPermitExpirableSemaphore and RSemaphore.

use std::process::Stdio;
use std::time::Duration;

use redgrid_permit_expirable_semaphore::{Lifetime, PermitExpirableSemaphore};
use redgrid_semaphore::{AcquireError, LostReason, ReleaseError, Semaphore};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::fixture::{Fixture, at_once, scenarios};
use crate::permits::JavaPermits;

scenarios![
    leased_permits_of_either_side_are_counted_by_both,
    leased_java_is_woken_by_our_release,
    leased_ours_is_woken_by_javas_release,
    javas_plain_semaphore_waits_for_our_leased_permits,
    our_leased_permits_wait_for_javas_plain_semaphore,
    a_purge_by_java_gives_our_expired_permits_back_once,
    a_purge_by_ours_gives_javas_expired_permits_back_once,
    java_enters_when_our_lease_is_over,
    ours_enters_when_javas_lease_is_over,
    javas_plain_waiter_is_woken_when_ours_purges,
    a_java_permit_that_never_expires_is_left_alone,
    our_renewals_keep_permits_from_a_waiting_java,
    permits_set_anew_by_either_side_stay_held,
    a_killed_process_of_ours_gives_all_back_to_java,
    a_killed_java_gives_all_back_to_ours,
    a_deletion_by_java_ends_our_leases,
    new_numbers_keep_the_leases_that_are_held,
];

const LEASE: Duration = Duration::from_millis(400);

async fn ours(on: &Fixture) -> PermitExpirableSemaphore {
    PermitExpirableSemaphore::new(&on.client().await, &on.name)
}

async fn counts(ours: &PermitExpirableSemaphore) -> (i64, i64, i64) {
    let available = ours.available_permits().await.unwrap();
    let (acquired, all) = (ours.acquired_permits().await.unwrap(), ours.permits().await.unwrap());
    (available.cast_signed(), acquired.cast_signed(), all.cast_signed())
}

async fn leased_permits_of_either_side_are_counted_by_both(on: Fixture) {
    let (mut java, ours) = (on.leased(), ours(&on).await);
    assert!(java.is("trySetPermits", &[&5]).await);
    assert!(!ours.try_set_permits(9).await.unwrap());
    let two = ours.acquire_many(2).await.unwrap();
    let id = java.does("acquire", &[&1, &SOON.as_millis()]).await;
    assert_eq!((java.counts().await, counts(&ours).await), ((2, 3, 5), (2, 3, 5)));
    assert_eq!(java.does("tryAcquire", &[&3]).await, "");
    assert!(ours.try_acquire_many(3).await.unwrap().is_none());
    two.release().await.unwrap();
    java.does("release", &[&id]).await;
    assert_eq!((java.counts().await, counts(&ours).await), ((5, 0, 5), (5, 0, 5)));
    assert!(ours.delete().await.unwrap() && ours.try_set_permits(2).await.unwrap());
    assert!(!java.is("trySetPermits", &[&9]).await);
    ours.add_permits(2).await.unwrap();
    java.does("addPermits", &[&-1]).await;
    assert_eq!((java.counts().await, counts(&ours).await), ((3, 0, 3), (3, 0, 3)));
}

async fn leased_java_is_woken_by_our_release(on: Fixture) {
    let (mut java, ours) = (on.leased(), ours(&on).await);
    ours.set_permits(2).await.unwrap();
    for _ in 0..3 {
        let two = ours.acquire_many(2).await.unwrap();
        java.waits("acquire", &[&2, &SOON.as_millis()]).await;
        two.release().await.unwrap();
        let ids = at_once(java.done()).await;
        assert_eq!(counts(&ours).await, (0, 2, 2));
        assert_eq!(java.number("tryReleaseAll", &[&ids]).await, 2);
    }
    assert_eq!((on.left().await, on.leases().await.len()), (Some(2), 0));
}

async fn leased_ours_is_woken_by_javas_release(on: Fixture) {
    let (mut java, ours) = (on.leased(), ours(&on).await);
    ours.set_permits(2).await.unwrap();
    for one_by_one in [false, true] {
        let ids = java.does("acquire", &[&2, &SOON.as_millis()]).await;
        let waiter = tokio::spawn(ours.acquire_many(2).timeout(SOON).into_future());
        on.until_subscribed(1).await;
        if one_by_one {
            for id in ids.split(',') {
                java.does("release", &[&id]).await;
            }
        } else {
            assert_eq!(java.number("tryReleaseAll", &[&ids]).await, 2);
        }
        at_once(waiter).await.unwrap().unwrap().release().await.unwrap();
        on.until_subscribed(0).await;
    }
    assert_eq!((on.left().await, on.leases().await.len()), (Some(2), 0));
}

async fn javas_plain_semaphore_waits_for_our_leased_permits(on: Fixture) {
    let mut java = on.plain();
    let ours = ours(&on).await;
    ours.set_permits(3).await.unwrap();
    let three = ours.acquire_many(3).await.unwrap();
    assert_eq!(java.number("availablePermits", &[]).await, 0);
    java.waits("acquire", &[&2]).await;
    three.release().await.unwrap();
    at_once(java.done()).await;
    assert_eq!((on.left().await, ours.available_permits().await.unwrap()), (Some(1), 1));
    java.does("release", &[&2]).await;
    assert_eq!((on.left().await, on.leases().await.len()), (Some(3), 0));
}

async fn our_leased_permits_wait_for_javas_plain_semaphore(on: Fixture) {
    let mut java = on.plain();
    let ours = ours(&on).await;
    assert!(java.is("trySetPermits", &[&3]).await && java.try_take(3).await);
    assert!(ours.try_acquire().await.unwrap().is_none());
    // A handle with a number of permits notices that this is not the number of leased permits.
    let numbered = Semaphore::new(&on.client().await, &on.name, 3).try_acquire().await;
    assert!(matches!(numbered, Err(AcquireError::PermitsDiffer { expected: 3, found: 0, .. })), "{numbered:?}");
    let waiter = tokio::spawn(ours.acquire_many(2).timeout(SOON).into_future());
    on.until_subscribed(1).await;
    java.does("release", &[&3]).await;
    let two = at_once(waiter).await.unwrap().unwrap();
    assert!(!java.try_take(2).await && two.is_held());
    two.release().await.unwrap();
    assert!(java.try_take(3).await);
    java.does("release", &[&3]).await;
    assert_eq!((on.left().await, on.leases().await.len()), (Some(3), 0));
}

/// Java's purge returns expired permits of Rust once: Java purges before each of these methods.
async fn a_purge_by_java_gives_our_expired_permits_back_once(on: Fixture) {
    let mut java = on.leased();
    // These permits belong to another client, because one client renews its permits together, and
    // that purges.
    let (ours, other) = (ours(&on).await, ours(&on).await);
    ours.set_permits(4).await.unwrap();
    for method in ["availablePermits", "acquiredPermits", "getPermits", "tryAcquire"] {
        let kept = ours.acquire_many(1).await.unwrap();
        let over = other.acquire_many(2).lease(LEASE).await.unwrap();
        on.until_leases_over(2).await;
        assert_eq!((on.left().await, counts(&ours).await), (Some(1), (3, 1, 4)), "no purge yet");
        let ids = match method {
            "tryAcquire" => java.does(method, &[&3]).await,
            _ => {
                java.does(method, &[]).await;
                assert_eq!((on.left().await, on.leases().await.len()), (Some(3), 1), "{method}");
                java.does("acquire", &[&3]).await
            }
        };
        assert_eq!((on.left().await, on.leases().await.len()), (Some(0), 4), "{method}");
        // Rust does not return permits again that Java has returned.
        let released = over.release().await;
        assert!(matches!(released, Err(ReleaseError::Lost { reason: LostReason::Expired, .. })), "{released:?}");
        assert_eq!((on.left().await, on.leases().await.len()), (Some(0), 4), "{method}");
        assert_eq!(java.number("tryReleaseAll", &[&ids]).await, 3);
        kept.release().await.unwrap();
        assert_eq!((on.left().await, on.leases().await.len()), (Some(4), 0), "{method}");
    }
}

async fn a_purge_by_ours_gives_javas_expired_permits_back_once(on: Fixture) {
    let (mut java, ours) = (on.leased(), ours(&on).await);
    ours.set_permits(4).await.unwrap();
    let kept = java.does("acquire", &[&1, &SOON.as_millis()]).await;
    let over = java.does("acquire", &[&2, &LEASE.as_millis()]).await;
    on.until_leases_over(2).await;
    // Reading writes nothing.
    assert_eq!((on.left().await, counts(&ours).await), (Some(1), (3, 1, 4)));
    let three = ours.try_acquire_many(3).await.unwrap().expect("three are left");
    assert_eq!((on.left().await, on.leases().await.len()), (Some(0), 4));
    assert_eq!(java.number("tryReleaseAll", &[&over]).await, 0);
    for id in over.split(',') {
        assert!(!java.is("tryRelease", &[&id]).await);
    }
    assert_eq!(java.counts().await, (0, 4, 4));
    three.release().await.unwrap();
    assert!(java.is("tryRelease", &[&kept]).await);
    assert_eq!((on.left().await, on.leases().await.len()), (Some(4), 0));
}

async fn java_enters_when_our_lease_is_over(on: Fixture) {
    let (mut java, ours) = (on.leased(), ours(&on).await);
    ours.set_permits(2).await.unwrap();
    ours.acquire_many(2).lease(LEASE).await.unwrap().forget();
    let ends: Vec<_> = on.leases().await.into_iter().map(|(_, end)| end).collect();
    java.begins("acquire", &[&2, &SOON.as_millis()]).await;
    let ids = at_once(java.done()).await;
    assert!(on.server_time().await / 1000 >= ends[1].cast_unsigned(), "before the lease was over");
    assert_eq!(java.counts().await, (0, 2, 2));
    assert_eq!(java.number("tryReleaseAll", &[&ids]).await, 2);
}

async fn ours_enters_when_javas_lease_is_over(on: Fixture) {
    let (mut java, ours) = (on.leased(), ours(&on).await);
    ours.set_permits(2).await.unwrap();
    java.does("acquire", &[&2, &LEASE.as_millis()]).await;
    let ends: Vec<_> = on.leases().await.into_iter().map(|(_, end)| end).collect();
    let two = at_once(ours.acquire_many(2).timeout(SOON).into_future()).await.unwrap();
    assert!(on.server_time().await / 1000 >= ends[1].cast_unsigned(), "before the lease was over");
    assert_eq!(counts(&ours).await, (0, 2, 2));
    two.release().await.unwrap();
    assert_eq!((on.left().await, on.leases().await.len()), (Some(2), 0));
}

/// A waiter of Java's plain semaphore is woken when Rust purges. An RSemaphore has no leases, so it
/// depends on a client that purges expired ones.
async fn javas_plain_waiter_is_woken_when_ours_purges(on: Fixture) {
    let mut java = on.plain();
    let ours = ours(&on).await;
    ours.set_permits(3).await.unwrap();
    ours.acquire_many(2).lease(LEASE).await.unwrap().forget();
    java.waits("acquire", &[&2]).await;
    on.until_leases_over(2).await;
    assert!(java.actor.is_waiting());
    let waiter = at_once(ours.acquire_many(1).timeout(SOON).into_future()).await.unwrap();
    at_once(java.done()).await;
    assert_eq!((on.left().await, on.leases().await.len()), (Some(0), 1));
    waiter.release().await.unwrap();
    java.does("release", &[&2]).await;
    assert_eq!((on.left().await, on.leases().await.len()), (Some(3), 0));
}

async fn a_java_permit_that_never_expires_is_left_alone(on: Fixture) {
    let (mut java, ours) = (on.leased(), ours(&on).await);
    ours.set_permits(2).await.unwrap();
    let id = java.does("acquire", &[&1]).await;
    assert_eq!(on.leases().await[0].1, 922_337_203_685_477);
    assert_eq!(ours.remaining_lease(id.parse().unwrap()).await.unwrap(), Lifetime::Endless);
    // This permit stays held through a try, a wait, and the purge of another expired permit.
    assert!(ours.try_acquire_many(2).await.unwrap().is_none());
    ours.acquire().lease(LEASE).await.unwrap().forget();
    let refused = ours.acquire_many(2).timeout(3 * LEASE).await.err();
    assert!(matches!(refused, Some(AcquireError::TimedOut { .. })), "{refused:?}");
    assert_eq!((java.counts().await, counts(&ours).await), ((1, 1, 2), (1, 1, 2)));
    let waiter = tokio::spawn(ours.acquire_many(2).timeout(SOON).into_future());
    on.until_subscribed(1).await;
    assert!(java.is("tryRelease", &[&id]).await);
    at_once(waiter).await.unwrap().unwrap().release().await.unwrap();
    assert_eq!((on.left().await, on.leases().await.len()), (Some(2), 0));
}

async fn our_renewals_keep_permits_from_a_waiting_java(on: Fixture) {
    let (mut java, ours) = (on.leased(), ours(&on).await);
    ours.set_permits(1).await.unwrap();
    let permit = ours.acquire().auto_renew(2 * LEASE).await.unwrap();
    let first = on.leases().await[0].1;
    java.begins("acquire", &[&1, &SOON.as_millis()]).await;
    // Java wakes by itself at the time when the lease would have ended.
    let past = async || on.server_time().await / 1000 > first.cast_unsigned() + 500;
    wait_until(SOON, past).await;
    assert!(java.actor.is_waiting() && permit.is_held() && on.leases().await[0].1 > first);
    permit.release().await.unwrap();
    let id = at_once(java.done()).await;
    java.does("release", &[&id]).await;
    assert_eq!((on.left().await, on.leases().await.len()), (Some(1), 0));
}

async fn permits_set_anew_by_either_side_stay_held(on: Fixture) {
    let (mut java, ours) = (on.leased(), ours(&on).await);
    java.does("setPermits", &[&3]).await;
    let two = ours.acquire_many(2).await.unwrap();
    let id = java.does("acquire", &[&1, &SOON.as_millis()]).await;
    java.does("setPermits", &[&1]).await;
    assert_eq!((on.left().await, counts(&ours).await, two.is_held()), (Some(-2), (0, 3, 1), true));
    ours.set_permits(2).await.unwrap();
    assert_eq!((on.left().await, java.number("getPermits", &[]).await), (Some(-1), 2));
    assert!(java.is("tryRelease", &[&id]).await && ours.try_acquire().await.unwrap().is_none());
    two.release().await.unwrap();
    assert_eq!((java.counts().await, counts(&ours).await), ((2, 0, 2), (2, 0, 2)));
    // Additional permits wake waiters of both sides.
    let two = ours.acquire_many(2).await.unwrap();
    java.waits("acquire", &[&1, &SOON.as_millis()]).await;
    ours.set_permits(3).await.unwrap();
    let id = at_once(java.done()).await;
    let waiter = tokio::spawn(ours.acquire().timeout(SOON).into_future());
    on.until_subscribed(1).await;
    java.does("setPermits", &[&4]).await;
    at_once(waiter).await.unwrap().unwrap().release().await.unwrap();
    two.release().await.unwrap();
    java.does("release", &[&id]).await;
    assert_eq!((on.left().await, on.leases().await.len()), (Some(4), 0));
}

async fn a_killed_process_of_ours_gives_all_back_to_java(on: Fixture) {
    let mut java = on.leased();
    let mut taker = Command::new(env!("CARGO_BIN_EXE_role"))
        .arg("taker")
        .args([on.url(), &on.name, "4", &LEASE.as_millis().to_string()])
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(taker.stdout.take().unwrap()).lines();
    while on.leases().await.is_empty() {
        tokio::time::timeout(SOON, lines.next_line()).await.unwrap().unwrap().unwrap();
    }
    java.begins("acquire", &[&4, &SOON.as_millis()]).await;
    taker.kill().await.unwrap();
    let ids = at_once(java.done()).await;
    assert_eq!(java.counts().await, (0, 4, 4));
    assert_eq!(java.number("tryReleaseAll", &[&ids]).await, 4);
    assert_eq!((on.left().await, on.leases().await.len()), (Some(4), 0));
}

async fn a_killed_java_gives_all_back_to_ours(on: Fixture) {
    let redisson = on.own_redisson(SOON).await;
    let ours = ours(&on).await;
    let mut dead = JavaPermits::leased(redisson.actor(), &on.name);
    ours.set_permits(4).await.unwrap();
    dead.does("acquire", &[&3, &(4 * LEASE).as_millis()]).await;
    let waiter = tokio::spawn(ours.acquire_many(4).timeout(SOON).into_future());
    on.until_subscribed(1).await;
    redisson.kill().await;
    let four = waiter.await.unwrap().unwrap();
    assert_eq!(counts(&ours).await, (0, 4, 4));
    four.release().await.unwrap();
    assert_eq!((on.left().await, on.leases().await.len()), (Some(4), 0));
}

async fn a_deletion_by_java_ends_our_leases(on: Fixture) {
    let client = on.client_with(|config| config.watchdog_lease(LEASE)).await;
    let (mut java, ours) = (on.leased(), PermitExpirableSemaphore::new(&client, &on.name));
    ours.set_permits(2).await.unwrap();
    let permit = ours.acquire().await.unwrap();
    assert!(java.is("delete", &[]).await);
    assert_eq!(tokio::time::timeout(SOON, permit.lost()).await.unwrap(), LostReason::Gone);
    assert!(java.is("trySetPermits", &[&1]).await);
    let released = permit.release().await;
    assert!(matches!(released, Err(ReleaseError::Lost { .. })), "{released:?}");
    assert_eq!((on.left().await, on.leases().await.len()), (Some(1), 0));
}

/// A new number keeps the leases that are held. If the number had a lifetime, the leases have one,
/// too. A new number without a lifetime ends the lifetime of both.
async fn new_numbers_keep_the_leases_that_are_held(on: Fixture) {
    let client = on.client().await;
    let plain = Semaphore::plain(&client, &on.name);
    let ours = PermitExpirableSemaphore::new(&client, &on.name);
    let lifetimes = async || {
        let leases = on.observer.time_to_live(&format!("{{{}}}:timeout", on.name)).await.unwrap();
        (on.observer.time_to_live(&on.name).await.unwrap().is_some(), leases.is_some())
    };
    assert!(plain.try_set_permits(3).expires_in(SOON).await.unwrap());
    let held = ours.acquire().await.unwrap();
    assert_eq!(lifetimes().await, (true, true));
    ours.set_permits(4).await.unwrap();
    assert_eq!(lifetimes().await, (false, false), "with a lifetime, the leases and the permit would be gone");
    assert!(plain.set_permits(3).expires_in(SOON).await.unwrap());
    assert_eq!(lifetimes().await, (true, true), "without a lifetime, the leases would outlive the number");
    // Java's addPermits drops the lifetime of the number alone; the next acquire corrects that.
    on.leased().does("addPermits", &[&1]).await;
    assert_eq!(lifetimes().await, (false, true));
    ours.acquire().await.unwrap().release().await.unwrap();
    assert_eq!(lifetimes().await, (false, false));
    held.release().await.unwrap();
    assert_eq!((on.left().await, on.leases().await.len()), (Some(4), 0));
}
