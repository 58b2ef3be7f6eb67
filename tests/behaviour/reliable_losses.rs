//! Reliable queues with lost replies, cancelled callers, killed workers and a replaced server:
//! nothing is lost or needlessly repeated.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::join_all;
use redgrid_core::{Client, Config, Failure};
use redgrid_reliable_queue::{MessageId, ObjectError, QueueError, QueueSettings, ReliableQueue};
use redgrid_testkit::{Action, Proxy, Sentinels, wait_until};
use redgrid_tests::process::Other;
use redgrid_tests::{SOON, client, client_with, server};

const HOUR: Duration = Duration::from_secs(3600);

/// Text that occurs in every request that changes the queue.
const CHANGE: &str = "redgrid_reliable_queue_channel";

type Numbers = ReliableQueue<u64>;

/// Returns a client behind a proxy, with a short response timeout and this number of retries.
async fn hasty(server: &redgrid_testkit::RedisServer, retries: u32) -> (Proxy, Client) {
    let proxy = Proxy::to(server).await.unwrap();
    let settings = |config: Config| config.response_timeout(Duration::from_millis(500)).retries(retries);
    let client = client_with(&server.url_via(proxy.addr()), settings).await;
    (proxy, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_after_lost_replies_act_once() {
    let server = server().await;
    let (proxy, client) = hasty(&server, 10).await;
    let queue: Numbers = ReliableQueue::new(&client, "q");
    // These calls load the scripts into the server.
    queue.push(&0).await.unwrap();
    queue.receive().visibility(HOUR).await.unwrap().ack().await.unwrap();
    proxy.next(2, CHANGE, Action::SwallowReply);
    assert!(queue.push(&1).await.unwrap().is_new);
    assert_eq!((proxy.counts().swallowed, queue.counts().await.unwrap().totals.pushed), (2, 2));
    proxy.next(2, CHANGE, Action::SwallowReply);
    let delivery = queue.receive().visibility(HOUR).await.unwrap();
    assert_eq!((proxy.counts().swallowed, delivery.value().unwrap(), delivery.attempt()), (4, 1, 1));
    assert_eq!(queue.counts().await.unwrap().totals.received, 2);
    proxy.next(2, CHANGE, Action::SwallowReply);
    delivery.ack().await.unwrap();
    let counts = queue.counts().await.unwrap();
    assert_eq!((proxy.counts().swallowed, counts.totals.acknowledged, counts.in_flight), (6, 2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_delivered_to_no_caller_are_no_attempt() {
    let server = server().await;
    let (proxy, client) = hasty(&server, 0).await;
    let queue: Numbers = ReliableQueue::new(&client, "q");
    queue.set_settings(&QueueSettings { max_attempts: Some(1), ..QueueSettings::default() }).await.unwrap();
    queue.push(&1).await.unwrap();
    assert!(queue.receive_many(1).timeout(Duration::ZERO).await.unwrap().pop().unwrap().nack(HOUR).await.is_ok());
    queue.dead().redrive().await.unwrap();
    for _ in 0..3 {
        proxy.next(1, ":receive", Action::SwallowReply);
        let told = queue.receive().visibility(HOUR).await;
        assert!(matches!(told, Err(QueueError::Object(ObjectError::Failed(Failure::Unavailable { .. })))), "{told:?}");
    }
    // Calls fail while the client reconnects.
    let delivery = loop {
        match queue.receive().visibility(HOUR).timeout(SOON).await {
            Ok(delivery) => break delivery,
            Err(told) => assert!(
                matches!(told, QueueError::Object(ObjectError::Failed(Failure::Unavailable { .. }))),
                "{told:?}"
            ),
        }
    };
    assert_eq!((delivery.value().unwrap(), delivery.attempt()), (1, 1));
    wait_until(SOON, async || delivery.ack().await.is_ok()).await;
    let gone = async || queue.counts().await.is_ok_and(|counts| counts.dead + counts.in_flight == 0);
    wait_until(SOON, gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_comes_late_takes_nothing() {
    let server = server().await;
    let (proxy, client) = hasty(&server, 10).await;
    let queue: Numbers = ReliableQueue::new(&client, "q");
    queue.push_many(&[1, 2, 3]).await;
    let first = queue.receive().visibility(HOUR).await.unwrap();
    proxy.next(1, ":receive", Action::Hold);
    let second = queue.receive().visibility(HOUR).await.unwrap();
    let third = queue.receive().visibility(HOUR).await.unwrap();
    let values = [&first, &second, &third].map(|one| one.value().unwrap());
    assert_eq!(values, [1, 2, 3]);
    queue.push(&4).await.unwrap();
    assert_eq!(proxy.release_held().await, 1);
    // The server executes the late copy before `release_held` returns, and so before these
    // requests.
    for _ in 0..50 {
        assert_eq!((queue.counts().await.unwrap().ready, queue.counts().await.unwrap().in_flight), (1, 3));
    }
    for one in [first, second, third] {
        one.ack().await.unwrap();
    }
    assert_eq!(queue.receive().visibility(HOUR).timeout(SOON).await.unwrap().value().unwrap(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledgement_that_ended_unknown_may_be_repeated() {
    let server = server().await;
    let (proxy, client) = hasty(&server, 0).await;
    let queue: Numbers = ReliableQueue::new(&client, "q");
    queue.push(&1).await.unwrap();
    let delivery = queue.receive().visibility(HOUR).await.unwrap();
    // Four lost replies outlast the timeout of the call. The request continues after the call.
    proxy.next(4, CHANGE, Action::SwallowReply);
    let told = delivery.ack().await;
    assert!(matches!(told, Err(QueueError::Object(ObjectError::Failed(Failure::OutcomeUnknown { .. })))), "{told:?}");
    wait_until(SOON, async || delivery.ack().await.is_ok()).await;
    assert_eq!(queue.counts().await.unwrap().totals.acknowledged, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_caller_takes_no_message() {
    let server = server().await;
    let client = client(&server).await;
    let queue: Numbers = ReliableQueue::new(&client, "q");
    let all: HashSet<u64> = (0..400).collect();
    let pushing = {
        let queue = queue.clone();
        tokio::spawn(async move {
            for n in 0..400 {
                queue.push(&n).await.unwrap();
            }
        })
    };
    let mut random = fastrand::Rng::with_seed(7);
    let (mut seen, mut left, end) = (HashSet::new(), 0, Instant::now() + SOON * 2);
    while seen.len() < all.len() {
        assert!(Instant::now() < end, "{} of {} are missing", all.len() - seen.len(), all.len());
        let mut receive = Box::pin(queue.receive().visibility(HOUR).into_future());
        // Some callers leave after their first poll, the others after a random time.
        let received = match random.u8(0..8) {
            0 => receive.as_mut().now_or_never(),
            _ => tokio::time::timeout(Duration::from_micros(random.u64(0..3_000)), receive).await.ok(),
        };
        let Some(delivery) = received else {
            left += 1;
            continue;
        };
        let delivery = delivery.unwrap();
        assert_eq!(delivery.attempt(), 1, "an unseen delivery is no attempt");
        assert!(seen.insert(delivery.value().unwrap()));
        delivery.ack().await.unwrap();
    }
    pushing.await.unwrap();
    assert!(left > 0);
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.ready, counts.in_flight, counts.totals.acknowledged), (0, 0, 400));
    wait_until(SOON, async || client.stats().channels == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_delivery_is_returned_at_once_on_request() {
    let server = server().await;
    let queue: Numbers = ReliableQueue::new(&client(&server).await, "q");
    queue.push(&1).await.unwrap();
    drop(queue.receive().visibility(HOUR).back_on_drop().await.unwrap());
    let delivery = tokio::time::timeout(SOON, queue.receive().visibility(HOUR).back_on_drop().into_future());
    let delivery = delivery.await.expect("another delivery").unwrap();
    assert_eq!(delivery.attempt(), 2);
    delivery.ack().await.unwrap();
    drop(delivery);
    assert_eq!(queue.counts().await.unwrap().totals.returned, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_is_notified_of_a_shutdown() {
    let server = server().await;
    let client = client(&server).await;
    let queue: Numbers = ReliableQueue::new(&client, "q");
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.receive().await }
    });
    wait_until(SOON, async || client.stats().channels == 1).await;
    client.shutdown(SOON).await.unwrap();
    assert!(matches!(waiting.await.unwrap(), Err(QueueError::ShuttingDown { .. })));
    assert!(queue.receive().await.is_err() && queue.push(&1).await.is_err());
}

/// The deliveries of a message, and its successful acknowledgements.
#[derive(Default)]
struct Deliveries {
    value: u64,
    attempts: Vec<u64>,
    acknowledged: u64,
}

/// The number of messages: `REDGRID_RELIABLE_MESSAGES`, or 2,000.
fn how_many() -> u64 {
    std::env::var("REDGRID_RELIABLE_MESSAGES").ok().and_then(|n| n.parse().ok()).unwrap_or(2_000)
}

/// No message is lost when workers are killed by SIGKILL at random, and each message is
/// acknowledged once. Its attempt numbers rise. Only killed workers and ended visibilities cause
/// redeliveries.
#[tokio::test(flavor = "multi_thread")]
async fn no_message_is_lost_however_many_workers_are_killed() {
    const WORKERS: usize = 4;
    let (server, messages) = (server().await, how_many());
    let queue: Numbers = ReliableQueue::new(&client(&server).await, "work");
    let (url, began) = (server.url(), Instant::now());
    let worker = async || Other::start(env!("CARGO_BIN_EXE_role"), &["worker", &url, "work", "1500", "5"]).await;
    let pushing = tokio::spawn({
        let queue = queue.clone();
        async move {
            for from in (0..messages).step_by(100) {
                let some: Vec<u64> = (from..messages.min(from + 100)).collect();
                assert!(queue.push_many(&some).await.iter().all(Result::is_ok));
            }
        }
    });
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        workers.push(worker().await);
    }
    let (mut heard, mut kills, mut stale): (HashMap<MessageId, Deliveries>, u64, u64) = (HashMap::new(), 0, 0);
    let mut random = fastrand::Rng::with_seed(11);
    let lines = (messages / 5).min(1_000) + 20;
    let mut lines_to_death = random.u64(0..lines);
    let mut over = false;
    while !over {
        // The first worker that prints a line.
        let said = {
            let speaking = workers.iter_mut().map(|worker| Box::pin(worker.next_line()));
            let next = futures_util::future::select_all(speaking);
            tokio::time::timeout(Duration::from_millis(500), next).await.ok().map(|(said, at, _)| (said, at))
        };
        let Some((said, at)) = said else {
            let counts = queue.counts().await.unwrap();
            over = counts.totals.pushed == messages && counts.ready + counts.delayed + counts.in_flight == 0;
            continue;
        };
        record(&mut heard, &mut stale, &said);
        if lines_to_death == 0 && kills < 1_000 {
            let dead = std::mem::replace(&mut workers[at], worker().await);
            for said in dead.kill_and_read().await {
                record(&mut heard, &mut stale, &said);
            }
            (kills, lines_to_death) = (kills + 1, random.u64(0..lines));
        }
        lines_to_death = lines_to_death.saturating_sub(1);
    }
    pushing.await.unwrap();
    let counts = queue.counts().await.unwrap();
    let lost = (0..messages).collect::<HashSet<_>>().difference(&heard.values().map(|one| one.value).collect()).count();
    let again: u64 = heard.values().map(|one| one.attempts.len().saturating_sub(1) as u64).sum();
    println!(
        "{messages} messages in {:?}: {kills} kills, {again} heard more than once, {} given again, {stale} stale, {lost} lost",
        began.elapsed(),
        counts.totals.redelivered
    );
    assert_eq!((lost, counts.dead, counts.totals.acknowledged), (0, 0, messages));
    assert!(kills > 3, "{kills}");
    for (id, one) in &heard {
        let rise = one.attempts.windows(2).all(|two| two[0] < two[1]);
        assert!(rise && one.acknowledged <= 1, "{id}: {:?}, {} acknowledgements", one.attempts, one.acknowledged);
    }
    // A killed worker had at most ten messages. Any other redelivery follows an ended visibility,
    // and makes an acknowledgement stale.
    assert!(
        counts.totals.redelivered <= kills * 10 + stale,
        "{} of {kills} kills, {stale} stale",
        counts.totals.redelivered
    );
}

fn record(heard: &mut HashMap<MessageId, Deliveries>, stale: &mut u64, said: &str) {
    let words: Vec<&str> = said.split(' ').collect();
    match words[..] {
        ["got", id, value, attempt] => {
            let one = heard.entry(id.parse().unwrap()).or_default();
            one.value = value.parse().unwrap();
            one.attempts.push(attempt.parse().unwrap());
            // Lines of different workers arrive in any order.
            one.attempts.sort_unstable();
        }
        ["ack", id] => heard.entry(id.parse().unwrap()).or_default().acknowledged += 1,
        ["stale", _] => *stale += 1,
        _ => panic!("{said}"),
    }
}

/// A waiter continues after a failover under load. Replication is asynchronous: writes that the old
/// primary acknowledged but did not replicate may be lost. This test waits for the replica, so no
/// message may be missing.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_continues_after_a_failover() {
    let sentinels = Sentinels::builder().start().await.unwrap();
    let addresses = sentinels.addrs().into_iter().map(|addr| addr.to_string());
    let config = Config::sentinel(sentinels.master_name(), addresses).unwrap();
    let client = Client::connect(config).await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    let queue: Numbers = ReliableQueue::new(&client, "q");
    let all: Vec<u64> = (0..50).collect();
    assert!(queue.push_many(&all).await.iter().all(Result::is_ok));
    let held = queue.receive_many(5).visibility(HOUR).await.unwrap();
    let primary = sentinels.current_primary().await.unwrap();
    let observer = primary.observer().await.unwrap();
    // This write follows all messages, on the connection of `WAIT`. A replica that has it has all
    // messages.
    observer.cmd(&["SET", "behind", "1"]).await.unwrap();
    let replicas: u64 = observer.query(&["WAIT", "1", "10000"]).await.unwrap();
    assert!(replicas >= 1);
    primary.kill().await.unwrap();
    let mut seen = HashSet::new();
    let end = Instant::now() + SOON * 3;
    while seen.len() < 45 {
        assert!(Instant::now() < end, "only {}", seen.len());
        // While there is no primary, calls fail.
        let Ok(some) = queue.receive_many(10).visibility(HOUR).timeout(SOON).await else { continue };
        for outcome in join_all(some.iter().map(|one| one.ack())).await {
            outcome.unwrap();
        }
        seen.extend(some.iter().map(|one| one.value().unwrap()));
    }
    assert_eq!(seen, (5..50).collect());
    for one in &held {
        one.ack().await.unwrap();
    }
    assert_eq!(queue.counts().await.unwrap().in_flight, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_with_an_unsent_acknowledgement_is_returned() {
    let server = server().await;
    let queue: Numbers = ReliableQueue::new(&client(&server).await, "q");
    queue.push_many(&[1, 2]).await;
    let both = queue.receive_many(2).visibility(HOUR).back_on_drop().await.unwrap();
    server.pause().await.unwrap();
    let changing = queue.push(&3).into_future();
    // The acknowledgement waits behind the push, which has no reply yet.
    let dropped = async {
        let told = tokio::time::timeout(Duration::from_millis(100), both[0].ack()).await;
        assert!(told.is_err());
        drop(both);
        server.resume().await.unwrap();
    };
    futures_util::future::join(async { changing.await.unwrap() }, dropped).await;
    let mut values: Vec<u64> = Vec::new();
    while values.len() < 3 {
        let some = queue.receive_many(3).visibility(HOUR).timeout(SOON).await.unwrap();
        assert!(!some.is_empty(), "{values:?}");
        values.extend(some.iter().map(|one| one.value().unwrap()));
    }
    values.sort_unstable();
    assert_eq!(values, [1, 2, 3]);
}
