//! One lock over several independent servers.

use std::time::{Duration, Instant};

use redgrid_core::Failure;
use redgrid_locks::{AcquireError, ExtendError, Holder, InvalidQuorum, Quorum};
use redgrid_testkit::{RedisServer, wait_until};
use redgrid_tests::{SOON, client, client_with};

pub(super) const MS: Duration = Duration::from_millis(1);
pub(super) const SERVERS: usize = 5;

pub(super) async fn servers() -> Vec<RedisServer> {
    let mut servers = Vec::new();
    for _ in 0..SERVERS {
        servers.push(redgrid_tests::server().await);
    }
    servers
}

pub(super) async fn quorum(servers: &[RedisServer]) -> Quorum {
    let mut clients = Vec::new();
    for server in servers {
        clients.push(client(server).await);
    }
    // A busy machine replies late, so each server's share of the time is long. Other tests cover
    // unreachable servers.
    Quorum::new(clients).unwrap().share(Duration::from_secs(2))
}

pub(super) async fn held_at(servers: &[RedisServer], name: &str) -> usize {
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

/// An unpolled acquire does not delay other clients. A quorum lock has a lease of 30 s, so the
/// other client can enter earlier only if the unused grant is released. On one thread no reply can
/// arrive during the first poll.
#[tokio::test]
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

/// Each server has one vote, even if several requests of one holder request it concurrently.
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
    // Each round consists of a vote and its withdrawal. A pause of at least 64 ms follows most
    // rounds.
    let asked = scripts().await - before;
    assert!(asked < 200, "{asked} scripts in three seconds");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_rise_whichever_majority_gives_them() {
    let servers = servers().await;
    let (one, two) = (quorum(&servers).await.share(300 * MS), quorum(&servers).await.share(300 * MS));
    one.bootstrap().await.unwrap();
    // The counter of one server is far ahead, and therefore its tokens too.
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
    // The extension acquires the lost votes again.
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
