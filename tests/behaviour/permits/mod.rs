//! Permits with lost and late replies, dying processes, other processes, and dropped futures.

mod chance;
mod crowds;

use std::str::FromStr;
use std::time::Duration;

use redgrid_locks::Client;
use redgrid_permit_expirable_semaphore::{LostReason, PermitExpirableSemaphore, PermitId, Returned};
use redgrid_semaphore::{AcquireError, Permit, Semaphore};
use redgrid_testkit::{Observer, wait_until};
use redgrid_tests::{SOON, client, client_with, server};

const MS: Duration = Duration::from_millis(1);

/// Returns a number of repetitions, from the environment.
fn times(variable: &str, unless_set: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(unless_set)
}

async fn number(observer: &Observer, command: &[&str]) -> i64 {
    observer.query(command).await.unwrap()
}

fn is_idle(client: &Client) -> bool {
    let hand = client.stats();
    (hand.names, hand.holds, hand.waiting, hand.channels) == (0, 0, 0, 0)
}

/// An idle client shuts down immediately, although its renewal task waits for the next lease to
/// renew, or waits without an end if there are no leases.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_has_given_all_its_permits_back_shuts_down_at_once() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.watchdog_lease(Duration::from_secs(3600))).await;
    let seats = PermitExpirableSemaphore::new(&client, "seats");
    assert!(seats.try_set_permits(1).await.unwrap());
    seats.acquire().await.unwrap().release().await.unwrap();
    wait_until(SOON, async || is_idle(&client)).await;
    client.shutdown(SOON).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_are_known_by_their_ids_from_elsewhere() {
    let server = server().await;
    let (one, two) =
        (client_with(&server.url(), |config| config.watchdog_lease(1500 * MS)).await, client(&server).await);
    let (mine, theirs) = (PermitExpirableSemaphore::new(&one, "seats"), PermitExpirableSemaphore::new(&two, "seats"));
    assert!(mine.try_set_permits(3).await.unwrap() && !theirs.try_set_permits(9).await.unwrap());
    let permit = mine.acquire_many(2).await.unwrap();
    let ids: Vec<PermitId> = permit.ids().collect();
    let counts = async || {
        let (available, acquired) =
            (theirs.available_permits().await.unwrap(), theirs.acquired_permits().await.unwrap());
        (available, acquired, theirs.permits().await.unwrap())
    };
    assert_eq!(counts().await, (1, 2, 3));
    let text = ids[0].to_string();
    assert_eq!((text.len(), PermitId::from_str(&text).unwrap()), (32, ids[0]));
    assert!(PermitId::from_str("x").is_err() && PermitId::from_str(&text[1..]).is_err());
    assert_eq!(theirs.try_release(ids[0]).await.unwrap(), Returned::Released);
    assert_eq!(theirs.try_release(ids[0]).await.unwrap(), Returned::Unknown);
    assert_eq!(counts().await, (2, 1, 3));
    assert_eq!(tokio::time::timeout(SOON, permit.lost()).await.unwrap(), LostReason::Gone);
    assert!(theirs.update_lease(ids[1], 5000 * MS).await.unwrap() && !theirs.update_lease(ids[0], SOON).await.unwrap());
    drop(permit);
    wait_until(SOON, async || counts().await == (3, 0, 3) && is_idle(&one)).await;

    // An expired lease that has not been removed yet; reading does not remove it.
    let fixed = mine.acquire().lease(500 * MS).await.unwrap();
    let id = fixed.ids().next().unwrap();
    fixed.forget();
    wait_until(SOON, async || counts().await == (3, 0, 3)).await;
    assert_eq!(theirs.try_release(id).await.unwrap(), Returned::Expired);
    assert_eq!(counts().await, (3, 0, 3));
    theirs.set_permits(5).await.unwrap();
    theirs.add_permits(-1).await.unwrap();
    assert_eq!(counts().await, (4, 0, 4));
    assert!(mine.delete().await.unwrap());
    assert!(matches!(mine.acquire().await.err(), Some(AcquireError::NotInitialised { .. })));
}

/// A new number of permits also changes the lifetime of the leases. Otherwise the leases would end
/// with the former lifetime, and their permits would not return.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_number_changes_the_lifetime_of_its_leases() {
    let server = server().await;
    let (observer, client) = (server.observer().await.unwrap(), client(&server).await);
    let (mail, seats) = (Semaphore::plain(&client, "seats"), PermitExpirableSemaphore::new(&client, "seats"));
    let lifetimes = async || {
        let leases = observer.time_to_live("{seats}:timeout").await.unwrap();
        (observer.time_to_live("seats").await.unwrap().is_some(), leases.is_some())
    };
    assert!(mail.try_set_permits(3).expires_in(SOON).await.unwrap());
    let held = seats.acquire().await.unwrap();
    assert_eq!(lifetimes().await, (true, true));
    seats.set_permits(4).await.unwrap();
    assert_eq!(lifetimes().await, (false, false));
    assert!(mail.set_permits(3).expires_in(SOON).await.unwrap());
    assert_eq!(lifetimes().await, (true, true));
    // Another client removes only the lifetime of the number. The next acquire corrects this.
    assert!(observer.query::<bool>(&["PERSIST", "seats"]).await.unwrap());
    seats.acquire().await.unwrap().release().await.unwrap();
    assert_eq!(lifetimes().await, (false, false));
    held.release().await.unwrap();
    assert_eq!(number(&observer, &["GET", "seats"]).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fixed_lease_is_lengthened_and_shortened_by_its_guard() {
    let server = server().await;
    let client = client(&server).await;
    let seats = PermitExpirableSemaphore::new(&client, "seats");
    seats.set_permits(1).await.unwrap();
    let permit = seats.acquire().lease(2000 * MS).await.unwrap();
    permit.extend(20_000 * MS).await.unwrap();
    assert!(permit.remaining().unwrap() > 10_000 * MS);
    permit.extend(1000 * MS).await.unwrap();
    assert!(permit.remaining().unwrap() <= 1000 * MS);
    assert_eq!(tokio::time::timeout(SOON, permit.lost()).await.unwrap(), LostReason::Expired);
    // The end of a lease wakes waiters, however many permits they request.
    let next = seats.acquire().timeout(SOON).await.unwrap();
    assert!(permit.extend(SOON).await.is_err());
    drop(permit);
    next.release().await.unwrap();
    wait_until(SOON, async || is_idle(&client)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ending_leases_wake_waiters_for_many_permits() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let seats = PermitExpirableSemaphore::new(&one, "seats");
    seats.set_permits(4).await.unwrap();
    for lease in [600, 700, 800, 900] {
        seats.acquire().lease(lease * MS).await.unwrap().forget();
    }
    let all = PermitExpirableSemaphore::new(&two, "seats").acquire_many(4).timeout(SOON).await.unwrap();
    all.release().await.unwrap();
    assert_eq!(seats.available_permits().await.unwrap(), 4);
    wait_until(SOON, async || is_idle(&one) && is_idle(&two)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extended_lease_is_not_shortened_by_renewals() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client_with(&server.url(), |config| config.watchdog_lease(2000 * MS)).await;
    let seats = PermitExpirableSemaphore::new(&client, "seats");
    seats.set_permits(2).await.unwrap();
    let (extended, renewed) = (seats.acquire().await.unwrap(), seats.acquire().await.unwrap());
    extended.extend(60_000 * MS).await.unwrap();
    let end_of = async |permit: &Permit| -> i64 {
        let id = permit.ids().next().unwrap();
        let ends: Vec<(Vec<u8>, i64)> =
            observer.query(&["ZRANGE", "{seats}:timeout", "0", "-1", "WITHSCORES"]).await.unwrap();
        ends.into_iter().find_map(|(had, end)| (had == id.as_bytes()).then_some(end)).unwrap()
    };
    let (before, first) = (end_of(&extended).await, end_of(&renewed).await);
    wait_until(SOON, async || end_of(&renewed).await > first + 600).await;
    assert_eq!(end_of(&extended).await, before);
    extended.release().await.unwrap();
    renewed.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_fair_waiter_learns_of_remaining_permits() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(client_with(&server.url(), |config| config.poll_interval(10 * SOON)).await);
    }
    let semaphores: Vec<_> = clients.iter().map(|client| Semaphore::new(client, "mail", 3).fair()).collect();
    for _ in 0..8 {
        let held = semaphores[0].acquire_many(3).timeout(SOON).await.unwrap();
        let mut waiters = Vec::new();
        for (nth, semaphore) in semaphores[1..].iter().enumerate() {
            waiters.push(tokio::spawn(semaphore.acquire().timeout(2 * SOON).into_future()));
            let line = ["ZCARD", "redgrid_semaphore_line:{mail}"];
            wait_until(SOON, async || number(&observer, &line).await == nth as i64 + 1).await;
        }
        held.release().await.unwrap();
        // Each waiter is admitted by the first release, not by that of another waiter.
        let mut permits = Vec::new();
        for waiter in waiters {
            permits.push(tokio::time::timeout(SOON, waiter).await.expect("a wake-up").unwrap().unwrap());
        }
        for permit in permits {
            permit.release().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_closed_semaphore_of_permits_with_ids_ends_its_requests_and_takes_nothing() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let (seats, other) =
        (PermitExpirableSemaphore::new(&client, "seats"), PermitExpirableSemaphore::new(&client, "seats"));
    assert!(seats.try_set_permits(1).await.unwrap());
    let held = other.acquire().await.unwrap();
    let waiter = tokio::spawn(seats.acquire().into_future());
    wait_until(SOON, async || client.stats().waiting == 1).await;
    seats.clone().close();
    let outcome = waiter.await.unwrap();
    assert!(matches!(outcome, Err(AcquireError::Closed { .. })), "{outcome:?}");
    held.release().await.unwrap();
    wait_until(SOON, async || is_idle(&client)).await;
    assert_eq!(number(&observer, &["GET", "seats"]).await, 1, "the request has taken nothing");
    assert!(seats.is_closed() && !other.is_closed());
    for permits in [0, 1] {
        let outcome = seats.acquire_many(permits).await;
        assert!(matches!(outcome, Err(AcquireError::Closed { .. })), "{outcome:?}");
    }
    other.acquire().await.unwrap().release().await.unwrap();
    assert_eq!(format!("{seats:?}"), r#"PermitExpirableSemaphore { name: Ok("seats"), .. }"#);
    let five = Semaphore::new(&client, "five", 5);
    assert_eq!(format!("{five:?}"), r#"Semaphore { name: Ok("five"), permits: 5, .. }"#);
}
