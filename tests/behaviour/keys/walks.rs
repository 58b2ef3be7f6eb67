//! Streams of keys, and deletions of all keys, with restarted servers and missing primaries.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use redgrid_core::author::ClientExt;
use redgrid_core::{Failure, Name, Request, ServerError};
use redgrid_keys::{FlushScope, Keys, KeysError};
use redgrid_locks::Lock;
use redgrid_testkit::{Observer, RedisServer, wait_until};
use redgrid_tests::{SOON, client, client_with, server};

use super::HOUR;

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_reads_page_by_page_and_loses_nothing_when_a_poll_is_dropped() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    fill(&observer, 5_000).await;
    let mut stream = Keys::new(&client).objects().page(100);
    let mut found = BTreeSet::new();
    loop {
        // Each future is polled once and dropped, repeatedly.
        let told = match stream.try_next().now_or_never() {
            Some(told) => told.unwrap(),
            None => stream.try_next().await.unwrap(),
        };
        match told {
            Some(key) => found.insert(key),
            None => break,
        };
    }
    assert_eq!(found.len(), 5_000);
    assert!(stream.next().await.is_none(), "the end of the stream");
    let info: String = observer.query(&["INFO", "commandstats"]).await.unwrap();
    let scans = info.lines().find_map(|line| line.strip_prefix("cmdstat_scan:calls=")).unwrap();
    let scans: u64 = scans.split(',').next().unwrap().parse().unwrap();
    assert!((30..=200).contains(&scans), "{scans} pages");
}

async fn fill(observer: &Observer, keys: usize) {
    let script = "for i = 1, tonumber(ARGV[1]) do redis.call('SET', 'k:' .. i, i) end";
    observer.cmd(&["EVAL", script, "0", &keys.to_string()]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_server_is_scanned_again() {
    let server = RedisServer::builder().append_only(true).start().await.unwrap();
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    fill(&observer, 3_000).await;
    let mut stream = Keys::new(&client).objects().page(50);
    let mut found = BTreeSet::new();
    while found.len() < 1_000 {
        found.insert(stream.try_next().await.unwrap().unwrap());
    }
    server.kill().await.unwrap();
    server.restart_with_data().await.unwrap();
    let mut told = found.len();
    while let Some(key) = stream.try_next().await.unwrap() {
        found.insert(key);
        told += 1;
    }
    assert_eq!(found.len(), 3_000);
    assert!(told >= 3_900, "from its beginning again: {told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_objects_are_deleted_by_a_pattern_or_a_flush() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let keys = Keys::new(&client);
    assert_eq!((keys.random().await.unwrap(), keys.count().await.unwrap()), (None, 0));
    fill(&observer, 20_000).await;
    assert_eq!(keys.count().await.unwrap(), 20_000);
    assert!(keys.random().await.unwrap().unwrap().as_str().unwrap().starts_with("k:"));
    assert_eq!(keys.delete_by_pattern("k:*").await.unwrap(), 20_000);
    assert_eq!(keys.count().await.unwrap(), 0);
    // Only a key that outlives its object is left. It is not an object, so it cannot be selected.
    observer.cmd(&["SET", "redisson_lock_token:{a}", "1"]).await.unwrap();
    assert_eq!(keys.random().await.unwrap(), None);
    observer.cmd(&["SELECT", "1"]).await.unwrap();
    observer.cmd(&["SET", "elsewhere", "1"]).await.unwrap();
    keys.flush(FlushScope::Database).await.unwrap();
    assert!(observer.exists("elsewhere").await.unwrap());
    keys.flush(FlushScope::AllDatabases).await.unwrap();
    assert!(!observer.exists("elsewhere").await.unwrap());
    let lock = Lock::new(&client, "lock").acquire().await.unwrap();
    assert_eq!(keys.delete([Name::new("lock").unwrap()]).await.unwrap(), 1);
    tokio::time::timeout(SOON * 2, lock.lost()).await.expect("the loss is reported");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_primary_is_queried_and_a_missing_one_reported() {
    let server = server().await;
    let client =
        client_with(&server.url(), |config| config.response_timeout(Duration::from_millis(300)).retries(1)).await;
    let primaries = client.primaries().await.unwrap();
    assert_eq!((primaries.len(), client.is_primary(&primaries[0])), (1, true));
    let ping = || Request::command("PING").idempotent();
    assert_eq!(client.run_on::<String>(&primaries[0], ping()).await.unwrap(), "PONG");
    let told = client.run_on_primaries::<String>(ping()).await.unwrap();
    assert!(matches!(&told[..], [(node, Ok(pong))] if node == primaries[0].id() && pong == "PONG"), "{told:?}");
    let told = client.run_on::<()>(&primaries[0], Request::command("NONSENSE")).await.unwrap_err();
    assert!(matches!(told, ServerError::Refused { .. }), "{told:?}");
    server.kill().await.unwrap();
    let told = client.run_on::<()>(&primaries[0], ping()).await.unwrap_err();
    assert!(!matches!(told, ServerError::Refused { .. }), "{told:?}");
    let told = Keys::new(&client).objects().try_next().await.unwrap_err();
    assert!(matches!(told, KeysError::Failed(Failure::Unavailable { .. })), "{told:?}");
    client.shutdown(SOON).await.unwrap();
    let told = client.run_on::<()>(&primaries[0], ping()).await.unwrap_err();
    assert!(matches!(told, ServerError::ShuttingDown), "{told:?}");
    // A shutdown ends a call in flight that could otherwise continue for long.
    let server = redgrid_tests::server().await;
    let patient = client_with(&server.url(), |config| config.response_timeout(HOUR / 12).retries(10)).await;
    let primary = patient.primaries().await.unwrap()[0].clone();
    server.kill().await.unwrap();
    wait_until(SOON, async || primary.epoch().is_none()).await;
    let asked = tokio::spawn({
        let patient = patient.clone();
        async move { patient.run_on::<()>(&primary, ping()).await }
    });
    tokio::task::yield_now().await;
    patient.shutdown(SOON).await.unwrap();
    let told = tokio::time::timeout(SOON, asked).await.expect("an end in time").unwrap().unwrap_err();
    assert!(!matches!(told, ServerError::Refused { .. }), "{told:?}");
}
