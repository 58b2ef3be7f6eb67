//! A plain semaphore, shared with Redisson's RSemaphore.

use redgrid_permit_expirable_semaphore::PermitExpirableSemaphore;
use redgrid_semaphore::{AcquireError, PlainSemaphore, Semaphore};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

use crate::fixture::{Fixture, at_once, scenarios};
use crate::permits::{JavaPermits, MS};

scenarios![
    permits_set_by_one_side_are_seen_by_the_other,
    permits_taken_by_one_side_are_missing_on_the_other,
    java_is_woken_by_our_release,
    ours_is_woken_by_javas_release,
    java_waits_for_many_until_ours_has_given_enough,
    ours_waits_for_many_until_java_has_given_enough,
    one_release_serves_every_waiter_of_the_other_side,
    a_drain_of_either_side_leaves_none,
    added_permits_wake_the_other_side,
    permits_taken_away_are_owed_by_both,
    a_release_where_nothing_was_set_changes_nothing,
    either_side_releases_permits_of_the_other,
    ours_waits_until_java_sets_permits,
    a_deletion_by_java_is_reported_to_ours,
    a_lifetime_set_by_java_stays,
    a_killed_java_keeps_its_permits_and_its_waiters_take_none,
    names_with_a_tag_and_a_namespace_are_the_same_semaphore,
];

/// Returns a semaphore of Rust that is like an RSemaphore.
async fn ours(on: &Fixture) -> PlainSemaphore {
    Semaphore::plain(&on.client().await, &on.name)
}

async fn permits_set_by_one_side_are_seen_by_the_other(on: Fixture) {
    let (mut java, ours) = (on.plain(), ours(&on).await);
    assert!(java.is("trySetPermits", &[&3]).await);
    assert!(!ours.try_set_permits(9).await.unwrap() && !java.is("trySetPermits", &[&9]).await);
    assert_eq!(ours.available_permits().await.unwrap(), 3);
    assert!(ours.delete().await.unwrap());
    assert_eq!(java.number("availablePermits", &[]).await, 0);
    assert!(ours.try_set_permits(4).await.unwrap());
    assert!(!java.is("trySetPermits", &[&9]).await);
    assert_eq!(java.number("availablePermits", &[]).await, 4);
    // A handle with a number of permits sets the number only if there is none.
    let numbered = Semaphore::new(&on.client().await, &on.name, 7);
    let differs = numbered.acquire().await.err();
    assert!(matches!(differs, Some(AcquireError::PermitsDiffer { expected: 7, found: 4, .. })), "{differs:?}");
    assert_eq!(java.number("availablePermits", &[]).await, 4);
    assert!(java.is("delete", &[]).await);
    numbered.acquire().await.unwrap().release().await.unwrap();
    assert_eq!(java.number("availablePermits", &[]).await, 7);
}

async fn permits_taken_by_one_side_are_missing_on_the_other(on: Fixture) {
    let (mut java, ours) = (on.plain(), ours(&on).await);
    assert!(java.is("trySetPermits", &[&3]).await);
    let two = ours.acquire_many(2).await.unwrap();
    assert!(!java.try_take(2).await && java.try_take(1).await);
    assert!(ours.try_acquire().await.unwrap().is_none());
    two.release().await.unwrap();
    assert!(java.try_take(2).await && !java.is("tryAcquire", &[&1, &50]).await);
    let refused = ours.acquire().timeout(1000 * MS).await.err();
    assert!(matches!(refused, Some(AcquireError::TimedOut { .. })), "{refused:?}");
    java.does("release", &[&3]).await;
    ours.try_acquire_many(3).await.unwrap().expect("all are left").release().await.unwrap();
    assert_eq!(on.left().await, Some(3));
}

async fn java_is_woken_by_our_release(on: Fixture) {
    let (mut java, ours) = (on.plain(), ours(&on).await);
    ours.try_set_permits(1).await.unwrap();
    for drops in [false, true, false, true] {
        let permit = ours.acquire().await.unwrap();
        java.waits("acquire", &[&1]).await;
        if drops {
            drop(permit);
        } else {
            permit.release().await.unwrap();
        }
        at_once(java.done()).await;
        java.does("release", &[&1]).await;
    }
    assert_eq!(on.left().await, Some(1));
}

async fn ours_is_woken_by_javas_release(on: Fixture) {
    let (mut java, ours) = (on.plain(), ours(&on).await);
    ours.try_set_permits(1).await.unwrap();
    for _ in 0..4 {
        assert!(java.try_take(1).await);
        let waiter = tokio::spawn(ours.acquire().timeout(SOON).into_future());
        on.until_subscribed(1).await;
        java.does("release", &[&1]).await;
        at_once(waiter).await.unwrap().unwrap().release().await.unwrap();
        on.until_subscribed(0).await;
    }
    assert_eq!(on.left().await, Some(1));
}

async fn java_waits_for_many_until_ours_has_given_enough(on: Fixture) {
    let (mut java, ours) = (on.plain(), ours(&on).await);
    ours.try_set_permits(5).await.unwrap();
    let mut five = ours.acquire_many(5).await.unwrap();
    java.waits("acquire", &[&3]).await;
    for left in 1..3 {
        five.split(1).unwrap().release().await.unwrap();
        // Java has checked, and found too few permits.
        java.actor.until_asleep().await;
        assert!(java.actor.is_waiting() && on.left().await == Some(left));
    }
    five.split(1).unwrap().release().await.unwrap();
    at_once(java.done()).await;
    assert_eq!((on.left().await, five.num_permits()), (Some(0), 2));
    five.release().await.unwrap();
    java.does("release", &[&3]).await;
    assert_eq!(on.left().await, Some(5));
}

async fn ours_waits_for_many_until_java_has_given_enough(on: Fixture) {
    let (mut java, ours) = (on.plain(), ours(&on).await);
    assert!(java.is("trySetPermits", &[&5]).await && java.try_take(5).await);
    let waiter = tokio::spawn(ours.acquire_many(3).timeout(SOON).into_future());
    on.until_subscribed(1).await;
    java.does("release", &[&1]).await;
    java.does("release", &[&1]).await;
    assert!(!waiter.is_finished() && on.left().await == Some(2));
    java.does("release", &[&1]).await;
    let three = at_once(waiter).await.unwrap().unwrap();
    assert_eq!((on.left().await, three.num_permits()), (Some(0), 3));
    three.release().await.unwrap();
    java.does("release", &[&2]).await;
    assert_eq!(on.left().await, Some(5));
}

async fn one_release_serves_every_waiter_of_the_other_side(on: Fixture) {
    let ours = ours(&on).await;
    ours.try_set_permits(4).await.unwrap();
    let four = ours.acquire_many(4).await.unwrap();
    let mut javas: Vec<_> = (0..4).map(|_| on.plain()).collect();
    for java in &mut javas {
        java.waits("acquire", &[&1]).await;
    }
    four.release().await.unwrap();
    for java in &mut javas {
        at_once(java.done()).await;
    }
    let waiters: Vec<_> = (0..4).map(|_| tokio::spawn(ours.acquire().timeout(SOON).into_future())).collect();
    on.until_subscribed(1).await;
    javas[0].does("release", &[&4]).await;
    for waiter in waiters {
        at_once(waiter).await.unwrap().unwrap().release().await.unwrap();
    }
    assert_eq!(on.left().await, Some(4));
}

async fn a_drain_of_either_side_leaves_none(on: Fixture) {
    let (mut java, ours) = (on.plain(), ours(&on).await);
    assert_eq!((java.number("drainPermits", &[]).await, ours.drain().await.unwrap()), (0, 0));
    ours.try_set_permits(5).await.unwrap();
    assert!(java.try_take(2).await);
    assert_eq!((ours.drain().await.unwrap(), java.number("drainPermits", &[]).await), (3, 0));
    assert!(!java.try_take(1).await);
    java.does("release", &[&2]).await;
    assert_eq!((java.number("drainPermits", &[]).await, ours.drain().await.unwrap()), (2, 0));
    assert!(ours.try_acquire().await.unwrap().is_none());
}

async fn added_permits_wake_the_other_side(on: Fixture) {
    let (mut java, ours) = (on.plain(), ours(&on).await);
    ours.try_set_permits(0).await.unwrap();
    java.waits("acquire", &[&2]).await;
    assert_eq!(ours.add_permits(2).await.unwrap(), 2);
    at_once(java.done()).await;
    on.until_subscribed(0).await;
    let waiter = tokio::spawn(ours.acquire_many(3).timeout(SOON).into_future());
    on.until_subscribed(1).await;
    java.does("addPermits", &[&3]).await;
    at_once(waiter).await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(on.left().await, Some(3));
}

async fn permits_taken_away_are_owed_by_both(on: Fixture) {
    let (mut java, ours) = (on.plain(), ours(&on).await);
    ours.try_set_permits(2).await.unwrap();
    let held = ours.acquire().await.unwrap();
    assert!(java.try_take(1).await);
    java.does("addPermits", &[&-1]).await;
    assert_eq!((on.left().await, ours.available_permits().await.unwrap()), (Some(-1), 0));
    assert_eq!(ours.add_permits(-1).await.unwrap(), -2);
    held.release().await.unwrap();
    assert!(!java.try_take(1).await && ours.try_acquire().await.unwrap().is_none());
    java.does("release", &[&1]).await;
    assert_eq!((on.left().await, ours.drain().await.unwrap()), (Some(0), 0));
    java.does("addPermits", &[&-3]).await;
    // Draining takes no permits, and the number stays negative.
    assert_eq!((ours.drain().await.unwrap(), on.left().await), (0, Some(-3)));
    ours.release(4).await.unwrap();
    assert!(java.try_take(1).await);
}

async fn a_release_where_nothing_was_set_changes_nothing(on: Fixture) {
    let (mut java, ours) = (on.plain(), ours(&on).await);
    assert!(!ours.release_if_exists(1).await.unwrap());
    if !on.version().starts_with("3.") {
        assert!(!java.is("releaseIfExists", &[&1]).await);
    }
    assert_eq!(on.left().await, None);
    assert!(!java.try_take(1).await);
    let refused = ours.acquire().await.err();
    assert!(matches!(refused, Some(AcquireError::NotInitialised { .. })), "{refused:?}");
    assert!(java.is("trySetPermits", &[&0]).await && ours.release_if_exists(1).await.unwrap());
    if !on.version().starts_with("3.") {
        assert!(java.is("releaseIfExists", &[&1]).await && java.try_take(1).await);
    }
    assert_eq!(on.left().await, Some(1));
}

async fn either_side_releases_permits_of_the_other(on: Fixture) {
    let (mut java, ours) = (on.plain(), ours(&on).await);
    ours.try_set_permits(2).await.unwrap();
    ours.acquire_many(2).await.unwrap().forget();
    java.waits("acquire", &[&2]).await;
    on.plain().does("release", &[&2]).await;
    at_once(java.done()).await;
    let waiter = tokio::spawn(ours.acquire_many(2).timeout(SOON).into_future());
    on.until_subscribed(1).await;
    ours.release(2).await.unwrap();
    at_once(waiter).await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(on.left().await, Some(2));
}

async fn ours_waits_until_java_sets_permits(on: Fixture) {
    let (mut java, ours) = (on.plain(), ours(&on).await);
    let waiter = tokio::spawn(ours.acquire().wait_for_init().timeout(SOON).into_future());
    on.until_subscribed(1).await;
    assert!(java.is("trySetPermits", &[&1]).await);
    at_once(waiter).await.unwrap().unwrap().release().await.unwrap();
    assert!(ours.delete().await.unwrap());
    on.until_subscribed(0).await;
    // For Java, a semaphore that was never set has no permits.
    java.waits("acquire", &[&1]).await;
    assert!(ours.try_set_permits(1).await.unwrap());
    at_once(java.done()).await;
    java.does("release", &[&1]).await;
    assert_eq!(on.left().await, Some(1));
}

async fn a_deletion_by_java_is_reported_to_ours(on: Fixture) {
    let (mut java, ours) = (on.plain(), ours(&on).await);
    ours.try_set_permits(1).await.unwrap();
    let held = ours.acquire().await.unwrap();
    assert!(java.is("delete", &[]).await);
    let refused = ours.acquire().await.err();
    assert!(matches!(refused, Some(AcquireError::NotInitialised { .. })), "{refused:?}");
    // A later return of permits does not create the semaphore again.
    held.release().await.unwrap();
    assert_eq!(on.left().await, None);
    assert!(java.is("trySetPermits", &[&1]).await && ours.try_acquire().await.unwrap().is_some());
}

async fn a_lifetime_set_by_java_stays(on: Fixture) {
    let (mut java, ours) = (on.plain(), ours(&on).await);
    let has_lifetime = async || on.observer.time_to_live(&on.name).await.unwrap().is_some();
    assert!(java.is("trySetPermits", &[&3, &SOON.as_millis()]).await);
    ours.acquire().await.unwrap().release().await.unwrap();
    assert_eq!((ours.add_permits(1).await.unwrap(), ours.drain().await.unwrap()), (4, 4));
    ours.release(2).await.unwrap();
    assert!(has_lifetime().await);
    assert!(ours.delete().await.unwrap() && ours.try_set_permits(2).expires_in(SOON).await.unwrap());
    assert!(java.try_take(1).await);
    java.does("release", &[&1]).await;
    assert!(has_lifetime().await);
    assert!(ours.delete().await.unwrap() && java.is("trySetPermits", &[&1, &300]).await);
    wait_until(SOON, async || on.left().await.is_none()).await;
    let refused = ours.acquire().await.err();
    assert!(matches!(refused, Some(AcquireError::NotInitialised { .. })), "{refused:?}");
}

async fn a_killed_java_keeps_its_permits_and_its_waiters_take_none(on: Fixture) {
    let redisson = on.own_redisson(SOON).await;
    let (mut holder, mut waiter) =
        (JavaPermits::plain(redisson.actor(), &on.name), JavaPermits::plain(redisson.actor(), &on.name));
    let (mut java, ours) = (on.plain(), ours(&on).await);
    ours.try_set_permits(3).await.unwrap();
    assert!(holder.try_take(1).await);
    let two = ours.acquire_many(2).await.unwrap();
    waiter.waits("acquire", &[&1]).await;
    redisson.kill().await;
    on.until_subscribed(0).await;
    two.release().await.unwrap();
    // As with Redisson alone, no client notices that the holder died.
    assert_eq!(on.left().await, Some(2));
    assert!(java.try_take(2).await);
    java.does("release", &[&3]).await;
    ours.try_acquire_many(3).await.unwrap().expect("all are left").release().await.unwrap();
}

async fn names_with_a_tag_and_a_namespace_are_the_same_semaphore(on: Fixture) {
    let spaced = on.client_with(|config| config.namespace("shop").unwrap()).await;
    let tagged = format!("{{{}}}:mail", on.name);
    let cases = [(on.client().await, tagged.clone(), tagged), (spaced, on.name.clone(), format!("shop:{}", on.name))];
    for (client, name, javas) in cases {
        let mut java = JavaPermits::plain(on.java(), &javas);
        let ours = PermitExpirableSemaphore::new(&client, &name);
        ours.set_permits(2).await.unwrap();
        let two = ours.acquire_many(2).await.unwrap();
        assert_eq!(on.observer.get::<i64>(&javas).await.unwrap(), Some(0));
        let mut leased = JavaPermits::leased(on.java(), &javas);
        assert_eq!(leased.counts().await, (0, 2, 2));
        java.waits("acquire", &[&2]).await;
        two.release().await.unwrap();
        at_once(java.done()).await;
        assert!(ours.try_acquire().await.unwrap().is_none());
        java.does("release", &[&2]).await;
        ours.try_acquire_many(2).await.unwrap().expect("all are left").release().await.unwrap();
    }
}
