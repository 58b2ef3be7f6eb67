//! Leases of readers and writers of both sides: renewals, dead readers, and killed processes.

use std::process::Stdio;
use std::time::Duration;

use redgrid_locks::RwLock;
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::fixture::{Fixture, assert_entered_at, at_once, scenarios};
use crate::read_write::{LEASE, read, until_listening, write};

scenarios![
    javas_read_unlock_leaves_our_readers_lease_alone,
    our_read_release_leaves_javas_lease_alone,
    our_dead_reader_blocks_only_until_its_lease_ends,
    javas_watchdog_keeps_its_read_while_our_writer_waits,
    our_watchdog_keeps_our_read_while_javas_writer_waits,
    javas_watchdog_does_not_end_our_longer_read,
    our_writer_enters_when_a_killed_java_reader_is_over,
    javas_writer_enters_when_a_killed_reader_of_ours_is_over,
    javas_reader_enters_when_a_killed_writer_of_ours_is_over,
];

/// Java's read unlock does not end the lease of Rust's reader. It computes the lock's lifetime from
/// every field of the hash and a key that belongs to the field.
async fn javas_read_unlock_leaves_our_readers_lease_alone(on: Fixture) {
    let mut java = on.java();
    let client = on.client_with(|config| config.watchdog_lease(LEASE)).await;
    let lock = RwLock::new(&client, &on.name);
    let ours = lock.read().await.unwrap();
    java.lock(&read(&on)).await;
    assert!(on.time_until(on.lease_end().await).await > Duration::from_secs(20));
    assert!(java.unlock(&read(&on)).await);
    // The lease is shortened to that of Rust, and Rust renews it from there on.
    let end = on.lease_end().await;
    assert!(on.time_until(end).await <= LEASE);
    on.until_renewed_past(end).await;
    assert!(ours.is_held() && !java.try_lock(&write(&on), Duration::ZERO).await);
    ours.release().await.unwrap();
    assert!(java.try_lock(&write(&on), Duration::ZERO).await && java.unlock(&write(&on)).await);
}

async fn our_read_release_leaves_javas_lease_alone(on: Fixture) {
    let mut java = on.java();
    let lock = RwLock::new(&on.client().await, &on.name);
    java.lock(&read(&on)).await;
    let ours = lock.read().lease(Duration::from_secs(5)).await.unwrap();
    assert!(on.time_until(on.lease_end().await).await > Duration::from_secs(20));
    ours.extend(Duration::from_secs(4)).await.unwrap();
    ours.release().await.unwrap();
    assert!(on.time_until(on.lease_end().await).await > Duration::from_secs(20));
    assert!(java.is_held(&read(&on)).await && lock.try_write().await.unwrap().is_none());
    assert!(java.unlock(&read(&on)).await);
}

async fn our_dead_reader_blocks_only_until_its_lease_ends(on: Fixture) {
    // Java's watchdog extends the leases of all readers, also of dead ones. With this lease, its
    // first renewal comes long after the test.
    let redisson = on.own_redisson(60 * LEASE).await;
    let mut java = redisson.actor();
    let lock = RwLock::new(&on.client().await, &on.name);
    let mut ours = reader_of_ours(&on, "read", 3 * LEASE).await;
    java.lock(&read(&on)).await;
    ours.kill().await.unwrap();
    let fields: Vec<String> = on.observer.query(&["HKEYS", &on.name]).await.unwrap();
    let ours = fields.iter().find(|field| *field != "mode" && !field.starts_with(redisson.id())).unwrap();
    let level = format!("{{{}}}:{ours}:rwlock_timeout:1", on.name);
    wait_until(SOON, async || !on.observer.exists(&level).await.unwrap()).await;
    // Java's last unlock finds no other reader with a valid lease.
    assert!(java.unlock(&read(&on)).await);
    lock.try_write().await.unwrap().expect("it is free").release().await.unwrap();
}

async fn javas_watchdog_keeps_its_read_while_our_writer_waits(on: Fixture) {
    let redisson = on.own_redisson(LEASE).await;
    let mut java = redisson.actor();
    let lock = RwLock::new(&on.client().await, &on.name);
    java.lock(&read(&on)).await;
    let first = on.lease_end().await;
    let waiter = tokio::spawn(lock.write().timeout(SOON).into_future());
    until_listening(&on, 1).await;
    on.until_renewed_past(first).await;
    assert!(!waiter.is_finished() && java.is_held(&read(&on)).await);
    assert!(java.unlock(&read(&on)).await);
    at_once(waiter).await.unwrap().unwrap().release().await.unwrap();
}

async fn our_watchdog_keeps_our_read_while_javas_writer_waits(on: Fixture) {
    let mut java = on.java();
    let lock = RwLock::new(&on.client_with(|config| config.watchdog_lease(LEASE)).await, &on.name);
    let ours = lock.read().await.unwrap();
    let first = on.lease_end().await;
    java.begin_lock(&write(&on)).await;
    java.until_asleep().await;
    on.until_renewed_past(first).await;
    assert!(java.is_waiting() && ours.is_held());
    ours.release().await.unwrap();
    at_once(java.entered()).await;
    assert!(java.unlock(&write(&on)).await);
}

/// Java's watchdog does not end a longer read of Rust. It sets the lock's lifetime to its own
/// lease, whatever the leases of other readers are.
async fn javas_watchdog_does_not_end_our_longer_read(on: Fixture) {
    let redisson = on.own_redisson(LEASE).await;
    let (mut java, mut writer) = (redisson.actor(), on.java());
    let lock = RwLock::new(&on.client_with(|config| config.watchdog_lease(LEASE)).await, &on.name);
    let ours = lock.read().lease(SOON).await.unwrap();
    java.lock(&read(&on)).await;
    let thread = java.thread().await;
    let level = format!("{{{}}}:{}:{thread}:rwlock_timeout:1", on.name, redisson.id());
    // Waits until Java's watchdog has renewed: Java's own lease is valid after its first end.
    let began = on.server_time().await;
    let renewed = async || {
        let left = on.observer.time_to_live(&level).await.unwrap().unwrap_or_default();
        on.time_until(began + LEASE.as_micros() as u64).await.is_zero() && !left.is_zero()
    };
    wait_until(SOON, renewed).await;
    redisson.kill().await;
    let dead = on.server_time().await;
    wait_until(SOON, async || {
        assert!(ours.is_held() && lock.try_write().await.unwrap().is_none());
        on.time_until(dead + 2 * LEASE.as_micros() as u64).await.is_zero()
    })
    .await;
    assert!(!writer.try_lock(&write(&on), Duration::ZERO).await);
    ours.release().await.unwrap();
}

async fn our_writer_enters_when_a_killed_java_reader_is_over(on: Fixture) {
    let redisson = on.own_redisson(LEASE).await;
    let lock = RwLock::new(&on.client().await, &on.name);
    redisson.actor().lock(&read(&on)).await;
    let waiter = tokio::spawn(lock.write().timeout(SOON).into_future());
    until_listening(&on, 1).await;
    redisson.kill().await;
    let end = on.lease_end().await;
    let guard = waiter.await.unwrap().unwrap();
    assert_entered_at(end, guard.token().get());
    guard.release().await.unwrap();
}

/// Starts a process of Rust that holds the lock.
async fn reader_of_ours(on: &Fixture, how: &str, lease: Duration) -> Child {
    let mut holder = Command::new(env!("CARGO_BIN_EXE_role"))
        .arg("holder")
        .args([on.url(), &format!("{how}|{}", on.name), &lease.as_millis().to_string(), "0"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
    let held = tokio::time::timeout(SOON, lines.next_line()).await.unwrap().unwrap().unwrap();
    assert!(held.starts_with("held "), "{held}");
    holder
}

async fn javas_writer_enters_when_a_killed_reader_of_ours_is_over(on: Fixture) {
    let mut java = on.java();
    let mut holder = reader_of_ours(&on, "read", LEASE).await;
    java.begin_lock(&write(&on)).await;
    java.until_asleep().await;
    holder.kill().await.unwrap();
    let end = on.lease_end().await;
    assert!(on.time_until(end).await < LEASE * 2);
    java.entered().await;
    assert_entered_at(end, on.server_time().await);
    assert!(java.unlock(&write(&on)).await);
}

async fn javas_reader_enters_when_a_killed_writer_of_ours_is_over(on: Fixture) {
    let mut java = on.java();
    let mut holder = reader_of_ours(&on, "write", LEASE).await;
    java.begin_lock(&read(&on)).await;
    java.until_asleep().await;
    holder.kill().await.unwrap();
    let end = on.lease_end().await;
    java.entered().await;
    assert_entered_at(end, on.server_time().await);
    assert!(java.unlock(&read(&on)).await);
}
