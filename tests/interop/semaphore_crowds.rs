//! Many callers of both sides at one semaphore, also with lost replies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures_util::future::join_all;
use redgrid_core::{Client, Failure};
use redgrid_permit_expirable_semaphore::PermitExpirableSemaphore;
use redgrid_semaphore::{Acquire, AcquireError, Semaphore};
use redgrid_testkit::{Action, Proxy, wait_until};
use redgrid_tests::SOON;
use redgrid_tests::either::EitherSemaphore;

use crate::fixture::{Fixture, scenarios};
use crate::permits::{JavaPermits, MS};

scenarios![
    a_crowd_at_a_plain_number_is_never_above_the_capacity,
    a_crowd_at_javas_plain_number_and_our_leases_is_never_above_the_capacity,
    a_crowd_at_permits_with_ids_is_never_above_the_capacity,
    lost_or_late_replies_cost_no_permit_of_java,
    leased_lost_or_late_replies_cost_no_permit_of_java,
];

const CAPACITY: i64 = 5;
const OF_EACH: usize = 6;
const TIMES: u64 = 15;

async fn a_crowd_at_a_plain_number_is_never_above_the_capacity(on: Fixture) {
    let javas = (0..OF_EACH).map(|_| on.plain()).collect();
    crowd(&on, javas, |client, name, n| Semaphore::plain(client, name).acquire_many(n)).await;
}

async fn a_crowd_at_javas_plain_number_and_our_leases_is_never_above_the_capacity(on: Fixture) {
    let javas = (0..OF_EACH).map(|_| on.plain()).collect();
    crowd(&on, javas, |client, name, n| PermitExpirableSemaphore::new(client, name).acquire_many(n)).await;
}

async fn a_crowd_at_permits_with_ids_is_never_above_the_capacity(on: Fixture) {
    let javas = (0..OF_EACH).map(|n| if n % 2 == 0 { on.leased() } else { on.plain() }).collect();
    crowd(&on, javas, |client, name, n| PermitExpirableSemaphore::new(client, name).acquire_many(n)).await;
}

/// Threads of Java, and tasks of two Rust clients, take one to three permits each time. The server
/// counts the permits in use, so that any caller sees an excess.
async fn crowd(on: &Fixture, mut javas: Vec<JavaPermits>, asks: fn(&Client, &str, u64) -> Acquire) {
    let counter = format!("{}:inside", on.name);
    let clients = [on.client().await, on.client().await];
    let gate = Semaphore::new(&on.client().await, &on.name, CAPACITY.cast_unsigned());
    // No thread and no task begins before all wait.
    let all = gate.acquire_many(CAPACITY.cast_unsigned()).await.unwrap();
    for java in &mut javas {
        java.begins("crowd", &[&counter, &TIMES]).await;
    }
    let tasks: Vec<_> = (0..OF_EACH)
        .map(|task| {
            let (client, name, counter) = (clients[task % 2].clone(), on.name.clone(), counter.clone());
            tokio::spawn(async move {
                let mut most = 0;
                for round in 0..TIMES {
                    let n = 1 + (round + task as u64) % 3;
                    let permit = asks(&client, &name, n).timeout(3 * SOON).await.unwrap();
                    most = most.max(count(&client, &counter, n.cast_signed()).await);
                    count(&client, &counter, -n.cast_signed()).await;
                    permit.release().await.unwrap();
                }
                most
            })
        })
        .collect();
    on.until_subscribed(3).await;
    all.release().await.unwrap();
    let mut most = Vec::new();
    for task in tasks {
        most.push(task.await.unwrap());
    }
    for java in &mut javas {
        most.push(java.actor.done_within(3 * SOON).await.unwrap().parse().unwrap());
    }
    assert!(most.iter().all(|most| (1..=CAPACITY).contains(most)), "{most:?}");
    assert_eq!(on.observer.get::<i64>(&counter).await.unwrap(), Some(0));
    assert_eq!((on.left().await, on.leases().await.len()), (Some(CAPACITY), 0));
    on.until_subscribed(0).await;
}

/// Adds to a counter, and returns its value.
async fn count(client: &Client, counter: &str, by: i64) -> i64 {
    client.command("INCRBY").key(counter).unwrap().arg(by.to_string()).query().await.unwrap()
}

/// Returns the number of lost answers, from the environment.
pub(crate) fn lost_answers() -> u64 {
    std::env::var("REDGRID_LOST_ANSWERS").ok().and_then(|text| text.parse().ok()).unwrap_or(30)
}

async fn lost_or_late_replies_cost_no_permit_of_java(on: Fixture) {
    with_lost_replies(&on, JavaPermits::plain, false).await;
}

async fn leased_lost_or_late_replies_cost_no_permit_of_java(on: Fixture) {
    with_lost_replies(&on, JavaPermits::leased, true).await;
}

/// Runs on a separate server. Every fourth request of Rust loses its reply or is delayed, while
/// Java takes and returns permits.
async fn with_lost_replies(on: &Fixture, javas: fn(crate::actor::Actor, &str) -> JavaPermits, leases: bool) {
    const ROUNDS: u64 = 10;
    let server = redgrid_tests::server().await;
    let (observer, redisson) = (server.observer().await.unwrap(), on.own_redisson_at(&server.url()).await);
    let set: bool = JavaPermits::plain(redisson.actor(), "mail").is("trySetPermits", &[&CAPACITY]).await;
    assert!(set);
    let (lost, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let threads = (0..3).map(|_| {
        let (mut java, over) = (javas(redisson.actor(), "mail"), Arc::clone(&over));
        tokio::spawn(async move {
            let mut rounds = 0;
            while !over.load(Ordering::Relaxed) {
                java.begins("crowd", &[&"inside", &ROUNDS]).await;
                java.actor.done_within(3 * SOON).await.unwrap();
                rounds += ROUNDS;
            }
            rounds
        })
    });
    let threads: Vec<_> = threads.collect();
    let mut tasks = Vec::new();
    for _ in 0..(lost_answers() / 100).clamp(6, 32) {
        let proxy = Proxy::to(&server).await.unwrap();
        let client =
            redgrid_tests::client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(250 * MS)).await;
        let semaphore = EitherSemaphore::new(&client, "mail", CAPACITY.cast_unsigned(), leases).await;
        // After this, the server has cached the script.
        semaphore.acquire().timeout(SOON).await.unwrap().release().await.unwrap();
        let seen = AtomicU64::new(0);
        proxy.on_request(move |request| {
            let ours = request.iter().any(|part| part.starts_with(b"redgrid_once:{mail}"));
            match ours && seen.fetch_add(1, Ordering::Relaxed) % 4 == 3 {
                true if fastrand::bool() => Action::SwallowReply,
                true => Action::Hold,
                false => Action::Forward,
            }
        });
        let (lost, wanted) = (Arc::clone(&lost), lost_answers());
        tasks.push(async move {
            let mut before = 0;
            while lost.load(Ordering::Relaxed) < wanted {
                // If the wait ends while its request is in flight, the client itself returns the
                // permits that the request may take.
                match semaphore.acquire_many(fastrand::u64(1..=3)).timeout(fastrand::u32(1..1000) * MS).await {
                    Ok(permit) if fastrand::bool() => drop(permit),
                    Ok(permit) => drop(permit.release().await),
                    Err(AcquireError::TimedOut { .. } | AcquireError::Failed(Failure::OutcomeUnknown { .. })) => {}
                    Err(other) => {
                        assert!(matches!(other, AcquireError::Failed(Failure::Unavailable { .. })), "{other:?}")
                    }
                }
                proxy.release_held().await;
                let swallowed = proxy.counts().swallowed;
                lost.fetch_add(swallowed - before, Ordering::Relaxed);
                before = swallowed;
            }
            proxy.heal();
            proxy.release_held().await;
            let idle = async || {
                let hand = client.stats();
                (hand.names, hand.holds, hand.waiting) == (0, 0, 0)
            };
            wait_until(2 * SOON, idle).await;
        });
    }
    join_all(tasks).await;
    over.store(true, Ordering::Relaxed);
    let mut rounds = Vec::new();
    for thread in threads {
        rounds.push(thread.await.unwrap());
    }
    println!("{} answers lost, {rounds:?} rounds of Java", lost.load(Ordering::Relaxed));
    let leases: u64 = observer.query(&["ZCARD", "{mail}:timeout"]).await.unwrap();
    assert_eq!((observer.get::<i64>("mail").await.unwrap(), leases), (Some(CAPACITY), 0));
}
