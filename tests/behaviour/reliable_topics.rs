//! Reliable topics: a message is delivered to every subscriber until it is acknowledged.

use std::collections::BTreeSet;
use std::time::Duration;

use redgrid_core::author::ClientExt;
use redgrid_core::{Client, Failure};
use redgrid_testkit::{Action, Kind as Connections, Observer, Proxy, RedisServer, wait_until};
use redgrid_tests::{SOON, client, client_with, server};
use redgrid_topic::codecs::Text;
use redgrid_topic::{Deliveries, Delivery, Gap, ObjectError, ReliableTopic, SubscriptionError};

type News = ReliableTopic<String, Text>;

fn news(client: &Client) -> News {
    ReliableTopic::new(client, "news")
}

async fn next(deliveries: &mut Deliveries<String, Text>) -> Result<Delivery<String>, SubscriptionError> {
    let next = tokio::time::timeout(SOON, deliveries.next()).await.expect("an item in time");
    next.expect("the client lives")
}

async fn delivery(deliveries: &mut Deliveries<String, Text>) -> Delivery<String> {
    next(deliveries).await.unwrap()
}

/// Acknowledges the next message and returns it.
async fn acked(deliveries: &mut Deliveries<String, Text>) -> String {
    let delivery = delivery(deliveries).await;
    let text = delivery.message().unwrap().clone();
    delivery.ack().await.unwrap();
    text
}

async fn ready() -> (RedisServer, Client, Observer) {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    (server, client, observer)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_subscriber_gets_messages_published_during_its_subscription() {
    let (server, client, observer) = ready().await;
    let (topic, elsewhere) = (news(&client), redgrid_tests::client(&server).await);
    assert_eq!(topic.publish("nobody").await.unwrap().subscribers, 0);
    // With this poll interval, only notifications wake the subscribers.
    let mut one = topic.subscribe().poll_interval(SOON).await.unwrap();
    let mut two = news(&elsewhere).subscribe().poll_interval(SOON).from_the_beginning().await.unwrap();
    assert_eq!((topic.count_subscribers().await.unwrap(), one.subscriber().len()), (2, 32));
    let published = topic.publish("1").await.unwrap();
    assert_eq!((published.subscribers, topic.publish("2").await.unwrap().subscribers), (2, 2));
    let first = delivery(&mut one).await;
    assert_eq!((first.id(), first.message().unwrap().as_str(), first.is_redelivered()), (published.id, "1", false));
    first.ack().await.unwrap();
    assert_eq!(acked(&mut one).await, "2");
    assert_eq!(topic.len().await.unwrap(), 3, "the other subscriber has received none");
    for text in ["nobody", "1", "2"] {
        assert_eq!(acked(&mut two).await, text);
    }
    assert_eq!(topic.len().await.unwrap(), 0, "both have received all");
    // A subscriber that waits already is woken.
    let waiting = tokio::spawn(async move { acked(&mut one).await });
    tokio::task::yield_now().await;
    topic.publish("3").await.unwrap();
    assert_eq!(waiting.await.unwrap(), "3");
    two.leave().await.unwrap();
    assert_eq!((topic.count_subscribers().await.unwrap(), topic.len().await.unwrap()), (1, 0));
    assert!(topic.object().delete().await.unwrap());
    assert!(!observer.exists("news").await.unwrap() && !observer.exists("{news}:timeout").await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn unacknowledged_messages_are_redelivered_to_the_continuing_subscriber() {
    let (server, client, _observer) = ready().await;
    let topic = news(&client);
    let mut one = topic.subscribe().as_subscriber("one").redelivery_delay(Duration::ZERO).await.unwrap();
    for n in 1..=4 {
        topic.publish(&n.to_string()).await.unwrap();
    }
    let (first, second) = (delivery(&mut one).await, delivery(&mut one).await);
    second.ack().await.unwrap();
    drop(first);
    let again = delivery(&mut one).await;
    assert!(again.is_redelivered() && again.message().unwrap() == "1");
    drop((again, one));
    // Messages acknowledged after an unacknowledged one are repeated, too.
    let elsewhere = redgrid_tests::client(&server).await;
    let mut resumed = news(&elsewhere).subscribe().as_subscriber("one").await.unwrap();
    for n in 1..=3 {
        assert_eq!(acked(&mut resumed).await, n.to_string());
    }
    drop(resumed);
    let mut resumed = news(&elsewhere).subscribe().as_subscriber("one").await.unwrap();
    assert_eq!(acked(&mut resumed).await, "4");
    assert_eq!(topic.len().await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_waits_at_its_limit_of_unacknowledged_messages() {
    let (_server, client, _observer) = ready().await;
    let topic = news(&client);
    let mut one = topic.subscribe().max_unacknowledged(2).await.unwrap();
    for n in 1..=3 {
        topic.publish(&n.to_string()).await.unwrap();
    }
    let (first, _second) = (delivery(&mut one).await, delivery(&mut one).await);
    let waits = tokio::time::timeout(Duration::from_millis(300), one.next()).await;
    assert!(waits.is_err(), "{waits:?}");
    first.ack().await.unwrap();
    assert_eq!(acked(&mut one).await, "3");
    for (option, error) in [
        ("max_unacknowledged", topic.subscribe().max_unacknowledged(0).await.unwrap_err()),
        ("lease", topic.subscribe().lease(Duration::ZERO).await.unwrap_err()),
        ("poll_interval", topic.subscribe().poll_interval(Duration::ZERO).await.unwrap_err()),
        ("redelivery_delay", topic.subscribe().redelivery_delay(Duration::MAX).await.unwrap_err()),
        ("subscriber", topic.subscribe().as_subscriber("").await.unwrap_err()),
    ] {
        assert!(
            matches!(&error, ObjectError::Failed(Failure::InvalidArgument { option: told, .. }) if *told == option),
            "{error:?}"
        );
    }
    client.shutdown(SOON).await.unwrap();
    assert!(one.next().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_silent_subscriber_is_removed() {
    let (_server, client, observer) = ready().await;
    let topic = news(&client);
    let dead = topic.subscribe().as_subscriber("dead").await.unwrap();
    let mut living = topic.subscribe().as_subscriber("living").lease(Duration::from_secs(10)).await.unwrap();
    drop(dead);
    topic.publish("1").await.unwrap();
    assert_eq!(acked(&mut living).await, "1");
    assert_eq!(topic.len().await.unwrap(), 1, "kept for the other, which may come back");
    // The renewal of a subscriber removes the other one. Its messages are dropped with the next
    // acknowledgement.
    observer.cmd(&["ZADD", "{news}:timeout", "1", "dead"]).await.unwrap();
    let members = async || observer.query::<Vec<String>>(&["ZRANGE", "{news}:timeout", "0", "-1"]).await.unwrap();
    wait_until(SOON, async || members().await == ["living"]).await;
    topic.publish("2").await.unwrap();
    assert_eq!((acked(&mut living).await, topic.len().await.unwrap()), ("2".into(), 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evicted_subscriber_gets_a_gap_and_continues() {
    let (_server, client, observer) = ready().await;
    let topic = news(&client);
    let mut one = topic.subscribe().await.unwrap();
    topic.publish("1").await.unwrap();
    let out = delivery(&mut one).await;
    assert!(topic.remove_subscriber(one.subscriber()).await.unwrap());
    assert!(!topic.remove_subscriber(one.subscriber()).await.unwrap());
    topic.publish("2").await.unwrap();
    assert!(matches!(next(&mut one).await, Err(SubscriptionError::Gap(Gap::Interrupted))));
    assert_eq!(acked(&mut one).await, "2");
    out.ack().await.unwrap();
    assert_eq!(topic.count_subscribers().await.unwrap(), 1);
    // If the topic is deleted completely, ids start again. They contain the time in milliseconds,
    // so a later message has another id than "2" only after this millisecond.
    let time = async || {
        let (seconds, micros): (u64, u64) = observer.query(&["TIME"]).await.unwrap();
        seconds * 1000 + micros / 1000
    };
    let before = time().await;
    wait_until(SOON, async || time().await > before).await;
    observer.cmd(&["DEL", "news", "{news}:timeout"]).await.unwrap();
    topic.publish("3").await.unwrap();
    assert!(matches!(next(&mut one).await, Err(SubscriptionError::Gap(Gap::Interrupted))));
    assert_eq!(acked(&mut one).await, "3");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gap_of_an_evicted_subscriber_survives_lost_replies_and_dropped_calls() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&proxy.url(), |config| config.response_timeout(Duration::from_millis(500))).await;
    let publisher = redgrid_tests::client(&server).await;
    let mut one = news(&client).subscribe().lease(Duration::from_secs(777)).poll_interval(SOON).await.unwrap();
    for round in 0..24_u32 {
        assert!(news(&publisher).remove_subscriber(one.subscriber()).await.unwrap());
        if round % 4 == 0 {
            // The request that restores the subscriber is executed, and its reply is lost.
            proxy.next(2, "777000", Action::CutAfterForward);
        }
        for _ in 0..3 {
            let short = Duration::from_micros(u64::from(round) * 50);
            if let Ok(next) = tokio::time::timeout(short, one.next()).await {
                match next.unwrap() {
                    Err(SubscriptionError::Unavailable(_)) => {}
                    Err(SubscriptionError::Gap(Gap::Interrupted)) => {
                        news(&publisher).remove_subscriber(one.subscriber()).await.unwrap();
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        // If the gap is not reported yet, it precedes this message.
        news(&publisher).publish(&round.to_string()).await.unwrap();
        loop {
            match next(&mut one).await {
                Err(SubscriptionError::Unavailable(_)) => {}
                Err(SubscriptionError::Gap(Gap::Interrupted)) => break,
                other => panic!("round {round}: {other:?}"),
            }
        }
        proxy.heal();
        // The subscriber works normally again.
        news(&publisher).publish("well").await.unwrap();
        loop {
            match next(&mut one).await {
                Ok(delivery) if delivery.message().unwrap() == "well" => break delivery.ack().await.unwrap(),
                Ok(delivery) => delivery.ack().await.unwrap(),
                Err(SubscriptionError::Unavailable(_)) => {}
                Err(error) => panic!("round {round}: {error:?}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_messages_are_not_redelivered_after_a_lost_connection() {
    let (server, client, _observer) = ready().await;
    let topic = news(&client);
    let mut one = topic.subscribe().max_unacknowledged(3).poll_interval(Duration::from_millis(50)).await.unwrap();
    for n in 1..=20 {
        topic.publish(&n.to_string()).await.unwrap();
    }
    // This message stays unacknowledged, so it is always one of the three that may be.
    let stuck = delivery(&mut one).await;
    for n in 2..=10 {
        assert_eq!(acked(&mut one).await, n.to_string());
    }
    server.kill_connections(Connections::Normal).await.unwrap();
    let mut come = Vec::new();
    while come.len() < 10 {
        match next(&mut one).await {
            Ok(delivery) => {
                come.push(delivery.message().unwrap().clone());
                let _ = delivery.ack().await;
            }
            Err(SubscriptionError::Unavailable(_)) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(come, (11..=20).map(|n| n.to_string()).collect::<Vec<_>>());
    stuck.ack().await.unwrap();
    assert_eq!(topic.len().await.unwrap(), 0);
}

/// Of three messages, only the unacknowledged one is redelivered after a reconnect, although the
/// new connection has not read any of them.
#[tokio::test(flavor = "multi_thread")]
async fn messages_acknowledged_before_a_reconnect_are_not_redelivered() {
    let (server, client, _observer) = ready().await;
    let topic = news(&client);
    let mut one = topic.subscribe().redelivery_delay(Duration::ZERO).await.unwrap();
    // For this subscriber, the server keeps the messages.
    let _idle = topic.subscribe().await.unwrap();
    for n in 1..=3 {
        topic.publish(&n.to_string()).await.unwrap();
    }
    let [first, second, third] = [delivery(&mut one).await, delivery(&mut one).await, delivery(&mut one).await];
    drop(first);
    second.ack().await.unwrap();
    third.ack().await.unwrap();
    let former = client.epoch_of(b"news");
    server.kill_connections(Connections::Normal).await.unwrap();
    wait_until(SOON, async || client.epoch_of(b"news").is_some_and(|now| Some(now) != former)).await;
    let again = delivery(&mut one).await;
    assert!(again.is_redelivered() && again.message().unwrap() == "1");
    again.ack().await.unwrap();
    topic.publish("4").await.unwrap();
    assert_eq!(acked(&mut one).await, "4");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscriber_that_lost_its_group_detects_it() {
    let (_server, client, observer) = ready().await;
    let topic = news(&client);
    let look = Duration::from_millis(50);
    let mut one =
        topic.subscribe().as_subscriber("one").lease(Duration::from_secs(3)).poll_interval(look).await.unwrap();
    for gone in [&["XGROUP", "DESTROY", "news", "one"][..], &["DEL", "news"]] {
        observer.cmd(gone).await.unwrap();
        assert!(matches!(next(&mut one).await, Err(SubscriptionError::Gap(Gap::Interrupted))));
        topic.publish("1").await.unwrap();
        assert_eq!(acked(&mut one).await, "1");
        assert_eq!(topic.len().await.unwrap(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_dropped_in_parts_whatever_the_node_size() {
    let (_server, client, observer) = ready().await;
    for option in ["stream-node-max-entries", "stream-node-max-bytes"] {
        observer.cmd(&["CONFIG", "SET", option, "0"]).await.unwrap();
    }
    let topic = news(&client);
    let idle = topic.subscribe().as_subscriber("idle").await.unwrap();
    let _one = topic.subscribe().as_subscriber("one").await.unwrap();
    let many = "for n = 1, 3000 do redis.call('XADD', KEYS[1], '*', 'm', n) end redis.call('XGROUP', 'SETID', KEYS[1], 'one', '$')";
    observer.cmd(&["EVAL", many, "1", "news"]).await.unwrap();
    idle.leave().await.unwrap();
    let left = topic.len().await.unwrap();
    assert!((2000..3000).contains(&left), "{left}: a part");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_outlive_lost_connections_lost_answers_and_dropped_calls() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&proxy.url(), |config| config.response_timeout(Duration::from_millis(500))).await;
    let publisher = redgrid_tests::client(&server).await;
    let look = Duration::from_millis(50);
    let mut one = news(&client).subscribe().poll_interval(look).redelivery_delay(Duration::ZERO).await.unwrap();
    let mut seen = BTreeSet::new();
    for round in 0..40_u32 {
        news(&publisher).publish(&round.to_string()).await.unwrap();
        match round % 4 {
            0 => proxy.next(1, "redgrid_unknown", Action::Forward),
            1 => proxy.next(1, "{news}:timeout", Action::CutAfterForward),
            2 => {
                server.kill_connections(Connections::Normal).await.unwrap();
            }
            // The call is dropped at any point.
            _ => drop(tokio::time::timeout(Duration::from_micros(u64::from(round) * 30), one.next()).await),
        }
        while !seen.contains(&round) {
            match next(&mut one).await {
                Ok(delivery) => {
                    seen.insert(delivery.message().unwrap().parse::<u32>().unwrap());
                    let _ = delivery.ack().await;
                }
                Err(SubscriptionError::Unavailable(_)) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
    }
    // The last acknowledgement reaches the server with the next message, at the latest.
    news(&publisher).publish("40").await.unwrap();
    let emptied = async {
        loop {
            let _ = next(&mut one).await.unwrap().ack().await;
            if news(&publisher).len().await.unwrap() == 0 {
                return;
            }
        }
    };
    tokio::time::timeout(SOON, emptied).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_is_dropped_in_parts() {
    let (_server, client, observer) = ready().await;
    let topic = news(&client);
    let idle = topic.subscribe().as_subscriber("idle").await.unwrap();
    let mut one = topic.subscribe().max_unacknowledged(1000).await.unwrap();
    let many = "for n = 1, 5000 do redis.call('XADD', KEYS[1], '*', 'm', n) end";
    observer.cmd(&["EVAL", many, "1", "news"]).await.unwrap();
    for _ in 0..4990 {
        // Acknowledgements behind an unacknowledged message are not sent to the server.
        drop(delivery(&mut one).await.ack().await);
    }
    assert_eq!(topic.len().await.unwrap(), 5000);
    idle.leave().await.unwrap();
    let before = topic.len().await.unwrap();
    assert!((3000..5000).contains(&before), "{before}: a part");
    for _ in 0..10 {
        drop(delivery(&mut one).await.ack().await);
    }
    assert_eq!(topic.len().await.unwrap(), 0);
}
