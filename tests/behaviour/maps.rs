//! Maps.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use futures_util::future::join_all;
use redgrid_core::fence::FenceError;
use redgrid_core::{Code, Failure, ServerError, Token};
use redgrid_map::codecs::{Double, Long, Text};
use redgrid_map::{Map, ObjectError};
use redgrid_testkit::{Action, Proxy};
use redgrid_tests::{client, client_with, server};

#[tokio::test(flavor = "multi_thread")]
async fn entries_are_read_and_changed() {
    let server = server().await;
    let client = client(&server).await;
    let stock: Map<String, u32> = Map::new(&client, "stock");
    assert!(stock.is_empty().await.unwrap() && !stock.clear().await.unwrap());
    assert_eq!((stock.get("a").await.unwrap(), stock.insert("a", &1).await.unwrap()), (None, None));
    assert_eq!((stock.insert("a", &2).await.unwrap(), stock.get("a").await.unwrap()), (Some(1), Some(2)));
    assert!(!stock.set("a", &3).await.unwrap() && stock.set("b", &4).await.unwrap());
    assert_eq!(stock.insert_if_absent("a", &5).await.unwrap(), Some(3));
    assert_eq!(stock.insert_if_absent("c", &5).await.unwrap(), None);
    assert!(!stock.set_if_absent("c", &6).await.unwrap() && stock.set_if_absent("d", &6).await.unwrap());
    assert!(!stock.set_if_exists("e", &7).await.unwrap() && stock.set_if_exists("d", &7).await.unwrap());
    assert_eq!((stock.replace("e", &8).await.unwrap(), stock.replace("d", &8).await.unwrap()), (None, Some(7)));
    assert!(!stock.compare_and_set("d", &9, &10).await.unwrap() && stock.compare_and_set("d", &8, &10).await.unwrap());
    assert!(!stock.compare_and_remove("d", &8).await.unwrap() && stock.compare_and_remove("d", &10).await.unwrap());
    assert!(stock.contains_key("a").await.unwrap() && !stock.contains_key("d").await.unwrap());
    assert!(stock.contains_value(&3).await.unwrap() && !stock.contains_value(&10).await.unwrap());
    assert_eq!((stock.len().await.unwrap(), stock.value_size("a").await.unwrap()), (3, 1));
    assert_eq!(stock.value_size("d").await.unwrap(), 0);
    assert_eq!(stock.get_many(["a", "d", "c", "a"]).await.unwrap(), [Some(3), None, Some(5), Some(3)]);
    let all = HashMap::from([("a".to_owned(), 3), ("b".to_owned(), 4), ("c".to_owned(), 5)]);
    assert_eq!(stock.read_all().await.unwrap(), all);
    let keys: BTreeSet<String> = stock.read_all_keys().await.unwrap().into_iter().collect();
    assert_eq!(keys, all.keys().cloned().collect());
    assert_eq!(stock.read_all_values().await.unwrap().into_iter().sum::<u32>(), 12);
    assert_eq!((stock.random_keys(2).await.unwrap().len(), stock.random_entries(9).await.unwrap().len()), (2, 3));
    assert_eq!((stock.remove("a").await.unwrap(), stock.remove("a").await.unwrap()), (Some(3), None));
    assert_eq!(stock.remove_many(["a", "b", "c"]).await.unwrap(), 2);
    assert!(!stock.object().exists().await.unwrap(), "without entries there is no map");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_map_is_streamed_page_by_page() {
    let server = server().await;
    let client = client(&server).await;
    let map: Map<u32, String> = Map::new(&client, "large");
    let all: BTreeMap<u32, String> = (0..5000).map(|n| (n, format!("value {n}"))).collect();
    map.set_many(&all).await.unwrap();
    assert_eq!(map.len().await.unwrap(), 5000);
    let entries: BTreeMap<u32, String> = map.entries().page(50).try_collect().await.unwrap();
    assert_eq!(entries, all);
    let keys: BTreeSet<u32> = map.keys().try_collect().await.unwrap();
    assert_eq!(keys.len(), 5000);
    let values: BTreeSet<String> = map.values().page(1000).try_collect().await.unwrap();
    assert_eq!(values.len(), 5000);
    let nines: BTreeSet<u32> = map.keys().matching("99*").try_collect().await.unwrap();
    assert_eq!(nines, (0..5000).filter(|n: &u32| n.to_string().starts_with("99")).collect());
    assert!(map.contains_value(&all[&4999]).await.unwrap() && !map.contains_value(&"none".into()).await.unwrap());
    // The stream is `Send`, and a caller that stops early has read only the pages it needed.
    let first = tokio::spawn(map.entries().page(10).take(3).count()).await.unwrap();
    assert_eq!(first, 3);
    let found = map.get_many(all.keys()).await.unwrap();
    assert_eq!(found.into_iter().flatten().count(), 5000);
    assert_eq!(map.remove_many(all.keys()).await.unwrap(), 5000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_restarts_after_a_restart_of_the_server() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    let map: Map<u32, u32, Long> = Map::new(&client, "large");
    let all: BTreeMap<u32, u32> = (0..2000).map(|n| (n, n)).collect();
    map.set_many(&all).await.unwrap();
    let mut entries = map.entries().page(20);
    let first = entries.try_next().await.unwrap().unwrap();
    // The new hash table has another order, so a cursor of the former one would skip some entries.
    server.restart_empty().await.unwrap();
    client.wait_ready(redgrid_tests::SOON).await.unwrap();
    map.set_many(&all).await.unwrap();
    let mut had: BTreeSet<u32> = [first.0].into();
    while let Some((key, _)) = entries.try_next().await.unwrap() {
        had.insert(key);
    }
    assert_eq!(had.len(), 2000);
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_added_on_the_server() {
    let server = server().await;
    let client = client(&server).await;
    let whole: Map<String, i64, Text, Long> = Map::new(&client, "whole");
    assert_eq!((whole.add("a", &5).await.unwrap(), whole.add("a", &-7).await.unwrap()), (5, -2));
    whole.set("a", &i64::MAX).await.unwrap();
    let told = whole.add("a", &1).await.unwrap_err();
    assert!(matches!(&told, ObjectError::Failed(Failure::Refused { source, .. }) if source.is_overflow()), "{told:?}");
    assert_eq!(whole.get("a").await.unwrap(), Some(i64::MAX));
    let parts: Map<String, f64, Text, Double> = Map::new(&client, "parts");
    assert_eq!((parts.add("a", &0.5).await.unwrap(), parts.add("a", &0.25).await.unwrap()), (0.5, 0.75));
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_of_two_clients_are_all_made() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await];
    let first: Map<String, u64> = Map::new(&clients[0], "visits");
    assert_eq!(first.update("a", |n| *n += 1).await.unwrap(), None);
    let updates = (0..200).map(|n| {
        let map: Map<String, u64> = Map::new(&clients[n % 2], "visits");
        let key = if n % 4 < 2 { "a" } else { "b" };
        tokio::spawn(async move { map.alter(key, |n| Some(n.unwrap_or(0) + 1)).await.unwrap().unwrap() })
    });
    let had = join_all(updates).await.into_iter().map(Result::unwrap).sum::<u64>();
    assert_eq!(had, 2 * (1..=100).sum::<u64>());
    assert_eq!(first.get_many(["a", "b"]).await.unwrap(), [Some(100), Some(100)]);
    assert_eq!(first.alter("a", |_| None).await.unwrap(), None);
    assert_eq!((first.alter("a", |n| n).await.unwrap(), first.len().await.unwrap()), (None, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undecodable_entry_does_not_affect_others() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    observer.cmd(&["HSET", "m", "\"a\"", "1", "\"b\"", "{\"x\":1}", "\"c\"", "3"]).await.unwrap();
    let map: Map<String, u64> = Map::new(&client, "m");
    let told = map.get("b").await.unwrap_err();
    let words = told.to_string();
    assert!(["`m`", "b", "Json"].iter().all(|part| words.contains(part)), "{words}");
    let (mut good, mut bad) = (0, 0);
    let mut entries = map.entries();
    while let Some(entry) = entries.next().await {
        match entry {
            Ok((_, n)) => good += n,
            Err(error) => {
                assert!(matches!(error, ObjectError::Decode { .. }), "{error:?}");
                bad += 1;
            }
        }
    }
    assert_eq!((good, bad), (4, 1));
    observer.cmd(&["SET", "s", "x"]).await.unwrap();
    let told = Map::<String, u64>::new(&client, "s").get("a").await.unwrap_err();
    let wrong = |told: &ObjectError| {
        matches!(
            told,
            ObjectError::Failed(Failure::Refused { source: ServerError::Refused { code: Code::WrongType, .. }, .. })
        )
    };
    assert!(wrong(&told), "{told:?}");
    let mut over = Map::<String, u64>::new(&client, "s").entries();
    let told = over.try_next().await.unwrap_err();
    assert!(wrong(&told), "{told:?}");
    assert_eq!(over.try_next().await.unwrap(), None, "the end of the stream");
    assert!(matches!(
        Map::<String, u64>::new(&client, "{}").len().await,
        Err(ObjectError::Failed(Failure::InvalidName(_)))
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn stale_tokens_write_nothing_and_lost_replies_are_reported() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_millis(500))).await;
    let now = u64::try_from(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros()).unwrap();
    let (old, new) = (Token::new(now), Token::new(now + 1));
    let map: Map<String, u64> = Map::new(&client, "ledger");
    assert!(map.set_fenced("a", &1, new).await.unwrap() && !map.set_fenced("a", &2, new).await.unwrap());
    for told in [map.set_fenced("a", &3, old).await, map.remove_fenced("a", old).await] {
        assert!(matches!(told, Err(ObjectError::Fenced { source: FenceError::Stale { .. }, .. })), "{told:?}");
    }
    assert_eq!(map.get("a").await.unwrap(), Some(2));
    assert!(map.remove_fenced("a", new).await.unwrap() && !map.remove_fenced("a", new).await.unwrap());
    proxy.next(1, "HSET", Action::SwallowReply);
    let told = map.set("b", &1).await.unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::OutcomeUnknown { .. })), "{told:?}");
    assert_eq!(map.get("b").await.unwrap(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_map_matches_its_model() {
    let server = server().await;
    redgrid_tests::model::map(&client(&server).await, "model", 20).await;
}
