//! Read-modify-write updates with conflicts, and unpolled ones.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::poll;
use redgrid_bucket::{Bucket, ObjectError};
use redgrid_core::author::Server;
use redgrid_core::clock::Clock;
use redgrid_core::{Client, Code, Config, Failure, ServerError};
use redgrid_map::Map;
use redgrid_testkit::{Action, Direction, Fault, Proxy, RedisServer};
use redgrid_tests::before::Before;
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{SOON, client, client_with, server, sha};

/// A client that holds back its next request with this label.
async fn stuck_at(server: &RedisServer, label: &'static str) -> (Client, Arc<Before>) {
    let config = Config::from_url(server.url()).unwrap();
    let before = Arc::new(Before::new(redgrid_core::server(&config).unwrap(), label));
    let client = Client::over_one(Arc::clone(&before) as Arc<dyn Server>, config, Clock::boot()).unwrap();
    client.wait_ready(SOON).await.unwrap();
    (client, before)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unpolled_update_blocks_no_other() {
    let server = server().await;
    let (client, before) = stuck_at(&server, "GET").await;
    let bucket: Bucket<u64> = Bucket::new(&client, "n");
    bucket.set(&0).await.unwrap();
    before.next(std::future::pending());
    let mut first = Box::pin(bucket.update(|n| *n += 1));
    assert!(poll!(&mut first).is_pending());
    let others = join_all((0..20).map(|_| bucket.update(|n| *n += 1)));
    let others = tokio::time::timeout(SOON, others).await.expect("they continue without its turn");
    assert!(others.into_iter().all(|other| other.is_ok()));
    assert_eq!(bucket.get().await.unwrap(), Some(20));
    let (client, before) = stuck_at(&server, "HGET").await;
    let map: Map<String, u64> = Map::new(&client, "m");
    map.set("a", &0).await.unwrap();
    before.next(std::future::pending());
    let mut second = Box::pin(map.update("a", |n| *n += 1));
    assert!(poll!(&mut second).is_pending());
    let others = join_all((0..20).map(|_| map.update("a", |n| *n += 1)));
    let others = tokio::time::timeout(SOON, others).await.expect("they continue without its turn");
    assert!(others.into_iter().all(|other| other.is_ok()));
    assert_eq!(map.get("a").await.unwrap(), Some(20));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_of_updates_has_one_bound_without_contact() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let settings = |config: Config| config.response_timeout(Duration::from_millis(500)).retries(1);
    let client = client_with(&server.url_via(proxy.addr()), settings).await;
    let bucket: Bucket<u64> = Bucket::new(&client, "n");
    proxy.set(Direction::ToServer, Fault::BlackHole);
    let began = Stopwatch::start();
    let told = join_all((0..20).map(|_| bucket.update(|n| *n += 1))).await;
    assert!(told.iter().all(|told| matches!(told, Err(ObjectError::Failed(Failure::Unavailable { .. })))), "{told:?}");
    // Each call has one second. One after another, they would take twenty seconds.
    began.assert_within(Duration::from_secs(8));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_for_an_update_turn_ends_with_the_client() {
    let server = server().await;
    let (client, before) = stuck_at(&server, "GET").await;
    let bucket: Bucket<u64> = Bucket::new(&client, "n");
    bucket.set(&0).await.unwrap();
    for _ in 0..2 {
        before.next(std::future::pending());
    }
    let mut first = Box::pin(bucket.update(|n| *n += 1));
    assert!(poll!(&mut first).is_pending());
    let mut second = Box::pin(bucket.update(|n| *n += 1));
    assert!(poll!(&mut second).is_pending());
    client.shutdown(SOON).await.unwrap();
    let told = tokio::time::timeout(Duration::from_secs(2), second).await.expect("an end before its own timeout");
    assert!(matches!(told, Err(ObjectError::Failed(Failure::ShuttingDown { .. }))), "{told:?}");
}

/// Runs an update with a concurrent change before each comparison.
async fn with_conflicts(label: &'static str, key: &'static str, field: &'static str) -> Result<(), ObjectError> {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let config = Config::from_url(server.url()).unwrap().response_timeout(Duration::from_millis(1500)).retries(1);
    let other = observer.clone();
    let before = Before::new(redgrid_core::server(&config).unwrap(), label).always(move || {
        let (other, new) = (other.clone(), fastrand::u32(..).to_string());
        async move {
            let done = match key {
                "bucket" => other.cmd(&["SET", key, &new]).await,
                _ => other.cmd(&["HSET", key, field, &new]).await,
            };
            done.unwrap();
        }
    });
    let client = Client::over_one(Arc::new(before), config, Clock::boot()).unwrap();
    client.wait_ready(SOON).await.unwrap();
    let done = async {
        match key {
            "bucket" => {
                observer.cmd(&["SET", key, "0"]).await.unwrap();
                Bucket::<u64>::new(&client, key).update(|n| *n += 1).await.map(drop)
            }
            _ => {
                observer.cmd(&["HSET", key, field, "0"]).await.unwrap();
                Map::<u64, u64>::new(&client, key).update(&1, |n| *n += 1).await.map(drop)
            }
        }
    };
    tokio::time::timeout(SOON, done).await.expect("an end within the timeout of a call")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_always_conflicts_is_reported_in_time() {
    for (label, key) in [("bucket/compare_and_set", "bucket"), ("map/compare_and_set", "map")] {
        let told = with_conflicts(label, key, "1").await;
        // The first ten attempts have no pauses, and some with pauses follow. Two seconds without
        // any pauses would allow hundreds of attempts.
        assert!(matches!(told, Err(ObjectError::Contended { times, .. }) if (11..100).contains(&times)), "{told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_ends_at_an_unknown_outcome() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client =
        client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(Duration::from_millis(500))).await;
    let bucket: Bucket<u64> = Bucket::new(&client, "n");
    let map: Map<String, u64> = Map::new(&client, "m");
    bucket.set(&0).await.unwrap();
    map.set("a", &0).await.unwrap();
    // These calls load the scripts into the server.
    assert_eq!(
        (bucket.update(|n| *n += 1).await.unwrap(), map.update("a", |n| *n += 1).await.unwrap()),
        (Some(1), Some(1))
    );
    let (of_bucket, of_map) = (
        sha(include_str!("../../crates/redgrid-bucket/src/scripts/compare_and_set.lua")),
        sha(include_str!("../../crates/redgrid-map/src/scripts/compare_and_set.lua")),
    );
    proxy.next(1, &of_bucket, Action::SwallowReply);
    let told = bucket.update(|n| *n += 1).await.unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::OutcomeUnknown { .. })), "{told:?}");
    assert_eq!(bucket.get().await.unwrap(), Some(2));
    proxy.next(1, &of_map, Action::SwallowReply);
    let told = map.update("a", |n| *n += 1).await.unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::OutcomeUnknown { .. })), "{told:?}");
    assert_eq!(map.get("a").await.unwrap(), Some(2));
    // A single comparison behaves in the same way.
    proxy.next(1, &of_bucket, Action::SwallowReply);
    let told = bucket.compare_and_set(&2, &3).await.unwrap_err();
    assert!(matches!(told, ObjectError::Failed(Failure::OutcomeUnknown { .. })), "{told:?}");
    assert_eq!(bucket.get().await.unwrap(), Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn oversized_values_are_not_sent() {
    let server = server().await;
    let client = client(&server).await;
    let (bucket, before): (Bucket<u64>, _) = (Bucket::new(&client, "n"), server.clients().await.unwrap());
    bucket.set(&1).await.unwrap();
    let large = vec![0_u8; (512 << 20) + 1];
    let told = client.command("SET").key("large").unwrap().arg(large).query::<()>().await.unwrap_err();
    assert!(matches!(&told, ServerError::Refused { code: Code::TooLarge, .. }), "{told:?}");
    assert!(told.to_string().contains("536870912"), "{told}");
    // The connection was not replaced.
    assert_eq!(bucket.get().await.unwrap(), Some(1));
    let ids =
        |clients: Vec<redgrid_testkit::ClientInfo>| clients.into_iter().map(|client| client.id).collect::<Vec<_>>();
    assert_eq!(ids(server.clients().await.unwrap()), ids(before));
}
