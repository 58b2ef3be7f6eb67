//! Streams whose groups have consumers of both sides.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::TryStreamExt;
use redgrid_stream::codecs::{Kryo, Text};
use redgrid_stream::{EntryId, Start, Stream, Trim};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

use crate::actor::Actor;
use crate::fixture::{Fixture, scenarios};

scenarios![
    a_group_gives_each_entry_to_one_consumer_of_either_side,
    java_waits_for_our_entries,
    pending_entries_of_javas_consumer_are_claimed_by_ours,
    pending_entries_of_our_consumer_are_claimed_by_java,
    entries_of_many_fields_are_trimmed_by_both,
];

async fn ask(java: &mut Actor, on: &Fixture, verb: &str, words: &[&str]) -> String {
    java.value_of(&format!("stream.{verb}"), &on.name, words).await
}

fn text(word: &str) -> String {
    word.to_owned()
}

async fn a_group_gives_each_entry_to_one_consumer_of_either_side(on: Fixture) {
    const EACH: u64 = 60;
    let (mut java, mut working, client) = (on.java(), on.java(), on.client().await);
    let stream = Stream::<String, String>::new(&client, &on.name).with_codecs(Text, Text);
    let group = stream.group("g");
    group.create().from_start().make_stream().await.unwrap();
    // Java's consumer is alone at first, and receives the first entry.
    stream.add("n", &text("0")).await.unwrap();
    working.begin_value("stream.work", &on.name, &["string", "g", "java"]).await;
    wait_until(SOON, async || stream.groups().await.unwrap()[0].entries_read == Some(1)).await;
    let mut deliveries = group.consumer("rust").page(5);
    let taken = Arc::new(Mutex::new(Vec::<u64>::new()));
    let here = tokio::spawn({
        let taken = taken.clone();
        async move {
            while let Some(delivery) = deliveries.try_next().await.unwrap() {
                taken.lock().unwrap().push(delivery.fields[0].1.parse().unwrap());
                delivery.ack().await.unwrap();
            }
        }
    });
    for n in 1..=EACH {
        stream.add("n", &n.to_string()).await.unwrap();
        ask(&mut java, &on, "add", &["string", "*", "n", &(EACH + n).to_string()]).await;
    }
    let theirs: Vec<u64> = working.done().await.unwrap().split(' ').map(|word| word.parse().unwrap()).collect();
    let all_done = async || {
        let group = &stream.groups().await.unwrap()[0];
        (group.pending, group.entries_read) == (0, Some(2 * EACH + 1))
    };
    wait_until(SOON, all_done).await;
    here.abort();
    let mut taken = std::mem::take(&mut *taken.lock().unwrap());
    assert!(theirs.contains(&0) && !taken.is_empty(), "both have entries: {theirs:?} {taken:?}");
    taken.extend(theirs);
    assert_eq!(taken.len() as u64, 2 * EACH + 1, "each once");
    assert_eq!(taken.into_iter().collect::<BTreeSet<_>>(), (0..=2 * EACH).collect());
}

async fn java_waits_for_our_entries(on: Fixture) {
    let (mut java, mut waiting, client) = (on.java(), on.java(), on.client().await);
    let stream = Stream::<String, String>::new(&client, &on.name).with_codecs(Kryo, Kryo);
    stream.add("a", &text("1")).id(EntryId::new(1, 0)).await.unwrap();
    stream.group("g").create().from(Start::End).await.unwrap();
    let blocked = async |command: &str| {
        let clients: String = on.observer.query(&["CLIENT", "LIST"]).await.unwrap();
        clients.lines().any(|client| client.contains(command) && client.contains("flags=b"))
    };
    waiting.begin_value("stream.read", &on.name, &["kryo", "1-0", "60000"]).await;
    wait_until(SOON, async || blocked("cmd=xread ").await).await;
    stream.add("b", &text("2")).id(EntryId::new(2, 0)).await.unwrap();
    assert_eq!(waiting.done().await.unwrap(), "2-0={b=2}");
    assert_eq!(ask(&mut java, &on, "readGroup", &["kryo", "g", "c", "9"]).await, "2-0={b=2}");
    waiting.begin_value("stream.readGroupWithin", &on.name, &["kryo", "g", "c", "60000"]).await;
    wait_until(SOON, async || blocked("cmd=xreadgroup ").await).await;
    stream.add("c", &text("3")).id(EntryId::new(3, 0)).exactly_once().await.unwrap();
    assert_eq!(waiting.done().await.unwrap(), "3-0={c=3}");
    assert_eq!(ask(&mut java, &on, "listConsumers", &["kryo", "g"]).await, "{c=2}");
    // Rust waits for an entry that Java adds.
    let read = stream.read(EntryId::new(3, 0)).timeout(SOON);
    let (found, added) = tokio::join!(read, ask(&mut java, &on, "add", &["kryo", "4-0", "d", "4"]));
    assert_eq!((found.unwrap()[0].id, added), (EntryId::new(4, 0), text("4-0")));
}

async fn pending_entries_of_javas_consumer_are_claimed_by_ours(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let stream = Stream::<String, String>::new(&client, &on.name).with_codecs(Text, Text);
    ask(&mut java, &on, "add", &["string", "1-0", "a", "1"]).await;
    ask(&mut java, &on, "add", &["string", "2-0", "a", "2"]).await;
    ask(&mut java, &on, "createGroup", &["string", "g"]).await;
    ask(&mut java, &on, "readGroup", &["string", "g", "dead", "1"]).await;
    let group = stream.group("g");
    let mut deliveries = group.consumer("alive").claim_idle(Duration::from_millis(50));
    let mut attempts = Vec::new();
    for _ in 0..2 {
        let delivery = tokio::time::timeout(SOON, deliveries.try_next()).await.unwrap().unwrap().unwrap();
        attempts.push((delivery.id, delivery.attempt() > 1));
        delivery.ack().await.unwrap();
    }
    attempts.sort_unstable();
    assert_eq!(attempts, [(EntryId::new(1, 0), true), (EntryId::new(2, 0), false)]);
    assert_eq!(ask(&mut java, &on, "pending", &["string", "g"]).await, "0 {}");
    // Java's consumer exists until a client removes it.
    assert_eq!(ask(&mut java, &on, "listConsumers", &["string", "g"]).await, "{alive=0, dead=0}");
    assert_eq!(group.remove_consumer("dead").await.unwrap(), 0);
    assert_eq!(ask(&mut java, &on, "listConsumers", &["string", "g"]).await, "{alive=0}");
}

async fn pending_entries_of_our_consumer_are_claimed_by_java(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let stream = Stream::<String, String>::new(&client, &on.name).with_codecs(Text, Text);
    let group = stream.group("g");
    group.create().from_start().make_stream().await.unwrap();
    for ms in 1..=3 {
        stream.add("n", &ms.to_string()).id(EntryId::new(ms, 0)).await.unwrap();
    }
    assert_eq!(group.read("dead").await.unwrap().len(), 3);
    assert_eq!(ask(&mut java, &on, "pendingRange", &["string", "g", "dead"]).await, "1-0={n=1} 2-0={n=2} 3-0={n=3}");
    assert_eq!(ask(&mut java, &on, "fastClaim", &["string", "g", "java", "2-0"]).await, "[2-0]");
    assert_eq!(ask(&mut java, &on, "removeConsumer", &["string", "g", "dead"]).await, "2", "its entries are given up");
    assert_eq!(group.pending().await.unwrap().consumers, [(text("java"), 1)]);
    assert_eq!(group.read_pending("java", EntryId::MIN, 9).await.unwrap().len(), 1);
    ask(&mut java, &on, "ack", &["string", "g", "2-0"]).await;
    // One side sets the group back, and the other side receives the entries again.
    group.set_id(Start::After(EntryId::new(1, 0))).await.unwrap();
    assert_eq!(ask(&mut java, &on, "readGroup", &["string", "g", "java", "9"]).await, "2-0={n=2} 3-0={n=3}");
    ask(&mut java, &on, "updateGroup", &["string", "g", "2-0"]).await;
    assert_eq!(group.read("rust").await.unwrap()[0].as_ref().unwrap().id, EntryId::new(3, 0));
    ask(&mut java, &on, "createConsumer", &["string", "g", "new"]).await;
    assert!(!group.create_consumer("new").await.unwrap());
    ask(&mut java, &on, "removeGroup", &["string", "g"]).await;
    assert!(group.read("rust").await.unwrap_err().is_no_group());
}

async fn entries_of_many_fields_are_trimmed_by_both(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let stream = Stream::<String, String>::new(&client, &on.name).with_codecs(Text, Text);
    ask(&mut java, &on, "addMany", &["string", "1-0", "b", "1", "c", "", "a", "ü"]).await;
    let fields = [("b", "1"), ("c", ""), ("a", "ü")].map(|(field, value)| (text(field), text(value)));
    assert_eq!(stream.range(..).await.unwrap()[0].fields, fields);
    for ms in 2..=6 {
        let n = ms.to_string();
        stream.add_many([("x", &n), ("y", &n)]).id(EntryId::new(ms, 0)).await.unwrap();
    }
    assert_eq!(ask(&mut java, &on, "lastId", &["string"]).await, "6-0");
    assert_eq!(ask(&mut java, &on, "trimTo", &["string", "3-0"]).await, "2");
    assert_eq!(stream.trim(Trim::min_id(EntryId::new(5, 0))).await.unwrap(), 2);
    assert_eq!(ask(&mut java, &on, "rangeReversed", &["string"]).await, "6-0={x=6, y=6} 5-0={x=5, y=5}");
    ask(&mut java, &on, "remove", &["string", "6-0"]).await;
    let left: Vec<_> = stream.entries(..).map_ok(|entry| entry.id).try_collect().await.unwrap();
    assert_eq!((left, stream.last_id().await.unwrap()), (vec![EntryId::new(5, 0)], Some(EntryId::new(6, 0))));
}
