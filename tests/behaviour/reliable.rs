//! Reliable queues, operation by operation.

use std::time::Duration;

use futures_util::TryStreamExt;
use redgrid_core::{Client, Failure};
use redgrid_reliable_queue::{
    Delivery, Lifetime, MessageState, ObjectError, QueueError, QueueSettings, Receipt, ReliableQueue,
};
use redgrid_testkit::{Observer, wait_until};
use redgrid_tests::{SOON, client, server};

pub(super) const HOUR: Duration = Duration::from_secs(3600);
pub(super) const SHORT: Duration = Duration::from_millis(50);

type Texts = ReliableQueue<String>;

pub(super) fn queue(client: &Client) -> Texts {
    ReliableQueue::new(client, "orders")
}

fn values<C: redgrid_reliable_queue::Decode<String>>(deliveries: &[Delivery<String, C>]) -> Vec<String> {
    deliveries.iter().map(|delivery| delivery.value().unwrap()).collect()
}

fn is_stale<T: std::fmt::Debug>(told: &Result<T, QueueError>) -> bool {
    matches!(told, Err(QueueError::Stale { .. }))
}

async fn keys_of(observer: &Observer) -> Vec<String> {
    observer.keys("redgrid_reliable_queue*").await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_delivered_by_priority_in_order_until_acknowledged() {
    let server = server().await;
    let queue = queue(&client(&server).await);
    assert!(queue.try_receive().await.unwrap().is_none() && !queue.object().exists().await.unwrap());
    let first = queue.push("a").await.unwrap();
    let told = queue.push_many(["b", "c"]).await;
    assert!(first.is_new && told.iter().all(|told| told.as_ref().unwrap().id > first.id));
    queue.push("urgent").priority(9).header("trace", "7").await.unwrap();
    queue.push("soon").priority(4).await.unwrap();
    let peeked = queue.peek(10).await.unwrap();
    assert_eq!(peeked.iter().map(|m| m.value().unwrap()).collect::<Vec<_>>(), ["urgent", "soon", "a", "b", "c"]);
    assert_eq!((peeked[0].attempts(), peeked[0].state()), (0, &MessageState::Ready));
    let urgent = queue.receive().visibility(HOUR).await.unwrap();
    assert_eq!((urgent.value().unwrap().as_str(), urgent.attempt(), urgent.priority()), ("urgent", 1, 9));
    assert_eq!(urgent.headers().unwrap(), [("trace".to_owned(), "7".to_owned())]);
    assert!(urgent.remaining() > HOUR / 2 && urgent.remaining() <= HOUR);
    let rest = queue.receive_many(10).visibility(HOUR).await.unwrap();
    assert_eq!(values(&rest), ["soon", "a", "b", "c"]);
    assert!(matches!(queue.receive().timeout(SHORT).await, Err(QueueError::TimedOut { .. })));
    assert!(matches!(queue.get(first.id).await.unwrap().unwrap().state(), MessageState::InFlight { .. }));
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.ready, counts.in_flight, counts.totals.pushed, counts.totals.received), (0, 5, 5, 5));
    urgent.ack().await.unwrap();
    urgent.ack().await.unwrap();
    assert!(is_stale(&queue.ack(urgent.receipt()).await) && is_stale(&urgent.nack(SHORT).await));
    let acked = queue.ack_many(rest.iter().map(Delivery::receipt)).await;
    assert!(acked.iter().all(Result::is_ok), "{acked:?}");
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.in_flight, counts.totals.acknowledged, counts.totals.redelivered), (0, 5, 0));
    assert!(queue.get(first.id).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsettled_message_returns_to_its_position_until_it_is_dead() {
    let server = server().await;
    let queue = queue(&client(&server).await);
    queue.set_settings(&QueueSettings { max_attempts: Some(2), ..QueueSettings::default() }).await.unwrap();
    queue.push_many(["a", "b"]).await;
    let lost = queue.receive().visibility(SHORT).await.unwrap();
    let receipt = lost.receipt().clone();
    drop(lost);
    let id = receipt.message_id();
    // Waits for the end of `a`'s visibility. The next receive then makes `a` ready again, in its
    // former position before `b`.
    wait_until(SOON, async || queue.counts().await.unwrap().ready == 2).await;
    let both = queue.receive_many(2).visibility(SHORT).await.unwrap();
    assert_eq!((values(&both), both[0].attempt(), both[1].attempt()), (vec!["a".to_owned(), "b".into()], 2, 1));
    assert!(is_stale(&queue.ack(&receipt).await), "delivered again since");
    both[1].ack().await.unwrap();
    drop(both);
    // The next receive moves `a` to the dead letters, and returns no message.
    wait_until(SOON, async || {
        assert!(queue.try_receive().await.unwrap().is_none());
        queue.counts().await.unwrap().dead == 1
    })
    .await;
    let dead = queue.get(id).await.unwrap().unwrap();
    assert!(matches!(dead.state(), MessageState::Dead { reason, .. } if reason == "attempts"), "{dead:?}");
    assert_eq!((dead.attempts(), queue.dead().redrive().await.unwrap()), (2, 1));
    let anew = queue.receive().await.unwrap();
    assert_eq!((anew.id(), anew.attempt()), (id, 1));
    anew.ack().await.unwrap();
    assert_eq!(queue.counts().await.unwrap().totals.died, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_acknowledgement_counts_until_another_delivery() {
    let server = server().await;
    let queue = queue(&client(&server).await);
    queue.push("a").await.unwrap();
    let delivery = queue.receive().visibility(Duration::from_millis(1)).await.unwrap();
    wait_until(SOON, async || queue.counts().await.unwrap().ready == 1).await;
    // Any receive makes a message with an ended visibility ready again, even if it returns another
    // message.
    queue.push("urgent").priority(9).await.unwrap();
    queue.receive().await.unwrap().ack().await.unwrap();
    assert!(is_stale(&delivery.extend(HOUR).await), "its visibility has ended");
    assert_eq!(delivery.remaining(), Duration::ZERO);
    delivery.ack().await.unwrap();
    assert!(queue.try_receive().await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_given_back_extended_and_rejected() {
    let server = server().await;
    let queue = queue(&client(&server).await);
    queue.push_many(["a", "b"]).await;
    let a = queue.receive().visibility(SHORT).await.unwrap();
    a.extend(HOUR).await.unwrap();
    assert!(a.remaining() > HOUR / 2);
    let b = queue.receive().visibility(HOUR).await.unwrap();
    a.nack(Duration::ZERO).await.unwrap();
    assert!(is_stale(&a.ack().await), "another receiver has the returned message");
    let again = queue.receive().visibility(HOUR).await.unwrap();
    assert_eq!((again.id(), again.attempt()), (a.id(), 2));
    again.nack(HOUR).await.unwrap();
    let delayed = queue.get(a.id()).await.unwrap().unwrap();
    assert!(matches!(delayed.state(), MessageState::Delayed { .. }) && queue.try_receive().await.unwrap().is_none());
    b.reject("it can not be").await.unwrap();
    assert!(is_stale(&b.ack().await));
    let dead: Vec<_> = queue.dead().stream().try_collect().await.unwrap();
    assert_eq!((dead.len(), dead[0].value().unwrap().as_str()), (1, "b"));
    assert!(matches!(dead[0].state(), MessageState::Dead { reason, .. } if reason == "it can not be"));
    assert!(queue.dead().redrive_one(b.id()).await.unwrap() && !queue.dead().redrive_one(b.id()).await.unwrap());
    // Settles a message by its receipt, which can be sent as text.
    let b = queue.receive().await.unwrap();
    let receipt: Receipt = b.receipt().to_string().parse().unwrap();
    let forged: Receipt = format!("{}-{}", b.id(), "4".repeat(32)).parse().unwrap();
    assert!(is_stale(&queue.ack(&forged).await), "in flight under another receipt");
    assert!(is_stale(&queue.extend(&forged, HOUR).await) && is_stale(&queue.reject(&forged, "no").await));
    queue.extend(&receipt, HOUR * 100).await.unwrap();
    let held = queue.get(b.id()).await.unwrap().unwrap();
    let left = |until: &std::time::SystemTime| until.duration_since(std::time::SystemTime::now()).unwrap();
    assert!(matches!(held.state(), MessageState::InFlight { until } if left(until) > HOUR * 90), "{held:?}");
    queue.reject(&receipt, "elsewhere").await.unwrap();
    assert!(queue.dead().redrive_one(b.id()).await.unwrap());
    let b = queue.receive().await.unwrap();
    queue.nack(b.receipt(), Duration::ZERO).await.unwrap();
    assert!(queue.remove(b.id()).await.unwrap() && !queue.remove(b.id()).await.unwrap());
    assert_eq!(queue.clear().await.unwrap(), 1);
    assert!(queue.get(a.id()).await.unwrap().is_none() && queue.settings().await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_dead_messages_are_streamed_moved_and_dropped() {
    let server = server().await;
    let queue: ReliableQueue<u32> = ReliableQueue::new(&client(&server).await, "many");
    let all: Vec<u32> = (0..250).collect();
    assert!(queue.push_many(&all).await.iter().all(Result::is_ok));
    let mut done = 0;
    while done < all.len() {
        let some = queue.receive_many(100).await.unwrap();
        done += some.len();
        futures_util::future::join_all(some.iter().map(|one| one.reject(""))).await;
    }
    let dead: Vec<u32> = queue.dead().stream().map_ok(|one| one.value().unwrap()).try_collect().await.unwrap();
    assert_eq!((dead, queue.dead().count().await.unwrap()), (all.clone(), 250));
    assert_eq!((queue.dead().redrive().await.unwrap(), queue.counts().await.unwrap().ready), (250, 250));
    for one in queue.receive_many(100).await.unwrap().iter().chain(&queue.receive_many(50).await.unwrap()) {
        one.reject("").await.unwrap();
    }
    assert_eq!((queue.dead().clear().await.unwrap(), queue.counts().await.unwrap().ready), (150, 100));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deduplication_id_counts_within_its_window_after_the_message_ended() {
    let server = server().await;
    let queue = queue(&client(&server).await);
    let first = queue.push("a").deduplicate("order-7").await.unwrap();
    let second = queue.push("other").deduplicate("order-7").await.unwrap();
    assert_eq!((second.id, second.is_new), (first.id, false));
    queue.receive().await.unwrap().ack().await.unwrap();
    assert!(!queue.push("a").deduplicate("order-7").await.unwrap().is_new);
    assert!(queue.push("b").deduplicate_within("order-8", Duration::from_millis(100)).await.unwrap().is_new);
    let is_new = async || queue.push("b").deduplicate_within("order-8", HOUR).await.unwrap().is_new;
    wait_until(SOON, is_new).await;
    assert!(!is_new().await);
    let observer = server.observer().await.unwrap();
    for key in ["redgrid_reliable_queue_once:{orders}", "redgrid_reliable_queue_until:{orders}"] {
        assert!(observer.time_to_live(key).await.unwrap().is_some(), "{key} ends");
    }
    queue.clear().await.unwrap();
    assert!(queue.push("a").deduplicate("order-7").await.unwrap().is_new);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_shared_and_their_limits_are_reported() {
    let server = server().await;
    let (here, there) = (queue(&client(&server).await), queue(&client(&server).await));
    assert_eq!(there.settings().await.unwrap(), QueueSettings::default());
    let settings = QueueSettings {
        visibility: Some(HOUR),
        max_attempts: Some(3),
        max_message_size: Some(20),
        deduplication_window: Some(SHORT),
        lifetime: Some(HOUR * 2),
        dead_lifetime: Some(HOUR * 3),
        capacity: Some(2),
        delay: Some(SHORT),
    };
    assert!(here.try_set_settings(&settings).await.unwrap());
    assert!(!there.try_set_settings(&QueueSettings::default()).await.unwrap());
    assert_eq!(there.settings().await.unwrap(), settings);
    let told = there.push("a message that is too long").await.unwrap_err();
    assert!(matches!(told, QueueError::TooLarge { limit: 20, got: 29, .. }), "{told:?}");
    let told = there.push_many(["a", "a message that is too long", "b", "c"]).await;
    assert!(told[0].is_ok() && told[2].is_ok(), "{told:?}");
    assert!(matches!(told[1], Err(QueueError::TooLarge { .. })));
    assert!(matches!(told[3], Err(QueueError::Full { limit: 2, .. })));
    let delivery = here.receive().await.unwrap();
    assert!(delivery.remaining() > SHORT, "by the queue's setting");
    assert_eq!(delivery.value().unwrap(), "a");
    delivery.ack().await.unwrap();
    // Dead messages also expire after some time.
    here.receive().await.unwrap().reject("no").await.unwrap();
    let observer = server.observer().await.unwrap();
    let ends: Vec<String> =
        observer.query(&["ZRANGE", "redgrid_reliable_queue_ends:{orders}", "0", "-1"]).await.unwrap();
    assert_eq!(ends.len(), 1);
    here.set_settings(&QueueSettings::default()).await.unwrap();
    assert_eq!(there.settings().await.unwrap(), QueueSettings::default());
    assert!(there.push("a message that is not too long").await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_message_is_dropped_unless_a_consumer_has_it() {
    let server = server().await;
    let queue = queue(&client(&server).await);
    let observer = server.observer().await.unwrap();
    let dropped = queue.push("dropped").lifetime(SHORT).await.unwrap();
    passed(&observer, SHORT).await;
    assert!(queue.try_receive().await.unwrap().is_none() && queue.get(dropped.id).await.unwrap().is_none());
    // On a slow machine, a message may expire before it is received.
    let received = async || {
        loop {
            queue.push("kept").lifetime(SHORT * 4).await.unwrap();
            if let Some(delivery) = queue.receive_many(1).visibility(HOUR).timeout(Duration::ZERO).await.unwrap().pop()
            {
                return delivery;
            }
        }
    };
    let (one, other) = (received().await, received().await);
    passed(&observer, SHORT * 4).await;
    assert!(queue.try_receive().await.unwrap().is_none());
    assert!(queue.get(one.id()).await.unwrap().is_some(), "a receiver may finish");
    one.ack().await.unwrap();
    // A message that is returned after its lifetime is not delivered again.
    other.nack(Duration::ZERO).await.unwrap();
    assert!(queue.try_receive().await.unwrap().is_none() && queue.get(other.id()).await.unwrap().is_none());
}

/// Waits until slightly more than `time` has passed on the server's clock.
async fn passed(observer: &Observer, time: Duration) {
    let now = async || observer.server_time_micros().await.unwrap();
    let until = now().await + u64::try_from(time.as_micros()).unwrap() + 2_000;
    wait_until(SOON, async || now().await > until).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_can_not_be_read_concerns_its_message_alone() {
    let server = server().await;
    let client = client(&server).await;
    let texts = queue(&client);
    texts.push_many(["7", "no number"]).await;
    let numbers: ReliableQueue<String, redgrid_reliable_queue::codecs::Text> =
        ReliableQueue::<String>::new(&client, "orders").with_codec(redgrid_reliable_queue::codecs::Text);
    assert_eq!(numbers.peek(1).await.unwrap()[0].value().unwrap(), "\"7\"");
    let wrong: ReliableQueue<u64> = ReliableQueue::new(&client, "orders");
    let both = wrong.receive_many(2).await.unwrap();
    for one in &both {
        let told = one.value().unwrap_err();
        assert!(matches!(&told, ObjectError::Decode { field: Some(_), .. }), "{told:?}");
        one.reject("no number").await.unwrap();
    }
    // A stored body that is not a valid frame.
    let observer = server.observer().await.unwrap();
    let id = texts.push("x").await.unwrap().id.to_string();
    let body = ["HSET", "redgrid_reliable_queue_bodies:{orders}", &id, "\u{9}"];
    observer.cmd(&body).await.unwrap();
    let told = texts.receive().await.unwrap().value().unwrap_err();
    assert!(matches!(&told, ObjectError::Decode { codec, .. } if codec.contains("frame")), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_calls_are_rejected_before_any_request() {
    let server = server().await;
    let client = client(&server).await;
    let queue = queue(&client);
    let long = Duration::from_secs(3651 * 24 * 3600);
    let invalid = |told: Result<(), QueueError>, what: &str| match told {
        Err(QueueError::Object(ObjectError::Failed(Failure::InvalidArgument { option, .. }))) => {
            assert_eq!(option, what)
        }
        other => panic!("{what}: {other:?}"),
    };
    invalid(queue.push("a").priority(10).await.map(drop), "priority");
    invalid(queue.push("a").delay(long).await.map(drop), "delay");
    invalid(queue.push("a").lifetime(Duration::ZERO).await.map(drop), "lifetime");
    invalid(queue.push("a").deduplicate("").await.map(drop), "deduplication id");
    invalid(queue.push("a").deduplicate_within("a", long).await.map(drop), "deduplication window");
    invalid(queue.push("a").header("a", "x".repeat(300_000)).await.map(drop), "headers");
    invalid(queue.receive_many(0).await.map(drop), "number of messages");
    invalid(queue.receive_many(101).await.map(drop), "number of messages");
    invalid(queue.receive().visibility(Duration::ZERO).await.map(drop), "visibility");
    assert!(matches!(queue.peek(0).await, Err(ObjectError::Failed(Failure::InvalidArgument { .. }))));
    let none = QueueSettings { capacity: Some(0), ..QueueSettings::default() };
    assert!(matches!(
        queue.set_settings(&none).await,
        Err(ObjectError::Failed(Failure::InvalidArgument { option: "capacity", .. }))
    ));
    let unusable: Texts = ReliableQueue::new(&client, "a{b");
    assert!(matches!(unusable.push("a").await, Err(QueueError::Object(ObjectError::Failed(Failure::InvalidName(_))))));
    assert!(matches!(unusable.receive().await, Err(QueueError::Object(ObjectError::Failed(Failure::InvalidName(_))))));
    assert!(keys_of(&server.observer().await.unwrap()).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn all_keys_of_a_queue_live_end_and_are_renamed_together() {
    let server = server().await;
    let queue = queue(&client(&server).await);
    let observer = server.observer().await.unwrap();
    assert!(queue.receive().timeout(SHORT).await.is_err());
    for key in observer.keys("*").await.unwrap() {
        assert!(observer.time_to_live(&key).await.unwrap().is_some(), "a wait alone leaves nothing: {key}");
    }
    queue.push("a").deduplicate("a").lifetime(HOUR).await.unwrap();
    assert!(queue.object().expire_in(HOUR).await.unwrap());
    // Keys that are created later, here for a delayed and a dead message, expire with the others.
    queue.push("b").delay(HOUR).await.unwrap();
    queue.receive().await.unwrap().reject("").await.unwrap();
    let keys = keys_of(&observer).await;
    assert!(keys.len() >= 7, "{keys:?}");
    for key in keys {
        assert!(observer.time_to_live(&key).await.unwrap().is_some(), "{key}");
    }
    assert!(matches!(queue.object().lifetime().await.unwrap(), Lifetime::Ends(_)));
    queue.object().rename("others").await.unwrap();
    let others: Texts = ReliableQueue::new(&client(&server).await, "others");
    assert_eq!((others.counts().await.unwrap().dead, queue.counts().await.unwrap().dead), (1, 0));
    assert!(others.object().delete().await.unwrap());
    assert!(keys_of(&observer).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_type_is_found_before_anything_is_written() {
    let server = server().await;
    let queue = queue(&client(&server).await);
    let observer = server.observer().await.unwrap();
    for key in ["ready", "delayed", "flight", "ends", "dead", "until", "states", "bodies", "once"] {
        let key = format!("redgrid_reliable_queue_{key}:{{orders}}");
        observer.cmd(&["SET", &key, "mine"]).await.unwrap();
        for told in [queue.push("a").await.map(drop), queue.receive().await.map(drop)] {
            assert!(
                matches!(told, Err(QueueError::Object(ObjectError::Failed(Failure::Refused { .. })))),
                "{key}: {told:?}"
            );
        }
        assert_eq!(keys_of(&observer).await, std::slice::from_ref(&key));
        observer.cmd(&["DEL", &key]).await.unwrap();
    }
}
