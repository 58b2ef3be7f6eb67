//! Latches with similar names, read-only servers, foreign keys, and clocks set back.

use std::time::Duration;

use redgrid_core::{Code, Config, Failure};
use redgrid_countdown_latch::{CountDownLatch, LatchError, WaitError};
use redgrid_testkit::{Fault, Observer, Proxy, RedisServer, wait_until};
use redgrid_tests::latch::waiter;
use redgrid_tests::{SOON, client, client_with, server};
use tokio::task::JoinHandle;

const MS: Duration = Duration::from_millis(1);

/// A poll interval so long that a test fails if only a poll could wake its waiters.
const NO_POLL: Duration = Duration::from_secs(600);

/// The timeout of waits that are expected to time out. It is longer than a reply takes on a busy
/// machine, and shorter than the retries of temporary rejections.
const BOUND: Duration = Duration::from_secs(5);

async fn completes(task: JoinHandle<Result<(), WaitError>>) {
    tokio::time::timeout(SOON, task).await.expect("the waiter did not complete").unwrap().unwrap();
}

/// The first two names share a slot, and one of them begins with the other as a hash tag.
#[tokio::test(flavor = "multi_thread")]
async fn latches_with_similar_names_have_nothing_in_common() {
    let server = server().await;
    let (setting, waiting) =
        (client(&server).await, client_with(&server.url(), |config| config.poll_interval(200 * MS)).await);
    for (one, other) in [("a", "{a}:tag"), ("{a}:tag", "a"), ("{a}b", "b{a}"), ("a", "a:tag")] {
        let (set, latch) = (CountDownLatch::new(&setting, one), CountDownLatch::new(&waiting, one));
        let beside = CountDownLatch::new(&setting, other);
        assert!(set.try_set_count(1).await.unwrap());
        let task = waiter(&waiting, &latch).await;
        for _ in 0..2 {
            assert!(beside.try_set_count(1).await.unwrap());
            assert!(latch.wait().timeout(Duration::ZERO).await.is_err());
            // The task also polls meanwhile.
            let second = latch.wait().timeout(1500 * MS).await;
            assert!(second.is_err() && !task.is_finished(), "`{other}` completes a wait for `{one}`");
            assert_eq!(beside.count_down().await.unwrap(), 0);
        }
        assert!(!task.is_finished(), "`{other}` completes a wait for `{one}`");
        set.count_down().await.unwrap();
        completes(task).await;
        wait_until(SOON, async || waiting.stats().channels == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_server_reports_the_state_of_a_latch() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let latch = CountDownLatch::new(&client, "a");
    let refuses = async |on: &str| server.set_config("min-replicas-to-write", on).await.unwrap();
    refuses("1").await;
    tokio::time::timeout(SOON, latch.wait().into_future()).await.expect("the latch was never set").unwrap();
    refuses("0").await;
    latch.try_set_count(1).await.unwrap();
    refuses("1").await;
    // The poll would set the lifetime of the round's number.
    observer.cmd(&["PEXPIRE", "redgrid_latch:{a}", "40000000"]).await.unwrap_err();
    refuses("0").await;
    observer.cmd(&["PEXPIRE", "redgrid_latch:{a}", "40000000"]).await.unwrap();
    refuses("1").await;
    let closed = latch.wait().timeout(BOUND).await;
    assert!(matches!(closed, Err(WaitError::TimedOut { .. })), "{closed:?}");
    refuses("0").await;
    // The latch is opened by a client that does not use the number of the round.
    observer.cmd(&["DEL", "a"]).await.unwrap();
    refuses("1").await;
    tokio::time::timeout(SOON, latch.wait().into_future()).await.expect("the latch is open").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn repeated_waits_during_a_shutdown_are_all_notified() {
    let server = server().await;
    CountDownLatch::new(&client(&server).await, "a").try_set_count(1).await.unwrap();
    for _ in 0..5 {
        let client = client(&server).await;
        let latch = CountDownLatch::new(&client, "a");
        // There are so many waits that the first ones end before the last ones are notified.
        let tasks: Vec<_> = (0..2000)
            .map(|_| {
                let latch = latch.clone();
                tokio::spawn(async move {
                    for _ in 0..10 {
                        let told = latch.wait().await;
                        assert!(matches!(told, Err(WaitError::Failed(Failure::ShuttingDown { .. }))), "{told:?}");
                    }
                })
            })
            .collect();
        wait_until(SOON, async || client.stats().channels > 0).await;
        client.shutdown(SOON).await.unwrap();
        for task in tasks {
            tokio::time::timeout(SOON, task).await.unwrap().unwrap();
        }
    }
}

/// If contact was lost since, an earlier reply that the latch was closed is not reported.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_lost_contact_does_not_say_that_the_latch_was_closed() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    // The client polls each second, and retries for far longer than the wait.
    let settings = |config: Config| config.response_timeout(SOON).retries(2).poll_interval(200 * MS);
    let client = client_with(&server.url_via(proxy.addr()), settings).await;
    let latch = CountDownLatch::new(&client, "a");
    latch.try_set_count(1).await.unwrap();
    let wait = tokio::spawn(latch.wait().timeout(BOUND).into_future());
    wait_until(SOON, async || client.stats().channels > 0).await;
    proxy.set_both(Fault::BlackHole);
    let told = tokio::time::timeout(SOON, wait).await.unwrap().unwrap();
    assert!(matches!(told, Err(WaitError::Failed(Failure::Unavailable { .. }))), "{told:?}");
}

/// A poll with a reply counts as contact. On a busy machine, at least one of five waits gets a
/// reply.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_with_contact_says_that_the_latch_was_closed() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.poll_interval(100 * MS)).await;
    let latch = CountDownLatch::new(&client, "a");
    latch.try_set_count(1).await.unwrap();
    let mut told = Vec::new();
    for _ in 0..5 {
        // The wait is as long as several polls, and longer than the reply to the first one is
        // valid.
        told.push(latch.wait().timeout(2500 * MS).await);
        if matches!(told.last(), Some(Err(WaitError::TimedOut { .. }))) {
            return;
        }
    }
    panic!("{told:?}");
}

/// Returns a waiter that has lost its subscription. Connections are refused until
/// `accept_connections`.
async fn unsubscribed(
    server: &RedisServer,
    proxy: &Proxy,
    latch: &CountDownLatch,
    waiting: &redgrid_core::Client,
) -> Unsubscribed {
    let observer = server.observer().await.unwrap();
    let task = waiter(waiting, latch).await;
    wait_until(SOON, async || observer.pubsub_channels("*latch*").await.unwrap().len() == 2).await;
    waiting.command("PING").query::<String>().await.unwrap();
    proxy.refuse_connections().await.unwrap();
    observer.cmd(&["CLIENT", "KILL", "TYPE", "pubsub"]).await.unwrap();
    wait_until(SOON, async || observer.pubsub_channels("*latch*").await.unwrap().is_empty()).await;
    Unsubscribed { task, observer }
}

struct Unsubscribed {
    task: JoinHandle<Result<(), WaitError>>,
    observer: Observer,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_missed_its_rounds_end_is_not_kept_by_redissons_round() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let setting = client(&server).await;
    let waiting = client_with(&server.url_via(proxy.addr()), |config| config.poll_interval(NO_POLL)).await;
    let (set, latch) = (CountDownLatch::new(&setting, "a"), CountDownLatch::new(&waiting, "a"));
    for deleted in [false, true] {
        set.try_set_count(1).await.unwrap();
        let Unsubscribed { task, observer } = unsubscribed(&server, &proxy, &latch, &waiting).await;
        match deleted {
            true => assert!(set.delete().await.unwrap()),
            false => assert_eq!(set.count_down().await.unwrap(), 0),
        }
        observer.cmd(&["SET", "a", "1"]).await.unwrap();
        proxy.accept_connections().await.unwrap();
        completes(task).await;
        wait_until(SOON, async || waiting.stats().channels == 0).await;
        // A new waiter waits for Redisson's round, and the number of our ended round is not
        // published again.
        let next = waiter(&waiting, &latch).await;
        wait_until(SOON, async || observer.pubsub_channels("*latch*").await.unwrap().len() == 2).await;
        assert!(latch.wait().timeout(Duration::ZERO).await.is_err() && !next.is_finished());
        assert_eq!(set.count_down().await.unwrap(), 0);
        completes(next).await;
        wait_until(SOON, async || waiting.stats().channels == 0).await;
    }
}

/// A waiter completes although the server's clock was set back. The number of a round is the
/// server's time, and this server's clock was an hour ahead.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_missed_its_rounds_end_completes_despite_a_clock_set_back() {
    const HOUR: u64 = 3_600_000_000;
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let setting = client(&server).await;
    let waiting = client_with(&server.url_via(proxy.addr()), |config| config.poll_interval(NO_POLL)).await;
    let (set, latch) = (CountDownLatch::new(&setting, "a"), CountDownLatch::new(&waiting, "a"));
    set.try_set_count(1).await.unwrap();
    let observer = server.observer().await.unwrap();
    let number = async || observer.get::<u64>("redgrid_latch:{a}").await.unwrap().unwrap();
    let ahead = number().await + HOUR;
    observer.cmd(&["SET", "redgrid_latch:{a}", &ahead.to_string(), "KEEPTTL"]).await.unwrap();
    let Unsubscribed { task, .. } = unsubscribed(&server, &proxy, &latch, &waiting).await;
    set.count_down().await.unwrap();
    set.try_set_count(1).await.unwrap();
    assert_eq!(number().await, ahead + 1);
    proxy.accept_connections().await.unwrap();
    completes(task).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_count_down_that_is_refused_has_not_counted() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    // The key of the round's number has another type.
    let all = client(&server).await;
    let latch = CountDownLatch::new(&all, "a");
    observer.cmd(&["RPUSH", "redgrid_latch:{a}", "x"]).await.unwrap();
    for left in ["2", "1"] {
        observer.cmd(&["SET", "a", left]).await.unwrap();
        let told = latch.count_down().await;
        let Err(LatchError::Failed(Failure::Refused { source, .. })) = &told else { panic!("{told:?}") };
        assert_eq!(source.code(), Some(Code::WrongType));
        assert_eq!(observer.get::<String>("a").await.unwrap().unwrap(), left);
    }
    // Values of the correct type that are not numbers do not affect counting.
    for round in ["abc", "", "99999999999999999999"] {
        observer.cmd(&["SET", "a", "1"]).await.unwrap();
        observer.cmd(&["SET", "redgrid_latch:{a}", round]).await.unwrap();
        assert_eq!(latch.count_down().await.unwrap(), 0, "{round:?}");
    }
    observer.cmd(&["DEL", "a"]).await.unwrap();
    latch.wait().await.unwrap();
    // The user that sends the last count-down may not delete keys.
    server.set_user("careful", &["on", ">secret", "~*", "&*", "+@all", "-del"]).await.unwrap();
    let careful = client_with(&server.url_for("careful", "secret"), |config| config).await;
    let latch = CountDownLatch::new(&careful, "b");
    assert!(latch.try_set_count(i64::MAX as u64).await.unwrap());
    assert_eq!(latch.count_down().await.unwrap(), i64::MAX as u64 - 1);
    let told = latch.count_down_by(i64::MAX as u64).await;
    let Err(LatchError::Failed(Failure::Refused { source, .. })) = &told else { panic!("{told:?}") };
    assert_eq!(source.code(), Some(Code::NoPermission));
    assert_eq!(latch.count().await.unwrap(), i64::MAX as u64 - 1);
}
