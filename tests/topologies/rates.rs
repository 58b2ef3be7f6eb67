//! Rate limits on every topology.

use std::time::Duration;

use futures_util::future::join_all;
use redgrid_rate_limiter::{GcraLimiter, LimitError, Quota, Rate, RateLimiter};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

use crate::contract::{AT_ONCE, clauses};
use crate::fixture::Fixture;

/// A time longer than any clause takes.
const LONG: Duration = Duration::from_secs(600);

clauses![
    "rates";
    two_processes_keep_one_rate,
    waiters_elsewhere_learn_of_returned_permits,
    a_client_has_a_rate_of_its_own,
    a_rate_may_have_a_hash_tag_in_its_name,
    cells_are_shared_by_two_processes,
];

async fn two_processes_keep_one_rate(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (here, there) = (RateLimiter::new(&one, &on.name), RateLimiter::new(&two, &on.name));
    assert!(matches!(here.acquire().await, Err(LimitError::RateNotSet { .. })));
    assert!(here.try_set_rate(Rate::overall(10, LONG).keep_alive(LONG)).await.unwrap());
    assert!(!there.try_set_rate(Rate::overall(1, LONG)).await.unwrap());
    let asked = join_all((0..30).map(|n| if n % 2 == 0 { here.try_acquire() } else { there.try_acquire() })).await;
    assert_eq!(asked.into_iter().filter(|result| result.as_ref().unwrap().is_some()).count(), 10);
    assert_eq!(there.release(4).await.unwrap(), 4);
    assert_eq!(here.available_permits().await.unwrap(), 4);
    assert!(there.set_rate(Rate::overall(20, LONG)).keeping_state().await.unwrap());
    assert_eq!(here.available_permits().await.unwrap(), 14);
    assert!(here.expire(LONG).await.unwrap() && here.persist().await.unwrap());
    assert!(here.delete().await.unwrap());
    assert!(matches!(there.rate().await, Err(LimitError::RateNotSet { .. })));
}

async fn waiters_elsewhere_learn_of_returned_permits(on: Fixture) {
    let (one, two) = (on.client().await, on.client_with(|config| config.poll_interval(LONG)).await);
    let (here, there) = (RateLimiter::new(&one, &on.name), RateLimiter::new(&two, &on.name));
    here.try_set_rate(Rate::overall(3, LONG)).await.unwrap();
    for round in 0..3 {
        let held = here.acquire().permits(3).await.unwrap();
        let waiting = tokio::spawn(there.acquire().permits(2).into_future());
        let channel = format!("redgrid_rate__channel:{{{}}}", on.name);
        wait_until(SOON, async || {
            let plain = on.observer.pubsub_channels("*").await.unwrap();
            plain.contains(&channel)
                || on.observer.pubsub_shard_channels("*").await.unwrap_or_default().contains(&channel)
        })
        .await;
        match round {
            0 => assert_eq!(held.release().await.unwrap(), 3),
            1 => assert!(here.set_rate(Rate::overall(5, LONG)).keeping_state().await.unwrap()),
            _ => assert!(here.set_rate(Rate::overall(3, LONG)).await.unwrap()),
        }
        tokio::time::timeout(AT_ONCE, waiting).await.unwrap().unwrap().unwrap();
        here.set_rate(Rate::overall(3, LONG)).await.unwrap();
        wait_until(SOON, async || two.stats().channels == 0).await;
    }
}

async fn a_client_has_a_rate_of_its_own(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (here, there) = (RateLimiter::new(&one, &on.name), RateLimiter::new(&two, &on.name));
    here.try_set_rate(Rate::per_client(2, LONG)).await.unwrap();
    for limiter in [&here, &there] {
        let taken = limiter.acquire().permits(2).await.unwrap();
        assert!(limiter.try_acquire().await.unwrap().is_none());
        assert_eq!(taken.release().await.unwrap(), 2);
    }
    here.set_rate(Rate::per_client(5, LONG)).keeping_state().await.unwrap();
    assert_eq!((here.available_permits().await.unwrap(), there.available_permits().await.unwrap()), (5, 5));
}

async fn a_rate_may_have_a_hash_tag_in_its_name(on: Fixture) {
    let client = on.client().await;
    let limiter = RateLimiter::new(&client, format!("{}:x{{{}}}z", on.name, on.name));
    limiter.try_set_rate(Rate::overall(2, LONG)).await.unwrap();
    limiter.acquire().permits(2).await.unwrap();
    assert!(limiter.try_acquire().await.unwrap().is_none() && limiter.delete().await.unwrap());
}

async fn cells_are_shared_by_two_processes(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let quota = Quota::new(1, LONG).burst(10);
    let (here, there) = (GcraLimiter::new(&one, &on.name, quota), GcraLimiter::new(&two, &on.name, quota));
    let asked = join_all((0..30).map(|n| if n % 2 == 0 { here.try_acquire() } else { there.try_acquire() })).await;
    assert_eq!(asked.into_iter().filter(|result| *result.as_ref().unwrap()).count(), 10);
    assert!(there.reset().await.unwrap());
    assert_eq!(here.available_permits().await.unwrap(), 10);
}
