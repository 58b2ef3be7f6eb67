//! Messages published by one side are received by the other.

use std::time::Duration;

use redgrid_topic::codecs::{Kryo, Text};
use redgrid_topic::{PatternTopic, ReliableTopic, ShardedTopic, SubscriptionError, Topic};

use crate::fixture::{Fixture, scenarios};

scenarios![
    each_side_receives_the_others_messages,
    patterns_receive_messages_of_both_sides,
    sharded_topics_are_shared,
    reliable_messages_come_to_subscribers_of_both,
];

const SOON: Duration = Duration::from_secs(30);

async fn each_side_receives_the_others_messages(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let text: Topic<String, Text> = Topic::new(&client, &on.name);
    let mut messages = text.subscribe().await.unwrap();
    java.value_of("topic.listen", &on.name, &["string"]).await;
    assert_eq!(text.publish("héllo").await.unwrap(), 2);
    assert_eq!(java.value_of("topic.heard", &on.name, &["string"]).await, "héllo");
    assert_eq!(java.value_of("topic.publish", &on.name, &["string", "wörld"]).await, "2");
    for expected in ["héllo", "wörld"] {
        assert_eq!(tokio::time::timeout(SOON, messages.next()).await.unwrap().unwrap().unwrap().value, expected);
    }
    assert_eq!(java.value_of("topic.countSubscribers", &on.name, &["string"]).await, "2");
    assert_eq!(text.count_subscribers().await.unwrap(), 2);
    let other = format!("{}:numbers", on.name);
    let numbers = Topic::<i64, Kryo>::new(&client, &other);
    let mut messages = numbers.subscribe().await.unwrap();
    java.value_of("topic.publish", &other, &["kryo", "long:-7"]).await;
    assert_eq!(tokio::time::timeout(SOON, messages.next()).await.unwrap().unwrap().unwrap().value, -7);
}

async fn patterns_receive_messages_of_both_sides(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let (pattern, channel) = (format!("{}:*", on.name), format!("{}:a", on.name));
    let all: PatternTopic<String, Text> = PatternTopic::new(&client, &pattern);
    let mut messages = all.subscribe().await.unwrap();
    java.value_of("pattern.listen", &pattern, &["string"]).await;
    let topic: Topic<String, Text> = Topic::new(&client, &channel);
    topic.publish("ours").await.unwrap();
    assert_eq!(java.value_of("pattern.heard", &pattern, &["string"]).await, format!("{channel}=ours"));
    java.value_of("topic.publish", &channel, &["string", "theirs"]).await;
    for expected in ["ours", "theirs"] {
        let message = tokio::time::timeout(SOON, messages.next()).await.unwrap().unwrap().unwrap();
        assert_eq!((message.channel, message.value), (channel.clone(), expected.to_owned()));
    }
    java.value_of("topic.listen", &channel, &["string"]).await;
    assert_eq!(all.active_topics().await.unwrap(), [channel]);
}

async fn sharded_topics_are_shared(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let topic: ShardedTopic<String, Text> = ShardedTopic::new(&client, &on.name);
    let mut messages = topic.subscribe().await.unwrap();
    java.value_of("sharded.listen", &on.name, &["string"]).await;
    assert_eq!(topic.publish("ours").await.unwrap(), 2);
    assert_eq!(java.value_of("sharded.heard", &on.name, &["string"]).await, "ours");
    java.value_of("sharded.publish", &on.name, &["string", "theirs"]).await;
    for expected in ["ours", "theirs"] {
        assert_eq!(tokio::time::timeout(SOON, messages.next()).await.unwrap().unwrap().unwrap().value, expected);
    }
}

async fn reliable_messages_come_to_subscribers_of_both(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let topic: ReliableTopic<String, Text> = ReliableTopic::new(&client, &on.name);
    let mut ours = topic.subscribe().await.unwrap();
    java.value_of("reliable.listen", &on.name, &["string"]).await;
    assert_eq!(java.value_of("reliable.countSubscribers", &on.name, &["string"]).await, "2");
    assert_eq!(topic.publish("1").await.unwrap().subscribers, 2);
    assert_eq!(java.value_of("reliable.heard", &on.name, &["string"]).await, "1");
    // Java has received the message. It drops only messages that all groups have received, so it
    // keeps this one, which Rust has not acknowledged.
    assert_eq!(java.value_of("reliable.publish", &on.name, &["string", "2"]).await, "2");
    assert_eq!(java.value_of("reliable.heard", &on.name, &["string"]).await, "2");
    let subscriber = ours.subscriber().to_owned();
    drop(ours.next().await.unwrap().unwrap());
    drop(ours);
    let mut ours = topic.subscribe().as_subscriber(subscriber).await.unwrap();
    for expected in ["1", "2"] {
        let delivery = loop {
            match tokio::time::timeout(SOON, ours.next()).await.unwrap().unwrap() {
                Ok(delivery) => break delivery,
                Err(SubscriptionError::Unavailable(_)) => {}
                Err(error) => panic!("{error:?}"),
            }
        };
        assert_eq!(delivery.message().unwrap(), expected);
        delivery.ack().await.unwrap();
    }
    // Java's group has also passed both messages, since it received them.
    assert_eq!((topic.count_subscribers().await.unwrap(), topic.len().await.unwrap()), (2, 0));
    assert_eq!(java.value_of("reliable.size", &on.name, &["string"]).await, "0");
}
