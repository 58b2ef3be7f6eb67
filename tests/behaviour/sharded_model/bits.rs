//! Sharded bit sets compared with bits in memory.

use fastrand::Rng;
use redgrid_core::{Client, Failure};
use redgrid_sharded::{ObjectError, ShardedBitSet};
use redgrid_tests::model::seeds;

use super::{Fixture, ends};

pub(super) async fn bit_sets(fixture: &Fixture, some: u64) {
    for seed in seeds(some) {
        let mut random = Rng::with_seed(seed);
        // Sizes with shards that have no bit at all, with shards of one byte, and with neighbouring
        // bits in different shards.
        let size = [1_u64, 7, 100, 1000, 4099][random.usize(..5)];
        let (name, shards) = (format!("bits{seed}"), 1 << random.u32(..5));
        let of = |client: &Client| ShardedBitSet::new(client, &name).with_shards(shards).with_size(size);
        let handles: Vec<ShardedBitSet> = fixture.clients.iter().map(of).collect();
        let (mut model, mut story, mut stored) = (vec![false; size as usize], Vec::new(), false);
        for _ in 0..60 {
            let (one, other) = (random.u64(..size), random.u64(..size));
            let step = (random.u8(..13), one.min(other), one.max(other), random.bool());
            story.push(step);
            let anew = of(fixture.any(&mut random));
            let bits = handles.get(random.usize(..3)).unwrap_or(&anew);
            let fits = bits_step(bits, &mut model, step, &mut random, &mut stored).await;
            let all: Vec<u64> = handles[random.usize(..2)].ones().try_collect().await.unwrap();
            let same = all == ones(&model, 0);
            assert!(fits && same, "bits, seed {seed}, {shards} shards of {size}: {all:?} after {story:?}");
        }
        for told in [handles[0].get(size).await.map(drop), handles[1].set(size, true).await.map(drop)] {
            assert!(
                matches!(&told, Err(ObjectError::Failed(Failure::InvalidArgument { option: "index", .. }))),
                "{told:?}"
            );
        }
        let objects = [handles[0].object(), handles[1].object()];
        let there = objects[0].exists().await.unwrap();
        assert!(there || !model.contains(&true), "bits, seed {seed}: {story:?}");
        assert!(ends(fixture, &name, there, objects).await, "bits, seed {seed}: {story:?}");
        assert!(handles[1].is_empty().await.unwrap(), "bits, seed {seed}");
    }
}

/// The indexes of the bits that are set, from this one on.
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
            // Stored zeros count as content, too.
            !all || {
                let told = bits.clear().await.unwrap();
                let fits = (told || !were) && (!told || *stored);
                *stored = false;
                fits
            }
        }
    }
}
