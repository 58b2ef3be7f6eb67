//! Quorum locks with servers that are down, unreachable, or without their data.

use std::time::{Duration, Instant};

use redgrid_locks::{Client, Config, Quorum, QuorumGuard};
use redgrid_testkit::{Fault, Proxy, wait_until};
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{SOON, client_with};

use super::quorum::{MS, SERVERS, held_at, quorum, servers};

/// Returns how many schedules are run. The full test has `REDGRID_QUORUM_SCHEDULES=1000`.
fn schedules() -> u64 {
    std::env::var("REDGRID_QUORUM_SCHEDULES").ok().and_then(|count| count.parse().ok()).unwrap_or(25)
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_without_a_mark_abstain_until_the_longest_lease_is_over() {
    let servers = servers().await;
    let quorum = quorum(&servers).await.longest_lease(2400 * MS);
    let lock = quorum.lock("a");
    let short = || lock.try_acquire().lease(1500 * MS);
    let began = Instant::now();
    assert!(short().await.unwrap().is_none());
    assert_eq!(held_at(&servers, "a").await, 0);
    let guard = lock.acquire().lease(1500 * MS).timeout(SOON).await.unwrap();
    assert!(began.elapsed() >= 2640 * MS, "{:?}", began.elapsed());
    guard.release().await.unwrap();
    // A server that lost its data also abstains, and votes again later.
    let observer = async || servers[0].observer().await.unwrap();
    observer().await.cmd(&["SET", "redgrid_birth", "0123abcd 1"]).await.unwrap();
    let guard = short().await.unwrap().expect("four vote");
    assert!(!observer().await.exists("a").await.unwrap());
    drop(guard);
    wait_until(SOON, async || {
        let Some(guard) = short().await.unwrap() else { return false };
        wait_until(SOON, async || guard.votes() == SERVERS || !guard.is_held()).await;
        guard.votes() == SERVERS
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quorum_of_five_works_without_two_servers_but_not_three() {
    let servers = servers().await;
    let quorum = quorum(&servers).await.share(400 * MS);
    quorum.bootstrap().await.unwrap();
    let lock = quorum.lock("a");
    for server in &servers[..2] {
        server.pause().await.unwrap();
    }
    let guard = lock.acquire().timeout(SOON).await.unwrap();
    assert_eq!(guard.votes(), 3);
    guard.release().await.unwrap();
    servers[2].pause().await.unwrap();
    let asked = Stopwatch::start();
    let none = lock.try_acquire().await;
    assert!(none.is_err(), "{none:?}");
    asked.assert_within(Duration::from_secs(5));
    for server in &servers[..3] {
        server.resume().await.unwrap();
    }
    lock.acquire().timeout(SOON).await.unwrap().release().await.unwrap();
    wait_until(SOON, async || held_at(&servers, "a").await == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_majority_an_acquire_ends_with_its_timeout_or_with_that_of_the_client() {
    let servers = servers().await;
    let mut clients = Vec::new();
    for server in &servers {
        clients.push(client_with(&server.url(), |config| config.response_timeout(100 * MS).retries(1)).await);
    }
    let quorum = Quorum::new(clients).unwrap().share(100 * MS);
    quorum.bootstrap().await.unwrap();
    for server in &servers[..3] {
        server.pause().await.unwrap();
    }
    let (lock, began) = (quorum.lock("a"), Instant::now());
    lock.acquire().timeout(600 * MS).await.unwrap_err();
    assert!(began.elapsed() >= 600 * MS, "longer than the client's 200 ms: {:?}", began.elapsed());
    let unbounded = tokio::time::timeout(Duration::from_secs(10), lock.acquire().into_future());
    unbounded.await.expect("ends after some 200 ms").unwrap_err();
    for server in &servers[..3] {
        server.resume().await.unwrap();
    }
}

/// A server in a black hole causes no delay. Waiting for it would take the whole share: 30 s.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_in_a_black_hole_costs_no_time() {
    const SHARE: Duration = Duration::from_secs(30);
    let servers = servers().await;
    let proxy = Proxy::to(&servers[0]).await.unwrap();
    let patient = |config: Config| config.response_timeout(SHARE);
    let mut clients: Vec<Client> = vec![client_with(&servers[0].url_via(proxy.addr()), patient).await];
    for server in &servers[1..] {
        clients.push(client_with(&server.url(), patient).await);
    }
    let quorum = Quorum::new(clients).unwrap().share(SHARE);
    quorum.bootstrap().await.unwrap();
    wait_until(SOON, async || {
        let guard = quorum.lock("probe").acquire().timeout(SOON).await.unwrap();
        // The last votes may arrive after a majority was reached.
        tokio::time::sleep(5 * MS).await;
        guard.votes() == SERVERS
    })
    .await;
    proxy.set_both(Fault::BlackHole);
    let mut times = Vec::new();
    for round in 0..20 {
        let lock = quorum.lock(format!("holed:{round}"));
        let asked = Stopwatch::start();
        let guard = lock.acquire().timeout(SOON).await.unwrap();
        asked.assert_within(SHARE / 10);
        times.push(asked.elapsed());
        assert!(guard.votes() < SERVERS);
    }
    times.sort();
    assert!(times[times.len() / 2] < 50 * MS, "{times:?}");
}

/// Two clients compete, and two servers of five lose their data, at seeded times: at most one
/// client holds the lock.
#[tokio::test(flavor = "multi_thread")]
async fn two_servers_that_lose_their_data_admit_one_holder() {
    let servers = servers().await;
    let longest = 400 * MS;
    let (one, two) = (quorum(&servers).await.longest_lease(longest), quorum(&servers).await.longest_lease(longest));
    let mut observers = Vec::new();
    for server in &servers {
        observers.push(server.observer().await.unwrap());
    }
    one.bootstrap().await.unwrap();
    let (mut grants, mut forgotten) = (0, 0);
    for seed in 0..schedules() {
        let mut random = fastrand::Rng::with_seed(seed);
        let name = format!("name:{seed}");
        let locks = [one.lock(&name), two.lock(&name)];
        let mut held: [Option<QuorumGuard>; 2] = [None, None];
        // The servers that may lose their data within this schedule, each once.
        let mut forgetful = vec![random.usize(0..SERVERS), random.usize(0..SERVERS)];
        for _ in 0..10 {
            let who = random.usize(0..2);
            match random.u8(0..5) {
                0 | 1 if held[who].is_none() => {
                    // On a busy machine, a reply may arrive after the end of the lease. This error
                    // counts as no grant.
                    held[who] = locks[who].try_acquire().lease(longest).await.unwrap_or_default();
                    grants += usize::from(held[who].is_some());
                }
                2 => {
                    if let Some(at) = forgetful.pop() {
                        observers[at].cmd(&["FLUSHALL"]).await.unwrap();
                        forgotten += 1;
                    }
                }
                3 => drop(held[who].take()),
                _ => tokio::time::sleep(MS * random.u32(0..40)).await,
            }
            let believing = held.iter().flatten().filter(|guard| guard.is_held()).count();
            assert!(believing <= 1, "seed {seed}: both hold the lock");
        }
        drop(held);
        // The servers vote again, so all holds with forgotten votes have ended. The next schedule
        // begins in the same state as this one.
        let probe = one.lock(format!("{name}:probe"));
        wait_until(SOON, async || {
            drop(probe.try_acquire().lease(longest).await);
            let mut voting = 0;
            for observer in &observers {
                let mark: Option<String> = observer.get("redgrid_birth").await.unwrap();
                let from = mark.and_then(|mark| mark.split_once(' ')?.1.parse::<u64>().ok());
                let now = observer.server_time_micros().await.unwrap();
                voting += usize::from(from.is_some_and(|from| from <= now));
            }
            voting == SERVERS
        })
        .await;
    }
    println!("{grants} grants, {forgotten} times forgotten");
    assert!(grants > 0 && forgotten > 0);
}
