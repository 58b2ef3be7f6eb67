//! Sharded objects: their layout is stored once, and failures are reported by shard.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use futures_util::future::join_all;
use redgrid_core::config::ReadMode;
use redgrid_core::object::Lifetime;
use redgrid_core::{Client, Config, Failure};
use redgrid_sharded::{ObjectError, ShardedBitSet, ShardedBloomFilter, ShardedMap, ShardedSet};
use redgrid_testkit::{Action, Proxy, Replicated, wait_until};
use redgrid_tests::{SOON, client, client_with, server};

use super::sharded::keys;

const HOUR: Duration = Duration::from_secs(3600);

/// The numbers of the shards that failed.
fn failed<T: std::fmt::Debug>(told: Result<T, ObjectError>) -> Vec<u32> {
    match told {
        Err(ObjectError::Shards { failed, .. }) => failed.into_iter().map(|(shard, _)| shard).collect(),
        told => panic!("{told:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_layout_of_an_object_is_used_by_all_clients() {
    let server = server().await;
    let clients = join_all((0..4).map(|_| client(&server))).await;
    let of = |n: usize, shards: u32| -> ShardedMap<u32, u32> { ShardedMap::new(&clients[n], "m").with_shards(shards) };
    // No layout is stored yet, and reads do not store one.
    assert_eq!((of(0, 2).len().await.unwrap(), of(1, 4).get(&1).await.unwrap()), (0, None));
    assert!(keys(&server.observer().await.unwrap()).await.is_empty());
    let told = join_all((0..4).map(|n| {
        let map = of(n, 2 << n);
        tokio::spawn(async move { map.set(&1, &1).await })
    }))
    .await;
    let told: Vec<_> = told.into_iter().map(Result::unwrap).collect();
    let refused = |told: &Result<bool, ObjectError>| {
        matches!(told, Err(ObjectError::Failed(Failure::InvalidArgument { option: "shards", .. })))
    };
    assert_eq!(told.iter().filter(|told| refused(told)).count(), 3, "{told:?}");
    let winner = told.iter().position(Result::is_ok).unwrap();
    // Without a requested number of shards, the stored number is used.
    let any: ShardedMap<u32, u32> = ShardedMap::new(&clients[(winner + 1) % 4], "m");
    assert_eq!(any.get(&1).await.unwrap(), Some(1));
    assert_eq!(any.object().shards().await.unwrap(), Some(2 << winner));
    let other: ShardedSet<u32> = ShardedSet::new(&clients[0], "m");
    let told = other.insert(&1).await;
    assert!(matches!(&told, Err(ObjectError::Failed(Failure::InvalidArgument { option: "kind", .. }))), "{told:?}");
    for shards in [0, 3, 2048] {
        let told = ShardedMap::<u32, u32>::new(&clients[0], "n").with_shards(shards).len().await;
        assert!(
            matches!(&told, Err(ObjectError::Failed(Failure::InvalidArgument { option: "shards", .. }))),
            "{told:?}"
        );
    }
    for name in ["a{b}", "{a}b"] {
        let told = ShardedMap::<u32, u32>::new(&clients[0], name).set(&1, &1).await;
        assert!(matches!(&told, Err(ObjectError::Failed(Failure::InvalidArgument { option: "name", .. }))), "{told:?}");
    }
    let sized = |bits| ShardedBitSet::new(&clients[0], "b").with_shards(1).with_size(bits);
    assert!(matches!(
        sized((1 << 32) + 1).get(0).await,
        Err(ObjectError::Failed(Failure::InvalidArgument { option: "size", .. }))
    ));
    sized(100).set(1, true).await.unwrap();
    assert!(matches!(
        sized(200).get(0).await,
        Err(ObjectError::Failed(Failure::InvalidArgument { option: "size", .. }))
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_named_by_shard() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let map: ShardedMap<u32, u32> = ShardedMap::new(&client, "m").with_shards(4);
    let all: HashMap<u32, u32> = (0..100).map(|n| (n, n)).collect();
    map.set_many(&all).await.unwrap();
    let has = map.shard_of(&0).await.unwrap();
    let broken = has.object().name().unwrap().as_str().to_owned();
    let (left, lost) = (100 - has.len().await.unwrap(), has.read_all_keys().await.unwrap());
    observer.cmd(&["SET", &broken, "x"]).await.unwrap();
    let at = failed(map.len().await);
    assert_eq!(at.len(), 1);
    assert_eq!((failed(map.read_all().await), failed(map.get_many(all.keys()).await)), (at.clone(), at.clone()));
    // The other shards execute the call.
    let others: HashMap<u32, u32> = (0..100).map(|n| (n, n + 1)).collect();
    assert_eq!(failed(map.set_many(&others).await), at);
    let whole = (0..100).find(|n| !lost.contains(n)).unwrap();
    assert_eq!(map.get(&whole).await.unwrap(), Some(whole + 1));
    assert!(!map.is_empty().await.unwrap() && map.contains_value(&(whole + 1)).await.unwrap());
    assert_eq!(failed(map.contains_value(&9000).await), at);
    let told = map.len().await.unwrap_err().to_string();
    assert!(told.contains(&format!("`m`: shard {} failed (1 failed in all)", at[0])), "{told}");
    // A stream continues after the error.
    let mut entries = map.entries();
    let (mut found, mut errors) = (0, 0);
    loop {
        match entries.try_next().await {
            Ok(Some(_)) => found += 1,
            Ok(None) => break,
            Err(error) => {
                assert!(error.to_string().contains(&broken), "{error}");
                errors += 1;
            }
        }
    }
    assert_eq!((found, errors), (left, 1));
    assert!(matches!(map.get(&lost[0]).await, Err(ObjectError::Failed(Failure::Refused { .. }))));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_lives_and_ends_as_a_whole() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let set: ShardedSet<u32> = ShardedSet::new(&client, "s").with_shards(4);
    let object = set.object();
    assert!(!object.exists().await.unwrap() && object.lifetime().await.unwrap() == Lifetime::Absent);
    assert!(!object.delete().await.unwrap() && object.memory().await.unwrap().is_none());
    set.insert_many(&(0..100).collect::<Vec<_>>()).await.unwrap();
    assert!(object.exists().await.unwrap() && object.memory().await.unwrap().is_some_and(|bytes| bytes > 400));
    assert_eq!(object.lifetime().await.unwrap(), Lifetime::Endless);
    assert!(object.expire_in(HOUR).await.unwrap());
    assert!(matches!(object.lifetime().await.unwrap(), Lifetime::Ends(left) if left <= HOUR && left > HOUR / 2));
    for key in keys(&observer).await {
        let left: i64 = observer.query(&["PTTL", &key]).await.unwrap();
        assert!(left > 0 || key == "{s}:shards", "{key}: {left}");
    }
    assert!(object.persist().await.unwrap() && object.lifetime().await.unwrap() == Lifetime::Endless);
    assert!(object.delete().await.unwrap() && keys(&observer).await.is_empty());
    // When it is created again, it may have another number of shards.
    let anew: ShardedSet<u32> = ShardedSet::new(&client, "s").with_shards(2);
    assert!(anew.insert(&1).await.unwrap() && anew.object().unlink().await.unwrap());
    assert!(keys(&observer).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_replies_about_the_layout_are_retried_and_those_of_changes_reported() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_secs(1))).await;
    let set: ShardedSet<u32> = ShardedSet::new(&client, "s");
    proxy.next(1, "{s}:shards", Action::SwallowReply);
    assert!(tokio::time::timeout(SOON, set.insert(&1)).await.expect("an end in time").unwrap());
    proxy.next(1, "SADD", Action::SwallowReply);
    let told = set.insert(&2).await;
    assert!(matches!(&told, Err(ObjectError::Failed(Failure::OutcomeUnknown { .. }))), "{told:?}");
    let observer = server.observer().await.unwrap();
    assert_eq!(observer.query::<String>(&["HGET", "{s}:shards", "shards"]).await.unwrap(), "16");
    proxy.next(1, "SADD", Action::SwallowReply);
    let told = set.insert_many(&(10..200).collect::<Vec<_>>()).await;
    assert!(matches!(&told, Err(ObjectError::Shards { .. })), "{told:?}");
}

/// The layout of an object outlives its shards. Otherwise later elements would be stored where no
/// client reads them.
#[tokio::test(flavor = "multi_thread")]
async fn a_lifetime_ends_shards_and_not_their_layout() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let observer = server.observer().await.unwrap();
    let map: ShardedMap<u64, u64> = ShardedMap::new(&one, "m").with_shards(64);
    map.set(&0, &0).await.unwrap();
    map.clear().await.unwrap();
    assert!(!map.object().expire_in(Duration::from_millis(1)).await.unwrap());
    let all: HashMap<u64, u64> = (0..200).map(|n| (n, n)).collect();
    map.set_many(&all).await.unwrap();
    assert!(map.object().expire_in(HOUR).await.unwrap());
    assert_eq!(observer.query::<i64>(&["PTTL", "{m}:shards"]).await.unwrap(), -1);
    assert!(map.object().persist().await.unwrap());
    let there: ShardedMap<u64, u64> = ShardedMap::new(&two, "m");
    assert_eq!((there.object().shards().await.unwrap(), there.read_all().await.unwrap()), (Some(64), all));
    // A filter keeps its elements until its shards expire; then it has none.
    let filter: ShardedBloomFilter<u64> = ShardedBloomFilter::new(&one, "f");
    assert!(filter.try_init(1000, 0.01).await.unwrap());
    assert!(filter.object().exists().await.unwrap(), "a filter without elements exists");
    filter.add_many(&[1, 2, 3]).await.unwrap();
    assert_eq!(filter.contains_many(&[1, 2, 3]).await.unwrap(), [true; 3]);
    assert!(!filter.try_init(9, 0.5).await.unwrap());
    assert!(filter.object().expire_in(Duration::from_millis(1)).await.unwrap());
    wait_until(SOON, async || !filter.object().exists().await.unwrap()).await;
    assert_eq!(filter.contains_many(&[1, 2, 3]).await.unwrap(), [false; 3]);
    assert!(filter.add(&1).await.unwrap() && filter.config().await.unwrap().unwrap().expected_insertions == 1000);
    for object in [map.object(), filter.object()] {
        assert!(object.delete().await.unwrap());
    }
    assert!(keys(&observer).await.is_empty());
}

/// A client that has used a former object of this name does not use its layout for the current one.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_uses_the_current_layout() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let observer = server.observer().await.unwrap();
    for how in 0..4 {
        let here: ShardedSet<u64> = ShardedSet::new(&one, "s");
        here.insert(&1).await.unwrap();
        let there: ShardedSet<u64> = ShardedSet::new(&two, "s").with_shards(64);
        assert!(ShardedSet::<u64>::new(&two, "s").object().delete().await.unwrap());
        there.insert_many(&(0..500).collect::<Vec<_>>()).await.unwrap();
        let told = match how {
            0 => here.object().delete().await,
            1 => here.object().unlink().await,
            2 => here.clear().await,
            _ => here.object().expire_in(HOUR).await,
        };
        assert!(told.unwrap(), "{how}");
        for key in keys(&observer).await {
            let left: i64 = observer.query(&["PTTL", &key]).await.unwrap();
            assert!(
                (how == 2 && key == "{s}:shards") || (how == 3 && (left > 0 || key == "{s}:shards")),
                "{how}: {key}"
            );
        }
        assert_eq!(there.object().delete().await.unwrap(), how == 3);
        assert!(keys(&observer).await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_of_another_filter_is_reported() {
    let server = server().await;
    let client = client(&server).await;
    let filter: ShardedBloomFilter<u64> = ShardedBloomFilter::new(&client, "f");
    assert!(filter.try_init(1000, 0.01).await.unwrap() && !filter.try_init(5, 0.1).await.unwrap());
    let observer = server.observer().await.unwrap();
    // Shards of the former filter exist without its layout, as after a late creation. The creation
    // of another filter reports them.
    let _: u64 = observer.query(&["DEL", "{f}:shards"]).await.unwrap();
    let failed = failed(filter.try_init(1_000_000, 0.01).await);
    assert_eq!(failed.len(), 16);
    assert!(filter.object().delete().await.is_ok());
    assert!(filter.try_init(1_000_000, 0.01).await.unwrap() && !filter.try_init(1_000_000, 0.01).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_without_possible_shards_stores_nothing() {
    let server = server().await;
    let client = client(&server).await;
    for (length, is_good) in [(1017, true), (1018, false), (1024, false)] {
        let set: ShardedSet<u64> = ShardedSet::new(&client, "n".repeat(length)).with_shards(1024);
        let told = set.insert_many(&(0..3000).collect::<Vec<_>>()).await;
        match is_good {
            true => assert!(told.unwrap() == 3000 && set.object().delete().await.unwrap()),
            false => assert!(matches!(
                told.unwrap_err(),
                ObjectError::Failed(Failure::InvalidArgument { option: "name", .. })
            )),
        }
    }
    assert!(keys(&server.observer().await.unwrap()).await.is_empty());
}

/// A pop does not depend on a replica's reply, which may lag behind or be missing.
#[tokio::test(flavor = "multi_thread")]
async fn a_pop_asks_no_replica_how_many_there_are() {
    let replicated = Replicated::start(1).await.unwrap();
    let (primary, replica) = (replicated.primary(), &replicated.replicas()[0]);
    let observer = replica.observer().await.unwrap();
    let config = Config::master_slave(primary.addr().to_string(), [replica.addr().to_string()]).unwrap();
    let config = config.read_mode(ReadMode::Replica).max_replica_lag(SOON);
    let client = Client::connect(config).await.unwrap();
    client.wait_ready(SOON).await.unwrap();
    let set: ShardedSet<u64> = ShardedSet::new(&client, "s").with_shards(2);
    set.insert_many(&[1, 2, 3]).await.unwrap();
    let asked = async || observer.query::<String>(&["INFO", "commandstats"]).await.unwrap().contains("cmdstat_scard:");
    let mut popped = BTreeSet::new();
    while let Some(value) = set.pop().await.unwrap() {
        popped.insert(value);
    }
    assert!(popped == BTreeSet::from([1, 2, 3]) && !asked().await);
    // Other reads may use the replica.
    wait_until(SOON, async || set.len().await.unwrap() == 0 && asked().await).await;
}
