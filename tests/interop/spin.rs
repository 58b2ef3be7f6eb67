//! Locks without release messages.

use std::time::Duration;

use redgrid_core::Client;
use redgrid_locks::{Lock, SpinLock};
use redgrid_tests::SOON;

use crate::fixture::{Fixture, assert_entered_at, at_once, scenarios};

scenarios![
    rust_spins_for_java_and_subscribes_nothing,
    java_spins_for_rust,
    a_plain_java_and_a_spinning_rust_keep_each_other_out,
    rust_spins_past_the_death_of_a_spinning_java,
    spinning_threads_and_tasks_lose_no_update,
];

async fn rust_spins_for_java_and_subscribes_nothing(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let lock = SpinLock::new(&client, &on.name);
    java.verb("spin.lock", &on.name).await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    let waiter = tokio::spawn(lock.acquire().timeout(SOON).into_future());
    redgrid_testkit::wait_until(SOON, async || client.stats().waiting == 1).await;
    assert_eq!(on.listeners().await, 0);
    let guard = at_once(async {
        java.verb("spin.unlock", &on.name).await.unwrap();
        waiter.await.unwrap().unwrap()
    })
    .await;
    assert_eq!(java.try_verb("spin.tryLock", &on.name, Duration::ZERO).await, "false");
    guard.release().await.unwrap();
}

async fn java_spins_for_rust(on: Fixture) {
    let mut java = on.java();
    let lock = SpinLock::new(&on.client().await, &on.name);
    let guard = lock.acquire().await.unwrap();
    java.begin_verb("spin.lock", &on.name).await;
    assert!(java.is_waiting());
    at_once(async {
        guard.release().await.unwrap();
        java.entered().await;
    })
    .await;
    assert!(lock.try_acquire().await.unwrap().is_none());
    java.verb("spin.unlock", &on.name).await.unwrap();
    lock.try_acquire().await.unwrap().expect("it is free").release().await.unwrap();
}

async fn a_plain_java_and_a_spinning_rust_keep_each_other_out(on: Fixture) {
    let mut java = on.java();
    let lock = SpinLock::new(&on.client().await, &on.name);
    java.lock(&on.name).await;
    let waiter = tokio::spawn(lock.acquire().timeout(SOON).into_future());
    let guard = at_once(async {
        assert!(java.unlock(&on.name).await);
        waiter.await.unwrap().unwrap()
    })
    .await;
    assert!(!java.try_lock(&on.name, Duration::ZERO).await);
    guard.release().await.unwrap();
    assert!(java.try_lock(&on.name, Duration::ZERO).await);
    assert!(java.unlock(&on.name).await);
}

async fn rust_spins_past_the_death_of_a_spinning_java(on: Fixture) {
    let redisson = on.own_redisson(Duration::from_secs(2)).await;
    redisson.actor().verb("spin.lock", &on.name).await.unwrap();
    let waiter = tokio::spawn(SpinLock::new(&on.client().await, &on.name).acquire().timeout(SOON).into_future());
    redisson.kill().await;
    let end = on.lease_end().await;
    let guard = waiter.await.unwrap().unwrap();
    assert_entered_at(end, guard.token().get());
    guard.release().await.unwrap();
}

async fn spinning_threads_and_tasks_lose_no_update(on: Fixture) {
    let (mut java, client) = (on.java(), on.client().await);
    let counter = format!("{{{}}}:counter", on.name);
    java.begin_count_under("spin.count", &on.name, &counter, 20).await;
    let tasks: Vec<_> = (0..3)
        .map(|_| {
            let (client, name, counter) = (client.clone(), on.name.clone(), counter.clone());
            tokio::spawn(async move {
                for _ in 0..20 {
                    let guard = SpinLock::new(&client, &name).acquire().timeout(SOON).await.unwrap();
                    let value = read(&client, &counter).await;
                    let write = client.command("SET").key(&counter).unwrap().arg((value + 1).to_string());
                    write.query::<()>().await.unwrap();
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    java.done().await.unwrap();
    assert_eq!(read(&client, &counter).await, 80);
    // A plain lock of the name can be taken, too.
    Lock::new(&client, &on.name).try_acquire().await.unwrap().expect("it is free").release().await.unwrap();
}

async fn read(client: &Client, counter: &str) -> i64 {
    client.command("GET").key(counter).unwrap().query::<Option<i64>>().await.unwrap().unwrap_or(0)
}
