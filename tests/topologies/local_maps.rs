//! Locally cached maps on every topology.

use std::collections::BTreeMap;
use std::time::Duration;

use redgrid_core::Client;
use redgrid_local_cached_map::codecs::{Long, Text};
use redgrid_local_cached_map::{LocalCachedMap, Options};
use redgrid_testkit::{Cluster, Sentinels, wait_until};
use redgrid_tests::SOON;

use crate::contract::clauses;
use crate::fixture::{Fixture, by_seeds, by_sentinels, connected};

type Numbers = LocalCachedMap<String, u64>;

/// A bound of staleness so long that only messages update cached entries during a test.
const UNBOUNDED: Duration = Duration::from_secs(3600);

clauses![
    "local maps";
    a_cached_entry_is_changed_by_another_process,
    cached_entries_end_with_the_map,
];

fn of(client: &Client, name: &str, bound: Duration) -> Numbers {
    Numbers::with_options(client, name, Options::default().max_stale(bound))
}

async fn until_cached(numbers: &Numbers, key: &str, value: u64) {
    let from_cache = async || {
        let hits = numbers.stats().hits;
        numbers.get(key).await.is_ok_and(|got| got == Some(value)) && numbers.stats().hits > hits
    };
    wait_until(2 * SOON, from_cache).await;
}

async fn a_cached_entry_is_changed_by_another_process(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (here, there) = (of(&one, &on.name, UNBOUNDED), of(&two, &on.name, UNBOUNDED));
    for n in 1..=20 {
        match n % 4 {
            0 => drop(there.set("a", &n).await.unwrap()),
            1 => drop(there.insert("a", &n).await.unwrap()),
            2 => there.set_many([("a", &n)]).await.unwrap(),
            _ => drop(there.alter("a", |_| Some(n)).await.unwrap()),
        }
        assert_eq!(there.get("a").await.unwrap(), Some(n), "its own write");
        until_cached(&here, "a", n).await;
    }
    assert!(there.compare_and_set("a", &20, &21).await.unwrap() && there.set_if_exists("a", &22).await.unwrap());
    until_cached(&here, "a", 22).await;
    assert!(there.set_if_absent("b", &1).await.unwrap() && there.insert_if_absent("c", &1).await.unwrap().is_none());
    assert_eq!((there.replace("b", &2).await.unwrap(), there.remove("a").await.unwrap()), (Some(1), Some(22)));
    wait_until(SOON, async || here.get("a").await.unwrap().is_none()).await;
    assert!(!there.compare_and_remove("b", &1).await.unwrap() && there.remove_many(["c"]).await.unwrap() == 1);
    assert_eq!(here.get_many(["a", "b", "c"]).await.unwrap(), [None, Some(2), None]);
    assert!(here.contains_key("b").await.unwrap() && here.contains_value(&2).await.unwrap());
    assert_eq!((here.value_size("b").await.unwrap(), here.value_size("x").await.unwrap()), (1, 0));
    let all: BTreeMap<String, u64> = (0..1100).map(|n| (format!("k{n}"), n)).collect();
    assert!(there.clear().await.unwrap());
    there.set_many(&all).await.unwrap();
    // `pre_load` does not cache an entry whose change message arrives meanwhile, so it may have to
    // run again.
    wait_until(SOON, async || here.pre_load(u64::MAX).await.unwrap() >= 1100).await;
    assert_eq!(here.entries().try_collect::<BTreeMap<String, u64>>().await.unwrap(), all);
    assert_eq!((here.len().await.unwrap(), here.read_all().await.unwrap().len()), (1100, 1100));
    assert_eq!((here.read_all_keys().await.unwrap().len(), here.read_all_values().await.unwrap().len()), (1100, 1100));
    assert_eq!(here.random_keys(2).await.unwrap().len() + here.random_entries(2).await.unwrap().len(), 4);
    there.clear_all_local().await.unwrap();
    let numbers = here.with_codecs(Text, Long);
    numbers.set("n", &5).await.unwrap();
    assert_eq!((numbers.add("n", &2).await.unwrap(), numbers.get("n").await.unwrap()), (7, Some(7)));
    assert!(there.clear().await.unwrap());
}

async fn cached_entries_end_with_the_map(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let bound = Duration::from_millis(800);
    let (here, there) = (of(&one, &on.name, bound), of(&two, &on.name, bound));
    there.set("a", &1).await.unwrap();
    until_cached(&here, "a", 1).await;
    assert!(there.object().delete().await.unwrap());
    wait_until(SOON, async || here.get("a").await.unwrap().is_none()).await;
    there.set("a", &2).await.unwrap();
    until_cached(&here, "a", 2).await;
    assert!(there.object().expire_in(Duration::from_millis(100)).await.unwrap());
    wait_until(SOON, async || here.get("a").await.unwrap().is_none()).await;
    assert!(!there.object().exists().await.unwrap());
}

pub(crate) mod local_maps_failover {
    use super::*;
    use crate::fixture::scenarios;

    scenarios![sentinel_caches_go_on_through_a_failover, cluster_caches_go_on_after_a_primary_died];

    /// A client caches the writes of another client, before and after the failover. In between, it
    /// reads no entry older than the bound.
    async fn go_on(here: Client, there: Client, fail: impl Future<Output = ()>) {
        let bound = Duration::from_secs(1);
        let (here, there) = (of(&here, "numbers", bound), of(&there, "numbers", bound));
        there.set("a", &1).await.unwrap();
        until_cached(&here, "a", 1).await;
        fail.await;
        // A request to the former primary may have no answer.
        wait_until(3 * SOON, async || there.set("a", &2).await.is_ok()).await;
        tokio::time::sleep(bound).await;
        if let Ok(got) = here.get("a").await {
            assert_eq!(got, Some(2), "the bound is over");
        }
        until_cached(&here, "a", 2).await;
        // Messages now come from the new primary.
        wait_until(SOON, async || there.set("a", &3).await.is_ok()).await;
        until_cached(&here, "a", 3).await;
    }

    async fn sentinel_caches_go_on_through_a_failover() {
        let sentinels = Sentinels::builder().start().await.unwrap();
        let (here, there) = (connected(by_sentinels(&sentinels)).await, connected(by_sentinels(&sentinels)).await);
        go_on(here, there, async { sentinels.current_primary().await.unwrap().kill().await.unwrap() }).await;
    }

    async fn cluster_caches_go_on_after_a_primary_died() {
        let cluster = Cluster::builder().replicas_per_primary(1).start().await.unwrap();
        let (here, there) = (connected(by_seeds(&cluster)).await, connected(by_seeds(&cluster)).await);
        let slot = cluster.slot_of("numbers").await.unwrap();
        go_on(here, there, async { cluster.primary_of(slot).await.unwrap().kill().await.unwrap() }).await;
    }
}
