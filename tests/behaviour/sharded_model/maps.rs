//! Sharded maps compared with a map of std.

use std::collections::{BTreeMap, BTreeSet};

use fastrand::Rng;
use redgrid_core::Client;
use redgrid_sharded::ShardedMap;
use redgrid_sharded::codecs::{Long, Text};
use redgrid_tests::change_map;
use redgrid_tests::model::seeds;

use super::{Fixture, ends};

type Numbers = ShardedMap<u64, i64, Text, Long>;

change_map!(change_map, Numbers, u64, i64);

pub(super) async fn maps(fixture: &Fixture, some: u64) {
    for seed in seeds(some) {
        let mut random = Rng::with_seed(seed);
        let (name, shards) = (format!("map{seed}"), 1 << random.u32(..6));
        let of = |client: &Client| -> Numbers {
            ShardedMap::<u64, i64, Text>::new(client, &name).with_codecs(Text, Long).with_shards(shards)
        };
        let handles: Vec<Numbers> = fixture.clients.iter().map(of).collect();
        let (mut model, mut story) = (BTreeMap::new(), Vec::new());
        for _ in 0..60 {
            let step = (random.u8(..24), random.u64(..12), random.i64(0..4), random.i64(0..4));
            story.push(step);
            let anew = of(fixture.any(&mut random));
            let map = handles.get(random.usize(..3)).unwrap_or(&anew);
            let fits = map_step(map, &mut model, step, &mut random).await;
            let same =
                handles[random.usize(..2)].read_all().await.unwrap().into_iter().collect::<BTreeMap<_, _>>() == model;
            assert!(fits && same, "map, seed {seed}, {shards} shards: {model:?} after {story:?}");
        }
        let objects = [handles[0].object(), handles[1].object()];
        assert!(ends(fixture, &name, !model.is_empty(), objects).await, "map, seed {seed}: {model:?} after {story:?}");
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
        0..13 => change_map(map, model, (step, key, one, other), random, 14).await,
        13 => map.get(&key).await.unwrap() == has && map.contains_key(&key).await.unwrap() == has.is_some(),
        14 | 15 => {
            let sum = model.entry(key).or_default();
            *sum -= one;
            map.add(&key, &-one).await.unwrap() == *sum
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
        // More entries of one shard than one request deletes. They are inserted and removed.
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
            let part = map.shard_of(&key).await.unwrap();
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
