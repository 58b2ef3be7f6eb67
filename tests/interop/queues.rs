//! Queues, delayed queues and rings shared by both sides.

use std::time::Duration;

use redgrid_queue::codecs::{Kryo, Text};
use redgrid_queue::{DelayedQueue, Deque, End, Queue, RingBuffer};
use redgrid_tests::SOON;

use crate::fixture::{AT_ONCE, Fixture, scenarios};

scenarios![
    each_side_takes_the_others_elements,
    each_side_waits_for_the_others_elements,
    each_side_takes_the_others_delayed_elements,
    both_respect_one_capacity,
];

async fn each_side_takes_the_others_elements(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let (queue, deque) = (Queue::<String>::new(&client, &on.name), Deque::<String>::new(&client, &on.name));
    let (queue, deque) = (queue.with_codec(Kryo), deque.with_codec(Kryo));
    let mut ask = async |verb: &str, more: &[&str]| java.value_of(verb, &on.name, &[&["kryo"], more].concat()).await;
    assert_eq!(ask("queue.addAll", &["a", "b", "c"]).await, "true");
    assert_eq!(queue.push(&"d".to_owned()).await.unwrap(), 4);
    ask("deque.addFirst", &["z"]).await;
    assert_eq!(ask("deque.addLastIfExists", &["e"]).await, "6");
    assert_eq!(queue.read_all().await.unwrap(), ["z", "a", "b", "c", "d", "e"]);
    assert_eq!((queue.take().await.unwrap(), deque.take(End::Back).await.unwrap()), ("z".into(), "e".into()));
    assert_eq!((ask("queue.poll", &[]).await, ask("deque.pollLast", &[]).await), ("a".into(), "d".into()));
    let other = format!("{{{}}}:other", on.name);
    assert_eq!(ask("queue.pollLastAndOfferFirstTo", &[&other]).await, "c");
    deque.push_front("y").await.unwrap();
    assert_eq!(ask("deque.moveFirstToLast", &[&other]).await, "y");
    assert_eq!(queue.pop_last_push_first_to(&other).await.unwrap(), Some("b".to_owned()));
    let others = Queue::<String>::new(&client, &other).with_codec(Kryo);
    assert_eq!(others.read_all().await.unwrap(), ["b", "c", "y"]);
    assert_eq!(ask("queue.readAll", &[]).await, "[]");
}

async fn each_side_waits_for_the_others_elements(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let queue = Queue::<String>::new(&client, &on.name).with_codec(Text);
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.take().await.unwrap() }
    });
    assert_eq!(java.value_of("queue.addAll", &on.name, &["string", "from java"]).await, "true");
    assert_eq!(tokio::time::timeout(AT_ONCE, waiting).await.unwrap().unwrap(), "from java");
    let pushed = async {
        // BLPOP finds this element, whether Java waits before or after the push.
        queue.push(&"from rust".to_owned()).await.unwrap();
    };
    let (polled, ()) = tokio::join!(java.value_of("queue.pollWithin", &on.name, &["string", "20000"]), pushed);
    assert_eq!(polled, "from rust");
}

async fn each_side_takes_the_others_delayed_elements(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let queue = DelayedQueue::<String>::new(&client, &on.name).with_codec(Text);
    let mut ask = async |verb: &str, more: &[&str]| java.value_of(verb, &on.name, &[&["string"], more].concat()).await;
    // Java adds these elements. Afterwards no task of Java is left to move them.
    ask("delayed.offer", &["late", "600000", "second", "400", "first", "1"]).await;
    let taken = [queue.take_within(SOON).await.unwrap(), queue.take_within(SOON).await.unwrap()];
    assert_eq!(taken, [Some("first".to_owned()), Some("second".to_owned())]);
    assert_eq!((queue.len().await.unwrap(), ask("delayed.size", &[]).await), (1, "1".into()));
    assert_eq!(queue.read_delayed(9).await.unwrap()[0].0, "late");
    // Rust adds these elements. Java moves them to the queue, and takes them there.
    let soon = Duration::from_millis(300);
    queue.push_many([(&"ours".to_owned(), soon), (&"ours too".to_owned(), soon)]).await.unwrap();
    ask("delayed.transfer", &["1500"]).await;
    assert_eq!(ask("queue.pollWithin", &["20000"]).await, "ours");
    assert_eq!(queue.take().await.unwrap(), "ours too", "moved by Java");
    assert_eq!((queue.due().await.unwrap(), queue.len().await.unwrap()), (0, 1));
}

async fn both_respect_one_capacity(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let ring = RingBuffer::<String>::new(&client, &on.name).with_codec(Text);
    let mut ask = async |verb: &str, more: &[&str]| java.value_of(verb, &on.name, &[&["string"], more].concat()).await;
    assert_eq!(ask("ring.trySetCapacity", &["4"]).await, "true");
    assert!(!ring.try_set_capacity(9).await.unwrap());
    ask("ring.addAll", &["a", "b", "c"]).await;
    assert_eq!(ring.push_many(&["d", "e"].map(String::from)).await.unwrap(), 1);
    assert_eq!(ask("ring.readAll", &[]).await, "[b, c, d, e]");
    assert_eq!(ring.set_capacity(2).await.unwrap(), 2);
    ask("ring.addAll", &["f"]).await;
    assert_eq!(
        (ring.read_all().await.unwrap(), ask("ring.capacity", &[]).await),
        (vec!["e".into(), "f".into()], "2".into())
    );
    assert_eq!(
        (ask("ring.remainingCapacity", &[]).await, ring.remaining_capacity().await.unwrap()),
        ("0".into(), Some(0))
    );
}
