//! The fast path of reliable queues: what it costs, that it does the same as the other path, and
//! when it ends.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join3;
use redgrid_reliable_queue::{Delivery, QueueError, QueueSettings, ReliableQueue};
use redgrid_testkit::{Monitor, Observer, wait_until};
use redgrid_tests::{SOON, client, client_with, server};

use super::reliable::{HOUR, SHORT, queue};

pub(super) type Texts = ReliableQueue<String>;

/// The hash of the queue.
pub(super) const QUEUE: &str = "redgrid_reliable_queue:{orders}";

/// Allows the fast path for most of a second, unless something is due. The queue must have been
/// changed before.
pub(super) async fn allow(observer: &Observer) {
    let until = observer.server_time_micros().await.unwrap() / 1000 + 900;
    observer.cmd(&["HSET", QUEUE, "fast_until", &until.to_string()]).await.unwrap();
}

/// Waits until slightly more than `time` has passed on the server's clock.
pub(super) async fn passed(observer: &Observer, time: Duration) {
    let now = async || observer.server_time_micros().await.unwrap();
    let until = now().await + u64::try_from(time.as_micros()).unwrap() + 2_000;
    wait_until(SOON, async || now().await > until).await;
}

/// Returns how many commands the scripts have executed since the last call.
async fn commands(monitor: &mut Monitor) -> usize {
    let seen = monitor.take().await.unwrap();
    seen.iter().filter(|command| command.source == "lua").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_message_costs_8_11_and_8_commands() {
    let server = server().await;
    let queue = queue(&client(&server).await);
    let mut monitor = Monitor::start(&server).await.unwrap().with_scripts();
    let mut least = [usize::MAX; 3];
    // Once a second, a call leaves the fast path, or is the first of its kind.
    for _ in 0..20 {
        queue.push("a").await.unwrap();
        let push = commands(&mut monitor).await;
        let delivery = queue.receive().visibility(HOUR).await.unwrap();
        let receive = commands(&mut monitor).await;
        delivery.ack().await.unwrap();
        let costs = [push, receive, commands(&mut monitor).await];
        least = std::array::from_fn(|at| least[at].min(costs[at]));
    }
    assert_eq!(least, [8, 11, 8]);
    // In a batch, all messages take the same commands, and one more for the size of each.
    let all: Vec<String> = (0..50).map(|n| n.to_string()).collect();
    least = [usize::MAX; 3];
    for _ in 0..10 {
        queue.push_many(&all).await;
        let push = commands(&mut monitor).await;
        let some = queue.receive_many(50).visibility(HOUR).await.unwrap();
        let receive = commands(&mut monitor).await;
        queue.ack_many(some.iter().map(Delivery::receipt)).await;
        let costs = [push, receive, commands(&mut monitor).await];
        least = std::array::from_fn(|at| least[at].min(costs[at]));
    }
    assert_eq!(least, [8, 61, 8]);
}

/// The outcome of a step, without ids and times.
#[derive(Debug, PartialEq)]
struct Step {
    outcomes: Vec<bool>,
    delivered: Vec<(String, u32, u8)>,
    waiting: Vec<(String, u32, u8)>,
    /// Ready, delayed, in flight, dead; then the totals.
    counts: Vec<u64>,
    /// The number of elements of each key.
    sizes: BTreeMap<String, u64>,
}

/// Executes the same steps on a queue, and returns their outcomes. If `is_slow`, each call leaves
/// the fast path.
async fn steps(queue: &Texts, observer: &Observer, is_slow: bool) -> Vec<Step> {
    let mut held: Vec<Delivery<String, _>> = Vec::new();
    let mut steps = Vec::new();
    for number in 0..15 {
        if is_slow {
            observer.cmd(&["HDEL", QUEUE, "fast_until"]).await.unwrap();
        } else if number > 0 {
            allow(observer).await;
        }
        let (mut outcomes, before) = (Vec::new(), held.len());
        match number {
            0..=2 => outcomes.push(queue.push(&format!("{number}")).priority(number % 2).await.is_ok()),
            3 => outcomes.extend(queue.push_many(["a", "b", "c", "d"]).await.iter().map(Result::is_ok)),
            4 => held.extend(queue.receive_many(2).visibility(HOUR).await.unwrap()),
            5 => outcomes.push(queue.ack(held[0].receipt()).await.is_ok()),
            6 => outcomes.push(queue.ack(held[0].receipt()).await.is_ok()),
            7 => held.extend(queue.receive_many(3).visibility(HOUR).await.unwrap()),
            8 => outcomes.push(held[1].nack(Duration::ZERO).await.is_ok()),
            9 => held.push(queue.receive().visibility(HOUR).await.unwrap()),
            // The second acknowledgement of a message fails, in the same batch, too.
            10 => {
                let receipts = [2, 2].map(|at: usize| held[at].receipt());
                outcomes.extend(queue.ack_many(receipts).await.iter().map(Result::is_ok));
            }
            // The first request is sent alone; the others follow in a batch.
            11 => {
                let acked = [held[3].receipt()];
                let push = |text| queue.push(text).into_future();
                let (first, second, acked) = join3(push("e"), push("f"), queue.ack_many(acked)).await;
                outcomes.extend([first.is_ok(), second.is_ok(), acked[0].is_ok()]);
            }
            // The receipt of the returned message counts no more.
            12 => {
                let receipts = [1, 5].map(|at: usize| held[at].receipt());
                outcomes.extend(queue.ack_many(receipts).await.iter().map(Result::is_ok));
            }
            13 => held.extend(queue.receive_many(100).visibility(HOUR).await.unwrap()),
            _ => held.extend(queue.receive_many(1).timeout(Duration::ZERO).await.unwrap()),
        }
        let counts = queue.counts().await.unwrap();
        let totals = counts.totals;
        let mut sizes = BTreeMap::new();
        for key in observer.keys("redgrid_reliable_queue_*").await.unwrap() {
            let command = if key.contains("bodies") || key.contains("states") { "HLEN" } else { "ZCARD" };
            sizes.insert(key.clone(), observer.query(&[command, &key]).await.unwrap());
        }
        steps.push(Step {
            outcomes,
            delivered: held[before..].iter().map(|one| (one.value().unwrap(), one.attempt(), one.priority())).collect(),
            waiting: queue
                .peek(100)
                .await
                .unwrap()
                .iter()
                .map(|one| (one.value().unwrap(), one.attempts(), one.priority()))
                .collect(),
            counts: vec![
                counts.ready,
                counts.delayed,
                counts.in_flight,
                counts.dead,
                totals.pushed,
                totals.received,
                totals.redelivered,
                totals.acknowledged,
            ],
            sizes,
        });
    }
    steps
}

#[tokio::test(flavor = "multi_thread")]
async fn both_paths_have_the_same_results() {
    let calls = async |is_slow: bool| {
        let server = server().await;
        let (queue, observer) = (queue(&client(&server).await), server.observer().await.unwrap());
        let mut monitor = Monitor::start(&server).await.unwrap().with_scripts();
        let steps = steps(&queue, &observer, is_slow).await;
        let seen = monitor.take().await.unwrap();
        (steps, seen.iter().filter(|command| command.source == "lua" && command.name == "HLEN").count())
    };
    let (fast, fast_checks) = calls(false).await;
    let (slow, slow_checks) = calls(true).await;
    assert_eq!(fast, slow);
    assert!(fast_checks * 2 < slow_checks, "the fast path was taken: {fast_checks}, {slow_checks}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fast_delivery_is_due_again() {
    let server = server().await;
    let (queue, observer) = (queue(&client(&server).await), server.observer().await.unwrap());
    for attempt in 1..5 {
        if attempt == 1 {
            queue.push("a").await.unwrap();
        }
        allow(&observer).await;
        let delivery = queue.receive_many(1).visibility(SHORT).timeout(Duration::ZERO).await.unwrap().pop();
        assert_eq!(delivery.expect("its visibility has ended").attempt(), attempt);
        passed(&observer, SHORT).await;
        allow(&observer).await;
    }
    // A message that is due later.
    queue.clear().await.unwrap();
    queue.push("b").delay(SHORT).await.unwrap();
    passed(&observer, SHORT).await;
    allow(&observer).await;
    assert!(queue.try_receive().await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fast_path_ends_with_a_lifetime_and_with_the_settings() {
    let server = server().await;
    let (queue, observer) = (queue(&client(&server).await), server.observer().await.unwrap());
    queue.push("expired").lifetime(SHORT).await.unwrap();
    passed(&observer, SHORT).await;
    queue.push("kept").await.unwrap();
    assert_eq!(queue.counts().await.unwrap().ready, 1, "a push drops the expired message");
    allow(&observer).await;
    queue.set_settings(&QueueSettings { capacity: Some(1), ..QueueSettings::default() }).await.unwrap();
    for _ in 0..2 {
        assert!(matches!(queue.push("no").await, Err(QueueError::Full { .. })));
        allow(&observer).await;
    }
    queue.set_settings(&QueueSettings { lifetime: Some(SHORT), ..QueueSettings::default() }).await.unwrap();
    allow(&observer).await;
    queue.push("expires").await.unwrap();
    passed(&observer, SHORT).await;
    let rest = queue.receive_many(9).visibility(HOUR).await.unwrap();
    assert_eq!(rest.iter().map(|one| one.value().unwrap()).collect::<Vec<_>>(), ["kept"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_the_fast_path_creates_end_with_the_queue() {
    let server = server().await;
    let (queue, observer) = (queue(&client(&server).await), server.observer().await.unwrap());
    queue.push("a").await.unwrap();
    queue.receive().visibility(HOUR).await.unwrap().ack().await.unwrap();
    assert!(queue.object().expire_in(HOUR).await.unwrap());
    for key in ["bodies", "states", "ready"] {
        assert!(!observer.exists(&format!("redgrid_reliable_queue_{key}:{{orders}}")).await.unwrap(), "{key}");
    }
    allow(&observer).await;
    queue.push_many(["b", "c"]).await;
    allow(&observer).await;
    let _held = queue.receive().visibility(HOUR).await.unwrap();
    let keys = observer.keys("redgrid_reliable_queue*").await.unwrap();
    assert_eq!(keys.len(), 5, "{keys:?}");
    for key in keys {
        assert!(observer.time_to_live(&key).await.unwrap().is_some(), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fast_push_after_a_fruitless_receive_wakes_the_waiter() {
    let server = server().await;
    let patient = async || client_with(&server.url(), |config| config.poll_interval(HOUR)).await;
    let (here, there) = (queue(&patient().await), queue(&patient().await));
    let observer = server.observer().await.unwrap();
    there.push("first").await.unwrap();
    for _ in 0..20 {
        let delivery = here.receive().visibility(HOUR).timeout(SOON).await.unwrap();
        delivery.ack().await.unwrap();
        allow(&observer).await;
        // This receive finds nothing. Then the task waits for the next message.
        let waiting = tokio::spawn(here.receive().visibility(HOUR).timeout(SOON).into_future());
        wait_until(SOON, async || observer.query::<u64>(&["HEXISTS", QUEUE, "announced"]).await.unwrap() == 0).await;
        allow(&observer).await;
        there.push("next").await.unwrap();
        waiting.await.unwrap().expect("a wake-up").ack().await.unwrap();
        // The next receive finds this message.
        allow(&observer).await;
        there.push("after").await.unwrap();
    }
}
