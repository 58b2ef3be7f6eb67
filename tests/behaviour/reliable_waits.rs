//! Consumers that wait for messages of a reliable queue are notified, in the order of their calls.

use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use redgrid_core::Client;
use redgrid_testkit::{RedisServer, wait_until};
use redgrid_tests::{SOON, client_with, server};

use super::reliable::{HOUR, SHORT, queue};

/// A client whose poll interval is longer than any test takes.
async fn patient(server: &RedisServer) -> Client {
    client_with(&server.url(), |config| config.poll_interval(Duration::from_secs(600))).await
}

/// A notification is not lost, even if it arrives during a poll that did not see its message.
#[tokio::test(flavor = "multi_thread")]
async fn a_notification_during_a_poll_is_not_lost() {
    let server = server().await;
    let (here, there) = (queue(&patient(&server).await), queue(&patient(&server).await));
    for _ in 0..100 {
        let waiting = tokio::spawn(here.receive().visibility(HOUR).into_future());
        there.push("later").delay(Duration::from_millis(10)).await.unwrap();
        let delivery = tokio::time::timeout(SOON, waiting).await.expect("a wake-up").unwrap();
        delivery.unwrap().ack().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_is_woken_by_a_push_and_by_a_due_message() {
    let server = server().await;
    let (here, there) = (queue(&patient(&server).await), queue(&patient(&server).await));
    let observer = server.observer().await.unwrap();
    let channel = "redgrid_reliable_queue_channel:{orders}".to_owned();
    for round in 0..4 {
        let waiting = tokio::spawn({
            let here = here.clone();
            async move { here.receive().visibility(HOUR).await.unwrap() }
        });
        wait_until(SOON, async || observer.pubsub_channels("*").await.unwrap().contains(&channel)).await;
        match round {
            0 => drop(there.push("now").await.unwrap()),
            1 => drop(there.push("later").delay(Duration::from_millis(300)).await.unwrap()),
            // A message that is due much later does not delay one that is ready.
            2 => {
                there.push("theirs").delay(HOUR).await.unwrap();
                there.push("lost").priority(9).await.unwrap();
            }
            // A message that is due before `theirs`.
            _ => drop(there.push("sooner").delay(SHORT).await.unwrap()),
        }
        let delivery = tokio::time::timeout(SOON, waiting).await.expect("a wake-up").unwrap();
        assert_eq!(delivery.attempt(), 1);
        match round {
            2 => delivery.nack(Duration::from_millis(100)).await.unwrap(),
            _ => delivery.ack().await.unwrap(),
        }
        if round == 2 {
            let again = tokio::time::timeout(SOON, here.receive().into_future()).await.expect("due again").unwrap();
            again.ack().await.unwrap();
        }
    }
    // A message that another client received is ready again when its visibility ends.
    let began = Instant::now();
    there.push("a").await.unwrap();
    let lost = there.receive().visibility(Duration::from_millis(200)).await.unwrap();
    let again = tokio::time::timeout(SOON, here.receive().into_future()).await.expect("a second delivery").unwrap();
    assert!(began.elapsed() >= Duration::from_millis(200) && again.id() == lost.id() && again.attempt() == 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_a_process_receive_in_the_order_in_which_they_came() {
    let server = server().await;
    let queue = queue(&patient(&server).await);
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    for task in 0..20 {
        // Each task enters the queue at its first poll, one after the other.
        let (queue, sender) = (queue.clone(), sender.clone());
        let mut future = queue.receive().visibility(HOUR).into_future();
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        tokio::spawn(async move {
            let delivery = future.await.unwrap();
            sender.send((task, delivery.value().unwrap())).unwrap();
        });
    }
    let all: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    queue.push_many(&all).await;
    for _ in 0..20 {
        let (task, value) = receiver.recv().await.unwrap();
        assert_eq!(task.to_string(), value);
    }
}
