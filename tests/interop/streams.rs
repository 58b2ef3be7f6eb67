//! Streams shared by both sides: adding, reading, acknowledging and claiming.

use std::time::Duration;

use redgrid_stream::codecs::{Codec, Decode, Encode, Kryo, Text};
use redgrid_stream::{EntryId, Stream};
use redgrid_tests::SOON;

use crate::actor::Actor;
use crate::fixture::{Fixture, scenarios};

scenarios![streams_of_text_are_worked_on_by_both_sides, streams_of_kryo_are_worked_on_by_both_sides];

async fn java(actor: &mut Actor, on: &Fixture, verb: &str, words: &[&str]) -> String {
    actor.value_of(&format!("stream.{verb}"), &on.name, words).await
}

async fn streams_of_text_are_worked_on_by_both_sides(on: Fixture) {
    both_sides(&on, "string", Text).await;
}

async fn streams_of_kryo_are_worked_on_by_both_sides(on: Fixture) {
    both_sides(&on, "kryo", Kryo).await;
}

async fn both_sides<C>(on: &Fixture, codec: &str, with: C)
where
    C: Codec + Encode<String> + Decode<String> + Encode<str>,
{
    let (mut actor, client) = (on.java(), on.client().await);
    let stream = Stream::<String, String>::new(&client, &on.name).with_codecs(with.clone(), with);
    let text = |word: &str| word.to_owned();
    let id = |ms: u64| EntryId::new(ms, 0);
    // Each side reads what the other has added.
    assert_eq!(java(&mut actor, on, "add", &[codec, "1-0", "ä", "x"]).await, "1-0");
    assert_eq!(stream.range(..).await.unwrap()[0].fields, [(text("ä"), text("x"))]);
    stream.add("b", &text("y")).id(id(2)).await.unwrap();
    let auto: EntryId = java(&mut actor, on, "add", &[codec, "*", "c", "z"]).await.parse().unwrap();
    assert_eq!(stream.last_id().await.unwrap(), Some(auto));
    let last = stream.add("d", &text("v")).exactly_once().await.unwrap();
    assert!(last > auto);
    assert_eq!(
        java(&mut actor, on, "range", &[codec, "2-0"]).await,
        format!("2-0={{b=y}} {auto}={{c=z}} {last}={{d=v}}")
    );
    assert_eq!(java(&mut actor, on, "size", &[codec]).await, "4");
    // A group created by one side gives entries to consumers of the other.
    java(&mut actor, on, "createGroup", &[codec, "g"]).await;
    let group = stream.group("g");
    assert_eq!(group.read("rust").limit(1).await.unwrap()[0].as_ref().unwrap().id, id(1));
    assert_eq!(java(&mut actor, on, "readGroup", &[codec, "g", "java", "1"]).await, "2-0={b=y}");
    assert_eq!(java(&mut actor, on, "pending", &[codec, "g"]).await, "2 {java=1, rust=1}");
    let pending = group.pending().await.unwrap();
    assert_eq!(pending.consumers, [(text("java"), 1), (text("rust"), 1)]);
    // Each side takes over an entry of the other side, and acknowledges it.
    assert_eq!(java(&mut actor, on, "claim", &[codec, "g", "java", "1-0"]).await, "1-0={ä=x}");
    assert_eq!(
        group.claim("rust", Duration::ZERO, [id(2)]).await.unwrap()[0].as_ref().unwrap().fields,
        [(text("b"), text("y"))]
    );
    assert_eq!(
        (java(&mut actor, on, "ack", &[codec, "g", "2-0"]).await, group.ack([id(1)]).await.unwrap()),
        (text("1"), 1)
    );
    assert_eq!(java(&mut actor, on, "readGroup", &[codec, "g", "java", "9"]).await.split(' ').count(), 2);
    let claimed = group.auto_claim("rust", Duration::ZERO, EntryId::MIN, 9).await.unwrap();
    assert_eq!(claimed.entries.len(), 2);
    assert_eq!(
        java(&mut actor, on, "autoClaim", &[codec, "g", "java"]).await,
        format!("{auto}={{c=z}} {last}={{d=v}}")
    );
    assert_eq!(group.pending().await.unwrap().consumers, [(text("java"), 2)]);
    // A consumer of Rust also receives entries that Java adds.
    let mut deliveries = group.consumer("waiting");
    let waiting = tokio::spawn(async move { deliveries.try_next().await.unwrap().unwrap() });
    java(&mut actor, on, "add", &[codec, "*", "e", "w"]).await;
    let delivery = tokio::time::timeout(SOON, waiting).await.unwrap().unwrap();
    assert_eq!(delivery.fields, [(text("e"), text("w"))]);
    delivery.ack().await.unwrap();
    assert_eq!(java(&mut actor, on, "pending", &[codec, "g"]).await, "2 {java=2}");
    assert_eq!(java(&mut actor, on, "lag", &[codec, "g"]).await, "g 2");
    assert_eq!(java(&mut actor, on, "remove", &[codec, "1-0"]).await, "1");
    assert_eq!(java(&mut actor, on, "trim", &[codec, "1"]).await, "3");
    assert_eq!((stream.len().await.unwrap(), group.remove().await.unwrap()), (1, true));
}
