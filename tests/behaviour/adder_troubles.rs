//! Faults of adders: missing permissions, members that do not reply, members that join and leave,
//! shutdowns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use redgrid_atomic_long::{AdderError, Client, DoubleAdder, LongAdder};
use redgrid_core::Failure;
use redgrid_core::author::ClientExt;
use redgrid_testkit::{Action, Observer, Proxy, wait_until};
use redgrid_tests::{SOON, client, client_with, server, sha};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::adders::mute;

const OFTEN: Duration = Duration::from_millis(10);
const TOTAL: &str = "redgrid_adder:{views}";
const SAVE: &str = include_str!("../../crates/redgrid-atomic-long/src/scripts/adder_save.lua");

async fn ready(client: &Client) -> LongAdder {
    let adder = LongAdder::new(client, "views");
    adder.ready().await.unwrap();
    adder
}

async fn saved(observer: &Observer) -> Option<String> {
    observer.query::<Option<String>>(&["HGET", TOTAL, "sum"]).await.unwrap()
}

/// A save is all or nothing, however often it is tried.
#[tokio::test(flavor = "multi_thread")]
async fn a_save_that_is_refused_half_way_saves_nothing() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    observer.cmd(&["ACL", "SETUSER", "half", "on", ">x", "~*", "+@all", "allchannels"]).await.unwrap();
    let proxy = Proxy::to(&server).await.unwrap();
    let half = |config: redgrid_core::Config| config.credentials(Some("half"), "x");
    let client = client_with(&server.url_via(proxy.addr()), half).await;
    let (tries, save) = (Arc::new(AtomicUsize::new(0)), sha(SAVE));
    let counted = Arc::clone(&tries);
    proxy.on_request(move |request| {
        if request.len() > 1 && request[1] == save.as_bytes() {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        Action::Forward
    });
    let (adder, mut sum) = (ready(&client).await.saving(OFTEN).unwrap(), 0);
    for denied in ["set", "hset", "hincrby"] {
        for before in [None, Some(())] {
            if before.is_none() {
                observer.cmd(&["DEL", TOTAL]).await.unwrap();
            }
            observer.cmd(&["ACL", "SETUSER", "half", &format!("-{denied}")]).await.unwrap();
            let had = saved(&observer).await;
            adder.add(5);
            sum += 5;
            let tried = tries.load(Ordering::SeqCst);
            wait_until(SOON, async || tries.load(Ordering::SeqCst) > tried + 5).await;
            assert_eq!(saved(&observer).await, had, "without {denied}");
            if before.is_none() {
                assert!(!observer.exists(TOTAL).await.unwrap(), "without {denied}");
            }
            observer.cmd(&["ACL", "SETUSER", "half", &format!("+{denied}")]).await.unwrap();
            wait_until(SOON, async || saved(&observer).await == Some(sum.to_string())).await;
            assert_eq!(adder.sum().await.unwrap(), sum);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_sum_is_reported_at_once() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    observer.cmd(&["ACL", "SETUSER", "mute", "on", ">x", "~*", "+@all", "-incrby", "allchannels"]).await.unwrap();
    let mute = client_with(&server.url(), |config| config.credentials(Some("mute"), "x")).await;
    // The longest allowed timeout, which exceeds the duration of the test.
    let (adder, timeout) = (ready(&mute).await, Duration::from_secs(300));
    let told = adder.sum().timeout(timeout).await.unwrap_err();
    assert!(matches!(told, AdderError::Failed(Failure::Refused { .. })), "{told:?}");
    let told = adder.reset().timeout(timeout).into_future();
    let told = tokio::time::timeout(SOON, told).await.expect("an error before the timeout").unwrap_err();
    assert!(matches!(told, AdderError::Failed(Failure::Refused { .. })), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pattern_subscribers_are_not_waited_for() {
    let server = server().await;
    let mut listener = TcpStream::connect(server.addr()).await.unwrap();
    listener.write_all(b"PSUBSCRIBE *\r\n").await.unwrap();
    assert!(listener.read(&mut [0; 64]).await.unwrap() > 0);
    let (one, two) = (client(&server).await, client(&server).await);
    let (here, there) = (ready(&one).await, ready(&two).await);
    here.add(1);
    there.add(20);
    assert_eq!((here.sum().await.unwrap(), there.sum().await.unwrap()), (21, 21));
    there.reset().await.unwrap();
    assert_eq!(here.sum().await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_joining_member_hides_no_leaving_one() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let here = ready(&one).await;
    here.add(1);
    let (_silent, hearing) = mute(&server).await;
    let asks = here.clone();
    let asked = tokio::spawn(async move { asks.sum().timeout(SOON).await });
    wait_until(SOON, async || {
        let open: Vec<String> = observer.query(&["KEYS", "redgrid_adder_round:*"]).await.unwrap();
        !open.is_empty()
    })
    .await;
    let there = ready(&two).await;
    there.add(20);
    drop(hearing);
    assert_eq!(asked.await.unwrap().unwrap(), 21);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_ends_the_clients_own_sums() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    let adder = ready(&client).await;
    let (_silent, _hearing) = mute(&server).await;
    let asks = adder.clone();
    let asked = tokio::spawn(async move { asks.sum().timeout(Duration::from_secs(120)).await });
    wait_until(SOON, async || {
        let open: Vec<String> = observer.query(&["KEYS", "redgrid_adder_round:*"]).await.unwrap();
        !open.is_empty()
    })
    .await;
    client.shutdown(SOON).await.unwrap();
    let told = tokio::time::timeout(SOON, asked).await.expect("an end in time").unwrap().unwrap_err();
    assert!(matches!(told, AdderError::Failed(Failure::ShuttingDown { .. })), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_free_for_the_other_kind_once_its_adder_was_destroyed() {
    let server = server().await;
    let client = client(&server).await;
    let double = DoubleAdder::new(&client, "views");
    let early = LongAdder::new(&client, "views");
    let told = early.sum().await.unwrap_err();
    assert!(matches!(told, AdderError::OtherKind { is: "DoubleAdder", .. }), "{told:?}");
    double.destroy().await.unwrap();
    // This handle was created while the name belonged to the other type.
    early.add(7);
    assert_eq!(early.sum().await.unwrap(), 7);
    early.destroy().await.unwrap();
    for _ in 0..50 {
        let double = DoubleAdder::new(&client, "views");
        double.add(0.5).unwrap();
        double.destroy().await.unwrap();
        let long = LongAdder::new(&client, "views");
        long.ready().await.unwrap();
        long.destroy().await.unwrap();
    }
}

/// A request for a sum is answered although the last request of the adder is in flight.
#[tokio::test(flavor = "multi_thread")]
async fn a_received_request_is_answered_before_the_end() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    let adder = ready(&client).await.saving(OFTEN).unwrap();
    adder.add(5);
    wait_until(SOON, async || saved(&observer).await.as_deref() == Some("5")).await;
    let (held, seen) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
    let (holds, sees) = (Arc::clone(&held), Arc::clone(&seen));
    proxy.on_request(move |request| {
        let is_last = request[0].eq_ignore_ascii_case(b"PEXPIRE") && request[1].starts_with(b"redgrid_adder_saved:");
        if !is_last || !holds.load(Ordering::SeqCst) {
            return Action::Forward;
        }
        sees.store(true, Ordering::SeqCst);
        Action::CutBefore
    });
    // Another member subscribes through the same proxy.
    let other = client_with(&server.url_via(proxy.addr()), |config| config).await;
    let mut hearing = other.subscribe_ordered_unpolled(["{views}:adder-topic".into()], &"views".into());
    wait_until(SOON, async || hearing.is_active()).await;
    let ends = tokio::spawn(adder.destroy());
    wait_until(SOON, async || seen.load(Ordering::SeqCst)).await;
    let round = "0123456789abcdef0123456789abcdef";
    observer.cmd(&["PUBLISH", "{views}:adder-topic", &format!("1:{round}")]).await.unwrap();
    while !matches!(hearing.next().await, redgrid_core::ChannelEvent::Message { .. }) {}
    held.store(false, Ordering::SeqCst);
    ends.await.unwrap().unwrap();
    let key = |what: &str| format!("{{views}}:{round}:{what}");
    assert_eq!(observer.get::<u64>(&key("semaphore")).await.unwrap(), Some(1));
    assert_eq!(observer.get::<u64>(&key("counter")).await.unwrap(), Some(5));
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_numbers_a_double_is_an_overflow_until_a_reset() {
    let server = server().await;
    let client = client(&server).await;
    let adder = DoubleAdder::new(&client, "views");
    adder.add(f64::MAX).unwrap();
    assert_eq!(adder.sum().await.unwrap(), f64::MAX);
    adder.add(f64::MAX).unwrap();
    let told = adder.sum().await.unwrap_err();
    assert!(matches!(told, AdderError::Overflow { .. }), "{told:?}");
    // In this state, even a partial sum is not a number.
    let (_silent, hearing) = mute(&server).await;
    let told = adder.sum().timeout(Duration::from_millis(700)).await.unwrap_err();
    assert!(matches!(told, AdderError::Overflow { .. }), "{told:?}");
    drop(hearing);
    adder.reset().timeout(SOON).await.unwrap();
    assert_eq!(adder.sum().await.unwrap(), 0.0);
    adder.add(1.5).unwrap();
    assert_eq!(adder.sum().await.unwrap(), 1.5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_high_double_adds_small_values_again_after_a_reset() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let adder = DoubleAdder::new(&one, "views").saving(OFTEN).unwrap();
    let asks = DoubleAdder::new(&two, "views");
    adder.add(1e17).unwrap();
    wait_until(SOON, async || saved(&observer).await.as_deref() == Some("100000000000000000")).await;
    asks.reset().await.unwrap();
    adder.add(1.0).unwrap();
    assert_eq!(asks.sum().await.unwrap(), 1.0);
    wait_until(SOON, async || saved(&observer).await.as_deref() == Some("1")).await;
    assert_eq!(asks.sum().await.unwrap(), 1.0);
}
