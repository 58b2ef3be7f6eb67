//! One lock over several independent servers.

use std::time::{Duration, Instant};

use redgrid_core::Failure;
use redgrid_locks::{AcquireError, Client, Config, ExtendError, Holder, InvalidQuorum, Quorum, QuorumGuard};
use redgrid_testkit::{Fault, Proxy, RedisServer, wait_until};
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{SOON, client, client_with};

const MS: Duration = Duration::from_millis(1);
const SERVERS: usize = 5;

/// How many schedules are run. `REDGRID_QUORUM_SCHEDULES=1000` is the whole proof.
fn schedules() -> u64 {
    std::env::var("REDGRID_QUORUM_SCHEDULES").ok().and_then(|count| count.parse().ok()).unwrap_or(25)
}

async fn servers() -> Vec<RedisServer> {
    let mut servers = Vec::new();
    for _ in 0..SERVERS {
        servers.push(redgrid_tests::server().await);
    }
    servers
}

async fn quorum(servers: &[RedisServer]) -> Quorum {
    let mut clients = Vec::new();
    for server in servers {
        clients.push(client(server).await);
    }
    // A busy machine replies late. Other tests cover unreachable servers.
    Quorum::new(clients).unwrap().share(Duration::from_secs(2))
}

async fn held_at(servers: &[RedisServer], name: &str) -> usize {
    let mut held = 0;
    for server in servers {
        held += usize::from(server.observer().await.unwrap().exists(name).await.unwrap());
    }
    held
}

#[tokio::test(flavor = "multi_thread")]
async fn a_majority_decides_and_a_release_frees_all() {
    let servers = servers().await;
    let (one, two) = (quorum(&servers).await, quorum(&servers).await);
    assert!(one.bootstrap().await.unwrap());
    assert!(!two.bootstrap().await.unwrap(), "they are marked");
    let guard = one.lock("a").acquire().await.unwrap();
    wait_until(SOON, async || guard.votes() == SERVERS).await;
    assert!(guard.is_held() && guard.remaining() > Duration::from_secs(20) && guard.token().is_none());
    assert!(two.lock("a").try_acquire().await.unwrap().is_none());
    let waiter = tokio::spawn(two.lock("a").acquire().timeout(SOON).into_future());
    guard.release().await.unwrap();
    waiter.await.unwrap().unwrap().release().await.unwrap();
    wait_until(SOON, async || held_at(&servers, "a").await == 0).await;
}

/// An unpolled acquire delays no other client. A quorum lock has a lease of 30 s, so the other
/// client enters only if the unused grant is released.
#[tokio::test(flavor = "multi_thread")]
async fn a_kept_acquire_that_is_not_polled_delays_no_other() {
    let servers = servers().await;
    let (one, two) = (quorum(&servers).await, quorum(&servers).await);
    assert!(one.bootstrap().await.unwrap());
    let mut kept = one.lock("a").acquire().into_future();
    assert!(futures_util::poll!(&mut kept).is_pending());
    wait_until(SOON, async || held_at(&servers, "a").await > SERVERS / 2).await;
    let other = tokio::time::timeout(SOON, two.lock("a").acquire().into_future());
    other.await.expect("the unclaimed grant is released").unwrap().release().await.unwrap();
    kept.await.unwrap().release().await.unwrap();
}

/// Each server has one vote, even if several requests of one holder ask for it at the same time.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_has_one_vote_for_concurrent_requests() {
    let servers = servers().await;
    let (one, two) = (quorum(&servers).await, quorum(&servers).await);
    assert!(one.bootstrap().await.unwrap());
    let me = Holder::new();
    let guard = one.lock("a").acquire().holder(&me).await.unwrap();
    wait_until(SOON, async || guard.votes() == SERVERS).await;
    let lose = async |server: &RedisServer| server.observer().await.unwrap().cmd(&["DEL", "a"]).await.unwrap();
    for lost in &servers[..2] {
        lose(lost).await;
    }
    // A renewal finds that two votes are lost.
    wait_until(SOON, async || guard.votes() == SERVERS - 2).await;
    let longer = Duration::from_secs(40);
    let (first, second) = tokio::join!(guard.extend(longer), guard.extend(longer));
    first.unwrap();
    second.unwrap();
    assert!(guard.votes() <= SERVERS, "{} votes of {SERVERS} servers", guard.votes());
    for lost in &servers[2..] {
        lose(lost).await;
    }
    wait_until(SOON, async || !guard.is_held()).await;
    drop(two);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_is_confirmed_also_during_an_extension() {
    let servers = servers().await;
    let one = quorum(&servers).await;
    assert!(one.bootstrap().await.unwrap());
    let guard = one.lock("a").acquire().await.unwrap();
    wait_until(SOON, async || guard.votes() == SERVERS).await;
    for server in &servers {
        server.pause().await.unwrap();
    }
    assert!(tokio::time::timeout(50 * MS, guard.extend(Duration::from_secs(40))).await.is_err(), "no server answers");
    let released = guard.release().await;
    for server in &servers {
        server.resume().await.unwrap();
    }
    assert!(released.is_err(), "no server has answered");
    wait_until(SOON, async || held_at(&servers, "a").await == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_quorums_are_rejected() {
    let server = redgrid_tests::server().await;
    let client = client(&server).await;
    assert_eq!(Quorum::new([client.clone(), client]).unwrap_err(), InvalidQuorum::TooFew { servers: 2 });
    let quorum = quorum(&servers().await).await.longest_lease(Duration::from_secs(5));
    let too_long = quorum.lock("a").acquire().lease(Duration::from_secs(6)).await;
    assert!(
        matches!(too_long, Err(AcquireError::Failed(Failure::InvalidArgument { option: "lease", .. }))),
        "{too_long:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_lease_is_longer_than_a_servers_abstention() {
    let servers = servers().await;
    let longest = Duration::from_secs(20);
    let quorum = quorum(&servers).await.longest_lease(longest);
    quorum.bootstrap().await.unwrap();
    let guard = quorum.lock("a").acquire().lease(longest).timeout(SOON).await.unwrap();
    let refused = guard.extend(longest + MS).await;
    assert!(matches!(refused, Err(ExtendError::InvalidArgument { .. })), "{refused:?}");
    assert!(guard.remaining() <= longest);
    guard.extend(longest).await.unwrap();
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_minority_candidate_is_not_woken_by_returning_its_votes() {
    let servers = servers().await;
    let quorum = quorum(&servers).await;
    quorum.bootstrap().await.unwrap();
    for server in &servers[1..] {
        server.observer().await.unwrap().cmd(&["HSET", "a", "somebody:1", "1"]).await.unwrap();
    }
    let observer = servers[0].observer().await.unwrap();
    let scripts = async || {
        let stats: String = observer.query(&["INFO", "commandstats"]).await.unwrap();
        let calls = stats.lines().filter(|line| line.starts_with("cmdstat_eval"));
        calls.filter_map(|line| line.split_once("calls=")?.1.split(',').next()?.parse::<u64>().ok()).sum::<u64>()
    };
    let before = scripts().await;
    let waited = quorum.lock("a").acquire().timeout(Duration::from_secs(3)).await;
    assert!(matches!(waited, Err(AcquireError::TimedOut { .. })), "{waited:?}");
    // Each round is a vote and its withdrawal. Most rounds are followed by a pause of at least 64
    // ms.
    let asked = scripts().await - before;
    assert!(asked < 200, "{asked} scripts in three seconds");
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
    // A server that lost its data abstains, too, and votes again later.
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

/// A server in a black hole costs no time. Waiting for it would take the whole share: 30 s.
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

#[tokio::test(flavor = "multi_thread")]
async fn tokens_rise_whichever_majority_gives_them() {
    let servers = servers().await;
    let (one, two) = (quorum(&servers).await.share(300 * MS), quorum(&servers).await.share(300 * MS));
    one.bootstrap().await.unwrap();
    // The counter of one server is far ahead, and so are its tokens.
    let ahead = servers[0].observer().await.unwrap();
    let far = ahead.server_time_micros().await.unwrap() + 3_600_000_000;
    ahead.cmd(&["SET", "redgrid_quorum_token:{a}", &far.to_string()]).await.unwrap();
    let mut last = None;
    for round in 0..6 {
        let (from, gone) = ([&one, &two][round % 2], &servers[round % SERVERS..][..1]);
        let guard = from.lock("a").fenced().acquire().timeout(SOON).await.unwrap();
        assert!(guard.token().is_some() && guard.token() > last, "{last:?} {:?}", guard.token());
        last = guard.token();
        guard.release().await.unwrap();
        // The next majority is a different one.
        gone[0].pause().await.unwrap();
        let guard = from.lock("a").fenced().acquire().timeout(SOON).await.unwrap();
        assert!(guard.token() > last, "{last:?} {:?}", guard.token());
        last = guard.token();
        gone[0].resume().await.unwrap();
        guard.release().await.unwrap();
    }
    // The counters expire 30 days after the last token.
    const DAY: i64 = 24 * 60 * 60 * 1000;
    for server in &servers {
        let observer = server.observer().await.unwrap();
        let left: i64 = observer.query(&["PTTL", "redgrid_quorum_token:{a}"]).await.unwrap();
        assert!((29 * DAY..=30 * DAY).contains(&left), "{left} ms");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn renewals_keep_a_quorum_lock_until_its_majority_is_lost() {
    let servers = servers().await;
    let mut clients = Vec::new();
    for server in &servers {
        clients.push(client_with(&server.url(), |config| config.watchdog_lease(Duration::from_secs(2))).await);
    }
    let quorum = Quorum::new(clients).unwrap().share(Duration::from_secs(2));
    quorum.bootstrap().await.unwrap();
    let guard = quorum.lock("a").acquire().timeout(SOON).await.unwrap();
    let began = Instant::now();
    wait_until(SOON, async || began.elapsed() > Duration::from_secs(4)).await;
    wait_until(SOON, async || guard.votes() == SERVERS).await;
    let forget = async |at: usize| servers[at].observer().await.unwrap().cmd(&["DEL", "a"]).await.unwrap();
    forget(0).await;
    wait_until(SOON, async || guard.votes() == SERVERS - 1).await;
    // The extension acquires the lost vote again.
    guard.extend(Duration::from_secs(2)).await.unwrap();
    wait_until(SOON, async || guard.votes() == SERVERS).await;
    assert!(guard.is_held());
    for at in 0..3 {
        forget(at).await;
    }
    tokio::time::timeout(SOON, guard.lost()).await.unwrap();
    assert!(!guard.is_held() && guard.remaining().is_zero());
    assert!(guard.release().await.is_err());
    wait_until(SOON, async || held_at(&servers, "a").await == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acquires_that_are_dropped_leave_nothing() {
    let servers = servers().await;
    let quorum = quorum(&servers).await;
    quorum.bootstrap().await.unwrap();
    let lock = quorum.lock("a");
    for polls in 1..25 {
        redgrid_tests::cancel::at_most(polls % 6 + 1, lock.acquire().timeout(30 * MS).into_future()).await;
    }
    wait_until(SOON, async || held_at(&servers, "a").await == 0).await;
    lock.acquire().timeout(SOON).await.unwrap().release().await.unwrap();
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
                    // A reply after the end of the lease does not count; that happens on a busy
                    // machine.
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
        // The servers vote again, so no holder can still hold the lock with forgotten votes. The
        // next schedule begins like this one.
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
