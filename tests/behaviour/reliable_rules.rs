//! Edge cases of reliable queues: ids after a delete, a server out of memory, undecodable states,
//! lifetimes without consumers, and notifications.

use std::time::Duration;

use futures_util::future::join3;
use redgrid_core::config::ReadMode;
use redgrid_core::{Client, Config, Failure};
use redgrid_reliable_queue::{MessageId, MessageState, ObjectError, QueueError, QueueSettings, ReliableQueue};
use redgrid_testkit::{Action, Observer, Proxy, Replicated, wait_until};
use redgrid_tests::{SOON, client, client_with, server};

const HOUR: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(50);

type Numbers = ReliableQueue<u64>;

fn key(of: &str) -> String {
    format!("redgrid_reliable_queue_{of}:{{q}}")
}

/// Waits until slightly more than `time` has passed on the server's clock.
async fn passed(observer: &Observer, time: Duration) {
    let now = async || observer.server_time_micros().await.unwrap();
    let until = now().await + u64::try_from(time.as_micros()).unwrap() + 2_000;
    wait_until(SOON, async || now().await > until).await;
}

async fn set(queue: &Numbers, settings: QueueSettings) {
    queue.set_settings(&settings).await.unwrap();
}

async fn ids(
    peeked: impl Future<
        Output = Result<Vec<redgrid_reliable_queue::Message<u64, redgrid_reliable_queue::codecs::Json>>, ObjectError>,
    >,
) -> Vec<MessageId> {
    peeked.await.unwrap().iter().map(|one| one.id()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_does_not_repeat_after_a_delete_or_a_clock_set_back() {
    let server = server().await;
    let queue: Numbers = ReliableQueue::new(&client(&server).await, "q");
    let first = queue.push(&1).await.unwrap().id;
    assert!(queue.object().delete().await.unwrap());
    let told = queue.push_many(&[2, 3]).await;
    let [second, third] = [&told[0], &told[1]].map(|told| told.as_ref().unwrap().id);
    assert!(first < second && second < third, "{first}, {second}, {third}");
    // The last id looks as if the server's clock had been an hour ahead.
    let observer = server.observer().await.unwrap();
    let ahead = observer.server_time_micros().await.unwrap() + 3_600_000_000;
    observer.cmd(&["HSET", "redgrid_reliable_queue:{q}", "seq", &ahead.to_string()]).await.unwrap();
    assert_eq!(queue.push(&4).await.unwrap().id.to_string(), (ahead + 1).to_string());
    assert_eq!(
        queue.receive_many(9).await.unwrap().iter().map(|one| one.value().unwrap()).collect::<Vec<_>>(),
        [2, 3, 4]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_out_of_memory_allows_receiving_and_settling() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let queue: Numbers = ReliableQueue::new(&client, "q");
    queue.push_many(&[1, 2, 3, 4, 5]).await;
    let held = queue.receive_many(2).visibility(HOUR).await.unwrap();
    observer.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
    assert!(matches!(queue.push(&6).await, Err(QueueError::Object(ObjectError::Failed(Failure::Refused { .. })))));
    held[0].nack(Duration::ZERO).await.unwrap();
    held[1].extend(HOUR).await.unwrap();
    for value in [1, 3] {
        let delivery = queue.receive().visibility(HOUR).await.unwrap();
        assert_eq!(delivery.value().unwrap(), value);
        delivery.ack().await.unwrap();
    }
    queue.receive().visibility(HOUR).await.unwrap().reject("no").await.unwrap();
    // In a batch, the pushes are rejected for lack of memory, and the acknowledgement is executed.
    let receipts = [held[1].receipt().clone()];
    for round in 0..20_u64 {
        // The first request is sent alone; the others follow in a batch.
        let push = || queue.push(&round).into_future();
        let (first, pushed, acked) = join3(push(), push(), queue.ack_many(&receipts)).await;
        for pushed in [first, pushed] {
            assert!(
                matches!(pushed, Err(QueueError::Object(ObjectError::Failed(Failure::Refused { .. })))),
                "{pushed:?}"
            );
        }
        assert!(!matches!(acked[0], Err(QueueError::Object(_))), "{acked:?}");
    }
    observer.cmd(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.ready, counts.in_flight, counts.dead, counts.totals.pushed), (1, 0, 1, 5));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_can_not_be_read_concerns_its_message_alone() {
    let server = server().await;
    let queue: Numbers = ReliableQueue::new(&client(&server).await, "q");
    let observer = server.observer().await.unwrap();
    // Invalid messagepack, a number, too few fields, fields of other types, and an empty text.
    let states = ["\u{1}\u{2}", "5", "\u{1}", "\u{7}", "aaaaaaaa", ""];
    for state in states {
        let told = queue.push_many(&[1, 2, 3]).await;
        let [first, second, _] = [0, 1, 2].map(|at: usize| told[at].as_ref().unwrap().id);
        let given = queue.receive().visibility(Duration::from_millis(1)).await.unwrap();
        assert_eq!(given.id(), first);
        for id in [first, second] {
            observer.cmd(&["HSET", &key("states"), &id.to_string(), state]).await.unwrap();
        }
        passed(&observer, SHORT).await;
        assert!(queue.get(first).await.unwrap().is_none());
        assert_eq!(queue.peek(9).await.unwrap().len(), 1, "{state:?}");
        // Other requests in the same batch are executed.
        let push = || queue.push(&4).into_future();
        let (first, pushed, acked) = join3(push(), push(), given.ack()).await;
        assert!(
            first.is_ok() && pushed.is_ok() && matches!(acked, Err(QueueError::Stale { .. })),
            "{state:?}: {pushed:?}, {acked:?}"
        );
        let rest = queue.receive_many(9).await.unwrap();
        let values: Vec<_> = rest.iter().map(|one| one.value().unwrap()).collect();
        assert_eq!(values, [3, 4, 4], "{state:?}");
        queue.ack_many(rest.iter().map(|one| one.receipt())).await;
        assert_eq!(observer.query::<u64>(&["HLEN", &key("bodies")]).await.unwrap(), 0, "{state:?}");
    }
    let id = queue.push(&5).await.unwrap().id;
    observer.cmd(&["HSET", &key("states"), &id.to_string(), "5"]).await.unwrap();
    assert!(queue.remove(id).await.unwrap() && !queue.remove(id).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_messages_make_room_without_a_receive() {
    let server = server().await;
    let queue: Numbers = ReliableQueue::new(&client(&server).await, "q");
    let observer = server.observer().await.unwrap();
    set(&queue, QueueSettings { capacity: Some(1), dead_lifetime: Some(SHORT), ..QueueSettings::default() }).await;
    queue.push(&1).lifetime(SHORT).await.unwrap();
    passed(&observer, SHORT).await;
    queue.push(&2).await.unwrap();
    let delivery = queue.receive().visibility(HOUR).await.unwrap();
    assert_eq!(delivery.value().unwrap(), 2);
    delivery.reject("no").await.unwrap();
    passed(&observer, SHORT).await;
    assert_eq!(queue.dead().redrive().await.unwrap(), 0, "an expired message");
    queue.push(&3).lifetime(SHORT).await.unwrap();
    // An expired message stays until its receiver has finished.
    let delivery = queue.receive_many(1).visibility(HOUR).timeout(Duration::ZERO).await.unwrap().pop();
    passed(&observer, SHORT).await;
    let told = queue.push(&4).await;
    if let Some(delivery) = delivery {
        assert!(matches!(told, Err(QueueError::Full { .. })), "{told:?}");
        // A message that is returned after its lifetime expires at once.
        delivery.nack(Duration::ZERO).await.unwrap();
        queue.push(&4).await.unwrap();
    }
    assert_eq!(queue.counts().await.unwrap().ready, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_delivered_to_no_caller_is_no_attempt_after_its_visibility() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let settings = |config: Config| config.response_timeout(Duration::from_millis(500)).retries(0);
    let client = client_with(&server.url_via(proxy.addr()), settings).await;
    let queue: Numbers = ReliableQueue::new(&client, "q");
    let observer = server.observer().await.unwrap();
    set(&queue, QueueSettings { max_attempts: Some(1), ..QueueSettings::default() }).await;
    // This receive loads the script into the server.
    assert!(queue.receive_many(1).timeout(Duration::ZERO).await.unwrap().is_empty());
    queue.push(&1).await.unwrap();
    proxy.next(1, ":receive", Action::SwallowReply);
    let told = queue.receive().visibility(SHORT).await;
    assert!(matches!(told, Err(QueueError::Object(ObjectError::Failed(Failure::Unavailable { .. })))), "{told:?}");
    assert_eq!(proxy.counts().swallowed, 1);
    passed(&observer, SHORT).await;
    let mut given = None;
    wait_until(SOON, async || {
        given = queue.receive().visibility(HOUR).timeout(SOON).await.ok();
        given.is_some()
    })
    .await;
    assert_eq!(given.unwrap().attempt(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn remaining_is_never_too_long() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let settings = |config: Config| config.response_timeout(Duration::from_millis(500)).retries(0);
    let client = client_with(&server.url_via(proxy.addr()), settings).await;
    let queue: Numbers = ReliableQueue::new(&client, "q");
    queue.push_many(&[1, 2, 3]).await;
    let held = queue.receive_many(3).visibility(HOUR).await.unwrap();
    held[0].extend(HOUR * 2).await.unwrap();
    assert!(held[0].remaining() > HOUR);
    held[0].nack(HOUR).await.unwrap();
    held[1].reject("no").await.unwrap();
    assert_eq!((held[0].remaining(), held[1].remaining()), (Duration::ZERO, Duration::ZERO), "another receiver has it");
    proxy.next(4, "redgrid_reliable_queue_channel", Action::SwallowReply);
    let told = held[2].extend(SHORT).await;
    assert!(matches!(told, Err(QueueError::Object(ObjectError::Failed(Failure::OutcomeUnknown { .. })))), "{told:?}");
    assert!(held[2].remaining() <= SHORT);
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_messages_are_counted_at_the_primary() {
    let replicated = Replicated::start(1).await.unwrap();
    let replicas = replicated.replicas().iter().map(|replica| replica.addr().to_string());
    let config = Config::master_slave(replicated.primary().addr().to_string(), replicas)
        .unwrap()
        .read_mode(ReadMode::Replica)
        .max_replica_lag(SOON);
    let client = Client::connect(config).await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    let queue: Numbers = ReliableQueue::new(&client, "q");
    let observer = replicated.replicas()[0].observer().await.unwrap();
    observer.cmd(&["CONFIG", "SET", "replica-read-only", "no"]).await.unwrap();
    for _ in 0..2 {
        queue.push(&1).await.unwrap();
        queue.receive().await.unwrap().reject("no").await.unwrap();
        // The dead message is missing on the replica only.
        wait_until(SOON, async || observer.query::<u64>(&["DEL", &key("dead")]).await.unwrap() == 1).await;
        wait_until(SOON, async || queue.dead().count().await.unwrap() == 0).await;
        if queue.counts().await.unwrap().totals.pushed == 1 {
            assert_eq!(queue.dead().redrive().await.unwrap(), 1);
            queue.receive().await.unwrap().ack().await.unwrap();
        } else {
            assert_eq!(queue.dead().clear().await.unwrap(), 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lifetime_stays_however_often_a_message_is_moved_back() {
    let server = server().await;
    let queue: Numbers = ReliableQueue::new(&client(&server).await, "q");
    let observer = server.observer().await.unwrap();
    queue.push(&1).lifetime(HOUR).await.unwrap();
    for _ in 0..3 {
        passed(&observer, Duration::from_millis(20)).await;
        queue.receive().await.unwrap().reject("no").await.unwrap();
        let before = observer.server_time_micros().await.unwrap() / 1000;
        assert_eq!(queue.dead().redrive().await.unwrap(), 1);
        let after = observer.server_time_micros().await.unwrap() / 1000;
        let ends: Vec<String> = observer.query(&["ZRANGE", &key("ends"), "0", "-1", "WITHSCORES"]).await.unwrap();
        let ends = ends[1].parse::<u64>().unwrap() - 3_600_000;
        assert!((before..=after).contains(&ends), "{before}, {ends}, {after}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn peek_returns_the_messages_of_the_next_receive() {
    let server = server().await;
    let queue: Numbers = ReliableQueue::new(&client(&server).await, "q");
    let observer = server.observer().await.unwrap();
    set(&queue, QueueSettings { max_attempts: Some(1), ..QueueSettings::default() }).await;
    // Message 0 uses its only attempt.
    queue.push(&0).priority(9).await.unwrap();
    drop(queue.receive().visibility(SHORT).await.unwrap());
    let over = queue.push(&1).priority(9).lifetime(SHORT).await.unwrap().id;
    queue.push(&2).delay(SHORT).await.unwrap();
    queue.push(&3).priority(5).delay(SHORT * 2).await.unwrap();
    passed(&observer, SHORT * 2).await;
    for most in [1, 9] {
        let peeked = ids(queue.peek(most)).await;
        assert_eq!(peeked.len(), most.min(2), "{peeked:?}");
        assert_eq!(queue.get(peeked[0]).await.unwrap().unwrap().value().unwrap(), 3);
    }
    assert!(queue.get(over).await.unwrap().is_none());
    let given = queue.receive_many(9).visibility(HOUR).await.unwrap();
    assert_eq!(given.iter().map(|one| one.value().unwrap()).collect::<Vec<_>>(), [3, 2]);
    let dead = queue.dead().count().await.unwrap();
    assert_eq!(dead, 1);
    assert!(matches!(queue.get(given[0].id()).await.unwrap().unwrap().state(), MessageState::InFlight { .. }));
}
