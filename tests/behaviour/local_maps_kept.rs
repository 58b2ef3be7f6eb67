//! The contents of a local cache when its map or its last handle ends, when the cache is small, or
//! without a subscription.

use std::collections::HashMap;
use std::time::Duration;

use redgrid_local_cached_map::Options;
use redgrid_testkit::wait_until;
use redgrid_tests::{SOON, client, server};

use super::local_maps::{Prices, cached, in_force, prices};

#[tokio::test(flavor = "multi_thread")]
async fn a_refilled_map_after_an_expiry_is_a_new_one() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (reader, writer) = (client(&server).await, client(&server).await);
    let bound = Options::default().max_stale(Duration::from_millis(1600));
    let (here, there) = (Prices::with_options(&reader, "prices", bound), Prices::new(&writer, "prices"));
    for _ in 0..2 {
        there.set_many([("a", &1), ("b", &1)]).await.unwrap();
        cached(&here, "a", Some(1)).await;
        cached(&here, "b", Some(1)).await;
        // Two heartbeats are needed to notice it.
        observer.cmd(&["PEXPIRE", "prices", "1000"]).await.unwrap();
        wait_until(SOON, async || {
            here.get("a").await.unwrap();
            !observer.exists("prices").await.unwrap()
        })
        .await;
        // The next heartbeat finds a map again, and no message has named the keys of other clients.
        there.set("c", &1).await.unwrap();
        in_force(&here).await;
        assert_eq!((here.get("a").await.unwrap(), here.get("b").await.unwrap()), (None, None));
        cached(&here, "c", Some(1)).await;
        there.clear().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn preloaded_entries_are_cached_up_to_the_limit() {
    let server = server().await;
    let writer = client(&server).await;
    let all: HashMap<String, u64> = (0..10).map(|n| (format!("k{n}"), n)).collect();
    Prices::new(&writer, "prices").set_many(&all).await.unwrap();
    let reader = client(&server).await;
    let prices = Prices::with_options(&reader, "prices", Options::default().max_stale(Duration::from_secs(3600)));
    assert_eq!(prices.pre_load(10).await.unwrap(), 10);
    assert_eq!(prices.cached_entries().unwrap(), all);
    let large: HashMap<String, u64> = (0..20_000).map(|n| (format!("k{n}"), n)).collect();
    Prices::new(&writer, "large").set_many(&large).await.unwrap();
    let few = Prices::with_options(&reader, "large", Options::default().max_entries(100));
    let brought = few.pre_load(u64::MAX).await.unwrap();
    let stats = few.stats();
    assert!(brought < 2000 && stats.evictions < 2000 && stats.entries >= 50, "{brought} were preloaded: {stats:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_smallest_caches_keep_something() {
    let server = server().await;
    let client = client(&server).await;
    let long = Options::default().max_stale(Duration::from_secs(3600));
    for (name, options) in
        [("one", long.max_entries(1)), ("kilobyte", long.max_bytes(1024)), ("all", long.max_bytes(u64::MAX))]
    {
        let prices = Prices::with_options(&client, name, options);
        prices.set_many([("a", &1), ("b", &2)]).await.unwrap();
        cached(&prices, "a", Some(1)).await;
        cached(&prices, "b", Some(2)).await;
        let stats = prices.stats();
        assert!(stats.entries >= 1 && (name != "one" || stats.entries == 1), "{name}: {stats:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_subscription_serves_no_cached_values() {
    let server = server().await;
    let client = client(&server).await;
    let prices = Prices::with_options(&client, "prices", Options::default().max_stale(Duration::from_secs(3600)));
    prices.set("a", &1).await.unwrap();
    cached(&prices, "a", Some(1)).await;
    client.shutdown(SOON).await.unwrap();
    wait_until(SOON, async || prices.get("a").await.is_err()).await;
    assert!(!prices.is_active() && prices.cached_keys().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn handles_share_a_cache_that_ends_with_the_last() {
    let server = server().await;
    let ((client, prices), observer) = (prices(&server, "prices").await, server.observer().await.unwrap());
    prices.set("a", &1).await.unwrap();
    cached(&prices, "a", Some(1)).await;
    let other = Prices::new(&client, "prices").clone();
    drop(prices);
    assert_eq!(other.cached_entries().unwrap(), HashMap::from([("a".into(), 1)]));
    assert_eq!(client.stats().channels, 2);
    drop(other);
    let channels = async || observer.pubsub_channels("*prices*").await.unwrap();
    wait_until(SOON, async || channels().await.is_empty() && client.stats().channels == 0).await;
    // A new handle begins with an empty cache.
    let anew = Prices::new(&client, "prices");
    in_force(&anew).await;
    assert!(anew.cached_keys().unwrap().is_empty());
    cached(&anew, "a", Some(1)).await;
    client.shutdown(SOON).await.unwrap();
    assert!(anew.get("b").await.is_err());
}
