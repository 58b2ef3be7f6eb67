//! Many threads and tasks of both sides at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use redgrid_locks::{Client, Lock};

use crate::fixture::{Fixture, scenarios};

scenarios![
    a_counter_under_the_lock_is_exact_with_eight_threads_and_eight_tasks,
    java_gets_its_turns_beside_eight_busy_tasks,
];

const OF_EACH: usize = 8;
const TIMES: u64 = 20;

async fn a_counter_under_the_lock_is_exact_with_eight_threads_and_eight_tasks(on: Fixture) {
    let counter = format!("{}:counter", on.name);
    let mut javas: Vec<_> = (0..OF_EACH).map(|_| on.java()).collect();
    // Two clients: their tasks also wait for each other through the server.
    let clients = [on.client().await, on.client().await];
    // No thread and no task begins before all wait.
    let gate = Lock::new(&on.client().await, &on.name).acquire().await.unwrap();
    for java in &mut javas {
        java.begin_count(&on.name, &counter, TIMES).await;
    }
    let tasks: Vec<_> = (0..OF_EACH)
        .map(|n| tokio::spawn(count(clients[n % clients.len()].clone(), on.name.clone(), counter.clone())))
        .collect();
    on.until_listening(3).await;
    gate.release().await.unwrap();

    // Every thread and every task acquires the lock in each of its rounds.
    for task in tasks {
        task.await.unwrap();
    }
    for java in &mut javas {
        assert_eq!(java.done().await.unwrap(), TIMES.to_string());
    }
    assert_eq!(on.observer.get::<u64>(&counter).await.unwrap(), Some(2 * OF_EACH as u64 * TIMES));
    assert!(!on.observer.exists(&on.name).await.unwrap());
    on.until_listening(0).await;
}

/// Counts in two steps, so that two holders at a time would lose updates.
async fn count(client: Client, name: String, counter: String) {
    let lock = Lock::new(&client, name);
    for _ in 0..TIMES {
        let guard = lock.acquire().await.unwrap();
        let value = client.command("GET").key(&counter).unwrap().query::<Option<u64>>().await.unwrap().unwrap_or(0);
        client.command("SET").key(&counter).unwrap().arg((value + 1).to_string()).query::<()>().await.unwrap();
        guard.release().await.unwrap();
    }
}

async fn java_gets_its_turns_beside_eight_busy_tasks(on: Fixture) {
    let counter = format!("{}:counter", on.name);
    let mut java = on.java();
    let client = on.client().await;
    let gate = Lock::new(&client, &on.name).acquire().await.unwrap();
    java.begin_count(&on.name, &counter, TIMES).await;
    on.until_listening(1).await;
    let (over, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let last = Arc::new(AtomicU64::new(gate.token().get()));
    let tasks: Vec<_> = (0..OF_EACH)
        .map(|_| {
            let (lock, over, turns, last) = (Lock::new(&client, &on.name), over.clone(), turns.clone(), last.clone());
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let guard = lock.acquire().await.unwrap();
                    // Within consecutive grants of Rust, each token is the next number.
                    let token = guard.token().get();
                    if token != last.swap(token, Ordering::Relaxed) + 1 {
                        turns.fetch_add(1, Ordering::Relaxed);
                    }
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    gate.release().await.unwrap();
    assert_eq!(java.done().await.unwrap(), TIMES.to_string());
    over.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    let turns = turns.load(Ordering::Relaxed);
    assert!(turns <= 4 * TIMES, "{turns} turns of ours for {TIMES} of Java's");
}
