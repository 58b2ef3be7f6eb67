//! Transactions on every topology.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redgrid_bucket::Bucket;
use redgrid_core::{Client, Config, Script};
use redgrid_locks::Lock;
use redgrid_map::Map;
use redgrid_set::Set;
use redgrid_testkit::{Cluster, Sentinels, wait_until};
use redgrid_tests::SOON;
use redgrid_transaction::{Isolation, Transaction, TransactionError};

use crate::contract::clauses;
use crate::fixture::{Fixture, Topology, by_seeds, by_sentinels, connected};

clauses![
    "transactions";
    a_transaction_writes_all_or_nothing,
    tasks_of_two_processes_lose_no_update_of_a_transaction,
    objects_of_one_transaction_share_a_slot,
];

async fn a_transaction_writes_all_or_nothing(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let name = |what: &str| format!("{{{}}}:{what}", on.name);
    let (bucket, map, set) = (name("bucket"), name("map"), name("set"));
    let write = async |client: &Client, n: u32| {
        let tx = Transaction::new(client).isolation(Isolation::Serializable).timeout(SOON);
        let members = tx.set::<u32>(&set);
        let (was, len) = (tx.bucket::<u32>(&bucket).get().await?, members.len().await?);
        assert_eq!((was.unwrap_or(0), len), (n - 1, u64::from(n - 1)));
        tx.bucket::<u32>(&bucket).set(&n)?;
        let inside = tx.map::<String, u32>(&map);
        inside.insert("a", &n).await?;
        inside.remove("b").await?;
        inside.set(&n.to_string(), &n)?;
        members.insert(&n).await?;
        tx.commit().await
    };
    write(&one, 1).await.unwrap();
    write(&two, 2).await.unwrap();
    let (there, members): (Map<String, u32>, Set<u32>) = (Map::new(&two, &map), Set::new(&one, &set));
    assert_eq!((there.get("a").await.unwrap(), there.len().await.unwrap()), (Some(2), 3));
    assert_eq!(members.len().await.unwrap(), 2);
    // A commit with a conflict writes nothing. A commit that meets the lock of a Java transaction
    // writes nothing either.
    let tx = Transaction::new(&one);
    tx.set::<u32>(&set).insert(&7).await.unwrap();
    tx.bucket::<u32>(&bucket).get_and_set(&7).await.unwrap();
    Bucket::<u32>::new(&two, &bucket).set(&3).await.unwrap();
    assert!(matches!(tx.commit().await.unwrap_err(), TransactionError::Conflict { .. }));
    let guard = Lock::new(&two, format!("{bucket}:transaction_lock")).acquire().await.unwrap();
    let tx = Transaction::new(&one).timeout(Duration::from_secs(1));
    tx.map::<String, u32>(&map).clear().unwrap();
    tx.bucket::<u32>(&bucket).set(&7).unwrap();
    assert!(matches!(tx.commit().await.unwrap_err(), TransactionError::Locked { .. }));
    guard.release().await.unwrap();
    assert!(!members.contains(&7).await.unwrap() && there.len().await.unwrap() == 3);
    // One transaction empties all three objects and writes a new entry.
    let tx = Transaction::new(&one);
    let (inside, values) = (tx.map::<String, u32>(&map), tx.set::<u32>(&set));
    inside.clear().unwrap();
    inside.set("z", &1).unwrap();
    values.clear().unwrap();
    tx.bucket::<u32>(&bucket).delete().await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(there.read_all_keys().await.unwrap(), ["z"]);
    assert!(members.is_empty().await.unwrap());
    assert_eq!(Bucket::<u32>::new(&two, &bucket).get().await.unwrap(), None);
}

async fn tasks_of_two_processes_lose_no_update_of_a_transaction(on: Fixture) {
    let clients = [on.client().await, on.client().await];
    let name = on.name.clone();
    let tasks: Vec<_> = (0..4)
        .map(|task| {
            let (client, name) = (clients[task % 2].clone(), name.clone());
            tokio::spawn(async move {
                for _ in 0..10 {
                    let tx = Transaction::new(&client).retries(1_000).timeout(SOON);
                    let added = tx.run(|tx| {
                        let map = tx.map::<String, u32>(&name);
                        async move {
                            let n = map.get("n").await?.unwrap_or(0);
                            map.set("n", &(n + 1))
                        }
                    });
                    added.await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(Map::<String, u32>::new(&clients[0], &on.name).get("n").await.unwrap(), Some(40));
}

async fn objects_of_one_transaction_share_a_slot(on: Fixture) {
    let client = on.client().await;
    let tx = Transaction::new(&client);
    tx.bucket::<u32>(format!("{}:one", on.name)).set(&1).unwrap();
    let other = format!("{}:other", on.name);
    let result = tx.map::<u32, u32>(&other).set(&1, &1);
    match on.topology() {
        Topology::Cluster => {
            let error = result.unwrap_err();
            let is_named = |name: &str, first: &str| name.ends_with(":other") && first.ends_with(":one");
            let is_named_there = matches!(
                &error,
                TransactionError::OtherSlot { name, other } if is_named(name.as_str(), other.as_str())
            );
            assert!(is_named_there, "{error:?}");
            // The transaction can still commit its first object.
            tx.commit().await.unwrap();
        }
        _ => {
            result.unwrap();
            tx.commit().await.unwrap();
            assert_eq!(Map::<u32, u32>::new(&client, &other).get(&1).await.unwrap(), Some(1));
        }
    }
    assert_eq!(Bucket::<u32>::new(&client, format!("{}:one", on.name)).get().await.unwrap(), Some(1));
}

pub(crate) mod transactions_alone {
    use super::{
        cluster_a_commit_waits_for_its_slot_and_is_whole, cluster_commits_are_whole_through_a_failover,
        sentinel_commits_are_whole_when_their_primary_dies,
    };
    use crate::fixture::scenarios;

    scenarios![
        sentinel_commits_are_whole_when_their_primary_dies,
        cluster_commits_are_whole_through_a_failover,
        cluster_a_commit_waits_for_its_slot_and_is_whole,
    ];
}

const NAMES: [&str; 3] = ["{t}:bucket", "{t}:map", "{t}:set"];

/// Adds one to all three objects, and returns their new count.
async fn step(client: &Client) -> Result<u64, TransactionError> {
    let tx = Transaction::new(client).retries(1_000).timeout(SOON);
    let stepped = tx.run(|tx| async move {
        let n = tx.bucket::<u64>(NAMES[0]).get().await?.unwrap_or(0) + 1;
        tx.bucket::<u64>(NAMES[0]).set(&n)?;
        tx.map::<u64, u64>(NAMES[1]).set(&n, &n)?;
        tx.set::<u64>(NAMES[2]).insert(&n).await?;
        Ok::<_, TransactionError>(n)
    });
    stepped.await
}

static LOOK: Script<3> = Script::new(
    "look",
    "return {redis.call('GET', KEYS[1]) or '0', redis.call('HLEN', KEYS[2]), redis.call('SCARD', KEYS[3])}",
);

/// Returns the count of all three objects at one moment.
async fn consistent_count(client: &Client) -> u64 {
    let keys = NAMES.map(|name| client.key(&name.try_into().unwrap()));
    let all: Vec<u64> = client.run(LOOK.with(keys)).await.unwrap();
    assert!(all.iter().all(|n| *n == all[0]), "half a transaction: {all:?}");
    all[0]
}

async fn commits_stay_whole(config: Config, fail_over: impl AsyncFnOnce()) {
    let clients = [connected(config.clone()).await, connected(config).await];
    let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let tasks: Vec<_> = (0..4)
        .map(|task| {
            let (client, over, done) = (clients[task % 2].clone(), Arc::clone(&over), Arc::clone(&done));
            tokio::spawn(async move {
                let mut committed = 0;
                while !over.load(Ordering::Relaxed) {
                    // Without a primary, a commit fails or has an unknown outcome.
                    if step(&client).await.is_ok() {
                        committed += 1;
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                }
                committed
            })
        })
        .collect();
    let more = async |more: u64| {
        let before = done.load(Ordering::Relaxed);
        wait_until(2 * SOON, async || done.load(Ordering::Relaxed) >= before + more).await;
    };
    more(30).await;
    fail_over().await;
    more(30).await;
    over.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    assert!(consistent_count(&clients[0]).await > 30);
}

async fn sentinel_commits_are_whole_when_their_primary_dies() {
    let sentinels = Sentinels::start().await.unwrap();
    let former = sentinels.current_primary().await.unwrap();
    let address = former.addr();
    let fail_over = async || {
        former.kill().await.unwrap();
        sentinels.wait_for_primary_other_than(address).await.unwrap();
    };
    commits_stay_whole(by_sentinels(&sentinels), fail_over).await;
}

async fn cluster_commits_are_whole_through_a_failover() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let slot = cluster.slot_of(NAMES[0]).await.unwrap();
    let former = cluster.primary_of(slot).await.unwrap();
    commits_stay_whole(by_seeds(&cluster), async || _ = cluster.fail_over(former).await.unwrap()).await;
}

/// A commit waits while its slot moves. During the move, existing keys are at one node and new keys
/// at the other, so no node has all keys of the commit.
async fn cluster_a_commit_waits_for_its_slot_and_is_whole() {
    let cluster = Cluster::start(3, 0).await.unwrap();
    let client = connected(by_seeds(&cluster).retries(20)).await;
    step(&client).await.unwrap();
    let one_less = async |value: u64| {
        let tx = Transaction::new(&client).ignore_locks().timeout(SOON);
        tx.bucket::<u64>("{t}:a").set(&value).unwrap();
        let (few, some) = (tx.map::<u64, u64>("{t}:few"), tx.set::<u64>("{t}:some"));
        if value == 1 {
            few.set(&2, &2).unwrap();
            some.insert(&2).await.unwrap();
        } else {
            few.remove_many([&1, &2, &3]).await.unwrap();
            some.remove_many([&1, &2, &3]).await.unwrap();
        }
        tx.commit().await
    };
    one_less(1).await.unwrap();
    let slot = cluster.slot_of(NAMES[0]).await.unwrap();
    let from = cluster.primary_of(slot).await.unwrap();
    let to = cluster.nodes().iter().find(|node| node.addr() != from.addr()).unwrap();
    cluster.begin_migration(slot, to).await.unwrap();
    // All keys are still at their former node. A key deleted halfway through the commit would be
    // looked for at the other node.
    one_less(2).await.unwrap();
    assert_eq!(Bucket::<u64>::new(&client, "{t}:a").get().await.unwrap(), Some(2));
    assert!(Map::<u64, u64>::new(&client, "{t}:few").is_empty().await.unwrap());
    assert!(Set::<u64>::new(&client, "{t}:some").is_empty().await.unwrap());
    // The server's version decides which of the two nodes answers TRYAGAIN.
    let refused = async || -> u64 {
        let mut refused = 0;
        for side in [from, to] {
            let stats: String = side.observer().await.unwrap().query(&["INFO", "errorstats"]).await.unwrap();
            let count = |line: &str| line.strip_prefix("errorstat_TRYAGAIN:count=")?.trim().parse::<u64>().ok();
            refused += stats.lines().find_map(count).unwrap_or_default();
        }
        refused
    };
    let before = refused().await;
    let (there, stepped) = tokio::join!(
        async {
            wait_until(SOON, async || refused().await > before).await;
            cluster.finish_migration(slot).await
        },
        step(&client)
    );
    there.unwrap();
    assert_eq!((stepped.unwrap(), consistent_count(&client).await), (2, 2));
}
