//! Sharded filters compared with a set of std. False positives stay within the error rate.

use std::collections::HashSet;

use fastrand::Rng;
use redgrid_core::Client;
use redgrid_sharded::codecs::Text;
use redgrid_sharded::{ObjectError, ShardedBloomFilter};
use redgrid_tests::model::seeds;

use super::{Fixture, ends};

pub(super) async fn filters(fixture: &Fixture, some: u64) {
    for seed in seeds(some) {
        let mut random = Rng::with_seed(seed);
        let shards = 1 << random.u32(..3);
        let (name, share, room) =
            (format!("filter{seed}"), [0.1, 0.03, 0.01][random.usize(..3)], 200 * u64::from(shards));
        let of = |client: &Client| -> ShardedBloomFilter<u64, Text> {
            ShardedBloomFilter::<u64, Text>::new(client, &name).with_shards(shards)
        };
        let handles: Vec<ShardedBloomFilter<u64, Text>> = fixture.clients.iter().map(of).collect();
        let told = handles[0].add(&1).await;
        assert!(matches!(&told, Err(ObjectError::Absent { .. })), "filter, seed {seed}: {told:?}");
        assert!(handles[0].try_init(room, share).await.unwrap() && !handles[1].try_init(9, 0.5).await.unwrap());
        let (mut model, mut wrong, mut asked) = (HashSet::new(), 0, 0);
        let mut step = 0;
        while (model.len() as u64) < room {
            step += 1;
            let anew = of(fixture.any(&mut random));
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
            // Elements that were not found are new, except the few whose bits are set by others.
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
        // Of the elements that were never added, the filter finds about the requested share at
        // most. While it was being filled, it found even fewer.
        let others: Vec<u64> = (1 << 41..(1 << 41) + 6000).collect();
        let found = handles[1].contains_many(&others).await.unwrap().into_iter().filter(|found| *found).count();
        assert!((found as f64) < 6000.0 * share * 1.3, "filter, seed {seed}: {found} of 6000 at {share}");
        assert!((wrong as f64) < asked as f64 * share + 5.0, "filter, seed {seed}: {wrong} of {asked} at {share}");
        let config = handles[1].config().await.unwrap().unwrap();
        assert_eq!((config.shards, config.expected_insertions, config.false_probability), (shards, room, share));
        let objects = [handles[0].object(), handles[1].object()];
        assert!(ends(fixture, &name, true, objects).await, "filter, seed {seed}");
        let told = handles[1].contains(&1).await;
        assert!(matches!(&told, Err(ObjectError::Absent { .. })), "filter, seed {seed}: {told:?}");
    }
}
