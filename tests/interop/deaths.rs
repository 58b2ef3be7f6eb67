//! Processes that are killed while they hold a lock: the other side acquires the lock after the
//! lease's end, and not before.

use std::process::Stdio;
use std::time::Duration;

use redgrid_locks::Lock;
use redgrid_tests::SOON;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::fixture::{Fixture, assert_entered_at, scenarios};

scenarios![
    rust_enters_when_the_lease_of_a_killed_java_is_over,
    java_enters_when_the_lease_of_a_killed_process_of_ours_is_over,
    a_killed_waiter_of_java_blocks_no_caller,
];

const LEASE: Duration = Duration::from_secs(2);

async fn rust_enters_when_the_lease_of_a_killed_java_is_over(on: Fixture) {
    let redisson = on.own_redisson(LEASE).await;
    let lock = Lock::new(&on.client().await, &on.name);
    redisson.actor().lock(&on.name).await;
    let waiter = tokio::spawn(lock.acquire().timeout(SOON).into_future());
    on.until_listening(1).await;
    redisson.kill().await;
    let end = on.lease_end().await;
    let guard = waiter.await.unwrap().unwrap();
    assert_entered_at(end, guard.token().get());
    guard.release().await.unwrap();
}

async fn java_enters_when_the_lease_of_a_killed_process_of_ours_is_over(on: Fixture) {
    let mut java = on.java();
    let mut holder = Command::new(env!("CARGO_BIN_EXE_role"))
        .arg("holder")
        .args([on.url(), &on.name, &LEASE.as_millis().to_string(), "0"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let held = tokio::time::timeout(SOON, lines.next_line()).await.unwrap().unwrap().unwrap();
    assert!(held.starts_with("held "), "{held}");
    java.begin_lock(&on.name).await;
    java.until_asleep().await;
    holder.kill().await.unwrap();
    let end = on.lease_end().await;
    assert!(on.time_until(end).await < LEASE * 2);
    java.entered().await;
    assert_entered_at(end, on.server_time().await);
    assert!(java.unlock(&on.name).await);
}

async fn a_killed_waiter_of_java_blocks_no_caller(on: Fixture) {
    let redisson = on.own_redisson(LEASE).await;
    let (mut java, mut dead) = (on.java(), redisson.actor());
    let lock = Lock::new(&on.client().await, &on.name);
    let guard = lock.acquire().await.unwrap();
    dead.begin_lock(&on.name).await;
    dead.until_asleep().await;
    redisson.kill().await;
    on.until_listening(0).await;
    guard.release().await.unwrap();
    assert!(java.try_lock(&on.name, Duration::ZERO).await);
    assert!(java.unlock(&on.name).await);
    lock.try_acquire().await.unwrap().expect("it is free").release().await.unwrap();
}
