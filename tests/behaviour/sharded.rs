//! Sharded objects behave like plain ones, whichever shard has the data.

use std::collections::{BTreeSet, HashMap};

use futures_util::future::join_all;
use redgrid_core::Failure;
use redgrid_sharded::codecs::{Long, Text};
use redgrid_sharded::{ObjectError, ShardedBitSet, ShardedBloomFilter, ShardedMap, ShardedSet};
use redgrid_testkit::Observer;
use redgrid_tests::{client, server};

pub(super) async fn keys(observer: &Observer) -> BTreeSet<String> {
    observer.query::<Vec<String>>(&["KEYS", "*"]).await.unwrap().into_iter().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sharded_map_behaves_like_a_map() {
    let server = server().await;
    let client = client(&server).await;
    let map: ShardedMap<u64, i64, Text, Long> =
        ShardedMap::<u64, i64, Text>::new(&client, "m").with_codecs(Text, Long).with_shards(8);
    let mut model: HashMap<u64, i64> = HashMap::new();
    let mut random = fastrand::Rng::with_seed(7);
    for step in 0..400 {
        let (key, value) = (random.u64(..40), random.i64(0..5));
        match random.u8(..14) {
            0 => assert_eq!(map.insert(&key, &value).await.unwrap(), model.insert(key, value), "{step}"),
            1 => assert_eq!(map.set(&key, &value).await.unwrap(), model.insert(key, value).is_none(), "{step}"),
            2 => assert_eq!(map.remove(&key).await.unwrap(), model.remove(&key), "{step}"),
            3 => {
                assert_eq!(map.insert_if_absent(&key, &value).await.unwrap(), model.get(&key).copied(), "{step}");
                model.entry(key).or_insert(value);
            }
            4 => {
                let was = model.get_mut(&key).map(|old| std::mem::replace(old, value));
                assert_eq!(map.replace(&key, &value).await.unwrap(), was, "{step}");
            }
            5 => {
                let sum = model.entry(key).or_default();
                *sum += value;
                assert_eq!(map.add(&key, &value).await.unwrap(), *sum, "{step}");
            }
            6 => {
                let is = model.get(&key) == Some(&1);
                assert_eq!(map.compare_and_set(&key, &1, &value).await.unwrap(), is, "{step}");
                model.entry(key).and_modify(|old| *old = if is { value } else { *old });
            }
            7 => {
                let is = model.get(&key) == Some(&value);
                assert_eq!(map.compare_and_remove(&key, &value).await.unwrap(), is, "{step}");
                model.retain(|of, _| *of != key || !is);
            }
            8 => {
                let expected = model.get_mut(&key).map(|old| {
                    *old += 2;
                    *old
                });
                assert_eq!(map.update(&key, |value| *value += 2).await.unwrap(), expected, "{step}");
            }
            9 => {
                let many: HashMap<u64, i64> = (0..30).map(|n| (random.u64(..40), n)).collect();
                map.set_many(&many).await.unwrap();
                model.extend(many);
            }
            10 => {
                let many: BTreeSet<u64> = (0..10).map(|_| random.u64(..40)).collect();
                let were = many.iter().filter(|key| model.remove(key).is_some()).count() as u64;
                assert_eq!(map.remove_many(&many).await.unwrap(), were, "{step}");
            }
            11 => {
                let asked: Vec<u64> = (0..20).map(|_| random.u64(..40)).collect();
                let expected: Vec<Option<i64>> = asked.iter().map(|key| model.get(key).copied()).collect();
                assert_eq!(map.get_many(&asked).await.unwrap(), expected, "{step}");
            }
            12 => {
                assert_eq!(map.get(&key).await.unwrap(), model.get(&key).copied(), "{step}");
                assert_eq!(map.contains_key(&key).await.unwrap(), model.contains_key(&key), "{step}");
                assert_eq!(map.contains_value(&value).await.unwrap(), model.values().any(|has| *has == value));
            }
            _ => {
                assert_eq!(map.len().await.unwrap(), model.len() as u64, "{step}");
                assert_eq!(map.is_empty().await.unwrap(), model.is_empty(), "{step}");
                assert_eq!(map.read_all().await.unwrap(), model, "{step}");
                assert_eq!(map.entries().page(3).try_collect::<HashMap<_, _>>().await.unwrap(), model, "{step}");
                let some = map.random_entries(5).await.unwrap();
                assert_eq!(some.len(), model.len().min(5));
                assert!(some.iter().all(|(key, value)| model.get(key) == Some(value)));
            }
        }
    }
    let all: BTreeSet<u64> = model.keys().copied().collect();
    assert_eq!(map.keys().try_collect::<BTreeSet<u64>>().await.unwrap(), all);
    assert_eq!(map.read_all_keys().await.unwrap().into_iter().collect::<BTreeSet<u64>>(), all);
    assert_eq!(map.values().try_collect::<Vec<i64>>().await.unwrap().len(), all.len());
    let twos: BTreeSet<u64> = map.keys().matching("2*").try_collect().await.unwrap();
    assert_eq!(twos, all.iter().copied().filter(|key| key.to_string().starts_with('2')).collect());
    assert!(map.clear().await.unwrap() && !map.clear().await.unwrap() && map.is_empty().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sharded_set_behaves_like_a_set() {
    let server = server().await;
    let client = client(&server).await;
    let set: ShardedSet<u32> = ShardedSet::new(&client, "s");
    let all: BTreeSet<u32> = (0..500).collect();
    assert!(set.insert(&7).await.unwrap() && !set.insert(&7).await.unwrap());
    assert_eq!(set.insert_many(&all).await.unwrap(), 499);
    assert_eq!(set.contains_each(&[9000, 7, 8000, 499]).await.unwrap(), [false, true, false, true]);
    assert!(set.contains(&0).await.unwrap() && set.contains_all(&[1, 2]).await.unwrap());
    assert!(!set.contains_all(&[1, 9000]).await.unwrap());
    assert_eq!(set.stream().page(10).try_collect::<BTreeSet<u32>>().await.unwrap(), all);
    assert_eq!((set.remove_many(&[1, 2, 9000]).await.unwrap(), set.remove(&3).await.unwrap()), (2, true));
    let some: BTreeSet<u32> = set.random_many(300).await.unwrap().into_iter().collect();
    assert!(some.len() == 300 && some.iter().all(|one| all.contains(one)));
    assert_eq!(set.random_many(1000).await.unwrap().len(), 497);
    assert!(set.random().await.unwrap().is_some());
    // Concurrent pops return each value once.
    let popped = join_all((0..8).map(|_| async {
        let mut popped = Vec::new();
        while let Some(value) = set.pop().await.unwrap() {
            popped.push(value);
        }
        popped
    }));
    let mut popped: Vec<u32> = popped.await.into_iter().flatten().collect();
    popped.sort_unstable();
    assert_eq!(popped, (0..500).filter(|n| !(1..=3).contains(n)).collect::<Vec<_>>());
    assert!(set.is_empty().await.unwrap() && set.read_all().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sharded_bit_set_behaves_like_a_bit_set() {
    let server = server().await;
    let client = client(&server).await;
    // Shards of 128 bits, the last one of 104.
    let set = ShardedBitSet::new(&client, "b").with_shards(8).with_size(1000);
    let mut model = BTreeSet::new();
    let mut random = fastrand::Rng::with_seed(11);
    assert_eq!(set.capacity().await.unwrap(), 1000);
    for step in 0..150 {
        let (index, bit) = (random.u64(..1000), random.u8(..3) > 0);
        match random.u8(..5) {
            0 => {
                let was = if bit { !model.insert(index) } else { model.remove(&index) };
                assert_eq!(set.set(index, bit).await.unwrap(), was, "{step}");
            }
            1 => {
                let range = index..(index + random.u64(..400)).min(1000);
                set.set_range(range.clone(), bit).await.unwrap();
                for index in range {
                    let _ = if bit { model.insert(index) } else { model.remove(&index) };
                }
            }
            2 => {
                let many: BTreeSet<u64> = (0..20).map(|_| random.u64(..1000)).collect();
                let change = |index: &&u64| if bit { model.insert(**index) } else { model.remove(index) };
                let changed = many.iter().filter(change).count() as u64;
                assert_eq!(set.set_many(many, bit).await.unwrap(), changed, "{step}");
            }
            3 => {
                let range = index..random.u64(index..=1000);
                assert_eq!(set.count_in(range.clone()).await.unwrap(), model.range(range).count() as u64, "{step}");
                let asked: Vec<u64> = (0..30).map(|_| random.u64(..1000)).collect();
                let expected: Vec<bool> = asked.iter().map(|index| model.contains(index)).collect();
                assert_eq!(set.get_many(asked).await.unwrap(), expected, "{step}");
            }
            _ => {
                assert_eq!(set.count().await.unwrap(), model.len() as u64, "{step}");
                assert_eq!(set.len().await.unwrap(), model.last().map_or(0, |last| last + 1), "{step}");
                assert_eq!(set.is_empty().await.unwrap(), model.is_empty(), "{step}");
                assert_eq!(set.next_set(index).await.unwrap(), model.range(index..).next().copied(), "{step}");
                let clear = (index..1000).find(|index| !model.contains(index));
                assert_eq!(set.next_clear(index).await.unwrap(), clear, "{step}");
                let from: Vec<u64> = set.ones_from(index).try_collect().await.unwrap();
                assert_eq!(from, model.range(index..).copied().collect::<Vec<_>>(), "{step}");
            }
        }
    }
    set.set_range(.., true).await.unwrap();
    assert_eq!((set.count().await.unwrap(), set.len().await.unwrap(), set.size().await.unwrap()), (1000, 1000, 1000));
    assert_eq!(set.next_clear(900).await.unwrap(), None);
    assert_eq!(set.ones().try_collect::<Vec<u64>>().await.unwrap(), (0..1000).collect::<Vec<_>>());
    for told in [set.get(1000).await.map(drop), set.set(u64::MAX, true).await.map(drop)] {
        assert!(
            matches!(&told, Err(ObjectError::Failed(Failure::InvalidArgument { option: "index", .. }))),
            "{told:?}"
        );
    }
    let told = set.set_range(900..1001, true).await;
    assert!(matches!(&told, Err(ObjectError::Failed(Failure::InvalidArgument { option: "range", .. }))), "{told:?}");
    assert!(set.clear().await.unwrap() && set.is_empty().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sharded_bit_set_has_more_bits_than_a_string() {
    let server = server().await;
    let client = client(&server).await;
    let set = ShardedBitSet::new(&client, "b");
    let far = (13 << 32) + 5;
    assert!(!set.set(far, true).await.unwrap() && set.set(far, true).await.unwrap());
    assert!(!set.set(1, true).await.unwrap() && !set.set(1 << 32, true).await.unwrap());
    assert_eq!((set.capacity().await.unwrap(), set.len().await.unwrap()), (1 << 36, far + 1));
    assert_eq!(set.next_set((1 << 32) + 1).await.unwrap(), Some(far));
    assert_eq!(set.ones().try_collect::<Vec<u64>>().await.unwrap(), [1, 1 << 32, far]);
    assert_eq!((set.count_in(2..=far).await.unwrap(), set.count_in(2..far).await.unwrap()), (2, 1));
    assert!(server.observer().await.unwrap().exists("{b}:shards").await.unwrap());
}

/// The measured error rate differs from the requested one by less than a tenth, although some
/// shards happen to have more elements than others.
#[tokio::test(flavor = "multi_thread")]
async fn a_sharded_filter_keeps_its_error_rate() {
    let server = server().await;
    let client = client(&server).await;
    for (share, elements, shards, probes) in [(0.02, 6_400_u64, 32, 50_000_u64), (0.1, 1_600, 16, 20_000)] {
        let filter: ShardedBloomFilter<u64, Text> = ShardedBloomFilter::<u64, Text>::new(&client, format!("f{shards}"));
        let filter = filter.with_shards(shards);
        assert!(filter.try_init(elements, share).await.unwrap() && !filter.try_init(1, 0.5).await.unwrap());
        let members: Vec<u64> = (0..elements).collect();
        let new = filter.add_many(&members).await.unwrap();
        assert!(new <= elements && new > elements * 9 / 10, "{new}");
        assert!(filter.contains_many(&members).await.unwrap().iter().all(|found| *found));
        let others: Vec<u64> = (elements..elements + probes).collect();
        let found = filter.contains_many(&others).await.unwrap().into_iter().filter(|found| *found).count();
        let measured = found as f64 / probes as f64;
        assert!((measured / share - 1.0).abs() < 0.1, "requested {share}, measured {measured}");
        let count = filter.count().await.unwrap();
        assert!(count.abs_diff(elements) < elements / 50, "{count} of {elements}");
        let config = filter.config().await.unwrap().unwrap();
        assert_eq!((config.shards, config.expected_insertions, config.false_probability), (shards, elements, share));
    }
}

/// A filter with other sizes, but with the same expected insertions and error rate, is the same
/// filter. Other clients and other releases may choose other sizes.
#[tokio::test(flavor = "multi_thread")]
async fn a_filter_of_other_sizes_for_the_same_numbers_is_the_same_filter() {
    let server = server().await;
    let (here, elsewhere) = (client(&server).await, client(&server).await);
    let observer = server.observer().await.unwrap();
    let filter: ShardedBloomFilter<String> = ShardedBloomFilter::new(&here, "f").with_shards(4);
    assert!(filter.try_init(1000, 0.01).await.unwrap());
    for key in keys(&observer).await.iter().filter(|key| key.ends_with(":config")) {
        if observer.query::<Option<u64>>(&["HGET", key, "size"]).await.unwrap().is_some() {
            observer.cmd(&["HSET", key, "size", "20001"]).await.unwrap();
        }
    }
    let other: ShardedBloomFilter<String> = ShardedBloomFilter::new(&elsewhere, "f").with_shards(4);
    assert!(!other.try_init(1000, 0.01).await.unwrap());
    let words: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    assert_eq!(other.add_many(&words).await.unwrap(), 40);
    assert!(other.contains_many(&words).await.unwrap().iter().all(|found| *found));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_shard_of_a_filter_is_created() {
    let server = server().await;
    let (here, elsewhere) = (client(&server).await, client(&server).await);
    let observer = server.observer().await.unwrap();
    let filter: ShardedBloomFilter<String> = ShardedBloomFilter::new(&here, "f").with_shards(4);
    assert_eq!(filter.config().await.unwrap(), None);
    let told = filter.add("a").await.unwrap_err();
    assert!(matches!(&told, ObjectError::Absent { name } if name.as_str() == "f"), "{told:?}");
    assert!(keys(&observer).await.is_empty());
    assert!(filter.try_init(1000, 0.01).await.unwrap());
    let made: Vec<String> = keys(&observer).await.into_iter().filter(|key| key.ends_with(":config")).collect();
    assert_eq!(made.len(), 4);
    // This is the state after an interrupted creation.
    for key in &made[1..] {
        observer.cmd(&["DEL", key]).await.unwrap();
    }
    let other: ShardedBloomFilter<String> = ShardedBloomFilter::new(&elsewhere, "f");
    let words: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    assert!(other.contains_many(&words).await.unwrap().iter().all(|found| !found));
    assert_eq!(other.add_many(&words).await.unwrap(), 40);
    assert!(filter.contains_many(&words).await.unwrap().iter().all(|found| *found));
    // A client that has used a filter does not recreate single shards of it after its deletion.
    assert!(other.object().delete().await.unwrap());
    let told = filter.add("a").await.unwrap_err();
    assert!(matches!(&told, ObjectError::Absent { name } if name.as_str() == "f"), "{told:?}");
    assert!(keys(&observer).await.is_empty(), "{:?}", keys(&observer).await);
    for (elements, share) in [(0, 0.01), (100, 1.0), (u64::MAX, 0.01)] {
        let told = filter.try_init(elements, share).await;
        assert!(matches!(&told, Err(ObjectError::Failed(Failure::InvalidArgument { .. }))), "{told:?}");
    }
    assert!(keys(&observer).await.is_empty());
}
