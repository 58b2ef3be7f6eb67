//! The fast path of reliable queues in bad conditions: late copies, clocks that are set back, keys of
//! other types, a full server, and programs that know no fast path.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join3;
use redgrid_core::{Config, Failure};
use redgrid_reliable_queue::{Delivery, ObjectError, QueueError};
use redgrid_testkit::{Action, Observer, Proxy};
use redgrid_tests::{client, client_with, server};

use super::reliable::{HOUR, SHORT, queue};
use super::reliable_fast::{QUEUE, Texts, allow, passed};

/// A pattern for all keys of the queue but its hash.
const KEYS: &str = "redgrid_reliable_queue_*";

/// Returns the contents of the keys.
async fn dumps(observer: &Observer, pattern: &str) -> BTreeMap<String, Vec<u8>> {
    let mut dumps = BTreeMap::new();
    for key in observer.keys(pattern).await.unwrap() {
        let dump = observer.query(&["DUMP", &key]).await.unwrap();
        dumps.insert(key, dump);
    }
    dumps
}

fn is_refused<T>(result: &Result<T, QueueError>) -> bool {
    matches!(result, Err(QueueError::Object(ObjectError::Failed(Failure::Refused { .. }))))
}

/// A request with a fast path.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Call {
    Push,
    Receive,
    Ack,
}

type Held = Vec<Delivery<String, redgrid_reliable_queue::codecs::Json>>;

async fn execute(call: Call, queue: &Texts, held: &mut Held) {
    match call {
        Call::Push => drop(queue.push("more").await.unwrap()),
        Call::Receive => held.push(queue.receive().visibility(HOUR).await.unwrap()),
        Call::Ack => held.remove(0).ack().await.unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_copy_changes_nothing() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let settings = |config: Config| config.response_timeout(Duration::from_millis(300)).retries(10);
    let client = client_with(&server.url_via(proxy.addr()), settings).await;
    let (queue, observer) = (queue(&client), server.observer().await.unwrap());
    for call in [Call::Push, Call::Receive, Call::Ack] {
        for (is_slow, is_followed) in [(false, false), (false, true), (true, false), (true, true)] {
            queue.clear().await.unwrap();
            queue.push_many(["a", "b", "c", "d"]).await;
            let mut held = queue.receive_many(2).visibility(HOUR).await.unwrap();
            // The first copy is held, and a later one is executed.
            proxy.next(1, "redgrid_reliable_queue_channel", Action::Hold);
            allow(&observer).await;
            if is_slow {
                observer.cmd(&["HDEL", QUEUE, "fast_until"]).await.unwrap();
            }
            execute(call, &queue, &mut held).await;
            if is_followed {
                allow(&observer).await;
                execute(call, &queue, &mut held).await;
            }
            allow(&observer).await;
            let before = dumps(&observer, "redgrid_reliable_queue*").await;
            assert_eq!(proxy.release_held().await, 1);
            // The server executes the late copy before this request.
            queue.counts().await.unwrap();
            let after = dumps(&observer, "redgrid_reliable_queue*").await;
            assert_eq!(after, before, "{call:?}, slow: {is_slow}, followed: {is_followed}");
            // The reply to this request is lost. So its copy is compared with the memory, which the
            // late copy did not change.
            let pushed = queue.counts().await.unwrap().totals.pushed;
            proxy.next(1, "redgrid_reliable_queue_channel", Action::SwallowReply);
            allow(&observer).await;
            queue.push("last").await.unwrap();
            assert_eq!(queue.counts().await.unwrap().totals.pushed, pushed + 1);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_changes_nothing_but_settles() {
    let server = server().await;
    let (queue, observer) = (queue(&client(&server).await), server.observer().await.unwrap());
    queue.push_many(["a", "b", "c", "d"]).await;
    let mut held = queue.receive_many(3).visibility(HOUR).await.unwrap();
    for (round, delivery) in held.iter().enumerate() {
        observer.cmd(&["CONFIG", "SET", "maxmemory", "0"]).await.unwrap();
        allow(&observer).await;
        observer.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await.unwrap();
        let before = dumps(&observer, "redgrid_*").await;
        assert!(is_refused(&queue.push("e").await));
        assert!(queue.push_many(["f", "g"]).await.iter().all(is_refused));
        assert_eq!(dumps(&observer, "redgrid_*").await, before);
        // In a batch, only the acknowledgement is executed.
        let push = |text| queue.push(text).into_future();
        let receipts = [delivery.receipt()];
        let (first, second, acked) = join3(push("h"), push("i"), queue.ack_many(receipts)).await;
        assert!(is_refused(&first) && is_refused(&second) && acked[0].is_ok());
        assert_eq!(queue.counts().await.unwrap().totals.acknowledged, round as u64 + 1);
    }
    held = queue.receive_many(9).visibility(HOUR).await.unwrap();
    assert_eq!(held.iter().map(|one| one.value().unwrap()).collect::<Vec<_>>(), ["d"]);
}

/// A program without a fast path pauses the queue, changes its settings and delays a message, and
/// leaves the fields of the fast path as they are.
#[tokio::test(flavor = "multi_thread")]
async fn other_programs_are_obeyed_within_a_second() {
    let server = server().await;
    let (queue, observer) = (queue(&client(&server).await), server.observer().await.unwrap());
    queue.push("a").await.unwrap();
    allow(&observer).await;
    observer.cmd(&["HSET", QUEUE, "paused", "1700000000000"]).await.unwrap();
    assert!(queue.try_receive().await.unwrap().is_none());
    observer.cmd(&["HDEL", QUEUE, "paused"]).await.unwrap();
    drop(queue.receive().visibility(HOUR).await.unwrap());

    // A delayed message, and a new maximum number of messages.
    queue.push("later").delay(SHORT).await.unwrap();
    let until = observer.server_time_micros().await.unwrap() / 1000 + 1000;
    observer.cmd(&["HSET", QUEUE, "settings", "1", "capacity", "2"]).await.unwrap();
    observer.cmd(&["HSET", QUEUE, "fast_until", &until.to_string(), "next_due", "", "plain", "1"]).await.unwrap();
    passed(&observer, Duration::from_secs(1)).await;
    assert!(matches!(queue.push("no").await, Err(QueueError::Full { .. })));
    assert_eq!(queue.try_receive().await.unwrap().expect("it is due").value().unwrap(), "later");
}

/// The server's clock was an hour ahead when the fast path was allowed, and was set back.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_back_ends_the_fast_path() {
    let server = server().await;
    let (queue, observer) = (queue(&client(&server).await), server.observer().await.unwrap());
    queue.push("a").await.unwrap();
    let ahead = observer.server_time_micros().await.unwrap() / 1000 + 3_600_000;
    for call in 0..3 {
        observer.cmd(&["HSET", QUEUE, "fast_until", &ahead.to_string()]).await.unwrap();
        match call {
            0 => drop(queue.push("b").await.unwrap()),
            1 => drop(queue.receive().visibility(HOUR).await.unwrap()),
            _ => queue.receive().visibility(HOUR).await.unwrap().ack().await.unwrap(),
        }
        let until: u64 = observer.query(&["HGET", QUEUE, "fast_until"]).await.unwrap();
        assert!(until < ahead, "call {call}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_another_type_is_found_on_the_fast_path() {
    let server = server().await;
    let (queue, observer) = (queue(&client(&server).await), server.observer().await.unwrap());
    for key in ["ready", "states", "bodies", "flight"] {
        queue.push_many(["a", "b"]).await;
        let wrong = format!("redgrid_reliable_queue_{key}:{{orders}}");
        observer.cmd(&["DEL", &wrong]).await.unwrap();
        observer.cmd(&["SET", &wrong, "mine"]).await.unwrap();
        let before = dumps(&observer, KEYS).await;
        allow(&observer).await;
        // A push does not read the messages in flight.
        if key != "flight" {
            assert!(is_refused(&queue.push("c").await), "{key}");
        }
        allow(&observer).await;
        assert!(is_refused(&queue.receive().await), "{key}");
        assert_eq!(dumps(&observer, KEYS).await, before, "{key}");
        queue.object().delete().await.unwrap();
        observer.cmd(&["DEL", &wrong]).await.unwrap();
    }
}
