//! Sharded objects are what their models are, whoever of several clients asks, on one server and on a cluster.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use fastrand::Rng;
use redgrid_core::Client;
use redgrid_core::object::Lifetime;
use redgrid_sharded::codecs::{Long, Text};
use redgrid_sharded::{ObjectError, ShardedBitSet, ShardedBloomFilter, ShardedMap, ShardedObject, ShardedSet};
use redgrid_testkit::{Cluster, Observer};
use redgrid_tests::{client, client_with, server};

const HOUR: Duration = Duration::from_secs(3600);

/// Who asks, and who looks at all servers.
struct Ground {
    clients: Vec<Client>,
    observers: Vec<Observer>,
}

impl Ground {
    /// All keys of a name.
    async fn keys(&self, name: &str) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for observer in &self.observers {
            for pattern in [format!("{name}:*"), format!("{{{name}}}*")] {
                all.extend(observer.query::<Vec<String>>(&["KEYS", &pattern]).await.unwrap());
            }
        }
        all
    }

    /// One of the clients.
    fn any(&self, random: &mut Rng) -> &Client {
        &self.clients[random.usize(..self.clients.len())]
    }
}

async fn on_one_server() -> (redgrid_testkit::RedisServer, Ground) {
    let server = server().await;
    let clients = vec![client(&server).await, client(&server).await];
    let observers = vec![server.observer().await.unwrap()];
    (server, Ground { clients, observers })
}

async fn on_a_cluster() -> (Cluster, Ground) {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let url = cluster.url();
    let clients = vec![client_with(&url, |config| config).await, client_with(&url, |config| config).await];
    let mut observers = Vec::new();
    for node in cluster.nodes() {
        observers.push(node.observer().await.unwrap());
    }
    (cluster, Ground { clients, observers })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sharded_map_is_what_its_model_is_to_all_clients() {
    let (_server, ground) = on_one_server().await;
    maps(&ground, 0..10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sharded_set_is_what_its_model_is_to_all_clients() {
    let (_server, ground) = on_one_server().await;
    sets(&ground, 0..10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sharded_bit_set_is_what_its_model_is_to_all_clients() {
    let (_server, ground) = on_one_server().await;
    bit_sets(&ground, 0..8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sharded_filter_is_what_its_model_is_to_all_clients() {
    let (_server, ground) = on_one_server().await;
    filters(&ground, 0..3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_cluster_sharded_objects_are_what_their_models_are() {
    let (_cluster, ground) = on_a_cluster().await;
    maps(&ground, 100..103).await;
    sets(&ground, 100..103).await;
    bit_sets(&ground, 100..103).await;
    filters(&ground, 100..101).await;
}

/// What every sharded object has: of a whole whose lifetime is asked for, set, taken away, and which is deleted; nothing stays behind.
async fn ends(ground: &Ground, name: &str, there: bool, objects: [ShardedObject; 2]) -> bool {
    let [one, other] = objects;
    let lasting = if there { Lifetime::Endless } else { Lifetime::Absent };
    let fits = other.exists().await.unwrap() == there
        && other.lifetime().await.unwrap() == lasting
        && one.expire_in(HOUR).await.unwrap() == there
        && matches!(other.lifetime().await.unwrap(), Lifetime::Ends(_)) == there
        && other.persist().await.unwrap() == there
        && one.lifetime().await.unwrap() == lasting
        && one.memory().await.unwrap().is_some() == there
        && other.delete().await.unwrap() == there
        && !one.unlink().await.unwrap();
    fits && ground.keys(name).await.is_empty() && one.shards().await.unwrap().is_none()
}

type Numbers = ShardedMap<u64, i64, Text, Long>;

async fn maps(ground: &Ground, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut random = Rng::with_seed(seed);
        let (name, shards) = (format!("map{seed}"), 1 << random.u32(..6));
        let of = |client: &Client| -> Numbers {
            ShardedMap::<u64, i64, Text>::new(client, &name).with_codecs(Text, Long).with_shards(shards)
        };
        let handles: Vec<Numbers> = ground.clients.iter().map(of).collect();
        let (mut model, mut story) = (BTreeMap::new(), Vec::new());
        for _ in 0..60 {
            let step = (random.u8(..24), random.u64(..12), random.i64(0..4), random.i64(0..4));
            story.push(step);
            let anew = of(ground.any(&mut random));
            let map = handles.get(random.usize(..3)).unwrap_or(&anew);
            let fits = map_step(map, &mut model, step, &mut random).await;
            let same =
                handles[random.usize(..2)].read_all().await.unwrap().into_iter().collect::<BTreeMap<_, _>>() == model;
            assert!(fits && same, "map, seed {seed}, {shards} shards: {model:?} after {story:?}");
        }
        let objects = [handles[0].object(), handles[1].object()];
        assert!(ends(ground, &name, !model.is_empty(), objects).await, "map, seed {seed}: {model:?} after {story:?}");
        assert!(handles[1].is_empty().await.unwrap(), "map, seed {seed}");
    }
}

async fn map_step(
    map: &Numbers,
    model: &mut BTreeMap<u64, i64>,
    (step, key, one, other): (u8, u64, i64, i64),
    random: &mut Rng,
) -> bool {
    let has = model.get(&key).copied();
    let len = model.len() as u64;
    match step {
        0 => map.get(&key).await.unwrap() == has && map.contains_key(&key).await.unwrap() == has.is_some(),
        1 => map.insert(&key, &one).await.unwrap() == model.insert(key, one),
        2 => map.set(&key, &one).await.unwrap() == model.insert(key, one).is_none(),
        3 => {
            model.entry(key).or_insert(one);
            map.insert_if_absent(&key, &one).await.unwrap() == has
        }
        4 => {
            model.entry(key).or_insert(one);
            map.set_if_absent(&key, &one).await.unwrap() == has.is_none()
        }
        5 => {
            model.entry(key).and_modify(|value| *value = one);
            map.replace(&key, &one).await.unwrap() == has
        }
        6 => {
            model.entry(key).and_modify(|value| *value = one);
            map.set_if_exists(&key, &one).await.unwrap() == has.is_some()
        }
        7 => {
            if has == Some(one) {
                model.insert(key, other);
            }
            map.compare_and_set(&key, &one, &other).await.unwrap() == (has == Some(one))
        }
        8 => {
            if has == Some(one) {
                model.remove(&key);
            }
            map.compare_and_remove(&key, &one).await.unwrap() == (has == Some(one))
        }
        9 => map.remove(&key).await.unwrap() == model.remove(&key),
        10 => {
            model.entry(key).and_modify(|value| *value ^= 1);
            map.update(&key, |value| *value ^= 1).await.unwrap() == model.get(&key).copied()
        }
        11 => {
            // An odd number goes, what is absent comes.
            let change = |value: Option<i64>| match value {
                Some(value) if value % 2 != 0 => None,
                value => Some(value.unwrap_or(one) + 1),
            };
            let is = change(has);
            let _ = if let Some(is) = is { model.insert(key, is) } else { model.remove(&key) };
            map.alter(&key, change).await.unwrap() == is
        }
        12 => {
            let sum = model.entry(key).or_default();
            *sum -= one;
            map.add(&key, &-one).await.unwrap() == *sum
        }
        // Many: some of them twice, of which the last counts.
        13 | 14 => {
            let many: Vec<(u64, i64)> = (0..random.usize(..20)).map(|n| (random.u64(..14), n as i64)).collect();
            model.extend(many.iter().copied());
            map.set_many(many.iter().map(|(key, value)| (key, value))).await.is_ok()
        }
        15 => {
            let many: Vec<u64> = (0..random.usize(..8)).map(|_| random.u64(..14)).collect();
            let were = many.iter().filter(|key| model.remove(key).is_some()).count() as u64;
            map.remove_many(&many).await.unwrap() == were
        }
        16 => {
            let asked: Vec<u64> = (0..random.usize(..20)).map(|_| random.u64(..16)).collect();
            let expected: Vec<Option<i64>> = asked.iter().map(|key| model.get(key).copied()).collect();
            map.get_many(&asked).await.unwrap() == expected
        }
        17 => {
            let size = has.map_or(0, |value| value.to_string().len() as u64);
            map.value_size(&key).await.unwrap() == size
                && map.contains_value(&one).await.unwrap() == model.values().any(|value| *value == one)
        }
        18 => map.len().await.unwrap() == len && map.is_empty().await.unwrap() == (len == 0),
        19 => {
            let (keys, count) = (map.read_all_keys().await.unwrap(), random.u32(..8));
            let (some, entries) = (map.random_keys(count).await.unwrap(), map.random_entries(count).await.unwrap());
            let each = |found: usize| found == model.len().min(count as usize);
            let different: BTreeSet<u64> = some.iter().copied().collect();
            keys.len() == model.len()
                && keys.iter().all(|key| model.contains_key(key))
                && each(some.len())
                && each(different.len())
                && different.iter().all(|key| model.contains_key(key))
                && each(entries.len())
                && entries.iter().all(|(key, value)| model.get(key) == Some(value))
        }
        20 => {
            let (mut values, mut streamed) =
                (map.read_all_values().await.unwrap(), map.values().page(2).try_collect::<Vec<i64>>().await.unwrap());
            let mut expected: Vec<i64> = model.values().copied().collect();
            for all in [&mut values, &mut streamed, &mut expected] {
                all.sort_unstable();
            }
            values == expected && streamed == expected
        }
        21 => {
            let entries: Vec<(u64, i64)> = map.entries().page(2).try_collect().await.unwrap();
            let ones: BTreeSet<u64> = map.keys().matching("1*").try_collect().await.unwrap();
            let expected = model.keys().copied().filter(|key| key.to_string().starts_with('1'));
            entries.len() == model.len()
                && entries.into_iter().collect::<BTreeMap<_, _>>() == *model
                && ones == expected.collect()
        }
        // More than leave at a time for one part, put in and taken out again.
        22 if one == 0 => {
            let many: BTreeMap<u64, i64> = (1000..2200).map(|key| (key, other)).collect();
            let keys: Vec<u64> = many.keys().rev().copied().chain([key, 7000]).collect();
            map.set_many(&many).await.unwrap();
            let found = map.get_many(&keys).await.unwrap();
            let expected: Vec<Option<i64>> = keys.iter().map(|key| many.get(key).or(model.get(key)).copied()).collect();
            found == expected
                && map.len().await.unwrap() == len + 1200
                && map.remove_many(many.keys().chain([&7000])).await.unwrap() == 1200
        }
        22 => {
            let part = map.part_of(&key).await.unwrap();
            part.get(&key).await.unwrap() == has && part.len().await.unwrap() <= len
        }
        _ => {
            let were = !model.is_empty();
            if one == 0 {
                model.clear();
            }
            one != 0 || map.clear().await.unwrap() == were
        }
    }
}

async fn sets(ground: &Ground, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut random = Rng::with_seed(seed);
        let (name, shards) = (format!("set{seed}"), 1 << random.u32(..6));
        let of = |client: &Client| ShardedSet::<u32>::new(client, &name).with_shards(shards);
        let handles: Vec<ShardedSet<u32>> = ground.clients.iter().map(of).collect();
        let (mut model, mut story) = (BTreeSet::new(), Vec::new());
        for _ in 0..60 {
            let step = (random.u8(..15), random.u32(..12), random.u32(..20));
            story.push(step);
            let anew = of(ground.any(&mut random));
            let set = handles.get(random.usize(..3)).unwrap_or(&anew);
            let fits = set_step(set, &mut model, step, &mut random).await;
            let all = handles[random.usize(..2)].read_all().await.unwrap();
            let same = all.len() == model.len() && all.into_iter().collect::<BTreeSet<_>>() == model;
            assert!(fits && same, "set, seed {seed}, {shards} shards: {model:?} after {story:?}");
        }
        let objects = [handles[0].object(), handles[1].object()];
        assert!(ends(ground, &name, !model.is_empty(), objects).await, "set, seed {seed}: {model:?} after {story:?}");
        assert!(handles[1].is_empty().await.unwrap(), "set, seed {seed}");
    }
}

async fn set_step(
    set: &ShardedSet<u32>,
    model: &mut BTreeSet<u32>,
    (step, one, count): (u8, u32, u32),
    random: &mut Rng,
) -> bool {
    let len = model.len();
    // Some of them more than once.
    let many: Vec<u32> = (0..count).map(|_| random.u32(..14)).collect();
    match step {
        0 | 1 => set.insert(&one).await.unwrap() == model.insert(one),
        2 | 3 => {
            model.extend(many.iter().copied());
            set.insert_many(&many).await.unwrap() == (model.len() - len) as u64
        }
        4 => set.remove(&one).await.unwrap() == model.remove(&one),
        5 => {
            model.retain(|value| !many.contains(value));
            set.remove_many(&many).await.unwrap() == (len - model.len()) as u64
        }
        6 => set.contains(&one).await.unwrap() == model.contains(&one),
        7 => {
            let expected: Vec<bool> = many.iter().map(|value| model.contains(value)).collect();
            set.contains_each(&many).await.unwrap() == expected
        }
        8 => {
            let all: Vec<u32> = model.iter().copied().filter(|value| *value != one).collect();
            set.contains_all(&all).await.unwrap()
                && set.contains_all(all.iter().chain([&one])).await.unwrap() == model.contains(&one)
        }
        9 => {
            let some = set.random_many(count / 2).await.unwrap();
            let different: BTreeSet<u32> = some.iter().copied().collect();
            some.len() == different.len()
                && some.len() == len.min(count as usize / 2)
                && different.is_subset(model)
                && set.random().await.unwrap().map_or(len == 0, |value| model.contains(&value))
        }
        10 => match set.pop().await.unwrap() {
            Some(value) => model.remove(&value),
            None => len == 0,
        },
        11 => {
            let all: Vec<u32> = set.stream().page(2).try_collect().await.unwrap();
            all.len() == len && all.into_iter().collect::<BTreeSet<_>>() == *model
        }
        12 => set.len().await.unwrap() == len as u64 && set.is_empty().await.unwrap() == (len == 0),
        // More than leave at a time for one part, put in and taken out again.
        13 if count == 0 => {
            let many: Vec<u32> = (1000..2200).collect();
            let asked: Vec<u32> = many.iter().rev().copied().chain([7000]).collect();
            set.insert_many(many.iter().chain(&many)).await.unwrap() == 1200
                && set.contains_each(&asked).await.unwrap() == [vec![true; 1200], vec![false]].concat()
                && set.len().await.unwrap() == len as u64 + 1200
                && set.remove_many(&asked).await.unwrap() == 1200
        }
        13 => {
            let part = set.part_of(&one).await.unwrap();
            part.contains(&one).await.unwrap() == model.contains(&one) && part.len().await.unwrap() <= len as u64
        }
        _ => {
            if one == 0 {
                model.clear();
            }
            one != 0 || set.clear().await.unwrap() == (len > 0)
        }
    }
}

async fn bit_sets(ground: &Ground, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut random = Rng::with_seed(seed);
        // With parts that have no bit at all, and of a byte, and with neighbours.
        let size = [1_u64, 7, 100, 1000, 4099][random.usize(..5)];
        let (name, shards) = (format!("bits{seed}"), 1 << random.u32(..5));
        let of = |client: &Client| ShardedBitSet::new(client, &name).with_shards(shards).with_size(size);
        let handles: Vec<ShardedBitSet> = ground.clients.iter().map(of).collect();
        let (mut model, mut story, mut stored) = (vec![false; size as usize], Vec::new(), false);
        for _ in 0..60 {
            let (one, other) = (random.u64(..size), random.u64(..size));
            let step = (random.u8(..13), one.min(other), one.max(other), random.bool());
            story.push(step);
            let anew = of(ground.any(&mut random));
            let bits = handles.get(random.usize(..3)).unwrap_or(&anew);
            let fits = bits_step(bits, &mut model, step, &mut random, &mut stored).await;
            let all: Vec<u64> = handles[random.usize(..2)].ones().try_collect().await.unwrap();
            let same = all == ones(&model, 0);
            assert!(fits && same, "bits, seed {seed}, {shards} shards of {size}: {all:?} after {story:?}");
        }
        for told in [handles[0].get(size).await.map(drop), handles[1].set(size, true).await.map(drop)] {
            assert!(matches!(&told, Err(ObjectError::InvalidArgument { option: "index", .. })), "{told:?}");
        }
        let objects = [handles[0].object(), handles[1].object()];
        let there = objects[0].exists().await.unwrap();
        assert!(there || !model.contains(&true), "bits, seed {seed}: {story:?}");
        assert!(ends(ground, &name, there, objects).await, "bits, seed {seed}: {story:?}");
        assert!(handles[1].is_empty().await.unwrap(), "bits, seed {seed}");
    }
}

/// The bits that are set, from one on.
fn ones(model: &[bool], from: u64) -> Vec<u64> {
    (0..).zip(model).filter(|(index, bit)| **bit && *index >= from).map(|(index, _)| index).collect()
}

async fn bits_step(
    bits: &ShardedBitSet,
    model: &mut [bool],
    (step, low, high, bit): (u8, u64, u64, bool),
    random: &mut Rng,
    stored: &mut bool,
) -> bool {
    let size = model.len() as u64;
    let many: Vec<u64> = (0..random.usize(..20)).map(|_| random.u64(..size)).collect();
    let count = |model: &[bool]| model.iter().filter(|bit| **bit).count() as u64;
    match step {
        0 | 1 => {
            *stored = true;
            bits.set(low, bit).await.unwrap() == std::mem::replace(&mut model[low as usize], bit)
        }
        2 | 3 => {
            *stored |= !many.is_empty();
            let change = |index: &&u64| std::mem::replace(&mut model[**index as usize], bit) != bit;
            let changed = many.iter().filter(change).count() as u64;
            bits.set_many(many.iter().copied(), bit).await.unwrap() == changed
        }
        4 | 5 => {
            model[low as usize..high as usize].fill(bit);
            *stored |= bit && low < high;
            bits.set_range(low..high, bit).await.is_ok()
        }
        6 => {
            let from = if bit { 0 } else { low };
            model[from as usize..=high as usize].fill(bit);
            *stored |= bit;
            match bit {
                true => bits.set_range(..=high, bit).await.is_ok(),
                false => bits.set_range(low..=high, bit).await.is_ok(),
            }
        }
        7 => {
            let expected: Vec<bool> = many.iter().map(|index| model[*index as usize]).collect();
            bits.get(low).await.unwrap() == model[low as usize] && bits.get_many(many).await.unwrap() == expected
        }
        8 => {
            let within = |from: u64, to: u64| count(&model[from as usize..to as usize]);
            bits.count().await.unwrap() == count(model)
                && bits.count_in(low..high).await.unwrap() == within(low, high)
                && bits.count_in(low..).await.unwrap() == within(low, size)
                && bits.is_empty().await.unwrap() == (count(model) == 0)
        }
        9 => {
            let last = model.iter().rposition(|bit| *bit).map_or(0, |last| last as u64 + 1);
            let room = bits.size().await.unwrap();
            bits.len().await.unwrap() == last
                && bits.capacity().await.unwrap() == size
                && room % 8 == 0
                && room >= count(model)
        }
        10 => {
            let next = |wanted: bool| (low..size).find(|index| model[*index as usize] == wanted);
            bits.next_set(low).await.unwrap() == next(true) && bits.next_clear(low).await.unwrap() == next(false)
        }
        11 => bits.ones_from(low).try_collect::<Vec<u64>>().await.unwrap() == ones(model, low),
        _ => {
            let (were, all) = (count(model) > 0, low % 3 == 0);
            if all {
                model.fill(false);
            }
            // Zeros may be stored, too.
            !all || {
                let told = bits.clear().await.unwrap();
                let fits = (told || !were) && (!told || *stored);
                *stored = false;
                fits
            }
        }
    }
}

async fn filters(ground: &Ground, seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let mut random = Rng::with_seed(seed);
        let shards = 1 << random.u32(..3);
        let (name, share, room) =
            (format!("filter{seed}"), [0.1, 0.03, 0.01][random.usize(..3)], 200 * u64::from(shards));
        let of = |client: &Client| -> ShardedBloomFilter<u64, Text> {
            ShardedBloomFilter::<u64, Text>::new(client, &name).with_shards(shards)
        };
        let handles: Vec<ShardedBloomFilter<u64, Text>> = ground.clients.iter().map(of).collect();
        let told = handles[0].add(&1).await;
        assert!(matches!(&told, Err(ObjectError::Absent { .. })), "filter, seed {seed}: {told:?}");
        assert!(handles[0].try_init(room, share).await.unwrap() && !handles[1].try_init(9, 0.5).await.unwrap());
        let (mut model, mut wrong, mut asked) = (HashSet::new(), 0, 0);
        let mut step = 0;
        while (model.len() as u64) < room {
            step += 1;
            let anew = of(ground.any(&mut random));
            let filter = handles.get(random.usize(..3)).unwrap_or(&anew);
            let some: Vec<u64> = (0..random.u64(1..=room / 20)).map(|_| random.u64(..1 << 40)).collect();
            let news = some.len().min(room as usize - model.len());
            let found = filter.contains_many(&some).await.unwrap();
            (wrong, asked) = (wrong + found.iter().filter(|found| **found).count(), asked + some.len());
            let free = found[..news].iter().filter(|found| !**found).count() as u64;
            let some = &some[..news];
            let new = match random.bool() {
                true => filter.add_many(some).await.unwrap(),
                false => {
                    let mut new = 0;
                    for element in some.iter().take(5) {
                        new += u64::from(filter.add(element).await.unwrap());
                    }
                    new + filter.add_many(some).await.unwrap()
                }
            };
            // Those that were not found are new, but for the few that have the bits of others among them.
            assert!(new <= free && free - new <= 1 + free / 20, "filter, seed {seed}, step {step}: {new} of {free}");
            model.extend(some.iter().copied());
            let anybody = &handles[random.usize(..2)];
            let members: Vec<u64> = model.iter().copied().take(300).collect();
            assert!(
                anybody.contains_many(&members).await.unwrap().iter().all(|found| *found),
                "filter, seed {seed}, step {step}"
            );
            assert!(anybody.contains(&some[0]).await.unwrap(), "filter, seed {seed}, step {step}");
            assert!(!anybody.add(&some[news - 1]).await.unwrap(), "filter, seed {seed}, step {step}");
            let (count, there) = (anybody.count().await.unwrap(), model.len() as u64);
            assert!(
                count.abs_diff(there) as f64 <= f64::from(shards) + 2.0 * (there as f64).sqrt(),
                "filter, seed {seed}, step {step}: {count} of {there}"
            );
        }
        let all: Vec<u64> = model.iter().copied().collect();
        assert!(handles[1].contains_many(&all).await.unwrap().iter().all(|found| *found), "filter, seed {seed}");
        assert_eq!(handles[0].add_many(&all).await.unwrap(), 0, "filter, seed {seed}");
        // No more is found than was asked for, of what was never in; what came on the way was found less often.
        let others: Vec<u64> = (1 << 41..(1 << 41) + 6000).collect();
        let found = handles[1].contains_many(&others).await.unwrap().into_iter().filter(|found| *found).count();
        assert!((found as f64) < 6000.0 * share * 1.3, "filter, seed {seed}: {found} of 6000 at {share}");
        assert!((wrong as f64) < asked as f64 * share + 5.0, "filter, seed {seed}: {wrong} of {asked} at {share}");
        let config = handles[1].config().await.unwrap().unwrap();
        assert_eq!((config.shards, config.expected_insertions, config.false_probability), (shards, room, share));
        let objects = [handles[0].object(), handles[1].object()];
        assert!(ends(ground, &name, true, objects).await, "filter, seed {seed}");
        let told = handles[1].contains(&1).await;
        assert!(matches!(&told, Err(ObjectError::Absent { .. })), "filter, seed {seed}: {told:?}");
    }
}
