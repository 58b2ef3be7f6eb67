//! Permits with ids: released and extended by the other side.

use std::time::Duration;

use redgrid_permit_expirable_semaphore::{
    Lifetime, LostReason, PermitExpirableSemaphore, PermitId, ReleaseError, Returned,
};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

use crate::fixture::{Fixture, at_once, scenarios};
use crate::permits::{JavaPermits, MS};

scenarios![
    ours_gives_back_a_permit_of_java_once,
    java_releases_our_permit_and_its_guard_is_lost,
    ours_updates_the_lease_of_a_permit_of_java,
    java_updates_the_lease_of_a_permit_of_ours,
    an_expired_permit_is_reported_to_either_side,
    java_gives_back_many_of_ours_all_or_none,
    an_id_from_the_other_side_wakes_its_waiter,
    permits_of_a_dead_java_are_given_back_by_their_ids,
    ids_have_the_same_form_on_both_sides,
];

const LEASE: Duration = Duration::from_millis(400);

async fn ours(on: &Fixture, permits: u64) -> PermitExpirableSemaphore {
    let ours = PermitExpirableSemaphore::new(&on.client().await, &on.name);
    ours.set_permits(permits).await.unwrap();
    ours
}

async fn taken(java: &mut JavaPermits, permits: u64, lease: Duration) -> Vec<PermitId> {
    let ids = java.does("acquire", &[&permits, &lease.as_millis()]).await;
    ids.split(',').map(|id| id.parse().unwrap()).collect()
}

async fn ours_gives_back_a_permit_of_java_once(on: Fixture) {
    let (mut java, ours) = (on.leased(), ours(&on, 3).await);
    let ids = taken(&mut java, 2, SOON).await;
    assert_eq!(ours.try_release(ids[0]).await.unwrap(), Returned::Released);
    assert_eq!(java.counts().await, (2, 1, 3));
    assert_eq!(ours.try_release(ids[0]).await.unwrap(), Returned::Unknown);
    assert!(!java.is("tryRelease", &[&ids[0]]).await);
    assert_eq!(java.counts().await, (2, 1, 3));
    // A permit that never expires can be released, too.
    let forever: PermitId = java.does("acquire", &[&1]).await.parse().unwrap();
    assert_eq!(ours.try_release(forever).await.unwrap(), Returned::Released);
    assert!(java.is("tryRelease", &[&ids[1]]).await);
    assert_eq!(ours.try_release(ids[1]).await.unwrap(), Returned::Unknown);
    assert_eq!((on.left().await, on.leases().await.len()), (Some(3), 0));
}

async fn java_releases_our_permit_and_its_guard_is_lost(on: Fixture) {
    let client = on.client_with(|config| config.watchdog_lease(2 * LEASE)).await;
    let (mut java, ours) = (on.leased(), PermitExpirableSemaphore::new(&client, &on.name));
    ours.set_permits(3).await.unwrap();
    let permit = ours.acquire_many(2).await.unwrap();
    let ids: Vec<PermitId> = permit.ids().collect();
    java.does("release", &[&ids[0]]).await;
    assert_eq!((on.left().await, on.leases().await.len()), (Some(2), 1));
    assert!(!java.is("tryRelease", &[&ids[0]]).await);
    assert_eq!(ours.try_release(ids[0]).await.unwrap(), Returned::Unknown);
    assert_eq!(tokio::time::timeout(SOON, permit.lost()).await.unwrap(), LostReason::Gone);
    let released = permit.release().await;
    assert!(matches!(released, Err(ReleaseError::Lost { reason: LostReason::Gone, .. })), "{released:?}");
    // The other permit was returned, and no permit was returned twice.
    assert_eq!((on.left().await, on.leases().await.len()), (Some(3), 0));
    assert!(!java.is("tryRelease", &[&ids[1]]).await);
    assert_eq!(java.counts().await, (3, 0, 3));
}

async fn ours_updates_the_lease_of_a_permit_of_java(on: Fixture) {
    let (mut java, ours) = (on.leased(), ours(&on, 2).await);
    let id = taken(&mut java, 1, SOON).await[0];
    assert!(ours.update_lease(id, 3 * SOON).await.unwrap());
    let left = java.number("getLeaseTime", &[&id]).await;
    assert!((2 * SOON.as_millis() as i64..=3 * SOON.as_millis() as i64).contains(&left), "{left}");
    let forever: PermitId = java.does("acquire", &[&1]).await.parse().unwrap();
    assert_eq!(java.number("getLeaseTime", &[&forever]).await, -1);
    // The permit gets a lease. When the lease ends, the permit is available again.
    assert!(ours.update_lease(forever, LEASE).await.unwrap());
    at_once(ours.acquire().timeout(SOON).into_future()).await.unwrap().release().await.unwrap();
    assert!(!java.is("tryRelease", &[&forever]).await && !ours.update_lease(forever, SOON).await.unwrap());
    assert!(java.is("tryRelease", &[&id]).await && !ours.update_lease(id, SOON).await.unwrap());
    assert_eq!((on.left().await, on.leases().await.len()), (Some(2), 0));
}

async fn java_updates_the_lease_of_a_permit_of_ours(on: Fixture) {
    let (mut java, ours) = (on.leased(), ours(&on, 2).await);
    // The guard leaves the permit to any caller that knows its id.
    let permit = ours.acquire().lease(SOON).await.unwrap();
    let id = permit.ids().next().unwrap();
    permit.forget();
    let left = java.number("getLeaseTime", &[&id]).await;
    assert!((1..=2 * SOON.as_millis() as i64).contains(&left), "{left}");
    assert!(java.is("updateLeaseTime", &[&id, &(5 * SOON).as_millis()]).await);
    assert!(java.number("getLeaseTime", &[&id]).await > 4 * SOON.as_millis() as i64);
    assert!(matches!(ours.remaining_lease(id).await.unwrap(), Lifetime::Ends(left) if left > 4 * SOON));
    assert!(ours.update_lease(id, SOON).await.unwrap());
    assert!(java.number("getLeaseTime", &[&id]).await <= SOON.as_millis() as i64);
    assert!(java.is("updateLeaseTime", &[&id, &LEASE.as_millis()]).await);
    let two = at_once(ours.acquire_many(2).timeout(SOON).into_future()).await.unwrap();
    assert!(!java.is("updateLeaseTime", &[&id, &SOON.as_millis()]).await);
    assert!(java.tries("getLeaseTime", &[&id]).await.is_err());
    assert_eq!(ours.remaining_lease(id).await.unwrap(), Lifetime::Absent);
    two.release().await.unwrap();
    assert_eq!((on.left().await, on.leases().await.len()), (Some(2), 0));
}

async fn an_expired_permit_is_reported_to_either_side(on: Fixture) {
    let (mut java, ours) = (on.leased(), ours(&on, 2).await);
    let id = taken(&mut java, 1, LEASE).await[0];
    on.until_leases_over(1).await;
    assert!(!ours.update_lease(id, SOON).await.unwrap());
    assert_eq!(ours.try_release(id).await.unwrap(), Returned::Expired);
    assert_eq!((on.left().await, on.leases().await.len()), (Some(2), 0));
    assert_eq!(ours.try_release(id).await.unwrap(), Returned::Unknown);
    let permit = ours.acquire().lease(LEASE).await.unwrap();
    let id = permit.ids().next().unwrap();
    permit.forget();
    on.until_leases_over(1).await;
    assert!(!java.is("tryRelease", &[&id]).await);
    assert_eq!((on.left().await, on.leases().await.len()), (Some(2), 0));
}

async fn java_gives_back_many_of_ours_all_or_none(on: Fixture) {
    let (mut java, ours) = (on.leased(), ours(&on, 4).await);
    let permit = ours.acquire_many(3).await.unwrap();
    let ids: Vec<String> = permit.ids().map(|id| id.to_string()).collect();
    permit.forget();
    let stranger = "00112233445566778899aabbccddeeff";
    assert_eq!(java.number("tryReleaseAll", &[&format!("{},{stranger}", ids[0])]).await, 0);
    assert_eq!((on.left().await, on.leases().await.len()), (Some(1), 3));
    let waiter = tokio::spawn(ours.acquire_many(3).timeout(SOON).into_future());
    on.until_subscribed(1).await;
    assert_eq!(java.number("tryReleaseAll", &[&ids[..2].join(",")]).await, 2);
    at_once(waiter).await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(java.number("tryReleaseAll", &[&ids.join(",")]).await, 0, "two of the permits are gone");
    assert!(java.is("tryRelease", &[&ids[2]]).await);
    assert_eq!((on.left().await, on.leases().await.len()), (Some(4), 0));
}

async fn an_id_from_the_other_side_wakes_its_waiter(on: Fixture) {
    let (mut java, ours) = (on.leased(), ours(&on, 1).await);
    let id = taken(&mut java, 1, SOON).await[0];
    java.waits("acquire", &[&1, &SOON.as_millis()]).await;
    assert_eq!(ours.try_release(id).await.unwrap(), Returned::Released);
    let id: PermitId = at_once(java.done()).await.parse().unwrap();
    let waiter = tokio::spawn(ours.acquire().timeout(SOON).into_future());
    on.until_subscribed(1).await;
    assert_eq!(ours.try_release(id).await.unwrap(), Returned::Released);
    let permit = at_once(waiter).await.unwrap().unwrap();
    let waiter = tokio::spawn(ours.acquire().timeout(SOON).into_future());
    on.until_subscribed(1).await;
    java.does("release", &[&permit.ids().next().unwrap()]).await;
    at_once(waiter).await.unwrap().unwrap().release().await.unwrap();
    drop(permit);
    wait_until(SOON, async || (on.left().await, on.leases().await.len()) == (Some(1), 0)).await;
}

async fn permits_of_a_dead_java_are_given_back_by_their_ids(on: Fixture) {
    let redisson = on.own_redisson(SOON).await;
    let (mut dead, mut java) = (JavaPermits::leased(redisson.actor(), &on.name), on.leased());
    let ours = ours(&on, 2).await;
    let ids = dead.does("acquire", &[&2]).await;
    redisson.kill().await;
    assert!(ours.acquire().timeout(50 * MS).await.is_err());
    java.waits("acquire", &[&2, &SOON.as_millis()]).await;
    for id in ids.split(',') {
        assert_eq!(ours.try_release(id.parse().unwrap()).await.unwrap(), Returned::Released);
    }
    let ids = at_once(java.done()).await;
    assert_eq!(java.number("tryReleaseAll", &[&ids]).await, 2);
    assert_eq!((on.left().await, on.leases().await.len()), (Some(2), 0));
}

async fn ids_have_the_same_form_on_both_sides(on: Fixture) {
    let (mut java, ours) = (on.leased(), ours(&on, 2).await);
    let permit = ours.acquire().await.unwrap();
    let id = permit.ids().next().unwrap();
    assert_eq!(on.leases().await[0].0, id.as_bytes());
    let words = java.does("acquire", &[&1]).await;
    let javas: PermitId = words.parse().unwrap();
    assert_eq!((words.len(), javas.to_string()), (32, words.clone()));
    assert_eq!(on.leases().await[1].0, javas.as_bytes());
    permit.release().await.unwrap();
    assert!(java.is("tryRelease", &[&words]).await);
}
