//! Topics: subscribers receive messages, and possible losses are reported.

use std::time::Duration;

use redgrid_core::author::ClientExt;
use redgrid_core::{Client, Failure};
use redgrid_testkit::{Observer, RedisServer, wait_until};
use redgrid_tests::{SOON, client, client_with, server};
use redgrid_topic::codecs::Text;
use redgrid_topic::{Gap, Message, ObjectError, PatternTopic, ShardedTopic, Subscription, SubscriptionError, Topic};

pub(super) async fn next<T>(heard: &mut Subscription<T, Text>) -> Result<Message<T>, SubscriptionError>
where
    Text: redgrid_topic::Decode<T>,
{
    let next = tokio::time::timeout(SOON, heard.next()).await.expect("an item in time");
    next.expect("the client lives")
}

pub(super) async fn message(heard: &mut Subscription<String, Text>) -> (String, String) {
    let message = next(heard).await.unwrap();
    (message.channel, message.value)
}

fn is(channel: &str, value: &str) -> (String, String) {
    (channel.to_owned(), value.to_owned())
}

pub(super) async fn gap(heard: &mut Subscription<String, Text>) -> Gap {
    match next(heard).await {
        Err(SubscriptionError::Gap(gap)) => gap,
        other => panic!("{other:?}"),
    }
}

pub(super) fn topic(client: &Client, name: &str) -> Topic<String, Text> {
    Topic::new(client, name)
}

pub(super) fn pattern(client: &Client, pattern: &str) -> PatternTopic<String, Text> {
    PatternTopic::new(client, pattern)
}

pub(super) async fn ready() -> (RedisServer, Client, Observer) {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    (server, client, observer)
}

pub(super) async fn is_before_7(server: &RedisServer) -> bool {
    server.binary().version().major < 7
}

#[tokio::test(flavor = "multi_thread")]
async fn subscribers_receive_messages_and_share_one_subscription() {
    let (server, one, observer) = ready().await;
    let two = client_with(&server.url(), |config| config).await;
    let prices = topic(&one, "prices");
    assert_eq!(prices.publish("nobody").await.unwrap(), 0);
    let mut first = prices.subscribe().await.unwrap();
    let mut second = topic(&one, "prices").subscribe().await.unwrap();
    let mut elsewhere = topic(&two, "prices").subscribe().await.unwrap();
    let mut other = topic(&two, "others").subscribe().await.unwrap();
    assert!(first.is_active() && second.is_active());
    assert_eq!((prices.count_listeners().unwrap(), prices.count_subscribers().await.unwrap()), (2, 2));
    assert_eq!(prices.publish("1").await.unwrap(), 2);
    observer.cmd(&["PUBLISH", "prices", "2"]).await.unwrap();
    observer.cmd(&["PUBLISH", "others", "3"]).await.unwrap();
    for heard in [&mut first, &mut second, &mut elsewhere] {
        assert_eq!((message(heard).await, message(heard).await), (is("prices", "1"), is("prices", "2")));
    }
    assert_eq!(message(&mut other).await, is("others", "3"));
    // One of two subscriptions is dropped. The other continues, and receives each message once.
    drop(first);
    assert_eq!(prices.publish("4").await.unwrap(), 2);
    assert_eq!(message(&mut second).await, is("prices", "4"));
    drop((second, elsewhere, other));
    wait_until(SOON, async || observer.pubsub_channels("*s").await.unwrap().is_empty()).await;
    assert_eq!((one.stats().channels, two.stats().channels), (0, 0));
    one.shutdown(SOON).await.unwrap();
    assert!(matches!(prices.publish("5").await, Err(ObjectError::Failed(Failure::ShuttingDown { .. }))));
    assert!(matches!(prices.subscribe().await, Err(ObjectError::Failed(Failure::ShuttingDown { .. }))));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_message_is_delivered_once_per_matching_pattern() {
    let (_server, client, observer) = ready().await;
    let mut all = pattern(&client, "*").subscribe().await.unwrap();
    let mut news = pattern(&client, "news:*").subscribe().await.unwrap();
    let mut also = pattern(&client, "news:*").subscribe().await.unwrap();
    let mut a = pattern(&client, "news:[ab]").subscribe().await.unwrap();
    let mut sport = pattern(&client, "sport:?").subscribe().await.unwrap();
    let mut plain = topic(&client, "news:a").subscribe().await.unwrap();
    assert_eq!(topic(&client, "news:a").count_subscribers().await.unwrap(), 1, "patterns are not counted");
    assert_eq!(pattern(&client, "news:*").active_topics().await.unwrap(), ["news:a"]);
    assert_eq!(pattern(&client, "news:*").count_listeners().unwrap(), 2);
    let published = [("news:a", "1"), ("news:c", "2"), ("sport:x", "3"), ("sport:xy", "4"), ("news:a", "5")];
    for (channel, value) in published {
        topic(&client, channel).publish(value).await.unwrap();
    }
    let expected = async |heard: &mut Subscription<String, Text>, which: &[usize]| {
        for &at in which {
            assert_eq!(message(heard).await, is(published[at].0, published[at].1));
        }
    };
    expected(&mut all, &[0, 1, 2, 3, 4]).await;
    expected(&mut news, &[0, 1, 4]).await;
    expected(&mut also, &[0, 1, 4]).await;
    expected(&mut a, &[0, 4]).await;
    expected(&mut sport, &[2]).await;
    expected(&mut plain, &[0, 4]).await;
    // The next message follows immediately, so no message was delivered twice.
    topic(&client, "news:b").publish("6").await.unwrap();
    for heard in [&mut all, &mut news, &mut also, &mut a] {
        assert_eq!(message(heard).await, is("news:b", "6"));
    }
    drop((all, news, also, a, sport));
    wait_until(SOON, async || observer.query::<u64>(&["PUBSUB", "NUMPAT"]).await.unwrap() == 0).await;
    // A former connection is used again, and its previous patterns are no longer subscribed.
    let mut again = pattern(&client, "n*:a").subscribe().await.unwrap();
    topic(&client, "news:c").publish("7").await.unwrap();
    topic(&client, "news:a").publish("8").await.unwrap();
    assert_eq!(message(&mut again).await, is("news:a", "8"));
    assert_eq!(message(&mut plain).await, is("news:a", "8"));
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_and_patterns_are_within_the_namespace() {
    let (server, stranger, observer) = ready().await;
    let client = client_with(&server.url(), |config| config.namespace("p*d").unwrap()).await;
    let mut one = topic(&client, "a").subscribe().await.unwrap();
    let mut all = pattern(&client, "*").subscribe().await.unwrap();
    assert_eq!(topic(&client, "a").channel().unwrap(), "p*d:a");
    for channel in ["a", "pood:a"] {
        observer.cmd(&["PUBLISH", channel, "strange"]).await.unwrap();
    }
    topic(&stranger, "p*d:a").publish("ours").await.unwrap();
    assert_eq!(message(&mut one).await, is("a", "ours"));
    assert_eq!(message(&mut all).await, is("a", "ours"));
    assert_eq!(pattern(&client, "*").active_topics().await.unwrap(), ["a"]);
    assert_eq!(pattern(&client, "*").pattern().unwrap(), "*");
}

#[tokio::test(flavor = "multi_thread")]
async fn sharded_and_plain_topics_are_separate() {
    let (server, client, observer) = ready().await;
    let sharded: ShardedTopic<String, Text> = ShardedTopic::new(&client, "a");
    if is_before_7(&server).await {
        for error in [sharded.publish("1").await.unwrap_err(), sharded.subscribe().await.unwrap_err()] {
            assert!(matches!(error, ObjectError::Unsupported { .. }), "{error:?}");
        }
        return;
    }
    let mut heard = sharded.subscribe().await.unwrap();
    let mut plain = topic(&client, "a").subscribe().await.unwrap();
    assert_eq!(
        (sharded.publish("sharded").await.unwrap(), topic(&client, "a").publish("plain").await.unwrap()),
        (1, 1)
    );
    assert_eq!((message(&mut heard).await, message(&mut plain).await), (is("a", "sharded"), is("a", "plain")));
    assert_eq!((sharded.count_subscribers().await.unwrap(), sharded.count_listeners().unwrap()), (1, 1));
    drop(plain);
    wait_until(SOON, async || observer.pubsub_channels("a").await.unwrap().is_empty()).await;
    sharded.publish("still").await.unwrap();
    assert_eq!(message(&mut heard).await, is("a", "still"));
    drop(heard);
    wait_until(SOON, async || observer.pubsub_shard_channels("*").await.unwrap().is_empty()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn patterns_that_are_refused_leave_no_connection() {
    let server = RedisServer::builder()
        .user("app", "on >secret ~* resetchannels &mine* &redgrid_client:* +@all")
        .start()
        .await
        .unwrap();
    let client = client_with(&format!("redis://app:secret@{}", server.addr()), |config| config).await;
    let observer = server.observer().await.unwrap();
    for n in 0..8 {
        let error = pattern(&client, &format!("*{n}")).subscribe().await.unwrap_err();
        assert!(matches!(error, ObjectError::Failed(Failure::Refused { .. })), "{error:?}");
    }
    let carriers = async || observer.query::<String>(&["CLIENT", "LIST"]).await.unwrap().matches(":patterns").count();
    wait_until(SOON, async || carriers().await <= 1).await;
    // A permitted pattern then has the only connection for patterns.
    let mut mine = pattern(&client, "mine*").subscribe().await.unwrap();
    topic(&client, "mine").publish("1").await.unwrap();
    assert_eq!(message(&mut mine).await, is("mine", "1"));
    assert_eq!(carriers().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_named_like_a_waiters_channel_is_another_channel() {
    let (_server, client, observer) = ready().await;
    let key = bytes::Bytes::from_static(b"a");
    let watch = client.watch_unpolled(key.clone(), &key);
    let mut heard = topic(&client, "a").subscribe().await.unwrap();
    observer.cmd(&["PUBLISH", "a", "1"]).await.unwrap();
    assert_eq!(message(&mut heard).await, is("a", "1"));
    drop(watch);
    let mut other = topic(&client, "b").subscribe().await.unwrap();
    topic(&client, "b").publish("2").await.unwrap();
    assert_eq!(message(&mut other).await, is("b", "2"));
    topic(&client, "a").publish("3").await.unwrap();
    assert_eq!(message(&mut heard).await, is("a", "3"), "the watch has ended, the topic has not");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undecodable_message_is_one_error() {
    let (_server, client, observer) = ready().await;
    let numbers: Topic<u64> = Topic::new(&client, "numbers");
    let mut heard = numbers.subscribe().await.unwrap();
    for text in ["one", "2"] {
        observer.cmd(&["PUBLISH", "numbers", text]).await.unwrap();
    }
    let first = tokio::time::timeout(SOON, heard.next()).await.unwrap().unwrap();
    assert!(matches!(first, Err(SubscriptionError::Undecodable(ObjectError::Decode { .. }))), "{first:?}");
    let second = tokio::time::timeout(SOON, heard.next()).await.unwrap().unwrap();
    assert_eq!(second.unwrap().value, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_permissions_are_reported() {
    let server = RedisServer::builder()
        .user("app", "on >secret ~* resetchannels &mine* &redgrid_client:* +@all")
        .start()
        .await
        .unwrap();
    let url = format!("redis://app:secret@{}", server.addr());
    let client = client_with(&url, |config| config).await;
    let mut mine = topic(&client, "mine").subscribe().await.unwrap();
    let error = topic(&client, "yours").subscribe().await.unwrap_err();
    assert!(matches!(error, ObjectError::Failed(Failure::Refused { .. })), "{error:?}");
    let error = pattern(&client, "yours*").subscribe().await.unwrap_err();
    assert!(matches!(error, ObjectError::Failed(Failure::Refused { .. })), "{error:?}");
    assert!(matches!(topic(&client, "yours").publish("1").await, Err(ObjectError::Failed(Failure::Refused { .. }))));
    let mut of_mine = pattern(&client, "mine*").subscribe().await.unwrap();
    topic(&client, "mine").publish("1").await.unwrap();
    assert_eq!(message(&mut of_mine).await, is("mine", "1"));
    // The refusal of the other pattern may interrupt this subscription, but does not end it.
    loop {
        match next(&mut mine).await {
            Ok(message) => break assert_eq!(message.value, "1"),
            Err(SubscriptionError::Gap(Gap::Interrupted)) => {
                topic(&client, "mine").publish("1").await.unwrap();
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_with_a_lost_reply_is_published_once() {
    let server = server().await;
    let proxy = redgrid_testkit::Proxy::to(&server).await.unwrap();
    let client = client_with(&proxy.url(), |config| config.response_timeout(Duration::from_millis(300))).await;
    let listener = redgrid_tests::client(&server).await;
    let mut heard = topic(&listener, "a").subscribe().await.unwrap();
    proxy.next(1, "PUBLISH", redgrid_testkit::Action::SwallowReply);
    let error = topic(&client, "a").publish("1").await.unwrap_err();
    assert!(matches!(error, ObjectError::Failed(Failure::OutcomeUnknown { .. })), "{error:?}");
    topic(&listener, "a").publish("2").await.unwrap();
    assert_eq!((message(&mut heard).await.1, message(&mut heard).await.1), ("1".into(), "2".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_cluster_a_topic_does_not_use_a_waiters_channel() {
    let cluster = redgrid_testkit::Cluster::start(3, 0).await.unwrap();
    if is_before_7(&cluster.nodes()[0]).await {
        return;
    }
    let client = client_with(&cluster.url(), |config| config).await;
    let mut heard = topic(&client, "a").subscribe().await.unwrap();
    let key = bytes::Bytes::from_static(b"a");
    let mut watch = client.watch_unpolled(key.clone(), &key);
    let sharded: ShardedTopic<String, Text> = ShardedTopic::new(&client, "a");
    let woken = async {
        loop {
            sharded.publish("for who waits").await.unwrap();
            let wake = tokio::time::timeout(Duration::from_millis(100), watch.wake()).await;
            if wake.is_ok_and(|wake| wake.messages > 0) {
                return;
            }
        }
    };
    tokio::time::timeout(SOON, woken).await.expect("a message for the waiter");
    topic(&client, "a").publish("for all").await.unwrap();
    assert_eq!(message(&mut heard).await, is("a", "for all"));
    drop(watch);
    topic(&client, "a").publish("once more").await.unwrap();
    assert_eq!(message(&mut heard).await, is("a", "once more"));
}
