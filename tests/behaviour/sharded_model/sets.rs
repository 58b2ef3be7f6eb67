//! Sharded sets compared with a set of std.

use std::collections::BTreeSet;

use fastrand::Rng;
use redgrid_core::Client;
use redgrid_sharded::ShardedSet;
use redgrid_tests::model::seeds;

use super::{Fixture, ends};

pub(super) async fn sets(fixture: &Fixture, some: u64) {
    for seed in seeds(some) {
        let mut random = Rng::with_seed(seed);
        let (name, shards) = (format!("set{seed}"), 1 << random.u32(..6));
        let of = |client: &Client| ShardedSet::<u32>::new(client, &name).with_shards(shards);
        let handles: Vec<ShardedSet<u32>> = fixture.clients.iter().map(of).collect();
        let (mut model, mut story) = (BTreeSet::new(), Vec::new());
        for _ in 0..60 {
            let step = (random.u8(..15), random.u32(..12), random.u32(..20));
            story.push(step);
            let anew = of(fixture.any(&mut random));
            let set = handles.get(random.usize(..3)).unwrap_or(&anew);
            let fits = set_step(set, &mut model, step, &mut random).await;
            let all = handles[random.usize(..2)].read_all().await.unwrap();
            let same = all.len() == model.len() && all.into_iter().collect::<BTreeSet<_>>() == model;
            assert!(fits && same, "set, seed {seed}, {shards} shards: {model:?} after {story:?}");
        }
        let objects = [handles[0].object(), handles[1].object()];
        assert!(ends(fixture, &name, !model.is_empty(), objects).await, "set, seed {seed}: {model:?} after {story:?}");
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
    // Some values occur more than once.
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
        // More values of one shard than one request deletes. They are inserted and removed.
        13 if count == 0 => {
            let many: Vec<u32> = (1000..2200).collect();
            let asked: Vec<u32> = many.iter().rev().copied().chain([7000]).collect();
            set.insert_many(many.iter().chain(&many)).await.unwrap() == 1200
                && set.contains_each(&asked).await.unwrap() == [vec![true; 1200], vec![false]].concat()
                && set.len().await.unwrap() == len as u64 + 1200
                && set.remove_many(&asked).await.unwrap() == 1200
        }
        13 => {
            let part = set.shard_of(&one).await.unwrap();
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
