//! Topics: gaps are reported where messages may be lost, or were dropped for a slow reader.

use std::time::Duration;

use redgrid_core::Failure;
use redgrid_testkit::{Kind as Connections, Observer, wait_until};
use redgrid_tests::{SOON, client_with, server};
use redgrid_topic::codecs::Text;
use redgrid_topic::{Gap, ObjectError, ShardedTopic, Subscription, SubscriptionError};

use super::topics::{gap, is_before_7, message, next, pattern, ready, topic};

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_connection_is_a_gap_and_messages_go_on() {
    let (server, client, observer) = ready().await;
    let mut one = topic(&client, "a").subscribe().await.unwrap();
    let mut all = pattern(&client, "*").subscribe().await.unwrap();
    let sharded: ShardedTopic<String, Text> = ShardedTopic::new(&client, "a");
    let mut sharded = if is_before_7(&server).await { None } else { Some(sharded.subscribe().await.unwrap()) };
    for _ in 0..2 {
        // In the second round, one more gap may follow before all subscriptions receive messages.
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
    // Messages are delivered in order: those before this one have reached all subscriptions.
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
