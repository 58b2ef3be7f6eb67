//! Adders with lost and late replies, lost subscriptions, and no contact with the server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use redgrid_atomic_long::{AdderError, Client, LongAdder};
use redgrid_core::Failure;
use redgrid_testkit::{Action, Fault, Observer, Proxy, wait_until};
use redgrid_tests::{SOON, client, client_with, is_script, server, sha};

use super::adders::{adders, keys};

/// Returns a client whose requests all pass through a proxy.
async fn through(proxy: &Proxy, server: &redgrid_testkit::RedisServer) -> Client {
    let quick = |config: redgrid_core::Config| config.response_timeout(Duration::from_millis(300));
    client_with(&server.url_via(proxy.addr()), quick).await
}

macro_rules! lua {
    ($name:literal) => {
        include_str!(concat!("../../crates/redgrid-atomic-long/src/scripts/adder_", $name, ".lua"))
    };
}

fn answer() -> String {
    [include_str!("../../crates/redgrid-core/src/exactly_once/dedup.lua"), lua!("answer")].concat()
}

/// Applies the action to the next call of the script.
fn next_call(proxy: &Proxy, script: &str, action: Action) {
    let (hash, done) = (sha(script), AtomicBool::new(false));
    proxy.on_request(move |request| {
        let is_it = is_script(&request[0]) && request[1] == hash;
        if is_it && !done.swap(true, Ordering::Relaxed) { action } else { Action::Forward }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_counts_no_member_twice() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let (one, two) = (client(&server).await, through(&proxy, &server).await);
    let all = adders(&[&one, &two]).await;
    all[0].add(1);
    all[1].add(20);
    // The server has cached both scripts from here on, so they are sent by their hash.
    assert_eq!(all[1].sum().await.unwrap(), 21);
    for script in [&answer(), lua!("enter"), lua!("open"), lua!("round_state")] {
        for action in [Action::SwallowReply, Action::CutAfterForward, Action::CutBefore] {
            for (n, asks) in all.iter().enumerate() {
                next_call(&proxy, script, action);
                assert_eq!(asks.sum().await.unwrap(), 21, "{action:?}, asked by {n}, {}", script.len());
                all[1].ready().await.unwrap();
                next_call(&proxy, script, action);
                asks.reset().await.unwrap();
                all[0].add(1);
                all[1].add(20);
                all[1].ready().await.unwrap();
            }
        }
    }
    proxy.heal();
    assert_eq!(all[0].sum().await.unwrap(), 21);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_reset_clears_no_later_addition() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let (one, two) = (client(&server).await, through(&proxy, &server).await);
    let all = adders(&[&one, &two]).await;
    all[0].add(1);
    all[1].add(20);
    assert_eq!(all[1].sum().await.unwrap(), 21);
    next_call(&proxy, lua!("open"), Action::Hold);
    all[1].reset().timeout(SOON).await.unwrap();
    all[0].add(300);
    all[1].add(4_000);
    assert_eq!(all[0].sum().await.unwrap(), 4_300);
    assert!(proxy.release_held().await > 0, "the first one is still to come");
    // Requests that it may have begun earlier are received before this one.
    assert_eq!(all[0].sum().await.unwrap(), 4_300);
    all[1].ready().await.unwrap();
    assert_eq!(all[1].sum().await.unwrap(), 4_300);
}

/// Waits for the number of replies to a sum request that the test itself publishes.
async fn ask(observer: &Observer, message: &str, answered: u64) {
    let semaphore = format!("{{views}}:{}:semaphore", &message[2..]);
    let before: u64 = observer.get::<u64>(&semaphore).await.unwrap().unwrap_or(0);
    observer.cmd(&["PUBLISH", "{views}:adder-topic", message]).await.unwrap();
    wait_until(SOON, async || observer.get::<u64>(&semaphore).await.unwrap() == Some(before + answered)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_or_repeated_reset_clears_nothing() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    let adder = &adders(&[&client]).await[0];
    adder.add(5);
    // A sum request of redgrid whose caller has left, and invalid messages.
    for message in ["0:redgrid-gone", "1:redgrid-gone", "0", "", "2:x", "0:"] {
        observer.cmd(&["PUBLISH", "{views}:adder-topic", message]).await.unwrap();
    }
    assert_eq!(adder.sum().await.unwrap(), 5);
    assert!(!observer.exists("{views}:redgrid-gone:semaphore").await.unwrap());
    // A sum request of Redisson. redgrid sets a lifetime on its keys.
    ask(&observer, "0:0123456789abcdef0123456789abcdef", 1).await;
    adder.add(7);
    // A late message of the same request has no effect. The message after it shows that it has
    // arrived.
    observer.cmd(&["PUBLISH", "{views}:adder-topic", "0:0123456789abcdef0123456789abcdef"]).await.unwrap();
    assert_eq!(adder.sum().await.unwrap(), 7);
    ask(&observer, "1:00000000000000000000000000000000", 1).await;
    assert_eq!(observer.get::<i64>("{views}:00000000000000000000000000000000:counter").await.unwrap(), Some(7));
    assert_eq!(keys(&observer).await.1, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_without_subscription_is_queried() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let all = adders(&[&one, &two]).await;
    all[0].add(1);
    all[1].add(20);
    for _ in 0..20 {
        observer.cmd(&["CLIENT", "KILL", "TYPE", "pubsub"]).await.unwrap();
        let sum = all[0].sum().await.unwrap();
        // The other member may not be subscribed again, so it may be missing in the sum. The caller
        // itself always counts.
        assert!(sum == 1 || sum == 21, "{sum}");
        all[1].ready().await.unwrap();
    }
    all[0].ready().await.unwrap();
    assert_eq!(all[0].sum().await.unwrap(), 21);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_contact_or_permission_a_sum_ends_at_its_bound() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let proxy = Proxy::to(&server).await.unwrap();
    let cut_off = through(&proxy, &server).await;
    let adder = &adders(&[&cut_off]).await[0];
    adder.increment();
    proxy.set_both(Fault::BlackHole);
    let began = Instant::now();
    let told = adder.sum().timeout(Duration::from_secs(1)).await.unwrap_err();
    assert!(matches!(told, AdderError::Failed(Failure::Unavailable { .. }) | AdderError::Partial { .. }), "{told:?}");
    assert!(began.elapsed() < SOON / 2, "{:?}", began.elapsed());
    adder.increment();
    proxy.heal();
    assert_eq!(adder.sum().timeout(SOON).await.unwrap(), 2);

    observer.cmd(&["ACL", "SETUSER", "deaf", "on", ">x", "~*", "+@all", "resetchannels"]).await.unwrap();
    let deaf = client_with(&server.url(), |config| config.credentials(Some("deaf"), "x")).await;
    let adder = LongAdder::new(&deaf, "views");
    let told = adder.sum().timeout(Duration::from_millis(500)).await.unwrap_err();
    assert!(matches!(told, AdderError::Failed(Failure::Unavailable { .. })), "{told:?}");
    observer.cmd(&["ACL", "SETUSER", "mute", "on", ">x", "~*", "+@all", "-publish", "allchannels"]).await.unwrap();
    let mute = client_with(&server.url(), |config| config.credentials(Some("mute"), "x")).await;
    let told = LongAdder::new(&mute, "views").sum().await.unwrap_err();
    assert!(matches!(told, AdderError::Failed(Failure::Refused { .. })), "{told:?}");
    assert_eq!(keys(&observer).await.1, Vec::<String>::new());
    observer.cmd(&["SET", "redgrid_adder:{views}", "x"]).await.unwrap();
    let told = LongAdder::new(&deaf, "views").saving(Duration::from_secs(3600)).unwrap();
    told.increment();
    let told = told.destroy().await;
    assert!(told.is_ok(), "another handle lives: {told:?}");
    let saving = LongAdder::new(&client(&server).await, "views").saving(Duration::from_secs(3600)).unwrap();
    saving.increment();
    let told = saving.destroy().await.unwrap_err();
    assert!(matches!(told, AdderError::NotSaved { .. }), "{told:?}");
}
