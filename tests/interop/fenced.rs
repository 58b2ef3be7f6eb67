//! One counter of tokens, used by both sides.

use std::process::Stdio;
use std::time::Duration;

use redgrid_locks::{FencedLock, Holder, Lock};
use redgrid_tests::SOON;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::actor::Actor;
use crate::fixture::{Fixture, at_once, scenarios};

scenarios![
    tokens_rise_from_java_to_rust_and_back,
    rust_waits_for_a_fenced_java_and_gets_a_higher_token,
    a_fenced_java_waits_for_rust_and_gets_a_higher_token,
    both_read_the_same_last_token,
    a_reentry_counts_in_java_and_does_not_with_us,
    after_five_hundred_owners_of_ours_and_a_kill_java_gets_a_higher_token,
    after_javas_death_rust_gets_a_higher_token,
    a_counter_that_java_began_stays_without_a_lifetime,
    a_theft_from_a_fenced_java_counts,
    a_plain_java_keeps_a_fenced_rust_out_and_the_other_way,
];

const LEASE: Duration = Duration::from_secs(2);

async fn locked(java: &mut Actor, name: &str) -> u64 {
    java.verb("fenced.lockAndGetToken", name).await.unwrap().parse().unwrap()
}

async fn unlock(java: &mut Actor, name: &str) {
    java.verb("fenced.unlock", name).await.unwrap();
}

async fn tokens_rise_from_java_to_rust_and_back(on: Fixture) {
    let (mut java, lock) = (on.java(), FencedLock::new(&on.client().await, &on.name));
    let mut last = 0;
    for _ in 0..5 {
        let theirs = locked(&mut java, &on.name).await;
        assert!(theirs > last, "{theirs} after {last}");
        unlock(&mut java, &on.name).await;
        let guard = lock.acquire().await.unwrap();
        last = guard.token().get();
        assert!(last > theirs, "{last} after {theirs}");
        guard.release().await.unwrap();
    }
}

async fn rust_waits_for_a_fenced_java_and_gets_a_higher_token(on: Fixture) {
    let (mut java, lock) = (on.java(), FencedLock::new(&on.client().await, &on.name));
    let theirs = locked(&mut java, &on.name).await;
    assert!(lock.try_acquire().await.unwrap().is_none());
    let waiter = tokio::spawn(lock.acquire().timeout(SOON).into_future());
    on.until_listening(1).await;
    let guard = at_once(async {
        unlock(&mut java, &on.name).await;
        waiter.await.unwrap().unwrap()
    })
    .await;
    assert!(guard.token().get() > theirs);
    assert_eq!(java.try_verb("fenced.tryLockAndGetToken", &on.name, Duration::ZERO).await, "null");
    guard.release().await.unwrap();
}

async fn a_fenced_java_waits_for_rust_and_gets_a_higher_token(on: Fixture) {
    let (mut java, lock) = (on.java(), FencedLock::new(&on.client().await, &on.name));
    let guard = lock.acquire().await.unwrap();
    let ours = guard.token().get();
    java.begin_verb("fenced.lockAndGetToken", &on.name).await;
    on.until_listening(1).await;
    let theirs: u64 = at_once(async {
        guard.release().await.unwrap();
        java.done().await.unwrap().parse().unwrap()
    })
    .await;
    assert!(theirs > ours, "{theirs} after {ours}");
    unlock(&mut java, &on.name).await;
}

async fn both_read_the_same_last_token(on: Fixture) {
    let (mut java, lock) = (on.java(), FencedLock::new(&on.client().await, &on.name));
    let theirs = locked(&mut java, &on.name).await;
    assert_eq!(lock.token().await.unwrap().map(u64::from), Some(theirs));
    unlock(&mut java, &on.name).await;
    let guard = lock.acquire().await.unwrap();
    assert_eq!(java.verb("fenced.getToken", &on.name).await.unwrap(), guard.token().to_string());
    guard.release().await.unwrap();
}

/// A reentry of a Redisson holder takes a new token, and so can fence out the holder itself. Rust
/// respects these tokens, and takes no new one for a reentry.
async fn a_reentry_counts_in_java_and_does_not_with_us(on: Fixture) {
    let (mut java, lock) = (on.java(), FencedLock::new(&on.client().await, &on.name));
    let (outer, inner) = (locked(&mut java, &on.name).await, locked(&mut java, &on.name).await);
    assert!(inner > outer);
    unlock(&mut java, &on.name).await;
    unlock(&mut java, &on.name).await;
    let me = Holder::new();
    let (first, again) = (lock.acquire().holder(&me).await.unwrap(), lock.acquire().holder(&me).await.unwrap());
    assert!(first.token().get() > inner);
    assert_eq!(first.token(), again.token());
    assert_eq!(java.verb("fenced.getToken", &on.name).await.unwrap(), first.token().to_string());
    again.release().await.unwrap();
    first.release().await.unwrap();
}

async fn after_five_hundred_owners_of_ours_and_a_kill_java_gets_a_higher_token(on: Fixture) {
    let mut java = on.java();
    let mut holder = Command::new(env!("CARGO_BIN_EXE_role"))
        .arg("holder")
        .args([on.url(), &on.name, &LEASE.as_millis().to_string(), "0", "500"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let held = tokio::time::timeout(SOON, lines.next_line()).await.unwrap().unwrap().unwrap();
    let last: u64 = held.strip_prefix("held ").unwrap().parse().unwrap();
    java.begin_verb("fenced.lockAndGetToken", &on.name).await;
    on.until_listening(1).await;
    holder.kill().await.unwrap();
    let theirs: u64 = java.done().await.unwrap().parse().unwrap();
    assert!(theirs > last, "{theirs} after {last}");
    unlock(&mut java, &on.name).await;
    let guard = FencedLock::new(&on.client().await, &on.name).acquire().await.unwrap();
    assert!(guard.token().get() > theirs);
    guard.release().await.unwrap();
}

async fn after_javas_death_rust_gets_a_higher_token(on: Fixture) {
    let redisson = on.own_redisson(LEASE).await;
    let lock = FencedLock::new(&on.client().await, &on.name);
    let theirs = locked(&mut redisson.actor(), &on.name).await;
    let waiter = tokio::spawn(lock.acquire().timeout(SOON).into_future());
    on.until_listening(1).await;
    redisson.kill().await;
    let guard = waiter.await.unwrap().unwrap();
    assert!(guard.token().get() > theirs);
    guard.release().await.unwrap();
}

async fn a_counter_that_java_began_stays_without_a_lifetime(on: Fixture) {
    let (mut java, lock) = (on.java(), FencedLock::new(&on.client().await, &on.name));
    assert_eq!(locked(&mut java, &on.name).await, 1);
    unlock(&mut java, &on.name).await;
    let before = on.server_time().await;
    let guard = lock.acquire().lease(LEASE).await.unwrap();
    // From here on the server's clock is the lower bound of tokens.
    assert!(guard.token().get() >= before);
    guard.release().await.unwrap();
    let key = format!("redisson_lock_token:{{{}}}", on.name);
    assert_eq!(on.observer.query::<i64>(&["PTTL", &key]).await.unwrap(), -1);
    assert!(locked(&mut java, &on.name).await > before);
    unlock(&mut java, &on.name).await;
}

async fn a_theft_from_a_fenced_java_counts(on: Fixture) {
    let (mut java, lock) = (on.java(), FencedLock::new(&on.client().await, &on.name));
    let theirs = locked(&mut java, &on.name).await;
    let thief = lock.steal().await.unwrap();
    assert!(thief.token().get() > theirs);
    let thrown = java.verb("fenced.unlock", &on.name).await.unwrap_err();
    assert_eq!(thrown.class, "IllegalMonitorStateException");
    thief.release().await.unwrap();
    assert!(locked(&mut java, &on.name).await > theirs + 1);
    unlock(&mut java, &on.name).await;
}

async fn a_plain_java_keeps_a_fenced_rust_out_and_the_other_way(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let (fenced, plain) = (FencedLock::new(&client, &on.name), Lock::new(&client, &on.name));
    java.lock(&on.name).await;
    assert!(fenced.try_acquire().await.unwrap().is_none());
    assert!(java.unlock(&on.name).await);
    let guard = fenced.acquire().await.unwrap();
    assert!(!java.try_lock(&on.name, Duration::ZERO).await);
    assert!(plain.try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    assert!(java.try_lock(&on.name, Duration::ZERO).await);
    assert!(java.unlock(&on.name).await);
}
