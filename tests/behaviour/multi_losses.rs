//! Several locks acquired as one: lost names, ended leases, lost replies, and missing durability.

use std::time::{Duration, Instant};

use redgrid_core::Failure;
use redgrid_locks::{AcquireError, Durability, LostReason, MultiLock, ReleaseError};
use redgrid_testkit::{Action, Proxy, wait_until};
use redgrid_tests::{SOON, client, client_with, script, server};

use super::multi::{MS, held};

#[tokio::test(flavor = "multi_thread")]
async fn the_first_lost_name_is_reported_and_the_others_are_released() {
    let server = server().await;
    // Renewals every third of this lease find the loss soon. The lease is long enough for a slow
    // machine.
    let client = client_with(&server.url(), |config| config.watchdog_lease(Duration::from_secs(10))).await;
    let observer = server.observer().await.unwrap();
    let guard = MultiLock::new(&client, ["name:1", "name:2", "name:3"]).acquire().await.unwrap();
    observer.cmd(&["DEL", "name:2"]).await.unwrap();
    let lost = tokio::time::timeout(SOON, guard.lost()).await.unwrap();
    assert_eq!((lost.name.as_str(), lost.reason), ("name:2", LostReason::Gone));
    assert!(!guard.is_held() && guard.remaining().is_zero());
    let released = guard.release().await;
    assert!(matches!(&released, Err(ReleaseError::Lost { name, .. }) if name.as_str() == "name:2"), "{released:?}");
    assert!(held(&observer).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn many_names_are_renewed_and_a_fixed_lease_of_all_ends_or_is_extended() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.watchdog_lease(Duration::from_secs(2))).await;
    let observer = server.observer().await.unwrap();
    let renewed = MultiLock::new(&client, (0..250).map(|n| format!("name:{n}"))).acquire().await.unwrap();
    let fixed = MultiLock::new(&client, ["a", "b"]).acquire().lease(Duration::from_secs(3)).await.unwrap();
    fixed.extend(Duration::from_secs(60)).await.unwrap();
    assert!(observer.time_to_live("b").await.unwrap().is_some_and(|left| left > Duration::from_secs(55)));
    let short = MultiLock::new(&client, ["c", "d"]).acquire().lease(1000 * MS).await.unwrap();
    assert_eq!(short.lost().await.reason, LostReason::Expired);
    let began = Instant::now();
    wait_until(SOON, async || began.elapsed() > Duration::from_secs(4)).await;
    assert!(renewed.is_held() && fixed.is_held() && !short.is_held());
    renewed.release().await.unwrap();
    fixed.release().await.unwrap();
    assert!(matches!(short.release().await, Err(ReleaseError::Lost { reason: LostReason::Expired, .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_found_again_and_a_late_copy_leaves_nothing() {
    let server = server().await;
    let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
    let quick = 600 * MS;
    let client = client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(quick)).await;
    let both = MultiLock::new(&client, ["name:1", "name:2"]);
    both.acquire().await.unwrap().release().await.unwrap();
    proxy.next(1, script!("acquire_many"), Action::SwallowReply);
    let guard = both.acquire().timeout(SOON).await.unwrap();
    assert_eq!(proxy.counts().swallowed, 1);
    for name in ["name:1", "name:2"] {
        let fields: Vec<(String, i64)> = observer.query(&["HGETALL", name]).await.unwrap();
        assert_eq!((fields.len(), fields[0].1), (1, 1), "held exactly once");
    }
    guard.release().await.unwrap();
    let gone = async || client.stats().names == 0 && held(&observer).await.is_empty();
    wait_until(quick + Duration::from_secs(10), gone).await;

    proxy.next(1, script!("release_many"), Action::SwallowReply);
    let released = both.acquire().timeout(SOON).await.unwrap().release().await;
    // The request is sent again, but the second reply may arrive after the release has stopped
    // waiting.
    assert!(matches!(released, Ok(()) | Err(ReleaseError::OutcomeUnknown { .. })), "{released:?}");
    assert_eq!(proxy.counts().swallowed, 2);
    wait_until(quick + Duration::from_secs(10), gone).await;

    proxy.next(1, script!("acquire_many"), Action::Hold);
    redgrid_tests::cancel::at_most(2, both.acquire().into_future()).await;
    wait_until(SOON, async || proxy.counts().held == 1).await;
    proxy.release_held().await;
    wait_until(SOON, gone).await;
    both.acquire().timeout(SOON).await.unwrap().release().await.unwrap();
}

/// A call without a reply ends at its timeout. The request continues, and its grant is released.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_ends_in_time_without_a_reply() {
    let server = server().await;
    let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
    let client = client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(3 * SOON)).await;
    let both = MultiLock::new(&client, ["name:1", "name:2"]);
    both.acquire().await.unwrap().release().await.unwrap();
    proxy.next(1, script!("acquire_many"), Action::Hold);
    let waiting = both.acquire().timeout(1000 * MS).into_future();
    let ended = tokio::time::timeout(SOON, waiting).await.expect("an end in time");
    assert!(matches!(ended, Err(AcquireError::Failed(Failure::OutcomeUnknown { .. }))), "{ended:?}");
    assert_eq!(proxy.release_held().await, 1);
    let gone = async || client.stats().names == 0 && held(&observer).await.is_empty();
    wait_until(SOON, gone).await;
    both.acquire().timeout(SOON).await.unwrap().release().await.unwrap();
}

/// If the durability is not confirmed, the locks are free immediately.
#[tokio::test(flavor = "multi_thread")]
async fn missing_durability_is_reported_after_the_release() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let names: Vec<_> = (0..1_000).map(|n| format!("name:{n}")).collect();
    let none = Durability::Replicas { at_least: 1, timeout: 50 * MS };
    for _ in 0..5 {
        let told = MultiLock::new(&client, &names).acquire().durability(none).await;
        assert!(matches!(told, Err(AcquireError::NotDurable { .. })), "{told:?}");
        assert_eq!(held(&observer).await.len(), 0);
    }
}
