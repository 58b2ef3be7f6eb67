//! Maps with values that each process caches until they change.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use redgrid_core::author::Server;
use redgrid_core::clock::Clock;
use redgrid_core::{Client, Config, Failure};
use redgrid_local_cached_map::codecs::{Long, Text};
use redgrid_local_cached_map::{LocalCachedMap, ObjectError, Options};
use redgrid_map::Map;
use redgrid_testkit::{Proxy, RedisServer, wait_until};
use redgrid_tests::before::Before;
use redgrid_tests::{SOON, client, client_with, server};

pub(super) type Prices = LocalCachedMap<String, u64>;

/// Longer than the test: each observed change was caused by a message, not by the bound.
const LONG_BOUND: Duration = Duration::from_secs(3600);

/// Returns options with a long bound. Heartbeats begin immediately, and no further one is sent
/// during a test.
fn long_bound() -> Options {
    Options::default().max_stale(LONG_BOUND)
}

pub(super) async fn prices(server: &RedisServer, name: &str) -> (Client, Prices) {
    let client = client(server).await;
    let prices = Prices::with_options(&client, name, long_bound());
    in_force(&prices).await;
    (client, prices)
}

pub(super) async fn in_force(prices: &Prices) {
    wait_until(SOON, async || {
        prices.get("nothing").await.unwrap();
        prices.is_active()
    })
    .await;
}

/// Waits until this value is served from the cache.
pub(super) async fn cached(prices: &Prices, key: &str, value: Option<u64>) {
    let from_cache = async || {
        let before = prices.stats().hits;
        prices.get(key).await.unwrap() == value && prices.stats().hits > before
    };
    wait_until(SOON, from_cache).await;
}

async fn reads(prices: &Prices, key: &str, value: Option<u64>) {
    wait_until(SOON, async || prices.get(key).await.unwrap() == value).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_is_sent_to_all_clients_that_cache_the_key() {
    let server = server().await;
    let ((one, here), (two, there)) = (prices(&server, "prices").await, prices(&server, "prices").await);
    assert!(here.set("a", &1).await.unwrap());
    cached(&there, "a", Some(1)).await;
    assert_eq!(here.insert("a", &2).await.unwrap(), Some(1));
    reads(&there, "a", Some(2)).await;
    cached(&there, "a", Some(2)).await;
    assert_eq!((here.replace("a", &3).await.unwrap(), here.replace("x", &3).await.unwrap()), (Some(2), None));
    reads(&there, "a", Some(3)).await;
    cached(&there, "a", Some(3)).await;
    assert!(here.set_if_exists("a", &4).await.unwrap() && !here.set_if_exists("x", &4).await.unwrap());
    reads(&there, "a", Some(4)).await;
    cached(&there, "a", Some(4)).await;
    assert!(!here.compare_and_set("a", &3, &5).await.unwrap() && here.compare_and_set("a", &4, &5).await.unwrap());
    reads(&there, "a", Some(5)).await;
    cached(&there, "a", Some(5)).await;
    assert_eq!(here.update("a", |price| *price += 1).await.unwrap(), Some(6));
    reads(&there, "a", Some(6)).await;
    cached(&there, "a", Some(6)).await;
    assert_eq!(here.alter("b", |price| Some(price.unwrap_or(6) + 1)).await.unwrap(), Some(7));
    here.set_many([("a", &7), ("c", &8)].map(|(key, value)| (key, value))).await.unwrap();
    reads(&there, "a", Some(7)).await;
    cached(&there, "a", Some(7)).await;
    assert!(!here.compare_and_remove("a", &1).await.unwrap() && here.compare_and_remove("a", &7).await.unwrap());
    reads(&there, "a", None).await;
    assert!(here.set_if_absent("a", &8).await.unwrap() && !here.set_if_absent("a", &9).await.unwrap());
    assert_eq!(
        (here.insert_if_absent("a", &9).await.unwrap(), here.insert_if_absent("d", &9).await.unwrap()),
        (Some(8), None)
    );
    cached(&there, "a", Some(8)).await;
    assert_eq!((here.remove("a").await.unwrap(), here.remove("a").await.unwrap()), (Some(8), None));
    reads(&there, "a", None).await;
    cached(&there, "b", Some(7)).await;
    cached(&there, "c", Some(8)).await;
    assert_eq!(here.remove_many(["b", "x"]).await.unwrap(), 1);
    reads(&there, "b", None).await;
    assert_eq!(here.alter("c", |_| None).await.unwrap(), None);
    reads(&there, "c", None).await;
    cached(&there, "d", Some(9)).await;
    assert!(here.clear().await.unwrap() && !here.clear().await.unwrap());
    reads(&there, "d", None).await;
    let told = there.stats();
    assert!(told.invalidations >= 8 && told.clears >= 1 && told.hit_ratio() > 0.0, "{told:?}");
    let (mine, theirs) = (in_numbers(&one), in_numbers(&two));
    assert_eq!(mine.add("n", &5).await.unwrap(), 5);
    // A value that was read before the message is dropped when it arrives, and then read again.
    wait_until(SOON, async || theirs.get("n").await.unwrap() == Some(5) && theirs.cached_keys().unwrap() == ["n"])
        .await;
    assert_eq!(mine.add("n", &-7).await.unwrap(), -2);
    wait_until(SOON, async || theirs.get("n").await.unwrap() == Some(-2)).await;
}

/// The same cache with other codecs.
fn in_numbers(client: &Client) -> LocalCachedMap<String, i64, Text, Long> {
    LocalCachedMap::<String, i64>::with_options(client, "prices", long_bound()).with_codecs(Text, Long)
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_map_operations_use_the_server() {
    let server = server().await;
    let (_client, prices) = prices(&server, "prices").await;
    let all: HashMap<String, u64> = (0..1200).map(|n| (format!("k{n}"), n)).collect();
    prices.set_many(&all).await.unwrap();
    assert_eq!((prices.len().await.unwrap(), prices.is_empty().await.unwrap()), (1200, false));
    assert_eq!(prices.read_all().await.unwrap(), all);
    assert_eq!(prices.entries().try_collect::<HashMap<String, u64>>().await.unwrap(), all);
    assert_eq!(prices.keys().try_collect::<Vec<_>>().await.unwrap().len(), 1200);
    assert_eq!(prices.values().try_collect::<Vec<_>>().await.unwrap().into_iter().sum::<u64>(), 1199 * 600);
    assert_eq!(
        (prices.read_all_keys().await.unwrap().len(), prices.read_all_values().await.unwrap().len()),
        (1200, 1200)
    );
    assert_eq!((prices.random_keys(3).await.unwrap().len(), prices.random_entries(3).await.unwrap().len()), (3, 3));
    assert!(prices.contains_value(&7).await.unwrap() && !prices.contains_value(&7000).await.unwrap());
    assert!(prices.cached_keys().unwrap().is_empty(), "no value is cached");
    assert_eq!(prices.pre_load(700).await.unwrap(), 700);
    assert_eq!(prices.cached_entries().unwrap().len(), 700);
    assert!(prices.pre_load(u64::MAX).await.unwrap() >= 1200);
    let before = prices.stats();
    assert_eq!((before.entries, prices.cached_entries().unwrap()), (1200, all.clone()));
    let keys: Vec<String> = (0..1200).map(|n| format!("k{n}")).collect();
    let values = prices.get_many(keys.iter().map(String::as_str).chain(["x"])).await.unwrap();
    assert!(values.iter().take(1200).enumerate().all(|(n, value)| *value == Some(n as u64)) && values[1200].is_none());
    assert_eq!((prices.stats().hits - before.hits, prices.stats().misses - before.misses), (1200, 1));
    assert!(prices.contains_key("k1").await.unwrap() && !prices.contains_key("x").await.unwrap());
    assert_eq!((prices.value_size("k1").await.unwrap(), prices.value_size("x").await.unwrap()), (1, 0));
    assert_eq!(prices.cached_values().unwrap().into_iter().sum::<u64>(), 1199 * 600);
    prices.clear_local();
    assert!(prices.cached_values().unwrap().is_empty());
    assert_eq!(prices.get("k7").await.unwrap(), Some(7));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_writer_reads_its_own_write_despite_concurrent_reads() {
    let server = server().await;
    let (client, prices) = prices(&server, "prices").await;
    let readers = (0..4).map(|_| {
        let prices = Prices::with_options(&client, "prices", long_bound());
        tokio::spawn(async move {
            while prices.get("a").await.unwrap() != Some(400) {
                tokio::task::yield_now().await;
            }
        })
    });
    let readers: Vec<_> = readers.collect();
    for n in 1..=400 {
        match n % 3 {
            0 => drop(prices.set("a", &n).await.unwrap()),
            1 => drop(prices.insert("a", &n).await.unwrap()),
            _ => prices.set_many([("a", &n)]).await.unwrap(),
        }
        assert_eq!(prices.get("a").await.unwrap(), Some(n));
    }
    for reader in join_all(readers).await {
        reader.unwrap();
    }
    assert!(prices.stats().hits > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_whose_change_arrived_during_the_read_is_not_cached() {
    let server = server().await;
    let config = Config::from_url(server.url()).unwrap();
    let behind = Arc::new(Before::behind(redgrid_core::server(&config).unwrap(), "HGET"));
    let client = Client::over_one(Arc::clone(&behind) as Arc<dyn Server>, config, Clock::boot()).unwrap();
    let (reader, (_client, writer)) =
        (Prices::with_options(&client, "prices", long_bound()), prices(&server, "prices").await);
    in_force(&reader).await;
    for all in [false, true] {
        writer.set_many([("a", &1), ("b", &1)]).await.unwrap();
        cached(&reader, "b", Some(1)).await;
        let (gone, changes) = (reader.clone(), writer.clone());
        // The message about the change arrives before the reply.
        behind.next(async move {
            match all {
                false => drop(changes.set("a", &2).await.unwrap()),
                true => {
                    changes.clear().await.unwrap();
                    changes.set("a", &2).await.unwrap();
                }
            }
            // This is the last message: when its entry has left the cache, all earlier messages
            // have arrived.
            changes.set("b", &2).await.unwrap();
            let heard = async {
                while !gone.cached_keys().unwrap().is_empty() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::time::timeout(SOON, heard).await.expect("the last change arrives");
        });
        assert_eq!(reader.get("a").await.unwrap(), Some(1), "the value of before the change");
        assert_eq!(reader.get("a").await.unwrap(), Some(2));
        reader.clear_all_local().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_cached_value_survives_a_lost_subscription() {
    let server = server().await;
    let ((_one, here), (_two, there)) = (prices(&server, "prices").await, prices(&server, "prices").await);
    let observer = server.observer().await.unwrap();
    for n in 0..20 {
        here.set("a", &n).await.unwrap();
        reads(&there, "a", Some(n)).await;
        cached(&there, "a", Some(n)).await;
        observer.cmd(&["CLIENT", "KILL", "TYPE", "pubsub"]).await.unwrap();
        // The message may be lost.
        here.set("a", &(n + 100)).await.unwrap();
        reads(&there, "a", Some(n + 100)).await;
        in_force(&there).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cache_keeps_its_limits_of_size_and_time() {
    let server = server().await;
    let client = client(&server).await;
    let few = Prices::with_options(&client, "few", long_bound().max_entries(100));
    let small = Prices::with_options(&client, "small", long_bound().max_bytes(100 * 1024));
    let all: HashMap<String, u64> = (0..2000).map(|n| (format!("k{n}"), n)).collect();
    for (name, prices) in [("few", &few), ("small", &small)] {
        // A plain map publishes no messages, which could invalidate entries during the reads.
        Map::<String, u64>::new(&client, name).set_many(&all).await.unwrap();
        in_force(prices).await;
        for key in all.keys() {
            prices.get(key.as_str()).await.unwrap();
        }
        let stats = prices.stats();
        assert!(stats.entries > 50 && stats.evictions > 1000, "{stats:?}");
    }
    assert!(few.stats().entries <= 100 && small.stats().bytes <= 100 * 1024, "{:?} {:?}", few.stats(), small.stats());
    let short = Prices::with_options(&client, "short", long_bound().time_to_live(Duration::from_millis(100)));
    let idle = Prices::with_options(&client, "idle", long_bound().max_idle(Duration::from_millis(100)));
    for prices in [&short, &idle] {
        prices.set("a", &1).await.unwrap();
        in_force(prices).await;
        prices.get("a").await.unwrap();
        let observer = server.observer().await.unwrap();
        let name = prices.object().name().unwrap().as_str().to_owned();
        // The value is written directly, so no message is sent.
        observer.cmd(&["HSET", &name, "\"a\"", "2"]).await.unwrap();
        // After this time, either of the two limits has passed.
        tokio::time::sleep(Duration::from_millis(150)).await;
        assert_eq!(prices.get("a").await.unwrap(), Some(2));
    }
    let absent = Prices::with_options(&client, "absent", long_bound().keep_absent(true));
    in_force(&absent).await;
    cached(&absent, "a", None).await;
    assert!(!absent.contains_key("a").await.unwrap() && absent.cached_keys().unwrap().is_empty());
    Prices::new(&self::client(&server).await, "absent").set("a", &1).await.unwrap();
    reads(&absent, "a", Some(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removed_map_is_noticed() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    let prices = Prices::with_options(&client, "prices", Options::default().max_stale(Duration::from_millis(400)));
    for gone in [&["DEL", "prices"][..], &["FLUSHALL"], &["RENAME", "prices", "other"], &["PEXPIRE", "prices", "30"]] {
        prices.set("a", &1).await.unwrap();
        cached(&prices, "a", Some(1)).await;
        observer.cmd(gone).await.unwrap();
        reads(&prices, "a", None).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_message_invalidates_everything() {
    let server = server().await;
    let ((_client, prices), observer) = (prices(&server, "prices").await, server.observer().await.unwrap());
    prices.set("a", &1).await.unwrap();
    cached(&prices, "a", Some(1)).await;
    observer.cmd(&["HSET", "prices", "\"a\"", "2"]).await.unwrap();
    assert_eq!(prices.get("a").await.unwrap(), Some(1), "no message was sent");
    observer.cmd(&["PUBLISH", "{prices}:topic", "what?"]).await.unwrap();
    reads(&prices, "a", Some(2)).await;
    let pulse = format!("redgrid_near:{{prices}}:{}", _client.id());
    for text in ["", "1", "x y", "1 x", "999999 -1"] {
        observer.cmd(&["PUBLISH", &pulse, text]).await.unwrap();
    }
    cached(&prices, "a", Some(2)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heartbeats_stop_without_reads_and_begin_again() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    let prices = Prices::with_options(&client, "prices", Options::default().max_stale(Duration::from_millis(200)));
    in_force(&prices).await;
    // Four heartbeats of 50 ms, and the bound.
    wait_until(SOON, async || !prices.is_active()).await;
    prices.set("a", &1).await.unwrap();
    cached(&prices, "a", Some(1)).await;
    // Without heartbeats, no value is served from the cache.
    proxy.drop_publishes(true);
    wait_until(SOON, async || {
        prices.get("a").await.unwrap();
        !prices.is_active()
    })
    .await;
    let hits = prices.stats().hits;
    assert_eq!((prices.get("a").await.unwrap(), prices.stats().hits), (Some(1), hits));
    proxy.drop_publishes(false);
    cached(&prices, "a", Some(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_options_and_names_are_reported_by_each_call() {
    let server = server().await;
    let client = client(&server).await;
    let wrong = [
        (long_bound().max_entries(0), "max_entries"),
        (long_bound().max_bytes(10), "max_bytes"),
        (long_bound().max_stale(Duration::from_millis(1)), "max_stale"),
        (long_bound().time_to_live(Duration::ZERO), "time_to_live"),
        (long_bound().max_idle(Duration::MAX), "max_idle"),
    ];
    for (options, named) in wrong {
        let prices = Prices::with_options(&client, "prices", options);
        for error in
            [prices.get("a").await.map(drop), prices.set("a", &1).await.map(drop), prices.clear().await.map(drop)]
        {
            let error = error.unwrap_err();
            assert!(
                matches!(&error, ObjectError::Failed(Failure::InvalidArgument { option, .. }) if *option == named),
                "{error:?}"
            );
        }
    }
    let nameless = Prices::new(&client, "");
    assert!(matches!(nameless.get("a").await.unwrap_err(), ObjectError::Failed(Failure::InvalidName { .. })));
    assert!(matches!(nameless.set("a", &1).await.unwrap_err(), ObjectError::Failed(Failure::InvalidName { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_publish_nothing_is_changed_and_without_subscribe_the_server_is_read() {
    let rules = "on >secret resetkeys ~* resetchannels &*:topic +@all";
    let server = RedisServer::builder().user("mute", "on >secret resetkeys ~* resetchannels +@all").user("deaf", rules);
    let server = server.start().await.unwrap();
    let (mute, deaf) = (
        client_with(&server.url_for("mute", "secret"), |config| config).await,
        client_with(&server.url_for("deaf", "secret"), |config| {
            config.response_timeout(Duration::from_secs(1)).retries(1)
        })
        .await,
    );
    let observer = server.observer().await.unwrap();
    let prices = Prices::new(&mute, "prices");
    for error in [
        prices.set("a", &1).await.map(drop),
        prices.insert("a", &1).await.map(drop),
        prices.set_many([("a", &1)]).await,
        prices.update("a", |_| ()).await.map(drop).and(prices.alter("a", |_| Some(1)).await.map(drop)),
    ] {
        let error = error.unwrap_err();
        assert!(error.to_string().contains("channel"), "{error:?}");
    }
    assert!(!observer.exists("prices").await.unwrap());
    // The user may use the topic but not the client's own channel, so no heartbeat arrives.
    let prices = Prices::new(&deaf, "prices");
    for n in 0..50 {
        prices.set("a", &n).await.unwrap();
        assert_eq!((prices.get("a").await.unwrap(), prices.is_active()), (Some(n), false));
    }
    assert_eq!(prices.pre_load(10).await.unwrap(), 0);
}
