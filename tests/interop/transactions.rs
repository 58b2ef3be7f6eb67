//! Transactions of both sides over the same buckets, maps and sets.

use std::time::Duration;

use redgrid_bucket::Bucket;
use redgrid_bucket::codecs::{Codec, Decode, Encode, Kryo, Text};
use redgrid_core::Client;
use redgrid_map::Map;
use redgrid_set::Set;
use redgrid_tests::SOON;
use redgrid_transaction::{Transaction, TransactionError};

use crate::actor::Actor;
use crate::fixture::{Fixture, scenarios};

scenarios![
    a_commit_of_one_side_is_read_by_the_other,
    writes_of_an_open_java_transaction_are_invisible,
    a_commit_of_java_is_a_conflict,
];

/// Longer than any step here: the locks of Java have it as their lease.
const LEASE: &str = "60000";

async fn ask(java: &mut Actor, verb: &str, name: &str, words: &[&str]) -> String {
    java.value_of(&format!("tx.{verb}"), name, words).await
}

async fn a_commit_of_one_side_is_read_by_the_other(on: Fixture) {
    both_ways(&on, "string", Text).await;
    both_ways(&on, "kryo", Kryo).await;
}

async fn both_ways<C>(on: &Fixture, codec: &str, with: C)
where
    C: Codec + Encode<String> + Decode<String> + Encode<str> + Copy,
{
    let (mut java, client) = (on.java(), on.client().await);
    let name = |what: &str| format!("{}:{codec}:{what}", on.name);
    let (bucket, map, set, id) = (name("bucket"), name("map"), name("set"), name("id"));
    let tx = Transaction::new(&client);
    tx.bucket_with::<String, _>(&bucket, with).set(&"one".to_owned()).unwrap();
    tx.map_with::<String, String, _, _>(&map, with, with).set("a", &"two".to_owned()).unwrap();
    assert!(tx.set_with::<String, _>(&set, with).insert("three").await.unwrap());
    tx.commit().await.unwrap();
    ask(&mut java, "begin", &id, &[LEASE]).await;
    assert_eq!(ask(&mut java, "bucket.get", &bucket, &[&id, codec]).await, "one");
    assert_eq!(ask(&mut java, "map.get", &map, &[&id, codec, "a"]).await, "two");
    assert_eq!(ask(&mut java, "set.add", &set, &[&id, codec, "three"]).await, "false");
    ask(&mut java, "bucket.set", &bucket, &[&id, codec, "1"]).await;
    assert_eq!(ask(&mut java, "map.put", &map, &[&id, codec, "a", "2"]).await, "two");
    assert_eq!(ask(&mut java, "set.add", &set, &[&id, codec, "3"]).await, "true");
    let tx = Transaction::new(&client);
    let (here, there) =
        (tx.bucket_with::<String, _>(&bucket, with), tx.map_with::<String, String, _, _>(&map, with, with));
    assert_eq!(here.get().await.unwrap().as_deref(), Some("one"), "{codec}: the change is not committed");
    ask(&mut java, "commit", &id, &[]).await;
    assert_eq!(there.get("a").await.unwrap().as_deref(), Some("2"));
    assert_eq!(tx.set_with::<String, _>(&set, with).len().await.unwrap(), 2);
}

/// The writes of Java to a name, each as a verb with its words. The flag shows whether it blocks a
/// Rust write to `key` with either line of Redisson.
const WRITES: [(&str, &[&str], &str, &str, bool); 8] = [
    ("bucket.set", &["x"], "bucket", "", true),
    ("map.put", &["a", "x"], "map", "a", true),
    ("map.put", &["a", "x"], "map", "b", false),
    ("map.fastRemove", &["z"], "map", "z", true),
    ("map.delete", &[], "map", "a", false),
    ("set.add", &["a"], "set", "a", true),
    ("set.remove", &["z"], "set", "b", false),
    ("set.delete", &[], "set", "a", false),
];

async fn write(client: &Client, (name, kind, key): (&str, &str, &str), time: Duration) -> Result<(), TransactionError> {
    let tx = Transaction::new(client).timeout(time);
    match kind {
        "bucket" => tx.bucket_with::<String, _>(name, Text).set(&"ours".to_owned())?,
        "map" => tx.map_with::<String, String, _, _>(name, Text, Text).set(key, &"ours".to_owned())?,
        _ => drop(tx.set_with::<String, _>(name, Text).insert(key).await?),
    }
    tx.commit().await
}

async fn writes_of_an_open_java_transaction_are_invisible(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    for (at, (verb, words, kind, key, is_in_the_way)) in WRITES.into_iter().enumerate() {
        let (name, id) = (format!("{}:{at}", on.name), format!("{}:{at}:id", on.name));
        // The object has an element that can be deleted.
        match kind {
            "bucket" => {}
            "map" => {
                let map: Map<String, String, Text> = Map::new(&client, &name);
                map.set("z", &"z".to_owned()).await.unwrap();
            }
            _ => drop(Set::<String>::new(&client, &name).with_codec(Text).insert("z").await.unwrap()),
        }
        ask(&mut java, "begin", &id, &[LEASE]).await;
        ask(&mut java, verb, &name, &[&[&*id, "string"], words].concat()).await;
        let result = write(&client, (&name, kind, key), Duration::from_secs(1)).await;
        // One line of Redisson locks a whole map or set for calls for which the other line does
        // not.
        let lock = format!("{name}:transaction_lock");
        let is_in_the_way = is_in_the_way || on.observer.exists(&lock).await.unwrap();
        let is_locked = matches!(&result, Err(TransactionError::Locked { name: of, .. }) if of.as_str() == name);
        assert_eq!(is_locked, is_in_the_way, "{verb} {words:?} against {key}: {result:?}");
        if is_in_the_way {
            let end = if at % 2 == 0 { "commit" } else { "rollback" };
            let (ours, _) = tokio::join!(write(&client, (&name, kind, key), SOON), ask(&mut java, end, &id, &[]));
            ours.unwrap();
            // Rust's value was written last.
            if kind == "bucket" {
                let bucket: Bucket<String, Text> = Bucket::new(&client, &name);
                assert_eq!(bucket.get().await.unwrap().as_deref(), Some("ours"));
            }
        } else {
            result.unwrap();
            ask(&mut java, "commit", &id, &[]).await;
        }
    }
}

async fn a_commit_of_java_is_a_conflict(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let id = format!("{}:id", on.name);
    let tx = Transaction::new(&client).timeout(SOON);
    let map = tx.map_with::<String, String, _, _>(&on.name, Text, Text);
    assert_eq!(map.get("a").await.unwrap(), None);
    ask(&mut java, "begin", &id, &[LEASE]).await;
    ask(&mut java, "map.put", &on.name, &[&id, "string", "a", "java"]).await;
    ask(&mut java, "commit", &id, &[]).await;
    map.set("a", &"rust".to_owned()).unwrap();
    let error = tx.commit().await.unwrap_err();
    assert!(matches!(error, TransactionError::Conflict { .. }), "{error:?}");
    let there: Map<String, String, Text> = Map::new(&client, &on.name);
    assert_eq!(there.get("a").await.unwrap().as_deref(), Some("java"));
}
