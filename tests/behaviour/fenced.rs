//! Fenced locks, which count their tokens in a key.

use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redgrid_locks::{FencedLock, Holder, Lock, LostReason};
use redgrid_testkit::{Action, Observer, Proxy};
use redgrid_tests::{SOON, client, client_with, script, server};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

const COUNTER: &str = "redisson_lock_token:{a}";

async fn stored(observer: &Observer) -> Option<u64> {
    observer.get(COUNTER).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_stored_without_a_lifetime_and_can_be_read() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let lock = FencedLock::new(&client, "a");
    assert_eq!(lock.token().await.unwrap(), None);
    let guard = lock.acquire().await.unwrap();
    let token = guard.token();
    assert_eq!(lock.token().await.unwrap(), Some(token));
    assert_eq!(stored(&observer).await, Some(token.get()));
    guard.release().await.unwrap();
    // The counter is kept when the lock is released, and it does not expire.
    assert_eq!(observer.query::<i64>(&["PTTL", COUNTER]).await.unwrap(), -1);
    let next = lock.acquire().await.unwrap();
    assert!(next.token() > token);
    next.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_one_process_get_each_token_from_the_server() {
    let server = server().await;
    let client = client(&server).await;
    let (lock, tokens) = (FencedLock::new(&client, "a"), Arc::new(Mutex::new(Vec::new())));
    let tasks: Vec<_> = (0..6)
        .map(|_| {
            let (lock, tokens) = (lock.clone(), Arc::clone(&tokens));
            tokio::spawn(async move {
                for _ in 0..15 {
                    let guard = lock.acquire().timeout(SOON).await.unwrap();
                    assert_eq!(lock.token().await.unwrap(), Some(guard.token()));
                    tokens.lock().unwrap().push(guard.token());
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let tokens = tokens.lock().unwrap();
    assert_eq!(tokens.len(), 90);
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_ahead_of_the_clock_increments_and_a_lost_one_restarts_by_the_clock() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let lock = FencedLock::new(&client, "a");
    let ahead = observer.server_time_micros().await.unwrap() + 3_600_000_000;
    observer.cmd(&["SET", COUNTER, &ahead.to_string()]).await.unwrap();
    for n in 1..=3 {
        let guard = lock.acquire().await.unwrap();
        assert_eq!(guard.token().get(), ahead + n);
        guard.release().await.unwrap();
    }
    observer.cmd(&["DEL", COUNTER]).await.unwrap();
    let now = observer.server_time_micros().await.unwrap();
    let guard = lock.acquire().await.unwrap();
    assert!(guard.token().get() >= now);
    assert_eq!(stored(&observer).await, Some(guard.token().get()));
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reentry_keeps_the_token() {
    let server = server().await;
    let client = client(&server).await;
    let (lock, me) = (FencedLock::new(&client, "a"), Holder::new());
    let outer = lock.acquire().holder(&me).await.unwrap();
    let inner = lock.acquire().holder(&me).await.unwrap();
    assert_eq!(inner.token(), outer.token());
    assert_eq!(lock.token().await.unwrap(), Some(outer.token()));
    inner.release().await.unwrap();
    outer.release().await.unwrap();
}

/// The second copy of an acquire finds the grant of the first one, and does not increase the
/// counter.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_grant_is_found_again_with_its_token() {
    let server = server().await;
    let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
    let quick = Duration::from_millis(600);
    let client = client_with(&server.url_via(proxy.addr()), |config| config.response_timeout(quick)).await;
    FencedLock::new(&client, "warm").acquire().await.unwrap().release().await.unwrap();
    let ahead = observer.server_time_micros().await.unwrap() + 3_600_000_000;
    observer.cmd(&["SET", COUNTER, &ahead.to_string()]).await.unwrap();
    proxy.next(1, script!("acquire_fenced"), Action::SwallowReply);
    let guard = FencedLock::new(&client, "a").acquire().timeout(SOON).await.unwrap();
    assert_eq!(proxy.counts().swallowed, 1);
    assert_eq!((guard.token().get(), stored(&observer).await), (ahead + 1, Some(ahead + 1)));
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_lock_of_the_name_keeps_out_and_a_theft_counts() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let plain = Lock::new(&one, "a").acquire().await.unwrap();
    let lock = FencedLock::new(&two, "a");
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert_eq!(lock.token().await.unwrap(), None);
    plain.release().await.unwrap();

    let guard = FencedLock::new(&one, "a").acquire().await.unwrap();
    let thief = lock.steal().await.unwrap();
    assert!(thief.token() > guard.token());
    assert_eq!(lock.token().await.unwrap(), Some(thief.token()));
    assert!(matches!(guard.lost().await, LostReason::Forced | LostReason::Gone));
    thief.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn after_five_hundred_owners_and_a_kill_the_next_token_is_higher() {
    let server = server().await;
    let client = client(&server).await;
    let mut holder = Command::new(env!("CARGO_BIN_EXE_role"))
        .arg("holder")
        .args([&server.url(), "a", "1000", "0", "500"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let held = tokio::time::timeout(SOON, lines.next_line()).await.unwrap().unwrap().unwrap();
    let last: u64 = held.strip_prefix("held ").unwrap().parse().unwrap();
    holder.kill().await.unwrap();
    let lock = FencedLock::new(&client, "a");
    assert_eq!(lock.token().await.unwrap().map(u64::from), Some(last));
    let guard = lock.acquire().timeout(SOON).await.unwrap();
    assert!(guard.token().get() > last);
    guard.release().await.unwrap();
}
