//! Topics: subscribers receive messages, and possible losses are reported.

use std::time::Duration;

use redgrid_core::author::ClientExt;
use redgrid_core::{Client, Failure};
use redgrid_testkit::{Kind as Connections, Observer, RedisServer, wait_until};
use redgrid_tests::{SOON, client, client_with, server};
use redgrid_topic::codecs::Text;
use redgrid_topic::{Gap, Message, ObjectError, PatternTopic, ShardedTopic, Subscription, SubscriptionError, Topic};

async fn next<T>(heard: &mut Subscription<T, Text>) -> Result<Message<T>, SubscriptionError>
where
    Text: redgrid_topic::Decode<T>,
{
    let next = tokio::time::timeout(SOON, heard.next()).await.expect("an item in time");
    next.expect("the client lives")
}

async fn message(heard: &mut Subscription<String, Text>) -> (String, String) {
    let message = next(heard).await.unwrap();
    (message.channel, message.value)
}

fn is(channel: &str, value: &str) -> (String, String) {
    (channel.to_owned(), value.to_owned())
}

async fn gap(heard: &mut Subscription<String, Text>) -> Gap {
    match next(heard).await {
        Err(SubscriptionError::Gap(gap)) => gap,
        other => panic!("{other:?}"),
    }
}

fn topic(client: &Client, name: &str) -> Topic<String, Text> {
    Topic::new(client, name)
}

fn pattern(client: &Client, pattern: &str) -> PatternTopic<String, Text> {
    PatternTopic::new(client, pattern)
}

async fn ready() -> (RedisServer, Client, Observer) {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    (server, client, observer)
}

async fn is_before_7(server: &RedisServer) -> bool {
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
async fn a_lost_connection_is_a_gap_and_messages_go_on() {
    let (server, client, observer) = ready().await;
    let mut one = topic(&client, "a").subscribe().await.unwrap();
    let mut all = pattern(&client, "*").subscribe().await.unwrap();
    let sharded: ShardedTopic<String, Text> = ShardedTopic::new(&client, "a");
    let mut sharded = if is_before_7(&server).await { None } else { Some(sharded.subscribe().await.unwrap()) };
    for _ in 0..2 {
        // A second gap may follow. A moment later all subscriptions are active again.
        let mut heards = vec![&mut one, &mut all];
        heards.extend(&mut sharded);
        for heard in heards {
            reaches(heard, &observer, "before").await;
        }
        server.kill_connections(Connections::PubSub).await.unwrap();
        let mut heards = vec![&mut one, &mut all];
        heards.extend(&mut sharded);
        for heard in heards {
            while !matches!(next(heard).await, Err(SubscriptionError::Gap(Gap::Interrupted))) {}
            reaches(heard, &observer, "after").await;
        }
    }
}

/// Publishes until the subscription receives a message.
async fn reaches(heard: &mut Subscription<String, Text>, observer: &Observer, text: &str) {
    loop {
        for command in ["PUBLISH", "SPUBLISH"] {
            let _ = observer.cmd(&[command, "a", text]).await;
        }
        match tokio::time::timeout(Duration::from_millis(100), heard.next()).await {
            Err(_) => {}
            Ok(Some(Ok(message))) if message.value == text => return,
            Ok(Some(Ok(_) | Err(SubscriptionError::Gap(Gap::Interrupted)))) => {}
            Ok(other) => panic!("{other:?}"),
        }
    }
}

/// Numbers are published continuously while connections break. Wherever a number is missing, a gap
/// is reported at that place.
#[tokio::test(flavor = "multi_thread")]
async fn each_gap_precedes_the_first_message_after_it() {
    let server = server().await;
    let proxy = redgrid_testkit::Proxy::to(&server).await.unwrap();
    let client = client_with(&proxy.url(), |config| config).await;
    let observer = server.observer().await.unwrap();
    let one = topic(&client, "a").subscribe().buffer(100_000).await.unwrap();
    let all = pattern(&client, "*").subscribe().buffer(100_000).await.unwrap();
    let mut heards = vec![one, all];
    if !is_before_7(&server).await {
        let sharded: ShardedTopic<String, Text> = ShardedTopic::new(&client, "a");
        heards.push(sharded.subscribe().buffer(100_000).await.unwrap());
    }
    // The check of the subscription is delayed, so messages arrive before its reply.
    proxy.on_request(|request| {
        if request.len() > 1 && request[1].eq_ignore_ascii_case(b"INFO") {
            std::thread::sleep(Duration::from_millis(5));
        }
        redgrid_testkit::Action::Forward
    });
    let over = std::sync::atomic::AtomicBool::new(false);
    let publishing = async {
        let mut n = 0_u64;
        while !over.load(std::sync::atomic::Ordering::Relaxed) {
            n += 1;
            for command in ["PUBLISH", "SPUBLISH"] {
                let _ = observer.cmd(&[command, "a", &n.to_string()]).await;
            }
        }
    };
    let killing = async {
        for _ in 0..8 {
            server.kill_connections(Connections::PubSub).await.unwrap();
            for heard in &mut heards {
                wait_until(SOON, async || heard.is_active()).await;
            }
        }
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        let mut jumps = 0;
        for heard in &mut heards {
            let (mut last, mut behind_gap) = (None, true);
            loop {
                let Ok(next) = tokio::time::timeout(Duration::from_millis(500), heard.next()).await else { break };
                match next.unwrap() {
                    Ok(message) => {
                        let n: u64 = message.value.parse().unwrap();
                        let is_jump = last.is_some_and(|last| n != last + 1);
                        assert!(behind_gap || !is_jump, "{last:?}, then {n}, without a gap");
                        jumps += u32::from(is_jump);
                        (last, behind_gap) = (Some(n), false);
                    }
                    Err(SubscriptionError::Gap(Gap::Interrupted)) => behind_gap = true,
                    Err(error) => panic!("{error:?}"),
                }
            }
        }
        assert!(jumps > 0, "nothing was lost");
    };
    tokio::join!(publishing, killing);
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
    // A connection that was needed is closed with its last pattern.
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
async fn a_slow_reader_learns_how_many_messages_were_dropped() {
    let (_server, client, _observer) = ready().await;
    let mut slow = topic(&client, "a").subscribe().buffer(2).await.unwrap();
    let mut patient = topic(&client, "a").subscribe().await.unwrap();
    let mut behind = topic(&client, "b").subscribe().await.unwrap();
    for n in 0..5 {
        topic(&client, "a").publish(&n.to_string()).await.unwrap();
    }
    for n in 0..5 {
        assert_eq!(message(&mut patient).await.1, n.to_string());
    }
    // Messages are handed out in order: those before this one have reached all subscriptions.
    topic(&client, "b").publish("5").await.unwrap();
    message(&mut behind).await;
    assert_eq!((message(&mut slow).await.1, message(&mut slow).await.1), ("0".into(), "1".into()));
    assert_eq!(gap(&mut slow).await, Gap::Slow { missed: 3 });
    topic(&client, "a").publish("6").await.unwrap();
    assert_eq!(message(&mut slow).await.1, "6");
    for kept in [0, 1_048_577] {
        let error = topic(&client, "a").subscribe().buffer(kept).await.unwrap_err();
        assert!(matches!(error, ObjectError::Failed(Failure::InvalidArgument { option: "buffer", .. })), "{error:?}");
    }
    assert!(matches!(topic(&client, "").subscribe().await, Err(ObjectError::Failed(Failure::InvalidName(_)))));
    assert!(matches!(topic(&client, "").publish("1").await, Err(ObjectError::Failed(Failure::InvalidName(_)))));
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
    // The refusal of the other pattern interrupts the connection, at most.
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
