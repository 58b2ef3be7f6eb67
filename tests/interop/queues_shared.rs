//! Queues with concurrent waiters and takes of both sides.

use std::collections::BTreeSet;
use std::time::Duration;

use redgrid_queue::codecs::{Kryo, Text};
use redgrid_queue::{DelayedQueue, Deque, End, Queue, RingBuffer};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

use crate::fixture::{AT_ONCE, Fixture, scenarios};

scenarios![
    each_waits_at_the_end_that_it_asks_for,
    our_waiter_for_several_queues_gets_javas_elements,
    an_element_that_java_moves_wakes_our_waiter,
    each_takes_many_of_the_other_at_once,
    each_element_of_both_is_taken_once_by_consumers_of_both,
    an_element_that_java_delays_wakes_our_waiter,
    delayed_elements_of_both_are_taken_once,
    a_delayed_element_that_java_removes_is_not_taken,
    a_ring_deleted_by_one_side_is_created_by_the_other,
];

/// The time that Java waits: longer than any step here.
const LONG: &str = "60000";

fn text(word: &str) -> String {
    word.to_owned()
}

/// Waits until a client is blocked in that command.
async fn until_blocked(on: &Fixture, command: &str) {
    let command = format!("cmd={command} ");
    let blocked = async || {
        let clients: String = on.observer.query(&["CLIENT", "LIST"]).await.unwrap();
        clients.lines().any(|client| client.contains(&command) && client.contains("flags=b"))
    };
    wait_until(SOON, blocked).await;
}

async fn each_waits_at_the_end_that_it_asks_for(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let deque = Deque::<String>::new(&client, &on.name).with_codec(Text);
    java.begin_value("deque.pollLastWithin", &on.name, &["string", LONG]).await;
    until_blocked(&on, "brpop").await;
    assert!(java.is_waiting());
    // The push adds both elements before the blocked command is answered, so Java takes the last
    // one.
    deque.push_many(End::Back, &["first", "last"].map(String::from)).await.unwrap();
    assert_eq!(java.done().await.unwrap(), "last");
    assert_eq!(deque.take_within(End::Back, SOON).await.unwrap(), Some(text("first")));
    let waiting = tokio::spawn({
        let deque = deque.clone();
        async move { deque.take(End::Back).await.unwrap() }
    });
    java.value_of("queue.addAll", &on.name, &["string", "a"]).await;
    assert_eq!(tokio::time::timeout(AT_ONCE, waiting).await.unwrap().unwrap(), "a");
    java.value_of("queue.addAll", &on.name, &["string", "a", "b", "a"]).await;
    assert_eq!(java.value_of("deque.removeLastOccurrence", &on.name, &["string", "a"]).await, "true");
    assert!(deque.remove(End::Front, &text("a")).await.unwrap());
    assert_eq!(java.value_of("queue.readAll", &on.name, &["string"]).await, "[b]");
    assert_eq!(
        (java.value_of("queue.contains", &on.name, &["string", "b"]).await, deque.len().await.unwrap()),
        ("true".into(), 1)
    );
}

async fn our_waiter_for_several_queues_gets_javas_elements(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let names = ["a", "b", "c"].map(|part| format!("{{{}}}:{part}", on.name));
    let [a, b, c] = names.each_ref().map(|name| Queue::<String>::new(&client, name).with_codec(Kryo));
    let waiting = tokio::spawn({
        let (a, b) = (a.clone(), b.clone());
        async move { a.take_from_any(&[b]).await.unwrap() }
    });
    java.value_of("queue.addAll", &names[1], &["kryo", "second"]).await;
    assert_eq!(tokio::time::timeout(AT_ONCE, waiting).await.unwrap().unwrap(), (1, text("second")));
    // If several queues have elements, the first queue that was named is used.
    for name in &names[1..] {
        java.value_of("queue.addAll", name, &["kryo", "x", "y"]).await;
    }
    assert_eq!(a.take_from_any(&[c.clone(), b.clone()]).await.unwrap(), (1, text("x")));
    assert_eq!(java.value_of("queue.poll", &names[2], &["kryo"]).await, "y");
    assert_eq!(a.take_from_any(&[c, b]).await.unwrap(), (2, text("x")));
    assert_eq!(java.value_of("queue.readAll", &names[1], &["kryo"]).await, "[y]");
}

async fn an_element_that_java_moves_wakes_our_waiter(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let other = format!("{{{}}}:other", on.name);
    let (from, to) = (Queue::<String>::new(&client, &on.name), Queue::<String>::new(&client, &other));
    let (from, to) = (from.with_codec(Text), to.with_codec(Text));
    let waiting = tokio::spawn(async move { to.take().await.unwrap() });
    java.begin_value("queue.pollLastAndOfferFirstTo", &on.name, &["string", &other, LONG]).await;
    until_blocked(&on, "brpoplpush").await;
    from.push(&text("through both")).await.unwrap();
    assert_eq!(java.done().await.unwrap(), "through both");
    assert_eq!(tokio::time::timeout(AT_ONCE, waiting).await.unwrap().unwrap(), "through both");
    assert!(from.is_empty().await.unwrap());
}

async fn each_takes_many_of_the_other_at_once(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let queue = Queue::<i64>::new(&client, &on.name).with_codec(Kryo);
    let mut ask = async |verb: &str, more: &[&str]| java.value_of(verb, &on.name, &[&["kryo"], more].concat()).await;
    queue.push_many(&(0..7).collect::<Vec<_>>()).await.unwrap();
    assert_eq!(ask("queue.pollMany", &["3"]).await, "[0, 1, 2]");
    assert_eq!(ask("queue.drainTo", &["2"]).await, "2 [3, 4]");
    assert_eq!(ask("queue.remove", &["long:5"]).await, "true");
    ask("queue.addAll", &["long:7", "long:8", "long:9"]).await;
    assert_eq!(queue.pop_many(3).await.unwrap(), [6, 7, 8]);
    assert!(queue.contains(&9).await.unwrap() && queue.remove(&9).await.unwrap());
    assert_eq!(ask("queue.pollMany", &["3"]).await, "[]");
}

fn numbers(words: &str) -> Vec<u64> {
    words.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

async fn each_element_of_both_is_taken_once_by_consumers_of_both(on: Fixture) {
    const EACH: u64 = 200;
    let (mut adding, mut taking, client) = (on.java(), on.java(), on.client().await);
    let queue = Queue::<String>::new(&client, &on.name).with_codec(Text);
    taking.begin_value("queue.takeUntil", &on.name, &["string", "end"]).await;
    until_blocked(&on, "blpop").await;
    let here: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move {
                let mut taken = Vec::<u64>::new();
                while let Some(one) = queue.take_within(Duration::from_secs(2)).await.unwrap() {
                    // This element ends Java's consumers, so it goes back to the queue.
                    if one == "end" {
                        queue.push(&one).await.unwrap();
                        break;
                    }
                    taken.push(one.parse().unwrap());
                }
                taken
            })
        })
        .collect();
    for part in 0..EACH / 20 {
        let theirs: Vec<_> = (0..20).map(|n| (part * 20 + n).to_string()).collect();
        let words: Vec<_> = ["string"].into_iter().chain(theirs.iter().map(String::as_str)).collect();
        adding.value_of("queue.addAll", &on.name, &words).await;
        let ours: Vec<_> = (0..20).map(|n| (EACH + part * 20 + n).to_string()).collect();
        queue.push_many(&ours).await.unwrap();
    }
    queue.push(&text("end")).await.unwrap();
    let mut taken = Vec::new();
    for task in here {
        taken.extend(tokio::time::timeout(SOON, task).await.unwrap().unwrap());
    }
    let theirs = numbers(&taking.done().await.unwrap());
    assert!(!theirs.is_empty(), "Java waited first");
    taken.extend(theirs);
    assert_eq!(taken.len() as u64, 2 * EACH, "all elements were taken");
    assert_eq!(taken.into_iter().collect::<BTreeSet<u64>>(), (0..2 * EACH).collect());
}

async fn an_element_that_java_delays_wakes_our_waiter(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let queue = DelayedQueue::<String>::new(&client, &on.name).with_codec(Kryo);
    let first = queue.push(&text("ours, much later"), Duration::from_secs(3600)).await.unwrap();
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { queue.take().await.unwrap() }
    });
    // The Rust waiter waits for an element that is due in an hour.
    let channel = format!("redisson_delay_queue_channel:{{{}}}", on.name);
    let listens = async || on.observer.query::<(String, u64)>(&["PUBSUB", "NUMSUB", &channel]).await.unwrap().1 > 0;
    wait_until(SOON, listens).await;
    let began = on.server_time().await;
    java.value_of("delayed.offer", &on.name, &["kryo", "theirs, soon", "300"]).await;
    assert_eq!(tokio::time::timeout(AT_ONCE, waiting).await.unwrap().unwrap(), "theirs, soon");
    let took = Duration::from_micros(on.server_time().await - began);
    assert!(took >= Duration::from_millis(300), "the element did not come before its time: {took:?}");
    assert!(queue.cancel(&first).await.unwrap() && queue.is_empty().await.unwrap());
}

async fn delayed_elements_of_both_are_taken_once(on: Fixture) {
    const EACH: u64 = 40;
    let (mut moving, mut taking, client) = (on.java(), on.java(), on.client().await);
    let queue = DelayedQueue::<String>::new(&client, &on.name).with_codec(Text);
    taking.begin_value("queue.takeUntil", &on.name, &["string", "end"]).await;
    until_blocked(&on, "blpop").await;
    let ours: Vec<_> = (0..EACH).map(|n| (n.to_string(), Duration::from_millis(5 * n))).collect();
    queue.push_many(ours.iter().map(|(value, delay)| (value, *delay))).await.unwrap();
    let theirs: Vec<_> = (0..EACH).flat_map(|n| [(EACH + n).to_string(), (5 * n).to_string()]).collect();
    let words: Vec<_> = ["string"].into_iter().chain(theirs.iter().map(String::as_str)).collect();
    moving.value_of("delayed.offer", &on.name, &words).await;
    // Java moves due elements to the queue at which it waits, while Rust takes due elements.
    moving.begin_value("delayed.transfer", &on.name, &["string", "1200"]).await;
    let mut taken = Vec::new();
    while let Some(one) = queue.take_within(Duration::from_secs(2)).await.unwrap() {
        taken.push(one.parse::<u64>().unwrap());
    }
    moving.done().await.unwrap();
    while let Some(one) = queue.take_within(Duration::ZERO).await.unwrap() {
        taken.push(one.parse().unwrap());
    }
    Queue::<String>::new(&client, &on.name).with_codec(Text).push(&text("end")).await.unwrap();
    taken.extend(numbers(&taking.done().await.unwrap()));
    assert_eq!(taken.len() as u64, 2 * EACH, "all elements were taken: {taken:?}");
    assert_eq!(taken.into_iter().collect::<BTreeSet<u64>>(), (0..2 * EACH).collect());
    assert_eq!((queue.len().await.unwrap(), queue.due().await.unwrap()), (0, 0));
}

async fn a_delayed_element_that_java_removes_is_not_taken(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let queue = DelayedQueue::<String>::new(&client, &on.name).with_codec(Text);
    let mut ask = async |verb: &str, more: &[&str]| java.value_of(verb, &on.name, &[&["string"], more].concat()).await;
    ask("delayed.offer", &["gone", "3600000", "kept", "7200000"]).await;
    assert_eq!(ask("delayed.readAll", &[]).await, "[gone, kept]");
    assert_eq!(ask("delayed.contains", &["gone"]).await, "true");
    assert_eq!(ask("delayed.remove", &["gone"]).await, "true");
    let left = queue.read_delayed(9).await.unwrap();
    assert_eq!(left.iter().map(|(value, _)| value.as_str()).collect::<Vec<_>>(), ["kept"]);
    // Java does not find an element that Rust has taken.
    ask("delayed.offer", &["taken", "1"]).await;
    assert_eq!(queue.take_within(SOON).await.unwrap(), Some(text("taken")));
    assert_eq!(
        (ask("delayed.readAll", &[]).await, ask("delayed.contains", &["taken"]).await),
        ("[kept]".into(), "false".into())
    );
    ask("delayed.offer", &["all", "3600000"]).await;
    assert!(queue.clear().await.unwrap());
    assert_eq!(ask("delayed.size", &[]).await, "0");
}

async fn a_ring_deleted_by_one_side_is_created_by_the_other(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let ring = RingBuffer::<String>::new(&client, &on.name).with_codec(Kryo);
    assert!(ring.try_set_capacity(2).await.unwrap());
    ring.push_many(&["a", "b", "c"].map(String::from)).await.unwrap();
    assert_eq!(java.value_of("ring.poll", &on.name, &["kryo"]).await, "b");
    assert_eq!(java.value_of("ring.delete", &on.name, &["kryo"]).await, "true");
    assert!(ring.push(&text("x")).await.is_err(), "it has no capacity");
    assert_eq!(java.value_of("ring.trySetCapacity", &on.name, &["kryo", "3"]).await, "true");
    assert_eq!(ring.push_many(&["d", "e", "f", "g"].map(String::from)).await.unwrap(), 1);
    assert_eq!((ring.pop().await.unwrap(), ring.peek().await.unwrap()), (Some(text("e")), Some(text("f"))));
    assert!(ring.object().delete().await.unwrap());
    let refused = java.try_value_of("ring.addAll", &on.name, &["kryo", "x"]).await;
    assert!(refused.is_err(), "Java finds no capacity, either: {refused:?}");
    assert_eq!(java.value_of("ring.readAll", &on.name, &["kryo"]).await, "[]");
}
