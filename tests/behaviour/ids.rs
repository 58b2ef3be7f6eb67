//! Ids that are allocated in blocks.

use redgrid_core::author::ClientExt;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redgrid_core::Failure;
use redgrid_id_generator::{Client, Config, IdError, IdGenerator, TimeOrderedId};
use redgrid_testkit::{Action, Fault, Proxy, RedisServer, wait_until};
use redgrid_tests::{SOON, client, client_with, is_script, server};

/// The smallest number that a double cannot distinguish from the next one.
const FINE: i64 = (1 << 53) + 1;

/// Takes this many ids, one after another.
async fn some(ids: &IdGenerator, count: usize) -> Vec<i64> {
    let mut had = Vec::new();
    for _ in 0..count {
        had.push(ids.next().await.unwrap());
    }
    had
}

/// Returns a client behind a proxy, and the number of its requests for blocks of `name`.
async fn counted(server: &RedisServer, name: &'static str) -> (Client, Proxy, Arc<AtomicU64>) {
    let proxy = Proxy::to(server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    let asked = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&asked);
    proxy.on_request(move |request| {
        let about_it = request.len() > 3 && is_script(&request[0]) && request[3] == name;
        seen.fetch_add(about_it.into(), Ordering::Relaxed);
        Action::Forward
    });
    (client, proxy, asked)
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_take_blocks_in_turn_and_each_gives_rising_ids() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let (here, there) = (IdGenerator::new(&one, "a"), IdGenerator::new(&two, "a"));
    assert!(here.try_init(10, 4).await.unwrap());
    assert!(!there.try_init(99, 7).await.unwrap(), "already set");
    assert_eq!((here.next().await.unwrap(), there.next().await.unwrap()), (10, 14));
    assert_eq!(some(&IdGenerator::new(&one, "a"), 1).await, [11], "all handles of a client share one block");
    // When half of a block is used, the client requests the next one, which may have arrived.
    let (mine, theirs) = (some(&here, 40).await, some(&there, 40).await);
    assert!(mine.is_sorted() && theirs.is_sorted());
    let all: BTreeSet<i64> = mine.iter().chain(&theirs).copied().collect();
    assert_eq!((all.len(), all.contains(&10)), (80, false));
}

#[tokio::test(flavor = "multi_thread")]
async fn by_default_ids_begin_at_one_in_blocks_of_five_thousand() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    assert_eq!(some(&IdGenerator::new(&client, "a"), 3).await, [1, 2, 3]);
    assert_eq!(observer.get::<String>("a").await.unwrap().unwrap(), "5001");
    assert_eq!(observer.get::<String>("{a}:allocation").await.unwrap().unwrap(), "5000");
    let tagged = IdGenerator::new(&client, "x{a}y");
    assert!(tagged.try_init(7, 2).await.unwrap());
    assert_eq!(some(&tagged, 1).await, [7]);
    assert_eq!(observer.get::<String>("x{a}y:allocation").await.unwrap().unwrap(), "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_three_clients_share_requests_and_no_id_is_given_twice() {
    let server = server().await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(counted(&server, "a").await);
    }
    IdGenerator::new(&clients[0].0, "a").try_init(1, 100).await.unwrap();
    let tasks = (0..24).map(|task| {
        let ids = IdGenerator::new(&clients[task % 3].0, "a");
        tokio::spawn(async move { some(&ids, 500).await })
    });
    let had: Vec<Vec<i64>> = join_all(tasks).await.into_iter().map(Result::unwrap).collect();
    assert!(had.iter().all(|had| had.is_sorted()));
    let all: BTreeSet<i64> = had.iter().flatten().copied().collect();
    assert_eq!(all.len(), 12_000);
    let asked: u64 = clients.iter().map(|(_, _, asked)| asked.load(Ordering::Relaxed)).sum();
    // 120 blocks are used. Each client may have at most two unused blocks.
    assert!((100..=130).contains(&asked), "{asked} requests");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_waiters_take_small_blocks_by_one_request() {
    let server = server().await;
    let (client, _proxy, asked) = counted(&server, "a").await;
    let ids = IdGenerator::new(&client, "a");
    ids.try_init(1, 3).await.unwrap();
    ids.next().await.unwrap();
    asked.store(0, Ordering::Relaxed);
    let all = join_all((0..1000).map(|_| ids.next())).await;
    let all: BTreeSet<i64> = all.into_iter().map(Result::unwrap).collect();
    assert_eq!((all.len(), *all.first().unwrap(), *all.last().unwrap()), (1000, 2, 1001));
    let asked = asked.load(Ordering::Relaxed);
    assert!(asked <= 100, "{asked} requests for 333 blocks");
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_are_exact_and_end_before_they_wrap() {
    let server = server().await;
    let client = client(&server).await;
    for start in [FINE, -FINE] {
        let ids = IdGenerator::new(&client, format!("fine:{start}"));
        ids.try_init(start, 3).await.unwrap();
        let all = join_all((0..50).map(|_| ids.next())).await;
        assert!(all.into_iter().map(Result::unwrap).eq(start..start + 50));
    }
    let ids = IdGenerator::new(&client, "end");
    ids.try_init(i64::MAX - 5, 3).await.unwrap();
    let all = join_all((0..20).map(|_| ids.next())).await;
    let (given, refused): (Vec<_>, Vec<_>) = all.into_iter().partition(Result::is_ok);
    assert_eq!(given.into_iter().map(Result::unwrap).collect::<Vec<_>>(), [i64::MAX - 5, i64::MAX - 4, i64::MAX - 3]);
    assert!(refused.iter().all(|told| matches!(told, Err(IdError::Exhausted { .. }))), "{refused:?}");
    assert!(matches!(ids.next().await, Err(IdError::Exhausted { .. })));
    let large = IdGenerator::new(&client, "large");
    large.try_init(0, i64::MAX).await.unwrap();
    assert_eq!(some(&large, 2).await, [0, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_block_is_requested_when_half_of_one_is_used() {
    let server = server().await;
    let (client, proxy, _) = counted(&server, "a").await;
    let observer = server.observer().await.unwrap();
    let ids = IdGenerator::new(&client, "a");
    ids.try_init(1, 100).await.unwrap();
    some(&ids, 49).await;
    assert_eq!(observer.get::<i64>("a").await.unwrap(), Some(101));
    some(&ids, 1).await;
    wait_until(SOON, async || observer.get::<i64>("a").await.unwrap() == Some(201)).await;
    // Ids in memory need no server. The client has two blocks.
    client.wait_ready(SOON).await.unwrap();
    ids.next().await.unwrap();
    proxy.set_both(Fault::BlackHole);
    assert_eq!(some(&ids, 49).await, (52..=100).collect::<Vec<_>>());
    proxy.heal();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_is_not_a_number_is_reported_and_unchanged() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let ids = IdGenerator::new(&client, "a");
    for (key, value) in [
        ("a", "many"),
        ("a", "1.5"),
        ("a", "007"),
        ("a", "9223372036854775808"),
        ("a", "-9223372036854775809"),
        ("{a}:allocation", "9223372036854775808"),
        ("{a}:allocation", "99999999999999999999"),
        ("{a}:allocation", "0"),
        ("{a}:allocation", "-3"),
        ("{a}:allocation", "few"),
        ("{a}:allocation", ""),
    ] {
        observer.cmd(&["SET", key, value]).await.unwrap();
        let told = ids.next().await.unwrap_err();
        assert!(matches!(&told, IdError::NotANumber { key: at, got, .. } if at == key && got == value), "{told:?}");
        assert_eq!(observer.keys("*").await.unwrap(), [key]);
        assert_eq!(observer.get::<String>(key).await.unwrap().unwrap(), value);
        observer.cmd(&["DEL", key]).await.unwrap();
    }
    for key in ["a", "{a}:allocation"] {
        observer.cmd(&["LPUSH", key, "1"]).await.unwrap();
        assert!(matches!(ids.next().await, Err(IdError::Failed(Failure::Refused { .. }))));
        observer.cmd(&["DEL", key]).await.unwrap();
    }
    assert!(matches!(ids.try_init(1, 0).await, Err(IdError::Failed(Failure::InvalidArgument { .. }))));
    let invalid = IdGenerator::new(&client, "a{");
    assert!(matches!(invalid.next().await, Err(IdError::Failed(Failure::InvalidName(_)))));
    assert!(matches!(invalid.try_init(1, 1).await, Err(IdError::Failed(Failure::InvalidName(_)))));
    assert_eq!(ids.next().await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_call_has_written_nothing() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    // The range of numbers from 1 on has fewer ids than requested.
    observer.cmd(&["SET", "{a}:allocation", "9223372036854775807"]).await.unwrap();
    assert!(matches!(IdGenerator::new(&client, "a").next().await, Err(IdError::Exhausted { .. })));
    assert_eq!(observer.keys("*").await.unwrap(), ["{a}:allocation"]);
    for denied in ["incrby", "set", "get"] {
        server.deny(&[denied]).await.unwrap();
        assert!(matches!(
            IdGenerator::new(&client, denied).next().await,
            Err(IdError::Failed(Failure::Refused { .. }))
        ));
        server.allow(&[denied]).await.unwrap();
        assert!(observer.keys(&format!("*{denied}*")).await.unwrap().is_empty(), "{denied}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_permission_for_both_keys_none_is_written() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    server.set_user("half", &["on", ">pw", "~half", "~redgrid_once:*", "&*", "+@all"]).await.unwrap();
    let client = client_with(&server.url_for("half", "pw"), |config| config).await;
    let ids = IdGenerator::new(&client, "half");
    assert!(matches!(ids.try_init(7, 7).await, Err(IdError::Failed(Failure::Refused { .. }))));
    assert!(matches!(ids.next().await, Err(IdError::Failed(Failure::Refused { .. }))));
    assert!(observer.keys("*half*").await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_a_call_ends_and_later_ids_come_again() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let quick = |config: Config| config.response_timeout(Duration::from_millis(150));
    let client = client_with(&server.url_via(proxy.addr()), quick).await;
    let ids = IdGenerator::new(&client, "a");
    ids.try_init(1, 1).await.unwrap();
    proxy.set_both(Fault::BlackHole);
    // The block that was requested in advance may have arrived.
    let began = Instant::now();
    let told = join_all((0..5).map(|_| ids.next())).await;
    assert!(told.iter().any(|told| matches!(told, Err(IdError::Failed(Failure::Unavailable { .. })))), "{told:?}");
    assert!(began.elapsed() < client.patience() + SOON, "{:?}", began.elapsed());
    proxy.heal();
    wait_until(SOON, async || ids.next().await.is_ok()).await;
    assert!(some(&ids, 10).await.is_sorted());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_skips_a_block_and_try_init_acts_once() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_millis(600))).await;
    let ids = IdGenerator::new(&client, "a");
    // The server has cached the script after this, so the first lost reply is that of the test.
    IdGenerator::new(&client, "warm").try_init(1, 1).await.unwrap();
    IdGenerator::new(&client, "warm").next().await.unwrap();
    proxy.next(1, "redgrid_once:{a}", Action::SwallowReply);
    assert!(ids.try_init(10, 5).await.unwrap(), "set by its own first copy");
    proxy.next(1, "{a}:allocation", Action::SwallowReply);
    let had = some(&ids, 2).await;
    // At least one block is skipped. On a slow machine another reply may also be late.
    assert!(had[0] >= 15 && had[0] % 5 == 0 && had[1] == had[0] + 1, "{had:?}");
    assert!(proxy.counts().swallowed >= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_caller_repeats_no_id_and_keeps_the_order() {
    let server = server().await;
    let client = client(&server).await;
    let ids = IdGenerator::new(&client, "a");
    ids.try_init(1, 3).await.unwrap();
    let mut last = 0;
    for round in 0..200 {
        for _ in 0..round % 4 {
            let _ = futures_util::poll!(std::pin::pin!(ids.next()));
        }
        let (a, b) = tokio::join!(ids.next(), ids.next());
        let (a, b) = (a.unwrap(), b.unwrap());
        assert!(last < a && a < b, "{last} {a} {b}");
        last = b;
    }
}

/// Each caller's timeout is shorter than the server's latency. The block that one caller requested
/// serves the next caller.
#[tokio::test(flavor = "multi_thread")]
async fn a_caller_with_a_short_timeout_gets_ids_from_a_slow_server() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    let ids = IdGenerator::new(&client, "a");
    ids.try_init(1, 10).await.unwrap();
    proxy.set_both(Fault::Delay(Duration::from_millis(150)));
    let hasty = async || tokio::time::timeout(Duration::from_millis(50), ids.next()).await.is_ok_and(|id| id.is_ok());
    wait_until(SOON, hasty).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_server_learns_the_last_id() {
    let server = server().await;
    let client = client(&server).await;
    let ids = IdGenerator::new(&client, "a");
    ids.try_init(1, 10).await.unwrap();
    let mut last = *some(&ids, 25).await.last().unwrap();
    for _ in 0..3 {
        server.kill().await.unwrap();
        server.restart_empty().await.unwrap();
        let next = ids.next().await.unwrap();
        assert!(next > last, "{next} after {last}");
        last = next;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_server_learns_the_last_id_once_despite_lost_replies() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_millis(600))).await;
    let ids = IdGenerator::new(&client, "a");
    ids.try_init(1_000_000, 10).await.unwrap();
    // After this, no request for the next block is in flight.
    let last = *some(&ids, 12).await.last().unwrap();
    let epoch = client.epoch_of(b"a");
    server.kill().await.unwrap();
    server.restart_empty().await.unwrap();
    wait_until(SOON, async || client.epoch_of(b"a").is_some_and(|now| Some(now) != epoch)).await;
    // The server has cached the script again. The first copy that reports the last id is executed,
    // and its reply is lost.
    IdGenerator::new(&client, "warm").next().await.unwrap();
    let told = AtomicU64::new(0);
    proxy.on_request(move |request| {
        let tells = request.len() > 6 && request[3] == "a" && !request[6].is_empty();
        if tells && told.fetch_add(1, Ordering::Relaxed) == 0 { Action::SwallowReply } else { Action::Forward }
    });
    let mut next = 0;
    wait_until(SOON, async || ids.next().await.map(|id| next = id).is_ok()).await;
    assert!(next > last && next < 1_500_000, "{next} after {last}");
    assert_eq!(proxy.counts().swallowed, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn short_lived_handles_share_one_block_and_do_not_keep_the_client() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let next = async || IdGenerator::new(&client, "a").next().await.unwrap();
    IdGenerator::new(&client, "a").try_init(1, 100).await.unwrap();
    for expected in 1..=40 {
        assert_eq!(next().await, expected);
    }
    assert_eq!(observer.get::<i64>("a").await.unwrap(), Some(101));
    let mut last = 40;
    for _ in 0..2 {
        server.kill().await.unwrap();
        server.restart_empty().await.unwrap();
        let id = next().await;
        assert!(id > last, "{id} after {last}");
        last = id;
    }
    TimeOrderedId::new(&client, "order").next().await.unwrap();
    let weak = client.downgrade();
    drop(client);
    wait_until(SOON, async || weak.upgrade().is_none()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_generator_restarts() {
    let server = server().await;
    let client = client(&server).await;
    let ids = IdGenerator::new(&client, "a");
    assert!(ids.try_init(5, 10).await.unwrap());
    assert_eq!(some(&ids, 2).await, [5, 6]);
    assert!(ids.delete().await.unwrap() && !ids.delete().await.unwrap());
    assert_eq!(some(&ids, 2).await, [1, 2]);
    assert!(ids.delete().await.unwrap() && ids.try_init(3, 10).await.unwrap());
    assert_eq!(some(&ids, 2).await, [3, 4]);
}
