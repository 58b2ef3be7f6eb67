//! Locks of map keys, and computing under them.

use std::time::Duration;

use futures_util::future::join_all;
use redgrid_core::Failure;
use redgrid_locks::{AcquireError, Holder};
use redgrid_map::codecs::{Long, Text};
use redgrid_map::{ComputeError, Map, ObjectError};
use redgrid_testkit::wait_until;
use redgrid_tests::{SOON, client, client_with, server};
use tokio::sync::Notify;

#[tokio::test(flavor = "multi_thread")]
async fn keys_have_locks_of_their_own_in_the_slot_of_the_map() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.namespace("prod").unwrap()).await;
    let map: Map<String, u64> = Map::new(&client, "stock");
    let a = map.lock("a").unwrap().acquire().await.unwrap();
    assert!(map.lock("b").unwrap().try_acquire().await.unwrap().is_some());
    let kinds = [map.fair_lock("a").unwrap().try_acquire().await.unwrap().is_some()];
    assert_eq!(kinds, [true], "another lock");
    assert!(a.name().as_str().starts_with("{prod:stock}:") && a.name().as_str().ends_with(":lock"), "{}", a.name());
    let invalid = Map::<String, u64>::new(&client, "{}").lock("a").map(drop);
    assert!(matches!(invalid, Err(ObjectError::Failed(Failure::InvalidName(_)))), "{invalid:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_computed_one_at_a_time() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await];
    let tasks = (0..60).map(|n| {
        let map: Map<String, u64> = Map::new(&clients[n % 2], "m");
        tokio::spawn(async move {
            let mut calls = 0;
            let computed = map.locked().timeout(SOON).compute("a", |n| {
                calls += 1;
                async move {
                    tokio::task::yield_now().await;
                    Some(n.unwrap_or(0) + 1)
                }
            });
            computed.await.unwrap();
            calls
        })
    });
    let calls = join_all(tasks).await.into_iter().map(Result::unwrap);
    assert!(calls.eq(std::iter::repeat_n(1, 60)), "no call was in between");
    let map: Map<String, u64> = Map::new(&clients[0], "m");
    assert_eq!(map.get("a").await.unwrap(), Some(60));
}

#[tokio::test(flavor = "multi_thread")]
async fn present_and_absent_values_are_computed() {
    let server = server().await;
    let client = client(&server).await;
    let map: Map<String, u64> = Map::new(&client, "m");
    let locked = || map.locked();
    assert_eq!(locked().compute_if_present("a", |n| async move { Some(n + 1) }).await.unwrap(), None);
    assert_eq!(locked().compute_if_absent("a", || async { None }).await.unwrap(), None);
    assert_eq!(locked().compute_if_absent("a", || async { Some(1) }).await.unwrap(), Some(1));
    assert_eq!(locked().compute_if_absent("a", || async { panic!("the value exists") }).await.unwrap(), Some(1));
    assert_eq!(locked().compute_if_present("a", |n| async move { Some(n + 1) }).await.unwrap(), Some(2));
    assert_eq!(locked().merge("a", &5, |n, by| async move { Some(n + by) }).await.unwrap(), Some(7));
    assert_eq!(locked().merge("b", &5, |n, by| async move { Some(n + by) }).await.unwrap(), Some(5));
    assert_eq!(locked().merge("b", &5, |_, _| async { None }).await.unwrap(), None);
    assert_eq!(locked().compute_if_present("a", |_| async { None }).await.unwrap(), None);
    assert!(map.is_empty().await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_without_the_keys_lock_is_not_overwritten() {
    let server = server().await;
    let client = client(&server).await;
    let map: Map<String, i64, Text, Long> = Map::<String, i64, Text>::new(&client, "m").with_codecs(Text, Long);
    let mut calls = 0;
    let computed = map.locked().compute("a", |n| {
        calls += 1;
        let first = calls == 1;
        let map = &map;
        async move {
            if first {
                map.set("a", &10).await.unwrap();
            }
            Some(n.unwrap_or(0) + 1)
        }
    });
    assert_eq!(computed.await.unwrap(), Some(11));
    assert_eq!((calls, map.get("a").await.unwrap()), (2, Some(11)));
    // An update that conflicts each time ends after 100 attempts.
    let map = &map;
    let told = map.locked().compute("a", |n| async move {
        map.add("a", &1).await.unwrap();
        n
    });
    let told = told.await.unwrap_err();
    assert!(matches!(told, ComputeError::Object(ObjectError::Contended { times: 100, .. })), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_or_unavailable_lock_computes_nothing() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let (here, there): (Map<String, u64>, Map<String, u64>) = (Map::new(&one, "m"), Map::new(&two, "m"));
    // A holder gets a message as soon as its lock is stolen.
    redgrid_tests::listening(&server, &one).await;
    let me = Holder::new();
    let held = here.lock("a").unwrap().acquire().holder(&me).await.unwrap();
    let told =
        there.locked().timeout(Duration::from_secs(1)).compute("a", |_| async { panic!("others have the lock") });
    let told = told.await.unwrap_err();
    assert!(matches!(told, ComputeError::NotLocked(AcquireError::TimedOut { .. })), "{told:?}");
    assert_eq!(here.locked().holder(&me).compute("a", |_| async { Some(1) }).await.unwrap(), Some(1), "its own lock");
    held.release().await.unwrap();
    let (began, never) = (Notify::new(), Notify::new());
    let computed = here.locked().compute("a", |_| async {
        began.notify_one();
        never.notified().await;
        Some(9)
    });
    let robbed = async {
        began.notified().await;
        there.lock("a").unwrap().force_release().await.unwrap();
    };
    let both = async { tokio::join!(computed, robbed) };
    let (told, ()) = tokio::time::timeout(SOON, both).await.expect("the function is dropped");
    assert!(matches!(told, Err(ComputeError::Lost(_))), "{told:?}");
    assert_eq!(there.get("a").await.unwrap(), Some(1));
    // A cancelled caller leaves no lock.
    let began = std::sync::Arc::new(Notify::new());
    let task = tokio::spawn({
        let (map, began) = (here.clone(), began.clone());
        async move {
            map.locked()
                .compute("a", |_| {
                    let began = began.clone();
                    async move {
                        began.notify_one();
                        std::future::pending().await
                    }
                })
                .await
        }
    });
    began.notified().await;
    task.abort();
    wait_until(SOON, async || there.lock("a").unwrap().try_acquire().await.unwrap().is_some()).await;
}
