//! Changing listeners of both sides, and reliable topics with several of each.

use std::time::Duration;

use redgrid_testkit::wait_until;
use redgrid_topic::codecs::{Json, Long, Text};
use redgrid_topic::{Deliveries, PatternTopic, ReliableTopic, SubscriptionError, Topic};

use crate::fixture::{Fixture, scenarios};

scenarios![
    neither_side_counts_an_unsubscribed_client,
    a_message_that_one_cannot_decode_reaches_the_others,
    pattern_subscriptions_receive_the_others_messages,
    messages_of_both_come_to_every_subscriber_of_both_in_order,
    a_subscriber_of_java_that_leaves_keeps_nothing_here,
    a_subscriber_of_ours_that_leaves_keeps_nothing_there,
    a_subscriber_from_the_beginning_gets_javas_messages,
];

const SOON: Duration = Duration::from_secs(30);

async fn neither_side_counts_an_unsubscribed_client(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let topic: Topic<String, Text> = Topic::new(&client, &on.name);
    let ours = topic.subscribe().await.unwrap();
    java.value_of("topic.listen", &on.name, &["string"]).await;
    assert_eq!(topic.count_subscribers().await.unwrap(), 2);
    java.value_of("topic.unlisten", &on.name, &["string"]).await;
    wait_until(SOON, async || topic.count_subscribers().await.unwrap() == 1).await;
    assert_eq!(java.value_of("topic.publish", &on.name, &["string", "a"]).await, "1");
    drop(ours);
    wait_until(SOON, async || topic.count_subscribers().await.unwrap() == 0).await;
    assert_eq!(java.value_of("topic.publish", &on.name, &["string", "b"]).await, "0");
    assert_eq!(java.value_of("topic.countSubscribers", &on.name, &["string"]).await, "0");
}

async fn a_message_that_one_cannot_decode_reaches_the_others(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let words: Topic<String, Text> = Topic::new(&client, &on.name);
    let numbers: Topic<i64, Long> = Topic::new(&client, &on.name);
    let json: Topic<Vec<u8>, Json> = Topic::new(&client, &on.name);
    let (mut as_words, mut as_numbers) = (words.subscribe().await.unwrap(), numbers.subscribe().await.unwrap());
    java.value_of("topic.publish", &on.name, &["string", "no number"]).await;
    json.publish(&vec![1]).await.unwrap();
    java.value_of("topic.publish", &on.name, &["long", "long:7"]).await;
    for expected in ["no number", "[1]", "7"] {
        assert_eq!(tokio::time::timeout(SOON, as_words.next()).await.unwrap().unwrap().unwrap().value, expected);
    }
    for _ in 0..2 {
        let received = tokio::time::timeout(SOON, as_numbers.next()).await.unwrap().unwrap();
        assert!(matches!(received, Err(SubscriptionError::Undecodable(_))), "{received:?}");
    }
    assert_eq!(tokio::time::timeout(SOON, as_numbers.next()).await.unwrap().unwrap().unwrap().value, 7);
}

async fn pattern_subscriptions_receive_the_others_messages(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let pattern = format!("{}:[ab]:?", on.name);
    let all: PatternTopic<String, Text> = PatternTopic::new(&client, &pattern);
    let mut messages = all.subscribe().await.unwrap();
    java.value_of("pattern.listen", &pattern, &["string"]).await;
    let names = ["a:1", "b:2", "c:1", "a:12", "b:ü", "b:3"].map(|name| format!("{}:{name}", on.name));
    let expected = [&names[0], &names[1], &names[5]];
    for name in &names {
        Topic::<String, Text>::new(&client, name).publish("ours").await.unwrap();
    }
    for name in expected {
        assert_eq!(java.value_of("pattern.heard", &pattern, &["string"]).await, format!("{name}=ours"));
    }
    for name in &names {
        java.value_of("topic.publish", name, &["string", "theirs"]).await;
    }
    for value in ["ours", "theirs"] {
        for name in expected {
            let message = tokio::time::timeout(SOON, messages.next()).await.unwrap().unwrap().unwrap();
            assert_eq!((&message.channel, &*message.value), (name, value));
        }
    }
    java.value_of("pattern.unlisten", &pattern, &["string"]).await;
    wait_until(SOON, async || Topic::<String, Text>::new(&client, &names[0]).publish("x").await.unwrap() == 1).await;
}

/// Acknowledges the next message, and returns it.
async fn acked(deliveries: &mut Deliveries<String, Text>) -> String {
    loop {
        match tokio::time::timeout(SOON, deliveries.next()).await.unwrap().unwrap() {
            Ok(delivery) => {
                let message = delivery.message().unwrap().clone();
                delivery.ack().await.unwrap();
                return message;
            }
            Err(SubscriptionError::Unavailable(_)) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}

async fn messages_of_both_come_to_every_subscriber_of_both_in_order(on: Fixture) {
    const EACH: usize = 20;
    let (mut java, client) = (on.java(), on.client().await);
    let topic: ReliableTopic<String, Text> = ReliableTopic::new(&client, &on.name);
    let mut ours = [topic.subscribe().await.unwrap(), topic.subscribe().await.unwrap()];
    for listener in ["one", "two"] {
        java.value_of("reliable.listen", &on.name, &["string", listener]).await;
    }
    let mut published = Vec::new();
    for n in 0..EACH {
        published.extend([format!("r{n}"), format!("j{n}")]);
        assert_eq!(topic.publish(&format!("r{n}")).await.unwrap().subscribers, 4);
        assert_eq!(java.value_of("reliable.publish", &on.name, &["string", &format!("j{n}")]).await, "4");
    }
    for deliveries in &mut ours {
        for expected in &published {
            assert_eq!(acked(deliveries).await, *expected);
        }
    }
    let many = (2 * EACH).to_string();
    for listener in ["one", "two"] {
        let received = java.value_of("reliable.heardMany", &on.name, &["string", &many, listener]).await;
        assert_eq!(received, published.join(" "));
        assert_eq!(java.value_of("reliable.heardNow", &on.name, &["string", listener]).await, "0");
    }
    // A message that all subscribers have acknowledged is dropped.
    wait_until(SOON, async || topic.len().await.unwrap() == 0).await;
}

async fn a_subscriber_of_java_that_leaves_keeps_nothing_here(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let topic: ReliableTopic<String, Text> = ReliableTopic::new(&client, &on.name);
    let mut ours = topic.subscribe().await.unwrap();
    java.value_of("reliable.listen", &on.name, &["string"]).await;
    topic.publish("both").await.unwrap();
    assert_eq!(java.value_of("reliable.heard", &on.name, &["string"]).await, "both");
    java.value_of("reliable.unlisten", &on.name, &["string"]).await;
    wait_until(SOON, async || topic.count_subscribers().await.unwrap() == 1).await;
    assert_eq!(topic.publish("ours only").await.unwrap().subscribers, 1);
    for expected in ["both", "ours only"] {
        assert_eq!(acked(&mut ours).await, expected);
    }
    assert_eq!(topic.len().await.unwrap(), 0);
}

async fn a_subscriber_of_ours_that_leaves_keeps_nothing_there(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let topic: ReliableTopic<String, Text> = ReliableTopic::new(&client, &on.name);
    let ours = topic.subscribe().as_subscriber("ours").await.unwrap();
    java.value_of("reliable.listen", &on.name, &["string"]).await;
    topic.publish("a").await.unwrap();
    assert_eq!(java.value_of("reliable.heard", &on.name, &["string"]).await, "a");
    assert_eq!(
        java.value_of("reliable.size", &on.name, &["string"]).await,
        "1",
        "kept for the subscriber that has not acknowledged it"
    );
    ours.leave().await.unwrap();
    assert_eq!(java.value_of("reliable.countSubscribers", &on.name, &["string"]).await, "1");
    assert!(!topic.remove_subscriber("ours").await.unwrap());
    java.value_of("reliable.publish", &on.name, &["string", "b"]).await;
    assert_eq!(java.value_of("reliable.heard", &on.name, &["string"]).await, "b");
    wait_until(SOON, async || topic.len().await.unwrap() == 0).await;
}

async fn a_subscriber_from_the_beginning_gets_javas_messages(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let topic: ReliableTopic<String, Text> = ReliableTopic::new(&client, &on.name);
    for n in 0..3 {
        java.value_of("reliable.publish", &on.name, &["string", &n.to_string()]).await;
    }
    let mut from_now = topic.subscribe().await.unwrap();
    let mut from_then = topic.subscribe().from_the_beginning().await.unwrap();
    topic.publish("3").await.unwrap();
    for n in 0..4 {
        assert_eq!(acked(&mut from_then).await, n.to_string());
    }
    assert_eq!(acked(&mut from_now).await, "3");
    // A subscriber of Java begins with all messages that are kept.
    topic.publish("4").await.unwrap();
    java.value_of("reliable.listen", &on.name, &["string"]).await;
    assert_eq!(java.value_of("reliable.heard", &on.name, &["string"]).await, "4");
}
