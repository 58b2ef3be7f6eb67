//! Paused reliable queues: nothing is delivered until they are resumed. And the age of the oldest
//! ready message.

use std::task::{Context, Waker};
use std::time::{Duration, SystemTime};

use redgrid_core::{Client, Config};
use redgrid_reliable_queue::{Delivery, MessageState, QueueError, QueueSettings, ReliableQueue};
use redgrid_testkit::{Action, Observer, Proxy, RedisServer, Sentinels, wait_until};
use redgrid_tests::{SOON, client, client_with, server};
use tokio::task::JoinHandle;

use super::reliable::{HOUR, SHORT};

/// Part of every request that changes the queue.
const CHANGE: &str = "redgrid_reliable_queue_channel";

type Numbers = ReliableQueue<u64>;
type Received = Result<Delivery<u64, redgrid_reliable_queue::codecs::Json>, QueueError>;

fn numbers(client: &Client) -> Numbers {
    ReliableQueue::new(client, "q")
}

/// A client whose poll would come too late: only notifications wake its waiters.
async fn patient(server: &RedisServer) -> Client {
    client_with(&server.url(), |config| config.poll_interval(Duration::from_secs(600))).await
}

/// Starts a receive, which has entered the queue of waiters when this returns.
fn waiting(queue: &Numbers) -> JoinHandle<Received> {
    let mut future = queue.receive().visibility(HOUR).into_future();
    assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    tokio::spawn(future)
}

async fn end_of(waiting: JoinHandle<Received>) -> Delivery<u64, redgrid_reliable_queue::codecs::Json> {
    tokio::time::timeout(SOON, waiting).await.expect("a wake-up").expect("no panic").expect("a message")
}

/// Waits until this much of the server's time has passed, and a little more.
async fn passed(observer: &Observer, time: Duration) {
    let now = async || observer.server_time_micros().await.unwrap();
    let until = now().await + u64::try_from(time.as_micros()).unwrap() + 2_000;
    wait_until(SOON, async || now().await > until).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_queue_delivers_nothing_and_a_resume_wakes_waiters_of_all_processes() {
    let server = server().await;
    let (here, there) = (numbers(&patient(&server).await), numbers(&patient(&server).await));
    let operator = numbers(&client(&server).await);
    let waiters = [waiting(&here), waiting(&there), waiting(&here), waiting(&there)];
    assert!(operator.pause().await.unwrap());
    assert!(operator.push_many(&[1, 2, 3]).await.iter().all(Result::is_ok));
    operator.push(&4).delay(Duration::from_millis(1)).await.unwrap();
    // Each of these polls also asks for the other waiters of its process.
    for queue in [&here, &there, &operator] {
        assert!(queue.try_receive().await.unwrap().is_none());
        assert!(queue.receive_many(9).timeout(SHORT).await.unwrap().is_empty());
        assert!(matches!(queue.receive().timeout(SHORT).await, Err(QueueError::TimedOut { .. })));
    }
    let counts = operator.counts().await.unwrap();
    assert_eq!((counts.ready, counts.in_flight, counts.totals.pushed, counts.totals.received), (4, 0, 4, 0));
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
    let peeked = operator.peek(9).await.unwrap();
    assert_eq!(peeked.iter().map(|one| one.value().unwrap()).collect::<Vec<_>>(), [1, 2, 3, 4]);

    assert!(operator.resume().await.unwrap());
    let mut values = Vec::new();
    for waiter in waiters {
        let delivery = end_of(waiter).await;
        assert_eq!(delivery.attempt(), 1, "a pause counts as no attempt");
        values.push(delivery.value().unwrap());
        delivery.ack().await.unwrap();
    }
    values.sort_unstable();
    assert_eq!(values, [1, 2, 3, 4]);
    // Afterwards, waiters are notified as before.
    let waiter = waiting(&here);
    operator.push(&5).await.unwrap();
    assert_eq!(end_of(waiter).await.value().unwrap(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_is_a_state_of_the_queue_and_no_setting() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let queue = numbers(&client(&server).await);
    assert!(!queue.is_paused().await.unwrap() && queue.counts().await.unwrap().paused_since.is_none());
    assert!(!queue.resume().await.unwrap() && !queue.object().exists().await.unwrap());
    let now =
        async || SystemTime::UNIX_EPOCH + Duration::from_millis(observer.server_time_micros().await.unwrap() / 1000);
    let before = now().await;
    assert!(queue.pause().await.unwrap());
    let after = now().await;
    let since = queue.counts().await.unwrap().paused_since.expect("it is paused");
    assert!(queue.is_paused().await.unwrap() && (before..=after).contains(&since), "{before:?} {since:?} {after:?}");
    passed(&observer, Duration::from_millis(5)).await;
    assert!(!queue.pause().await.unwrap(), "it was paused before");
    // Other operations leave the pause as it is.
    let settings = QueueSettings { max_attempts: Some(3), ..QueueSettings::default() };
    assert!(queue.try_set_settings(&settings).await.unwrap());
    queue.set_settings(&QueueSettings::default()).await.unwrap();
    queue.push(&1).await.unwrap();
    assert_eq!(queue.clear().await.unwrap(), 1);
    assert_eq!(queue.counts().await.unwrap().paused_since, Some(since));
    assert!(queue.resume().await.unwrap() && !queue.resume().await.unwrap() && !queue.is_paused().await.unwrap());
    assert!(queue.pause().await.unwrap() && queue.object().delete().await.unwrap());
    assert!(!queue.is_paused().await.unwrap(), "a deleted queue is not paused");
    queue.push(&2).await.unwrap();
    assert_eq!(queue.receive().await.unwrap().value().unwrap(), 2);

    // A server that is out of memory pauses and resumes a queue.
    observer.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
    assert!(queue.pause().await.unwrap() && queue.try_receive().await.unwrap().is_none());
    assert!(queue.resume().await.unwrap());
    // A key of another type is an error.
    observer.cmd(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
    assert!(queue.object().delete().await.unwrap());
    observer.cmd(&["SET", "redgrid_reliable_queue:{q}", "text"]).await.unwrap();
    assert!(queue.pause().await.is_err() && queue.resume().await.is_err() && queue.is_paused().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_in_flight_are_settled_and_their_visibilities_end_during_a_pause() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let queue = numbers(&client(&server).await);
    queue.set_settings(&QueueSettings { max_attempts: Some(2), ..QueueSettings::default() }).await.unwrap();
    queue.push_many(&[1, 2, 3, 4, 5]).await;
    let held = queue.receive_many(4).visibility(HOUR).await.unwrap();
    let late = queue.receive().visibility(HOUR).await.unwrap();
    queue.pause().await.unwrap();
    held[0].ack().await.unwrap();
    held[1].nack(Duration::ZERO).await.unwrap();
    held[2].reject("no").await.unwrap();
    late.extend(SHORT).await.unwrap();
    queue.push(&6).lifetime(SHORT).await.unwrap();
    passed(&observer, SHORT).await;
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.ready, counts.overdue, counts.in_flight, counts.dead), (3, 1, 1, 1));
    // A receive moves what is due, and drops what has expired.
    assert!(queue.try_receive().await.unwrap().is_none());
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.ready, counts.overdue, counts.in_flight, counts.dead), (2, 0, 1, 1));
    assert_eq!((counts.totals.returned, counts.totals.expired), (2, 1));
    // Its acknowledgement still counts, as no other consumer has received it.
    late.ack().await.unwrap();
    assert_eq!(queue.dead().redrive().await.unwrap(), 1);
    assert!(queue.try_receive().await.unwrap().is_none());
    queue.resume().await.unwrap();
    let again = queue.receive_many(9).visibility(SHORT).await.unwrap();
    let attempts: Vec<_> = again.iter().map(|one| (one.value().unwrap(), one.attempt())).collect();
    assert_eq!(attempts, [(2, 2), (3, 1)]);
    // The second attempt of 2 was its last one: during a pause it becomes a dead letter, too.
    queue.pause().await.unwrap();
    passed(&observer, SHORT).await;
    assert!(queue.try_receive().await.unwrap().is_none());
    let state = queue.get(again[0].id()).await.unwrap().expect("it is there").state().clone();
    assert!(matches!(&state, MessageState::Dead { reason, .. } if reason == "attempts"), "{state:?}");
    assert_eq!(queue.get(again[1].id()).await.unwrap().expect("it is there").state(), &MessageState::Ready);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_delivered_between_a_pause_and_a_resume_under_load() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await, client(&server).await];
    let operator = numbers(&client(&server).await);
    let consumers: Vec<_> = clients
        .iter()
        .map(|client| {
            let queue = numbers(client);
            tokio::spawn(async move {
                let mut got = Vec::new();
                while let Ok(delivery) = queue.receive().visibility(HOUR).await {
                    delivery.ack().await.unwrap();
                    let value = delivery.value().unwrap();
                    if value == u64::MAX {
                        break;
                    }
                    got.push(value);
                }
                got
            })
        })
        .collect();
    let mut pushed = 0..;
    let mut push = async |n: usize| {
        let some: Vec<u64> = pushed.by_ref().take(n).collect();
        assert!(operator.push_many(&some).await.iter().all(Result::is_ok));
    };
    for round in 0..20_u64 {
        push(20).await;
        assert!(operator.pause().await.unwrap());
        let before = operator.counts().await.unwrap();
        push(20).await;
        assert!(operator.try_receive().await.unwrap().is_none());
        // The consumers poll, as their acknowledgements show.
        wait_until(SOON, async || operator.counts().await.unwrap().in_flight == 0).await;
        let after = operator.counts().await.unwrap();
        assert_eq!((after.totals.received, after.totals.pushed), (before.totals.received, 40 * (round + 1)));
        assert!(operator.resume().await.unwrap());
    }
    wait_until(SOON, async || operator.counts().await.unwrap().totals.acknowledged == 800).await;
    for _ in &consumers {
        operator.push(&u64::MAX).priority(0).await.unwrap();
    }
    let mut got = Vec::new();
    for consumer in consumers {
        got.extend(tokio::time::timeout(SOON, consumer).await.expect("it ends").expect("no panic"));
    }
    got.sort_unstable();
    assert_eq!(got, (0..800).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receive_that_is_cancelled_during_a_pause_takes_nothing() {
    let server = server().await;
    let (here, operator) = (numbers(&patient(&server).await), numbers(&client(&server).await));
    operator.pause().await.unwrap();
    let (cancelled, waiter) = (waiting(&here), waiting(&here));
    operator.push(&1).await.unwrap();
    cancelled.abort();
    assert!(cancelled.await.unwrap_err().is_cancelled());
    operator.resume().await.unwrap();
    let delivery = end_of(waiter).await;
    assert_eq!((delivery.value().unwrap(), delivery.attempt()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_replies_neither_undo_a_pause_nor_deliver_during_one() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let settings = |config: Config| config.response_timeout(Duration::from_millis(500)).retries(10);
    let hasty = numbers(&client_with(&server.url_via(proxy.addr()), settings).await);
    let operator = numbers(&client(&server).await);
    // Afterwards, the server knows the scripts.
    assert!(hasty.pause().await.unwrap() && hasty.resume().await.unwrap());
    assert!(hasty.try_receive().await.unwrap().is_none());
    proxy.next(2, CHANGE, Action::SwallowReply);
    assert!(hasty.pause().await.unwrap(), "the first transmission has paused it");
    assert_eq!(proxy.counts().swallowed, 2);
    // A receive whose requests are lost, and sent again during the pause.
    operator.push(&1).await.unwrap();
    assert!(hasty.try_receive().await.unwrap().is_none());
    proxy.next(2, CHANGE, Action::SwallowReply);
    assert!(hasty.try_receive().await.unwrap().is_none());
    assert!(operator.resume().await.unwrap());
    assert_eq!(hasty.receive().visibility(HOUR).await.unwrap().attempt(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_ready_message_has_an_age_by_the_time_it_became_ready() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let queue = numbers(&client(&server).await);
    let age = async || queue.counts().await.unwrap().oldest_ready_age;
    let at_least = async |time: Duration| {
        let age = age().await.expect("a message is ready");
        assert!(age >= time, "{age:?} instead of {time:?}");
        age
    };
    assert_eq!(age().await, None);
    queue.push(&1).delay(HOUR).await.unwrap();
    assert_eq!(age().await, None, "a delayed message is not ready");
    let second = queue.push(&2).priority(9).delay(SHORT).await.unwrap().id;
    passed(&observer, SHORT * 3).await;
    let due = at_least(SHORT * 2).await;
    assert!(due < SOON);
    // A receive makes it ready, and another one is received.
    queue.push(&3).priority(9).await.unwrap();
    let delivery = queue.receive().visibility(SHORT).await.unwrap();
    assert_eq!(delivery.id(), second);
    // The other message is younger.
    let counts = queue.counts().await.unwrap();
    assert!(counts.oldest_ready_age.expect("a message is ready") < due + SOON);
    passed(&observer, SHORT).await;
    let counts = queue.counts().await.unwrap();
    assert_eq!((counts.overdue, counts.ready), (1, 2));
    // A message at the head that is returned again and again does not hide those behind it.
    let waited = at_least(SHORT).await;
    for _ in 0..3 {
        let head = queue.receive().visibility(HOUR).await.unwrap();
        assert_eq!(head.id(), second);
        head.nack(Duration::ZERO).await.unwrap();
    }
    passed(&observer, SHORT).await;
    assert!(at_least(waited + SHORT).await < waited + SOON);
    // A message of a low priority that waits is the oldest.
    queue.push(&4).priority(0).await.unwrap();
    let held = queue.receive_many(2).visibility(HOUR).await.unwrap();
    passed(&observer, SHORT).await;
    at_least(SHORT).await;
    // A redriven dead letter is as old as its redrive.
    let low = queue.receive().visibility(HOUR).await.unwrap();
    low.reject("no").await.unwrap();
    assert_eq!(age().await, None);
    let before = observer.server_time_micros().await.unwrap();
    assert_eq!(queue.dead().redrive().await.unwrap(), 1);
    let redriven = age().await.expect("a message is ready");
    let passed_micros = observer.server_time_micros().await.unwrap() - before;
    assert!(redriven <= Duration::from_micros(passed_micros) + Duration::from_millis(1), "{redriven:?}");
    drop(held);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_returned_message_is_as_old_as_its_return() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let queue = numbers(&client(&server).await);
    let now = async || Duration::from_micros(observer.server_time_micros().await.unwrap());
    // It became ready at this time at the earliest. Both times of an age are whole milliseconds.
    let is_ready_since = async |earliest: Duration| {
        let age = queue.counts().await.unwrap().oldest_ready_age.expect("a message is ready");
        let most = now().await - earliest + Duration::from_millis(1);
        assert!(age <= most, "{age:?}, but at most {most:?}");
    };
    // A receive during a pause moves messages, and takes none.
    let move_due = async || {
        passed(&observer, SHORT * 2).await;
        queue.pause().await.unwrap();
        assert!(queue.try_receive().await.unwrap().is_none());
        assert_eq!(queue.counts().await.unwrap().overdue, 0);
    };
    let began = now().await;
    queue.push(&1).delay(SHORT).await.unwrap();
    move_due().await;
    is_ready_since(began + SHORT).await;

    queue.resume().await.unwrap();
    let began = now().await;
    drop(queue.receive().visibility(SHORT).await.unwrap());
    move_due().await;
    is_ready_since(began + SHORT).await;

    queue.resume().await.unwrap();
    let held = queue.receive().visibility(HOUR).await.unwrap();
    passed(&observer, SHORT).await;
    let began = now().await;
    held.nack(Duration::ZERO).await.unwrap();
    is_ready_since(began).await;
}

/// A pause that the replicas have survives the death of the primary.
#[tokio::test(flavor = "multi_thread")]
async fn a_queue_stays_paused_after_a_failover() {
    let sentinels = Sentinels::builder().start().await.unwrap();
    let addresses = sentinels.addrs().into_iter().map(|addr| addr.to_string());
    // The waiter must wait for longer than a failover takes on a busy machine.
    let config = Config::sentinel(sentinels.master_name(), addresses).unwrap().retries(39);
    let client = Client::connect(config).await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    let queue = numbers(&client);
    let waiter = waiting(&queue);
    assert!(queue.pause().await.unwrap());
    queue.push(&7).await.unwrap();
    let primary = sentinels.current_primary().await.unwrap();
    let (address, observer) = (primary.addr(), primary.observer().await.unwrap());
    // Written after the pause, on the connection that waits.
    observer.cmd(&["SET", "behind", "1"]).await.unwrap();
    let replicas: u64 = observer.query(&["WAIT", "2", "10000"]).await.unwrap();
    assert_eq!(replicas, 2);
    primary.kill().await.unwrap();
    let promoted = sentinels.wait_for_primary_other_than(address).await.unwrap();
    assert_ne!(promoted.addr(), address);
    wait_until(SOON, async || queue.is_paused().await.is_ok_and(|is_paused| is_paused)).await;
    assert!(queue.try_receive().await.unwrap().is_none() && !waiter.is_finished());
    assert!(queue.resume().await.unwrap());
    assert_eq!(end_of(waiter).await.value().unwrap(), 7);
}
