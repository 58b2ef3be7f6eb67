//! Values under names and in maps, shared by both sides.

use std::collections::BTreeMap;
use std::time::Duration;

use redgrid_bucket::Bucket;
use redgrid_bucket::codecs::{Codec, Kryo, Long, Text};
use redgrid_core::Client;
use redgrid_core::object::Lifetime;
use redgrid_map::Map;

use crate::fixture::{Fixture, scenarios};

scenarios![
    each_reads_the_text_of_the_other,
    each_reads_the_numbers_of_the_other,
    each_side_reads_the_others_kryo,
    both_compare_and_set_one_value,
    lifetimes_set_by_one_side_are_seen_by_the_other,
    a_value_renamed_by_one_side_is_found_by_the_other,
    maps_of_text_are_read_on_both_sides,
    maps_of_kryo_are_read_on_both_sides,
    both_add_to_one_number_of_a_map,
    both_compare_and_replace_in_one_map,
];

const HOUR: Duration = Duration::from_secs(3600);

fn bucket<T, C: Codec>(client: &Client, on: &Fixture, codec: C) -> Bucket<T, C> {
    Bucket::<T>::new(client, &on.name).with_codec(codec)
}

fn map<K, V, C: Codec>(client: &Client, on: &Fixture, codec: C) -> Map<K, V, C> {
    Map::<K, V>::new(client, &on.name).with_codec(codec)
}

async fn each_reads_the_text_of_the_other(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let text: Bucket<String, Text> = bucket(&client, &on, Text);
    java.value_of("bucket.set", &on.name, &["string", "héllo"]).await;
    assert_eq!(text.get().await.unwrap().as_deref(), Some("héllo"));
    assert_eq!(text.get_and_set(&"wörld".into()).await.unwrap().as_deref(), Some("héllo"));
    assert_eq!(java.value_of("bucket.getAndDelete", &on.name, &["string"]).await, "wörld");
    assert_eq!(text.get().await.unwrap(), None);
    assert!(text.try_set(&"again".into()).await.unwrap());
    assert_eq!(java.value_of("bucket.setIfAbsent", &on.name, &["string", "too late"]).await, "false");
}

async fn each_reads_the_numbers_of_the_other(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let number: Bucket<i64, Long> = bucket(&client, &on, Long);
    for n in [0, -1, i64::MAX, i64::MIN] {
        java.value_of("bucket.set", &on.name, &["long", &format!("long:{n}")]).await;
        assert_eq!(number.get().await.unwrap(), Some(n));
        number.set(&!n).await.unwrap();
        assert_eq!(java.value_of("bucket.get", &on.name, &["long"]).await, (!n).to_string());
    }
}

async fn each_side_reads_the_others_kryo(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let (text, number): (Bucket<String, Kryo>, Bucket<i64, Kryo>) =
        (bucket(&client, &on, Kryo), bucket(&client, &on, Kryo));
    java.value_of("bucket.set", &on.name, &["kryo", "héllo"]).await;
    assert_eq!(text.get().await.unwrap().as_deref(), Some("héllo"));
    text.set(&"wörld".into()).await.unwrap();
    assert_eq!(java.value_of("bucket.get", &on.name, &["kryo"]).await, "wörld");
    java.value_of("bucket.set", &on.name, &["kryo", "long:-5"]).await;
    assert_eq!(number.update(|n| *n += 7).await.unwrap(), Some(2));
    assert_eq!(java.value_of("bucket.getAndSet", &on.name, &["kryo", "long:9"]).await, "2");
    assert!(text.get().await.unwrap_err().to_string().contains("Kryo"));
}

async fn both_compare_and_set_one_value(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let number: Bucket<i64, Kryo> = bucket(&client, &on, Kryo);
    number.set(&1).await.unwrap();
    assert_eq!(java.value_of("bucket.compareAndSet", &on.name, &["kryo", "long:2", "long:3"]).await, "false");
    assert_eq!(java.value_of("bucket.compareAndSet", &on.name, &["kryo", "long:1", "long:3"]).await, "true");
    assert!(!number.compare_and_set(&1, &4).await.unwrap() && number.compare_and_set(&3, &4).await.unwrap());
    assert_eq!(java.value_of("bucket.get", &on.name, &["kryo"]).await, "4");
    assert!(number.compare_and_delete(&4).await.unwrap());
    assert_eq!(java.value_of("bucket.get", &on.name, &["kryo"]).await, "null");
}

async fn lifetimes_set_by_one_side_are_seen_by_the_other(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let text: Bucket<String, Text> = bucket(&client, &on, Text);
    java.value_of("bucket.setFor", &on.name, &["string", "a", "3600000"]).await;
    let object = text.object();
    assert!(matches!(object.lifetime().await.unwrap(), Lifetime::Ends(left) if left <= HOUR && left > HOUR / 2));
    text.set(&"b".into()).await.unwrap();
    assert_eq!(java.value_of("bucket.remainTimeToLive", &on.name, &["string"]).await, "-1");
    assert!(object.expire_in(HOUR).await.unwrap());
    let left: u64 = java.value_of("bucket.remainTimeToLive", &on.name, &["string"]).await.parse().unwrap();
    assert!((1_800_000..=3_600_000).contains(&left), "{left}");
}

async fn a_value_renamed_by_one_side_is_found_by_the_other(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let (here, there) = (on.name.clone(), format!("{}:there", on.name));
    let of = |name: &str| Bucket::<String>::new(&client, name).with_codec(Text);
    of(&here).set(&"a".into()).await.unwrap();
    java.value_of("bucket.rename", &here, &["string", &there]).await;
    assert_eq!((of(&here).get().await.unwrap(), of(&there).get().await.unwrap().as_deref()), (None, Some("a")));
    assert!(of(&there).object().rename(&here).await.unwrap());
    assert_eq!(java.value_of("bucket.get", &here, &["string"]).await, "a");
    assert_eq!(java.value_of("bucket.get", &there, &["string"]).await, "null");
}

async fn maps_of_text_are_read_on_both_sides(on: Fixture) {
    both_sides(&on, "string", Text).await;
}

async fn maps_of_kryo_are_read_on_both_sides(on: Fixture) {
    both_sides(&on, "kryo", Kryo).await;
}

async fn both_sides<C>(on: &Fixture, codec: &str, with: C)
where
    C: Codec + redgrid_map::Encode<String> + redgrid_map::Decode<String> + redgrid_map::Encode<str>,
{
    let (mut java, client) = (on.java(), on.client().await);
    let map: Map<String, String, C> = map(&client, on, with);
    assert_eq!(java.value_of("map.put", &on.name, &[codec, "a", "1"]).await, "null");
    assert_eq!(map.insert("a", &"2".into()).await.unwrap().as_deref(), Some("1"));
    assert_eq!(map.insert_if_absent("b", &"ü".into()).await.unwrap(), None);
    assert_eq!(java.value_of("map.putIfAbsent", &on.name, &[codec, "b", "4"]).await, "ü");
    assert_eq!(java.value_of("map.get", &on.name, &[codec, "a"]).await, "2");
    assert_eq!(java.value_of("map.readAllMap", &on.name, &[codec]).await, "{a=2, b=ü}");
    assert_eq!(java.value_of("map.containsValue", &on.name, &[codec, "ü"]).await, "true");
    java.value_of("map.put", &on.name, &[codec, "c", "5"]).await;
    let all: BTreeMap<String, String> = map.entries().try_collect().await.unwrap();
    assert_eq!(all.values().map(String::as_str).collect::<Vec<_>>(), ["2", "ü", "5"]);
    assert!(map.contains_value(&"5".into()).await.unwrap());
    assert_eq!(map.remove("c").await.unwrap().as_deref(), Some("5"));
    assert_eq!(java.value_of("map.remove", &on.name, &[codec, "b"]).await, "ü");
    assert_eq!((map.len().await.unwrap(), java.value_of("map.size", &on.name, &[codec]).await), (1, "1".into()));
}

async fn both_add_to_one_number_of_a_map(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let map: Map<i64, i64, Long> = map(&client, &on, Long);
    assert_eq!(map.add(&7, &5).await.unwrap(), 5);
    assert_eq!(java.value_of("map.addAndGet", &on.name, &["long", "long:7", "long:10"]).await, "15");
    assert_eq!(map.alter(&7, |n| n.map(|n| n - 1)).await.unwrap(), Some(14));
    // Java merges under a lock of the key, and Rust compares on the server. Run one after the
    // other, both sides' changes count.
    java.value_of("map.compute", &on.name, &["long", "long:7", "20"]).await;
    assert_eq!(map.get(&7).await.unwrap(), Some(34));
}

async fn both_compare_and_replace_in_one_map(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let map: Map<String, String, Text> = map(&client, &on, Text);
    map.set("a", &"1".into()).await.unwrap();
    assert_eq!(java.value_of("map.replace", &on.name, &["string", "a", "2", "3"]).await, "false");
    assert_eq!(java.value_of("map.replace", &on.name, &["string", "a", "1", "3"]).await, "true");
    let replaced = map.compare_and_set("a", &"1".into(), &"4".into()).await.unwrap();
    assert!(!replaced && map.compare_and_set("a", &"3".into(), &"4".into()).await.unwrap());
    assert!(map.compare_and_remove("a", &"4".into()).await.unwrap());
    assert_eq!(java.value_of("map.get", &on.name, &["string", "a"]).await, "null");
}
