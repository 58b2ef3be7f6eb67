//! The number of commands on the wire.

use std::sync::{Arc, Mutex};

use redgrid_locks::{Holder, Lock};
use redgrid_testkit::{Action, Proxy, wait_until};
use redgrid_tests::{SOON, client, client_with, listening, script, server};

/// Records the names of the commands that pass through a proxy.
fn record(proxy: &Proxy) -> Arc<Mutex<Vec<String>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    proxy.on_request(move |command| {
        log.lock().unwrap().push(String::from_utf8_lossy(&command[0]).to_uppercase());
        Action::Forward
    });
    seen
}

fn take(seen: &Mutex<Vec<String>>) -> Vec<String> {
    let mut commands = std::mem::take(&mut *seen.lock().unwrap());
    commands.retain(|name| name != "PING" && name != "TIME");
    commands
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uncontended_pair_is_two_script_calls_and_nothing_else() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    listening(&server, &client).await;
    Lock::new(&client, "warm").acquire().await.unwrap().release().await.unwrap();
    let seen = record(&proxy);
    for n in 0..100 {
        let guard = Lock::new(&client, format!("name:{n}")).acquire().await.unwrap();
        guard.release().await.unwrap();
    }
    let commands = take(&seen);
    assert_eq!(commands.len(), 200, "{commands:?}");
    assert!(commands.iter().all(|name| name == "EVALSHA"), "{commands:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_waits_twice_sends_one_request() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let other = client(&server).await;
    let client = client_with(&server.url_via(proxy.addr()), |config| config).await;
    let held = Lock::new(&other, "a").acquire().await.unwrap();
    let me = Holder::new();
    let lock = Lock::new(&client, "a");
    let ask = |lock: &Lock| tokio::spawn(lock.acquire().holder(&me).timeout(SOON).into_future());
    let first = ask(&lock);
    wait_until(SOON, async || client.stats().channels == 1).await;
    let observer = server.observer().await.unwrap();
    let listening = async || !observer.pubsub_channels("redisson*").await.unwrap().is_empty();
    wait_until(SOON, listening).await;
    let acquire = script!("acquire");
    let (asked, asks) = tokio::sync::watch::channel(0);
    proxy.on_request(move |command| {
        if command.iter().any(|part| *part == acquire) {
            asked.send_modify(|asks| *asks += 1);
        }
        Action::Forward
    });
    let second = ask(&lock);
    let stranger = tokio::spawn(lock.acquire().timeout(SOON).into_future());
    held.release().await.unwrap();
    // Both waits of the holder end with the same grant; the other waiter stays waiting.
    let (first, second) = (first.await.unwrap().unwrap(), second.await.unwrap().unwrap());
    assert_eq!(first.token(), second.token());
    assert!(!stranger.is_finished());
    // There is one attempt after the release. A second one follows if the confirmation of the
    // subscription arrived in between.
    assert!(*asks.borrow() <= 2, "{} attempts for two entries", *asks.borrow());
    // Re-entry sends no request.
    let seen = record(&proxy);
    let third = lock.acquire().holder(&me).await.unwrap();
    assert_eq!(take(&seen), Vec::<String>::new());
    drop((first, second));
    assert!(third.is_held());
    third.release().await.unwrap();
    stranger.await.unwrap().unwrap().release().await.unwrap();
}
