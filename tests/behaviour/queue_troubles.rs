//! Queues with late copies, ending clients, and elements that cannot be put back.

use std::fmt::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use redgrid_core::Failure;
use redgrid_queue::{Client, DelayedQueue, ObjectError, Queue};
use redgrid_testkit::{Action, Observer, Proxy, RedisServer, wait_until};
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{SOON, client, client_with, server, sha};
use tracing::field::{Field, Visit};
use tracing::span;

/// Returns the text of an exactly-once script, as it is sent to the server.
macro_rules! once {
    ($name:literal) => {
        concat!(
            include_str!("../../crates/redgrid-core/src/exactly_once/dedup.lua"),
            include_str!(concat!("../../crates/redgrid-queue/src/scripts/", $name, ".lua"))
        )
    };
}

/// Returns a client behind a proxy.
async fn harness(server: &RedisServer, timeout: Duration, retries: u32) -> (Proxy, Client) {
    let proxy = Proxy::to(server).await.unwrap();
    let settings = |config: redgrid_core::Config| config.response_timeout(timeout).retries(retries);
    let client = client_with(&server.url_via(proxy.addr()), settings).await;
    (proxy, client)
}

async fn list(observer: &Observer, key: &str) -> Vec<u64> {
    observer.query(&["LRANGE", key, "0", "-1"]).await.unwrap()
}

/// Returns a wait that was given element 1, and has not been polled since.
async fn given(queue: &Queue<u64>) -> impl Future<Output = Result<u64, ObjectError>> + Unpin + use<> {
    let take = |queue: Queue<u64>| Box::pin(async move { queue.take().await });
    let (mut first, mut second) = (take(queue.clone()), take(queue.clone()));
    assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
    queue.push_many(&[1, 2]).await.unwrap();
    // Waiters are served in order.
    assert_eq!(second.await.unwrap(), 2);
    first
}

/// The log of the test's thread.
#[derive(Clone, Default)]
struct LogText(Arc<Mutex<String>>);

impl LogText {
    /// Whether one line contains all of these texts.
    fn has_line(&self, all: &[&str]) -> bool {
        self.0.lock().unwrap().lines().any(|line| all.iter().all(|one| line.contains(one)))
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl tracing::Subscriber for LogText {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        writeln!(self.0.lock().unwrap(), "{}", line.0).unwrap();
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_copy_of_a_take_that_found_nothing_takes_nothing() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    // With this timeout, a retransmission may be very late.
    let (proxy, client) = harness(&server, Duration::from_secs(30), 1).await;
    let (plain, later): (Queue<u64>, DelayedQueue<u64>) =
        (Queue::new(&client, "jobs"), DelayedQueue::new(&client, "later"));
    for (key, script) in [("jobs", once!("take")), ("later", once!("take_due"))] {
        let look = async || match key {
            "jobs" => plain.take_within(Duration::ZERO).await,
            _ => later.take_within(Duration::ZERO).await,
        };
        assert_eq!(look().await.unwrap(), None, "the server knows the script");
        proxy.next(1, sha(script), Action::Hold);
        let (found, ()) = tokio::join!(look(), async {
            wait_until(SOON, async || proxy.counts().held == 1).await;
            // The retransmission is sent at once, and finds nothing.
            proxy.cut_all();
        });
        assert_eq!(found.unwrap(), None);
        observer.cmd(&["RPUSH", key, "1", "2"]).await.unwrap();
        assert_eq!(proxy.release_held().await, 1);
        assert_eq!(list(&observer, key).await, [1, 2]);
        assert_eq!((look().await.unwrap(), look().await.unwrap()), (Some(1), Some(2)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unpolled_take_is_put_back_when_the_client_ends() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let queue: Queue<u64> = Queue::new(&client, "jobs");
    let mut dropped = given(&queue).await;
    client.shutdown(SOON).await.unwrap();
    assert_eq!(list(&observer, "jobs").await, [1]);
    let told = tokio::time::timeout(SOON, &mut dropped).await.unwrap().unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::ShuttingDown { .. })), "{told:?}");
    // The client has stopped serving waiters.
    let told = tokio::time::timeout(SOON, queue.take()).await.unwrap().unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::ShuttingDown { .. })), "{told:?}");
    assert_eq!(list(&observer, "jobs").await, [1]);
}

#[tokio::test]
async fn waiters_are_notified_while_a_put_back_is_unanswered() {
    let book = LogText::default();
    let _reading = tracing::subscriber::set_default(book.clone());
    let server = server().await;
    let observer = server.observer().await.unwrap();
    observer.cmd(&["SCRIPT", "LOAD", once!("put_back")]).await.unwrap();
    let (proxy, client) = harness(&server, Duration::from_millis(500), 1).await;
    let queue: Queue<u64> = Queue::new(&client, "jobs");
    let leaves = given(&queue).await;
    proxy.next(usize::MAX, sha(once!("put_back")), Action::SwallowReply);
    drop(leaves);
    wait_until(SOON, async || proxy.counts().swallowed > 0).await;
    // The client repeats the put-back for 30 s.
    let began = Stopwatch::start();
    let told = queue.take_within(Duration::from_millis(50)).await.unwrap_err();
    assert!(
        matches!(told, ObjectError::Failed(Failure::Unavailable { .. } | Failure::OutcomeUnknown { .. })),
        "{told:?}"
    );
    began.assert_within(Duration::from_secs(10));
    let mut waits = Box::pin(queue.take());
    assert!((&mut waits).now_or_never().is_none());
    let ending = tokio::spawn({
        let client = client.clone();
        async move { client.shutdown(Duration::from_secs(4)).await }
    });
    assert!(waits.await.is_err());
    assert!(!ending.is_finished(), "waiters are notified at once");
    ending.await.unwrap().unwrap_err();
    wait_until(SOON, async || book.has_line(&["ERROR", "jobs", "elements=1"])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_call_without_a_server_waits_no_longer_than_earlier_ones() {
    let server = server().await;
    let (proxy, client) = harness(&server, Duration::from_secs(1), 1).await;
    let queue: Queue<u64> = Queue::new(&client, "jobs");
    assert_eq!(queue.take_within(Duration::ZERO).await.unwrap(), None, "the server knows the script");
    proxy.next(usize::MAX, sha(once!("take")), Action::SwallowReply);
    let ended = async || (queue.take().await.unwrap_err(), Instant::now());
    let ((first, first_ended), (second, second_ended)) = tokio::join!(ended(), async {
        wait_until(SOON, async || proxy.counts().swallowed > 0).await;
        ended().await
    });
    for error in [first, second] {
        assert!(
            matches!(error, ObjectError::Failed(Failure::Unavailable { .. } | Failure::OutcomeUnknown { .. })),
            "{error:?}"
        );
    }
    // The later call must not wait for two more seconds.
    assert!(second_ended - first_ended < Duration::from_secs(1), "{:?}", second_ended - first_ended);
}

#[tokio::test]
async fn lost_elements_are_reported() {
    let book = LogText::default();
    let _reading = tracing::subscriber::set_default(book.clone());
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let one = client(&server).await;
    let queue: Queue<u64> = Queue::new(&one, "jobs");
    // The record belongs to a later call, so the outcome of this call is unknown.
    let memory = format!("redgrid_once:{{jobs}}:{}", one.id());
    observer.cmd(&["SET", &memory, "1000000 x"]).await.unwrap();
    let told = queue.take().await.unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::OutcomeUnknown { .. })), "{told:?}");
    assert!(book.has_line(&["ERROR", "jobs", "not known"]));
    observer.cmd(&["DEL", &memory]).await.unwrap();
    // An element that cannot be returned before the shutdown ends.
    let leaves = given(&queue).await;
    observer.cmd(&["SET", "jobs", "x"]).await.unwrap();
    drop(leaves);
    wait_until(SOON, async || book.has_line(&["WARN", "jobs", "elements=1"])).await;
    assert!(!book.has_line(&["ERROR", "elements=1"]));
    one.shutdown(SOON).await.unwrap();
    assert!(book.has_line(&["ERROR", "jobs", "elements=1"]));
}

#[tokio::test]
async fn a_failing_put_back_does_not_keep_the_client_alive() {
    let book = LogText::default();
    let _reading = tracing::subscriber::set_default(book.clone());
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (proxy, client) = harness(&server, Duration::from_secs(3), 1).await;
    let queue: Queue<u64> = Queue::new(&client, "jobs");
    let leaves = given(&queue).await;
    observer.cmd(&["SET", "jobs", "x"]).await.unwrap();
    drop((leaves, queue));
    wait_until(SOON, async || book.has_line(&["WARN", "jobs", "elements=1"])).await;
    drop(client);
    wait_until(SOON, async || proxy.counts().open == 0).await;
    assert!(book.has_line(&["ERROR", "jobs", "elements=1"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_take_gets_elements_that_arrived_since_the_last_poll() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let queue: Queue<u64> = Queue::new(&client, "jobs");
    // The polls are sent after 0, 10, 30, 70, … ms. The poll after 1,270 ms is the last regular
    // one, so the take must poll once more at its end. A machine that stalls may miss that.
    for _ in 0..5 {
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.take_within(Duration::from_millis(2_100)).await.unwrap() }
        });
        tokio::time::sleep(Duration::from_millis(1_600)).await;
        observer.cmd(&["RPUSH", "jobs", "1"]).await.unwrap();
        if waiting.await.unwrap() == Some(1) {
            return;
        }
        observer.cmd(&["DEL", "jobs"]).await.unwrap();
    }
    panic!("the element was not found at the end");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_item_does_not_block_earlier_ones() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let queue: DelayedQueue<u64> = DelayedQueue::new(&client, "later");
    let times = "redisson_delay_queue_timeout:{later}";
    queue.push_many([(&2, Duration::ZERO), (&3, Duration::from_secs(600))]).await.unwrap();
    observer.cmd(&["RPUSH", "later", "1"]).await.unwrap();
    // The invalid item is due behind element 1, which is in the list already, and before all other
    // items.
    observer.cmd(&["ZADD", times, "9999999999", "x"]).await.unwrap();
    observer.cmd(&["ZINCRBY", times, "1690000000000", "x"]).await.unwrap();
    let broken: Vec<String> = observer.query(&["ZRANGE", times, "0", "0"]).await.unwrap();
    assert_eq!(broken, ["x"]);
    assert_eq!((queue.len().await.unwrap(), queue.due().await.unwrap()), (4, 3));
    assert_eq!(queue.peek().await.unwrap(), Some(1));
    let (one, two) = tokio::join!(queue.take(), queue.take());
    assert_eq!(one.unwrap(), 1);
    assert!(matches!(two, Err(ObjectError::Failed(Failure::Refused { .. }))));
    // The invalid item is at the front now. It is included in the length.
    assert_eq!((queue.len().await.unwrap(), queue.peek().await.unwrap()), (3, None));
    observer.cmd(&["ZREM", times, "x"]).await.unwrap();
    assert_eq!(queue.take().await.unwrap(), 2);
    // The invalid item is behind a due element, which is taken.
    queue.push(&4, Duration::ZERO).await.unwrap();
    let [now, _]: [String; 2] = observer.query(&["TIME"]).await.unwrap();
    observer.cmd(&["ZADD", times, &format!("{now}999"), "x"]).await.unwrap();
    wait_until(SOON, async || queue.due().await.unwrap() == 2).await;
    let (one, two) = tokio::join!(queue.take(), queue.take());
    assert_eq!(one.unwrap(), 4);
    assert!(matches!(two, Err(ObjectError::Failed(Failure::Refused { .. }))));
}
