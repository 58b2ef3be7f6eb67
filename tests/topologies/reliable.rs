//! Reliable queues on every topology.

use std::time::Duration;

use redgrid_core::object::Lifetime;
use redgrid_reliable_queue::{QueueError, QueueSettings, ReliableQueue};
use redgrid_tests::SOON;

use crate::contract::clauses;
use crate::fixture::Fixture;

const HOUR: Duration = Duration::from_secs(3600);

clauses![
    "reliable queues";
    messages_are_pushed_waited_for_and_settled,
    an_unsettled_message_is_redelivered_and_becomes_a_dead_letter,
    a_paused_queue_delivers_nothing_until_it_is_resumed,
];

async fn messages_are_pushed_waited_for_and_settled(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (here, there): (ReliableQueue<String>, ReliableQueue<String>) =
        (ReliableQueue::new(&one, &on.name), ReliableQueue::new(&two, &on.name));
    let waiting = tokio::spawn({
        let there = there.clone();
        async move { there.receive().visibility(HOUR).await.unwrap() }
    });
    here.push("a").deduplicate("a").header("from", "here").await.unwrap();
    let a = tokio::time::timeout(SOON, waiting).await.expect("it comes").unwrap();
    assert_eq!((a.value().unwrap().as_str(), a.attempt(), a.headers().unwrap().len()), ("a", 1, 1));
    assert!(!there.push("a").deduplicate("a").await.unwrap().is_new);
    a.extend(HOUR).await.unwrap();
    a.ack().await.unwrap();
    here.push("later").delay(Duration::from_millis(200)).lifetime(HOUR).await.unwrap();
    here.push("low").priority(1).await.unwrap();
    here.push("high").priority(9).await.unwrap();
    assert_eq!(there.peek(5).await.unwrap()[0].value().unwrap(), "high");
    let both = there.receive_many(2).visibility(HOUR).await.unwrap();
    assert_eq!(both[0].value().unwrap(), "high");
    here.ack(both[0].receipt()).await.unwrap();
    both[1].nack(HOUR).await.unwrap();
    assert!(matches!(both[1].ack().await, Err(QueueError::Stale { .. })));
    let later = tokio::time::timeout(SOON, there.receive().into_future()).await.expect("it comes due").unwrap();
    later.reject("no").await.unwrap();
    let counts = here.counts().await.unwrap();
    assert_eq!((counts.delayed, counts.in_flight, counts.dead, counts.totals.acknowledged), (1, 0, 1, 2));
    assert!(here.object().expire_in(HOUR).await.unwrap());
    assert!(matches!(there.object().lifetime().await.unwrap(), Lifetime::Ends(left) if left <= HOUR));
    assert!(here.remove(both[1].id()).await.unwrap());
    assert_eq!(there.clear().await.unwrap(), 1);
    assert!(here.object().delete().await.unwrap() && !there.object().exists().await.unwrap());
}

async fn an_unsettled_message_is_redelivered_and_becomes_a_dead_letter(on: Fixture) {
    let client = on.client().await;
    let queue: ReliableQueue<u64> = ReliableQueue::new(&client, &on.name);
    let settings = QueueSettings {
        visibility: Some(Duration::from_millis(50)),
        max_attempts: Some(2),
        max_message_size: Some(10),
        dead_lifetime: Some(HOUR),
        ..QueueSettings::default()
    };
    assert!(queue.try_set_settings(&settings).await.unwrap());
    assert_eq!(queue.settings().await.unwrap(), settings);
    assert!(matches!(queue.push(&u64::MAX).await, Err(QueueError::TooLarge { .. })));
    queue.push(&7).await.unwrap();
    for attempt in 1..=2 {
        let delivery = tokio::time::timeout(SOON, queue.receive().into_future()).await.expect("it comes").unwrap();
        assert_eq!((delivery.value().unwrap(), delivery.attempt()), (7, attempt));
    }
    // A receiver makes the message a dead letter, and receives nothing.
    let nothing = async || {
        assert!(queue.try_receive().await.unwrap().is_none());
        queue.dead().count().await.unwrap() == 1
    };
    redgrid_testkit::wait_until(SOON, nothing).await;
    assert_eq!(queue.dead().redrive().await.unwrap(), 1);
    let anew = queue.receive().visibility(HOUR).await.unwrap();
    assert_eq!(anew.attempt(), 1);
    anew.ack().await.unwrap();
    assert_eq!(queue.dead().clear().await.unwrap(), 0);
}

async fn a_paused_queue_delivers_nothing_until_it_is_resumed(on: Fixture) {
    // The next poll comes too late: only the notification of the resume wakes the waiter.
    let (one, two) = (on.client().await, on.client_with(|config| config.poll_interval(SOON)).await);
    let (here, there): (ReliableQueue<u64>, ReliableQueue<u64>) =
        (ReliableQueue::new(&one, &on.name), ReliableQueue::new(&two, &on.name));
    let waiting = tokio::spawn({
        let there = there.clone();
        async move { there.receive().visibility(HOUR).await.unwrap() }
    });
    assert!(here.pause().await.unwrap() && there.is_paused().await.unwrap());
    here.push(&7).await.unwrap();
    for queue in [&here, &there] {
        assert!(queue.try_receive().await.unwrap().is_none());
    }
    assert!(!waiting.is_finished());
    assert!(there.resume().await.unwrap() && !here.resume().await.unwrap());
    let delivery = tokio::time::timeout(SOON, waiting).await.expect("it comes").unwrap();
    assert_eq!((delivery.value().unwrap(), delivery.attempt()), (7, 1));
    delivery.ack().await.unwrap();
}
