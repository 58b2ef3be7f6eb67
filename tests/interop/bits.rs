//! Bits, filters, counts and positions shared by both sides.

use redgrid_bits::codecs::{Codec, Encode, Kryo, Long, Text};
use redgrid_bits::{BitSet, BloomFilter, Field, HyperLogLog, Overflow};
use redgrid_geo::{Distance, Geo, Position};

use crate::fixture::{Fixture, scenarios};

scenarios![
    bits_are_read_on_both_sides,
    numbers_in_bits_are_read_on_both_sides,
    each_finds_the_text_that_the_other_has_added,
    each_finds_the_numbers_that_the_other_has_added,
    each_side_finds_the_others_kryo,
    each_side_uses_the_size_that_the_other_chose,
    both_count_distinct_elements,
    both_place_and_find_members,
];

async fn bits_are_read_on_both_sides(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let bits = BitSet::new(&client, &on.name);
    let mut ask = async |verb: &str, more: &[&str]| {
        java.value_of(&format!("bits.{verb}"), &on.name, &[&["-"], more].concat()).await
    };
    assert_eq!(ask("set", &["3", "true"]).await, "false");
    assert!(bits.set(3, true).await.unwrap() && !bits.set(1000, true).await.unwrap());
    ask("setRange", &["10", "21", "true"]).await;
    bits.set_range(18..25, true).await.unwrap();
    ask("setRange", &["12", "14", "false"]).await;
    bits.set_range(11..12, false).await.unwrap();
    let all: Vec<u64> = bits.ones().try_collect().await.unwrap();
    assert_eq!(all, [3, 10].into_iter().chain(14..25).chain([1000]).collect::<Vec<_>>());
    assert_eq!(
        ask("asBitSet", &[]).await,
        format!("{{{}}}", all.iter().map(u64::to_string).collect::<Vec<_>>().join(", "))
    );
    assert_eq!(ask("cardinality", &[]).await, bits.count().await.unwrap().to_string());
    assert_eq!(ask("length", &[]).await, bits.len().await.unwrap().to_string());
    assert_eq!(ask("size", &[]).await, bits.size().await.unwrap().to_string());
    assert_eq!((ask("get", &["1000"]).await, ask("get", &["1001"]).await), ("true".into(), "false".into()));
    // Java replaces the bits, and then both sides combine them.
    ask("replace", &["0", "9", "17"]).await;
    assert_eq!(bits.ones().try_collect::<Vec<_>>().await.unwrap(), [0, 9, 17]);
    let other = format!("{{{}}}:other", on.name);
    BitSet::new(&client, &other).set_many([9, 30], true).await.unwrap();
    ask("or", &[&other]).await;
    assert_eq!(bits.ones().try_collect::<Vec<_>>().await.unwrap(), [0, 9, 17, 30]);
    bits.and_not([&other]).await.unwrap();
    assert_eq!(ask("asBitSet", &[]).await, "{0, 17}");
}

async fn numbers_in_bits_are_read_on_both_sides(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let bits = BitSet::new(&client, &on.name);
    bits.set_integer(Field::signed(13, 5), -4000).await.unwrap();
    assert_eq!(java.value_of("bits.getSigned", &on.name, &["-", "13", "5"]).await, "-4000");
    assert_eq!(java.value_of("bits.setUnsigned", &on.name, &["-", "7", "20", "99"]).await, "0");
    assert_eq!(bits.integer(Field::unsigned(7, 20)).await.unwrap(), 99);
    assert_eq!(java.value_of("bits.incrementAndGetInteger", &on.name, &["-", "64", "40"]).await, "40");
    assert_eq!(bits.add_integer(Field::signed(32, 64), 2, Overflow::Fail).await.unwrap(), Some(42));
}

async fn each_finds_the_text_that_the_other_has_added(on: Fixture) {
    let long = "x".repeat(100);
    let texts =
        ["a", "héllo", "with space", "exactly thirty-two bytes of text", "thirty-three bytes of text, or so", &long];
    both_find(&on, "string", Text, &texts.map(String::from), &texts).await;
}

async fn each_finds_the_numbers_that_the_other_has_added(on: Fixture) {
    let words = ["long:0", "long:-1", "long:9223372036854775807", "long:1", "long:2", "long:3"];
    both_find(&on, "long", Long, &[0_i64, -1, i64::MAX, 1, 2, 3], &words).await;
}

async fn each_side_finds_the_others_kryo(on: Fixture) {
    let texts = ["a", "b", "ü", "dd", "eee", "f"];
    both_find(&on, "kryo", Kryo, &texts.map(String::from), &texts).await;
}

/// Takes six values, also as words for Java. Each side adds three, and both sides find exactly six.
async fn both_find<T, C: Codec + Encode<T>>(on: &Fixture, codec: &str, with: C, values: &[T; 6], words: &[&str; 6]) {
    let (mut java, client) = (on.java(), on.client().await);
    let filter: BloomFilter<T, C> = BloomFilter::<T>::new(&client, &on.name).with_codec(with);
    let mut ask = async |verb: &str, more: &[&str]| {
        java.value_of(&format!("bloom.{verb}"), &on.name, &[&[codec], more].concat()).await
    };
    assert_eq!(ask("tryInit", &["100000", "0.0001"]).await, "true");
    assert_eq!(filter.add_many(&values[..3]).await.unwrap(), 3);
    assert_eq!(ask("containsAll", words).await, "3");
    assert_eq!(filter.contains_many(values).await.unwrap(), [true, true, true, false, false, false]);
    // Java adds the three values that Rust has not added. After that, no value is new for Rust.
    assert_eq!(ask("addAll", words).await, "3");
    assert_eq!(filter.add_many(values).await.unwrap(), 0);
    assert_eq!(filter.contains_many(values).await.unwrap(), [true; 6]);
    assert_eq!((filter.count().await.unwrap(), ask("count", &[]).await), (6, "6".to_owned()));
    let config = filter.config().await.unwrap().unwrap();
    let chosen = (config.expected_insertions, config.false_probability);
    assert_eq!(chosen, (100_000, 0.000_1));
    assert_eq!(ask("config", &[]).await, format!("{} {} 100000 1.0E-4", config.size, config.hash_iterations));
}

async fn each_side_uses_the_size_that_the_other_chose(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let filter: BloomFilter<i64, Long> = BloomFilter::new(&client, &on.name);
    let mut ask = async |verb: &str, more: &[&str]| {
        java.value_of(&format!("bloom.{verb}"), &on.name, &[&["long"], more].concat()).await
    };
    assert!(filter.try_init(5000, 0.01).await.unwrap());
    assert_eq!(ask("tryInit", &["100", "0.5"]).await, "false");
    let config = filter.config().await.unwrap().unwrap();
    assert_eq!(ask("config", &[]).await, format!("{} {} 5000 0.01", config.size, config.hash_iterations));
    // All values are found, and both sides find the same number of values that were never added.
    ask("addAll", &["0..2500"]).await;
    filter.add_many(&(2500..5000).collect::<Vec<_>>()).await.unwrap();
    assert!(filter.contains_many(&(0..5000).collect::<Vec<_>>()).await.unwrap().iter().all(|found| *found));
    assert_eq!(ask("containsAll", &["0..5000"]).await, "5000");
    let others = filter.contains_many(&(5000..15_000).collect::<Vec<_>>()).await.unwrap();
    let found = others.into_iter().filter(|found| *found).count();
    assert_eq!(ask("containsAll", &["5000..15000"]).await, found.to_string());
    assert_eq!(ask("count", &[]).await, filter.count().await.unwrap().to_string());
    // Java creates the filter anew, with another size.
    assert_eq!(ask("delete", &[]).await, "true");
    assert_eq!(ask("tryInit", &["100", "0.001"]).await, "true");
    assert_eq!(ask("add", &["long:7"]).await, "true");
    assert_eq!(filter.contains_many(&[7, 8]).await.unwrap(), [true, false]);
    assert!(filter.add(&9).await.unwrap());
    assert_eq!(ask("contains", &["long:9"]).await, "true");
}

async fn both_count_distinct_elements(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let other = format!("{{{}}}:other", on.name);
    let log: HyperLogLog<i64, Long> = HyperLogLog::new(&client, &on.name);
    assert!(log.add_many(&(0..1000).collect::<Vec<_>>()).await.unwrap());
    assert_eq!(java.value_of("hll.addAll", &on.name, &["long", "0..1000"]).await, "false");
    java.value_of("hll.addAll", &other, &["long", "500..1500"]).await;
    let both = log.count_with([&other]).await.unwrap();
    assert_eq!(java.value_of("hll.countWith", &on.name, &["long", &other]).await, both.to_string());
    java.value_of("hll.mergeWith", &on.name, &["long", &other]).await;
    assert_eq!(log.count().await.unwrap(), both);
}

async fn both_place_and_find_members(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let geo: Geo<String, Text> = Geo::new(&client, &on.name);
    let mut ask = async |verb: &str, more: &[&str]| {
        java.value_of(&format!("geo.{verb}"), &on.name, &[&["string"], more].concat()).await
    };
    assert_eq!(ask("add", &["Palermo", "13.361389", "38.115556"]).await, "1");
    assert!(geo.add("Catania", Position::new(15.087_269, 37.502_669).unwrap()).await.unwrap());
    assert_eq!(ask("tryAdd", &["Catania", "0", "0"]).await, "false");
    assert!(!geo.add_if_absent("Palermo", Position::new(0.0, 0.0).unwrap()).await.unwrap());
    let apart = geo.distance("Palermo", "Catania").await.unwrap().unwrap().as_meters();
    assert_eq!(ask("dist", &["Palermo", "Catania"]).await, apart.to_string());
    let hash = geo.geohash("Palermo").await.unwrap().unwrap();
    assert_eq!(ask("hash", &["Palermo"]).await, format!("{{Palermo={hash}}}"));
    let near =
        |geo: &Geo<String, Text>| geo.around_member("Palermo").within(Distance::kilometers(200.0)).nearest_first();
    assert_eq!(near(&geo).members().await.unwrap(), ["Palermo", "Catania"]);
    assert_eq!(ask("search", &["Palermo", "200"]).await, "[Palermo, Catania]");
    let other = format!("{{{}}}:other", on.name);
    assert_eq!(ask("storeSearchTo", &["Palermo", "100", &other]).await, "1");
    let stored: Geo<String, Text> = Geo::new(&client, &other);
    assert!(stored.contains("Palermo").await.unwrap() && !stored.contains("Catania").await.unwrap());
    assert_eq!(near(&geo).store(&other).await.unwrap().to_string(), ask("size", &[]).await);
}
