//! One name with two numbers of permits, or with leased and plain permits, is an error that names
//! both.

use std::time::Duration;

use futures_util::future::join_all;
use redgrid_permit_expirable_semaphore::PermitExpirableSemaphore;
use redgrid_semaphore::{AcquireError, Semaphore};
use redgrid_testkit::{Observer, wait_until};
use redgrid_tests::{SOON, client, client_with, server};

const NAME: &str = "mail";

async fn left(observer: &Observer) -> i64 {
    observer.query(&["GET", NAME]).await.unwrap()
}

/// Asserts that the request failed because of these two numbers, and that its message has both.
fn assert_differs<T: std::fmt::Debug>(outcome: Result<T, AcquireError>, expected: u64, found: i64) {
    let error = outcome.expect_err("the numbers differ");
    let AcquireError::PermitsDiffer { expected: ours, found: theirs, .. } = &error else { panic!("{error:?}") };
    assert_eq!((*ours, *theirs), (expected, found));
    let text = error.to_string();
    assert!(text.contains(&expected.to_string()) && text.contains(&found.to_string()), "{text}");
}

/// A new version of a service with another number does not change the semaphore of the old version.
#[tokio::test]
async fn another_number_of_permits_is_an_error_until_a_resize() {
    let server = server().await;
    let (observer, one, two) = (server.observer().await.unwrap(), client(&server).await, client(&server).await);
    let (old, new, beside) =
        (Semaphore::new(&one, NAME, 1), Semaphore::new(&two, NAME, 5), Semaphore::new(&one, NAME, 5));
    let held = old.acquire().await.unwrap();
    assert_differs(new.acquire().await, 5, 1);
    assert_differs(new.try_acquire().await, 5, 1);
    assert_differs(beside.acquire_many(2).await, 5, 1);
    assert_eq!((left(&observer).await, new.available_permits().await.unwrap()), (0, 0));
    assert!(new.resize().await.unwrap());
    assert_eq!(left(&observer).await, 4, "the held permit stays held");
    let more = new.acquire_many(4).await.unwrap();
    assert!(new.try_acquire().await.unwrap().is_none());
    assert_differs(old.acquire().await, 1, 5);
    held.release().await.unwrap();
    beside.acquire().await.unwrap().release().await.unwrap();
    more.release().await.unwrap();
    assert_eq!(left(&observer).await, 5);
    wait_until(SOON, async || one.stats().names == 0 && two.stats().names == 0).await;
}

#[tokio::test]
async fn plain_permits_under_the_name_of_leased_ones_are_an_error() {
    let server = server().await;
    let (observer, client) = (server.observer().await.unwrap(), client(&server).await);
    let (plain, leased) = (Semaphore::plain(&client, NAME), Semaphore::new(&client, NAME, 3));
    assert!(plain.try_set_permits(3).await.unwrap());
    let held = plain.acquire_many(2).await.unwrap();
    assert_differs(leased.acquire().await, 3, 1);
    held.release().await.unwrap();
    leased.acquire_many(3).await.unwrap().release().await.unwrap();
    // Too many plain permits: one was added, or returned once too often.
    plain.release(1).await.unwrap();
    assert_differs(leased.acquire().await, 3, 4);
    assert_eq!(plain.drain().await.unwrap(), 4);
    assert_differs(leased.acquire().await, 3, 0);
    // Permits with ids are leased, and their handles specify no number.
    let with_ids = PermitExpirableSemaphore::new(&client, NAME);
    with_ids.set_permits(3).await.unwrap();
    let permits = [with_ids.acquire().await.unwrap(), leased.acquire().await.unwrap()];
    assert_eq!((left(&observer).await, with_ids.permits().await.unwrap()), (1, 3));
    permits.into_iter().for_each(drop);
    wait_until(SOON, async || client.stats().names == 0 && left(&observer).await == 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_get_the_error_when_the_number_changes_and_leave_the_queue() {
    let server = server().await;
    let (observer, one) = (server.observer().await.unwrap(), client(&server).await);
    // Only the message of the resize wakes these waiters.
    let two = client_with(&server.url(), |config| config.poll_interval(10 * SOON)).await;
    for fair in [false, true] {
        let name = format!("{NAME}{fair}");
        let of = |client, permits| {
            let semaphore = Semaphore::new(client, &name, permits);
            if fair { semaphore.fair() } else { semaphore }
        };
        let held = of(&one, 2).acquire_many(2).await.unwrap();
        // More waiters than one request serves.
        let waiters: Vec<_> = (0..100).map(|_| tokio::spawn(of(&two, 2).acquire().into_future())).collect();
        wait_until(SOON, async || two.stats().waiting == 100 && two.stats().channels == 1).await;
        let resized = of(&one, 4);
        assert!(resized.resize().await.unwrap());
        for waiter in join_all(waiters).await {
            assert_differs(waiter.unwrap(), 2, 4);
        }
        resized.acquire_many(2).timeout(SOON).await.unwrap().release().await.unwrap();
        held.release().await.unwrap();
        wait_until(SOON, async || one.stats().names == 0 && two.stats().names == 0).await;
        let queue = format!("redgrid_semaphore_line:{{{name}}}");
        assert_eq!(observer.query::<u64>(&["ZCARD", &queue]).await.unwrap(), 0);
        assert_eq!(observer.get::<i64>(&name).await.unwrap(), Some(4));
    }
}

/// A lease that is never returned does not change the number: it counts until it ends.
#[tokio::test]
async fn expired_leases_are_part_of_the_number() {
    let server = server().await;
    let client = client(&server).await;
    let mail = Semaphore::new(&client, NAME, 2);
    mail.acquire_many(2).lease(Duration::from_millis(500)).await.unwrap().forget();
    mail.acquire_many(2).timeout(SOON).await.unwrap().release().await.unwrap();
    let other = Semaphore::new(&client, NAME, 3);
    assert_differs(other.acquire().await, 3, 2);
}
