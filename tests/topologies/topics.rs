//! Topics on every topology, also when nodes die and slots move; possible losses are reported.

use std::time::Duration;

use redgrid_core::{Client, Config};
use redgrid_testkit::{Cluster, RedisServer, Sentinels};
use redgrid_tests::SOON;
use redgrid_topic::codecs::Text;
use redgrid_topic::{
    Deliveries, Gap, PatternTopic, ReliableTopic, ShardedTopic, Subscription, SubscriptionError, Topic,
};

use crate::contract::clauses;
use crate::fixture::{Fixture, by_seeds, by_sentinels, connected, is_skipped_before_7};

clauses![
    "topics";
    a_published_message_reaches_the_other_clients,
    sharded_topics_are_received_at_their_slot,
    a_reliable_message_is_redelivered_until_it_is_acknowledged,
];

type Listener = Subscription<String, Text>;

async fn next(inbox: &mut Listener) -> Result<String, Gap> {
    let next = tokio::time::timeout(2 * SOON, inbox.next()).await.expect("something comes").expect("the client lives");
    match next {
        Ok(message) => Ok(message.value),
        Err(SubscriptionError::Gap(gap)) => Err(gap),
        Err(error) => panic!("{error:?}"),
    }
}

/// The permissions of the page are for names with this prefix.
fn name(on: &Fixture) -> String {
    format!("topics:{}", on.name)
}

async fn a_published_message_reaches_the_other_clients(on: Fixture) {
    let (one, two, name) = (on.client().await, on.client().await, name(&on));
    let (here, there): (Topic<String, Text>, Topic<String, Text>) = (Topic::new(&one, &name), Topic::new(&two, &name));
    let mut inbox = here.subscribe().await.unwrap();
    let pattern: PatternTopic<String, Text> = PatternTopic::new(&two, "topics:*");
    let mut all = pattern.subscribe().await.unwrap();
    assert_eq!(there.count_subscribers().await.unwrap(), 1);
    assert!(pattern.active_topics().await.unwrap().contains(&name));
    for text in ["1", "2"] {
        there.publish(text).await.unwrap();
        assert_eq!(next(&mut inbox).await.unwrap(), text);
        // Other clauses publish, too.
        loop {
            let message = tokio::time::timeout(SOON, all.next()).await.unwrap().unwrap().unwrap();
            if message.channel == name {
                break assert_eq!(message.value, text);
            }
        }
    }
}

async fn sharded_topics_are_received_at_their_slot(on: Fixture) {
    if is_skipped_before_7("sharded_topics", "there are none") {
        return;
    }
    let (one, two, name) = (on.client().await, on.client().await, name(&on));
    let topic: ShardedTopic<String, Text> = ShardedTopic::new(&one, &name);
    let mut inbox = topic.subscribe().await.unwrap();
    assert_eq!(topic.count_subscribers().await.unwrap(), 1);
    assert_eq!(ShardedTopic::<String, Text>::new(&two, &name).publish("1").await.unwrap(), 1);
    assert_eq!(next(&mut inbox).await.unwrap(), "1");
}

async fn a_reliable_message_is_redelivered_until_it_is_acknowledged(on: Fixture) {
    let (one, two, name) = (on.client().await, on.client().await, on.name.clone());
    let topic: ReliableTopic<String, Text> = ReliableTopic::new(&one, &name);
    let mut first = topic.subscribe().as_subscriber("first").poll_interval(SOON).await.unwrap();
    let mut second = topic.subscribe().await.unwrap();
    let publisher: ReliableTopic<String, Text> = ReliableTopic::new(&two, &name);
    assert_eq!(publisher.publish("1").await.unwrap().subscribers, 2);
    assert_eq!((publisher.count_subscribers().await.unwrap(), publisher.len().await.unwrap()), (2, 1));
    drop(reliably(&mut first).await);
    drop(first);
    let mut resumed = publisher.subscribe().as_subscriber("first").await.unwrap();
    for deliveries in [&mut resumed, &mut second] {
        assert_eq!(acked(deliveries).await, "1");
    }
    assert!(publisher.is_empty().await.unwrap());
    resumed.leave().await.unwrap();
    assert!(publisher.remove_subscriber(second.subscriber()).await.unwrap());
    assert!(topic.object().delete().await.unwrap());
    assert!(!on.observer.exists(&name).await.unwrap());
}

type Reliable = Deliveries<String, Text>;

/// Returns the next delivery, and skips gaps and failures before it.
async fn reliably(deliveries: &mut Reliable) -> redgrid_topic::Delivery<String> {
    loop {
        match tokio::time::timeout(2 * SOON, deliveries.next()).await.expect("something comes").expect("it lives") {
            Ok(delivery) => return delivery,
            Err(SubscriptionError::Gap(_) | SubscriptionError::Unavailable(_)) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
}

async fn acked(deliveries: &mut Reliable) -> String {
    let delivery = reliably(deliveries).await;
    let text = delivery.message().unwrap().clone();
    // A primary that has just taken over may not know the delivery yet.
    let _ = delivery.ack().await;
    text
}

/// Scenarios with servers of their own.
pub(crate) mod topics_alone {
    use super::*;
    use crate::fixture::scenarios;

    scenarios![
        sentinel_a_failover_is_a_gap_and_messages_go_on,
        cluster_a_failover_is_a_gap_and_messages_go_on,
        cluster_a_killed_node_is_a_gap_and_messages_go_on,
        cluster_a_slot_that_moves_is_a_gap_and_messages_go_on,
    ];

    /// One subscription of each kind, all in one slot.
    struct Listening {
        publisher: Client,
        one: Listener,
        all: Listener,
        sharded: Option<Listener>,
        reliable: Reliable,
    }

    async fn listening(config: impl Fn() -> Config) -> Listening {
        let (client, publisher) = (connected(config()).await, connected(config()).await);
        let sharded = match is_skipped_before_7("sharded topics", "there are none") {
            true => None,
            false => Some(ShardedTopic::new(&client, "{a}:x").subscribe().await.unwrap()),
        };
        let mut listening = Listening {
            one: Topic::new(&client, "{a}:x").subscribe().await.unwrap(),
            all: PatternTopic::new(&client, "{a}:*").subscribe().await.unwrap(),
            sharded,
            reliable: ReliableTopic::new(&client, "{a}:x").subscribe().await.unwrap(),
            publisher,
        };
        let Listening { publisher, one, all, sharded, reliable } = &mut listening;
        let topic: Topic<String, Text> = Topic::new(publisher, "{a}:x");
        for inbox in [one, all] {
            assert_eq!(first(inbox, async || topic.publish("before").await.unwrap()).await, "before");
        }
        if let Some(sharded) = sharded {
            let topic: ShardedTopic<String, Text> = ShardedTopic::new(publisher, "{a}:x");
            assert_eq!(first(sharded, async || topic.publish("before").await.unwrap()).await, "before");
        }
        ReliableTopic::<String, Text>::new(publisher, "{a}:x").publish("before").await.unwrap();
        assert_eq!(acked(reliable).await, "before");
        listening
    }

    /// Publishes until a message arrives, and returns it. A cluster node on a busy machine may lose
    /// its connection to another node, and with it a message.
    async fn first(inbox: &mut Listener, publish: impl AsyncFn() -> u64) -> String {
        let publishing = async {
            loop {
                publish().await;
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::select! {
            message = next(inbox) => message.unwrap(),
            () = publishing => unreachable!("it publishes without end"),
        }
    }

    /// Waits for a gap, and then for a message that is published.
    async fn goes_on(inbox: &mut Listener, publish: impl AsyncFn()) {
        loop {
            match next(inbox).await {
                Err(gap) => break assert_eq!(gap, Gap::Interrupted),
                Ok(early) => assert!(early == "before" || early == "after", "{early}"),
            }
        }
        let publishing = async {
            loop {
                publish().await;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let receiving = async {
            // The nodes may change once more, which is another gap.
            while next(inbox).await.is_err() {}
        };
        tokio::select! {
            () = receiving => {}
            () = publishing => {}
        }
    }

    impl Listening {
        async fn goes_on(&mut self) {
            let Listening { publisher, one, all, sharded, reliable } = self;
            let topic: Topic<String, Text> = Topic::new(publisher, "{a}:x");
            goes_on(one, async || drop(topic.publish("after").await)).await;
            goes_on(all, async || drop(topic.publish("after").await)).await;
            if let Some(sharded) = sharded {
                let topic: ShardedTopic<String, Text> = ShardedTopic::new(publisher, "{a}:x");
                goes_on(sharded, async || drop(topic.publish("after").await)).await;
            }
            let topic: ReliableTopic<String, Text> = ReliableTopic::new(publisher, "{a}:x");
            for text in ["1", "2", "3"] {
                topic.publish(text).await.unwrap();
            }
            let mut missing = vec!["1", "2", "3"];
            while !missing.is_empty() {
                // Messages that were acknowledged before may be delivered again.
                let text = acked(reliable).await;
                missing.retain(|awaited| *awaited != text);
            }
        }
    }

    async fn sentinel_a_failover_is_a_gap_and_messages_go_on() {
        let sentinels = Sentinels::start().await.unwrap();
        let mut listening = listening(|| by_sentinels(&sentinels)).await;
        let former = sentinels.current_primary().await.unwrap();
        former.kill().await.unwrap();
        sentinels.wait_for_primary_other_than(former.addr()).await.unwrap();
        listening.goes_on().await;
    }

    async fn cluster_a_failover_is_a_gap_and_messages_go_on() {
        let cluster = Cluster::start(3, 1).await.unwrap();
        let mut listening = listening(|| by_seeds(&cluster)).await;
        let primary = cluster.primary_of(cluster.slot_of("a").await.unwrap()).await.unwrap();
        cluster.fail_over(primary).await.unwrap();
        listening.goes_on().await;
    }

    async fn cluster_a_killed_node_is_a_gap_and_messages_go_on() {
        let cluster = Cluster::start(3, 1).await.unwrap();
        let mut listening = listening(|| by_seeds(&cluster)).await;
        cluster.primary_of(cluster.slot_of("a").await.unwrap()).await.unwrap().kill().await.unwrap();
        listening.goes_on().await;
    }

    async fn cluster_a_slot_that_moves_is_a_gap_and_messages_go_on() {
        let cluster = Cluster::start(3, 0).await.unwrap();
        let mut listening = listening(|| by_seeds(&cluster)).await;
        let slot = cluster.slot_of("a").await.unwrap();
        let from = cluster.primary_of(slot).await.unwrap();
        let to: &RedisServer = cluster.nodes().iter().find(|node| node.addr() != from.addr()).unwrap();
        cluster.begin_migration(slot, to).await.unwrap();
        cluster.move_keys(slot).await.unwrap();
        cluster.finish_migration(slot).await.unwrap();
        listening.goes_on().await;
    }
}
