//! Sharded objects on every topology. In a cluster they are on all nodes, also while the nodes
//! change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::{join, join_all};
use redgrid_core::Failure;
use redgrid_core::object::Lifetime;
use redgrid_sharded::{ObjectError, ShardedBitSet, ShardedBloomFilter, ShardedMap, ShardedSet};
use redgrid_testkit::{Cluster, wait_until};
use redgrid_tests::SOON;

use crate::contract::clauses;
use crate::fixture::{Fixture, by_seeds, connected};

const HOUR: Duration = Duration::from_secs(3600);

clauses![
    "sharded";
    entries_of_all_shards_are_found_by_all_clients,
    values_bits_and_elements_of_all_shards_are_found,
];

async fn entries_of_all_shards_are_found_by_all_clients(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let here: ShardedMap<u32, u32> = ShardedMap::new(&one, &on.name).with_shards(8);
    let there: ShardedMap<u32, u32> = ShardedMap::new(&two, &on.name);
    let all: HashMap<u32, u32> = (0..200).map(|n| (n, n)).collect();
    here.set_many(&all).await.unwrap();
    assert_eq!((there.len().await.unwrap(), there.read_all().await.unwrap()), (200, all.clone()));
    assert_eq!(there.entries().try_collect::<HashMap<_, _>>().await.unwrap(), all);
    assert_eq!(
        (there.insert(&1, &9).await.unwrap(), here.get_many(&[1, 500]).await.unwrap()),
        (Some(1), vec![Some(9), None])
    );
    assert_eq!((here.update(&1, |n| *n += 1).await.unwrap(), there.remove(&1).await.unwrap()), (Some(10), Some(10)));
    assert!(here.insert_if_absent(&1, &7).await.unwrap().is_none() && here.replace(&1, &8).await.unwrap() == Some(7));
    assert!(there.compare_and_set(&1, &8, &5).await.unwrap() && there.compare_and_remove(&1, &5).await.unwrap());
    assert!(here.contains_value(&150).await.unwrap() && there.contains_key(&150).await.unwrap());
    assert_eq!((here.random_keys(3).await.unwrap().len(), here.random_entries(3).await.unwrap().len()), (3, 3));
    assert_eq!(
        (here.keys().try_collect::<Vec<_>>().await.unwrap().len(), there.remove_many(all.keys()).await.unwrap()),
        (199, 199)
    );
    assert!(there.set(&1, &1).await.unwrap() && there.object().expire_in(HOUR).await.unwrap());
    assert!(matches!(here.object().lifetime().await.unwrap(), Lifetime::Ends(left) if left <= HOUR));
    assert!(here.object().persist().await.unwrap() && here.object().memory().await.unwrap().is_some());
    assert!(here.object().delete().await.unwrap() && !there.object().exists().await.unwrap());
}

async fn values_bits_and_elements_of_all_shards_are_found(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let name = |kind: &str| format!("{}:{kind}", on.name);
    let (here, there): (ShardedSet<u32>, ShardedSet<u32>) =
        (ShardedSet::new(&one, name("set")), ShardedSet::new(&two, name("set")));
    let all: BTreeSet<u32> = (0..200).collect();
    assert_eq!((here.insert_many(&all).await.unwrap(), there.len().await.unwrap()), (200, 200));
    assert_eq!(there.stream().try_collect::<BTreeSet<u32>>().await.unwrap(), all);
    assert_eq!(
        (there.contains_each(&[1, 999]).await.unwrap(), there.remove_many(&[1, 999]).await.unwrap()),
        (vec![true, false], 1)
    );
    assert!(here.pop().await.unwrap().is_some() && here.random_many(5).await.unwrap().len() == 5);
    assert!(here.object().unlink().await.unwrap());
    let (here, there) =
        (ShardedBitSet::new(&one, name("bits")).with_size(1000), ShardedBitSet::new(&two, name("bits")));
    here.set_range(100..900, true).await.unwrap();
    assert!(there.set(500, false).await.unwrap() && !there.get(500).await.unwrap());
    assert_eq!((there.count().await.unwrap(), there.len().await.unwrap()), (799, 900));
    assert_eq!((there.next_clear(200).await.unwrap(), there.next_set(0).await.unwrap()), (Some(500), Some(100)));
    assert_eq!((here.set_many([1, 999], true).await.unwrap(), here.count_in(0..500).await.unwrap()), (2, 401));
    assert_eq!(here.ones_from(898).try_collect::<Vec<_>>().await.unwrap(), [898, 899, 999]);
    assert!(here.size().await.unwrap() > 0 && here.clear().await.unwrap() && there.object().delete().await.is_ok());
    let (here, there): (ShardedBloomFilter<u32>, ShardedBloomFilter<u32>) =
        (ShardedBloomFilter::new(&one, name("filter")), ShardedBloomFilter::new(&two, name("filter")));
    assert!(here.try_init(1000, 0.01).await.unwrap() && here.add_many(&all).await.unwrap() > 190);
    assert!(there.contains_many(&all).await.unwrap().iter().all(|found| *found));
    assert!((190..210).contains(&there.count().await.unwrap()) && there.config().await.unwrap().is_some());
    assert!(here.object().delete().await.unwrap());
}

/// Scenarios with clusters of their own.
pub(crate) mod sharded_alone {
    use super::*;
    use crate::fixture::scenarios;

    scenarios![
        each_node_has_its_share,
        shards_work_while_their_slots_move_and_nodes_are_replaced,
        failures_at_a_dead_node_are_named_and_the_rest_works,
    ];

    async fn each_node_has_its_share() {
        let cluster = Cluster::start(3, 0).await.unwrap();
        let client = connected(by_seeds(&cluster)).await;
        let set: ShardedSet<u32> = ShardedSet::new(&client, "s").with_shards(16);
        set.insert_many(&(0..6000).collect::<Vec<_>>()).await.unwrap();
        let mut values = BTreeMap::new();
        for node in cluster.nodes() {
            let observer = node.observer().await.unwrap();
            let mut has = 0;
            for key in observer.query::<Vec<String>>(&["KEYS", "s:*"]).await.unwrap() {
                has += observer.query::<u64>(&["SCARD", &key]).await.unwrap();
            }
            values.insert(node.addr(), has);
        }
        assert_eq!(values.values().sum::<u64>(), 6000);
        assert!(values.values().all(|has| (1600..=2400).contains(has)), "{values:?}");
    }

    async fn shards_work_while_their_slots_move_and_nodes_are_replaced() {
        let cluster = Cluster::start(3, 1).await.unwrap();
        let (one, two) = (
            connected(by_seeds(&cluster).response_timeout(SOON).retries(3)).await,
            connected(by_seeds(&cluster)).await,
        );
        let map: ShardedMap<u64, u64> = ShardedMap::new(&one, "m").with_shards(16);
        let (over, done) = (AtomicBool::new(false), AtomicU64::new(0));
        let work = async |task: u64| {
            let mut mine = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let key = task + 10 * mine.len() as u64;
                // The value stays the same, so a write with an unknown outcome may be repeated.
                while let Err(error) = map.set(&key, &key).await {
                    assert!(matches!(error, ObjectError::Failed(Failure::OutcomeUnknown { .. })), "{error:?}");
                }
                mine.push(key);
                assert_eq!(map.get(&key).await.unwrap(), Some(key));
                map.len().await.unwrap();
                done.fetch_add(1, Ordering::Relaxed);
            }
            mine
        };
        let until_more = async || {
            let so_far = done.load(Ordering::Relaxed);
            wait_until(2 * SOON, async || done.load(Ordering::Relaxed) > so_far + 20).await;
        };
        let moves = async {
            let slot_of = async |key: u64| {
                let part = map.shard_of(&key).await.unwrap();
                cluster.slot_of(part.object().name().unwrap().as_str()).await.unwrap()
            };
            until_more().await;
            let primary = cluster.primary_of(slot_of(1).await).await.unwrap();
            cluster.fail_over(primary).await.unwrap();
            for key in [1_u64, 2, 3] {
                let slot = slot_of(key).await;
                let from = cluster.primary_of(slot).await.unwrap().addr();
                let mut to = None;
                // These slots belong to three primaries, which have a third of the slots each.
                for other in [0, 6_000, 16_000] {
                    let primary = cluster.primary_of(other).await.unwrap();
                    to = Some(primary).filter(|primary| primary.addr() != from).or(to);
                }
                cluster.begin_migration(slot, to.expect("another primary")).await.unwrap();
                until_more().await;
                cluster.move_keys(slot).await.unwrap();
                cluster.finish_migration(slot).await.unwrap();
                until_more().await;
            }
            over.store(true, Ordering::Relaxed);
        };
        let (set, ()) = join(join_all((0..4).map(work)), moves).await;
        let all: BTreeMap<u64, u64> = set.into_iter().flatten().map(|key| (key, key)).collect();
        let there: ShardedMap<u64, u64> = ShardedMap::new(&two, "m");
        assert_eq!(there.entries().try_collect::<BTreeMap<u64, u64>>().await.unwrap(), all);
        assert_eq!(there.len().await.unwrap(), all.len() as u64);
    }

    async fn failures_at_a_dead_node_are_named_and_the_rest_works() {
        let cluster =
            Cluster::builder().primaries(3).replicas_per_primary(0).full_coverage(false).start().await.unwrap();
        let client = connected(by_seeds(&cluster).response_timeout(Duration::from_secs(1)).retries(1)).await;
        let set: ShardedSet<u32> = ShardedSet::new(&client, "s").with_shards(16);
        let all: Vec<u32> = (0..400).collect();
        set.insert_many(&all).await.unwrap();
        // This node has shards, but not the key that describes how the set is divided.
        let config = cluster.primary_of(cluster.slot_of("{s}:shards").await.unwrap()).await.unwrap().addr();
        let dead = cluster.nodes().iter().find(|node| node.addr() != config).unwrap();
        let observer = dead.observer().await.unwrap();
        let lost = observer.query::<Vec<String>>(&["KEYS", "s:*"]).await.unwrap().len();
        dead.kill().await.unwrap();
        let error = tokio::time::timeout(2 * SOON, set.len()).await.expect("it does not hang").unwrap_err();
        let ObjectError::Shards { failed, .. } = &error else { panic!("{error:?}") };
        assert_eq!(failed.len(), lost, "{error:?}");
        assert!(
            failed.iter().all(|(_, error)| matches!(error, ObjectError::Failed(Failure::Unavailable { .. }))),
            "{error:?}"
        );
        let mut found = 0;
        for value in &all {
            let part = set.shard_of(value).await.unwrap();
            let slot = cluster.slot_of(part.object().name().unwrap().as_str()).await.unwrap();
            if failed.iter().all(|(shard, _)| slot != (*shard * 1024) as u16) {
                assert!(set.contains(value).await.unwrap());
                found += 1;
            }
        }
        assert!(found > 200, "{found}");
        assert!(!set.is_empty().await.unwrap());
    }
}
