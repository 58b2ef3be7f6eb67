//! The table of holds: acquire and release of locks, with a simulated server that answers
//! immediately.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion};
use redgrid_core::{Client, Holder};
use redgrid_locks::Lock;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use crate::at_once::AtOnce;
use crate::thread_time::{ThreadTime, now};

/// Number of tasks among which one lock is handed over.
const TASKS: u64 = 64;

/// Number of locks that the client holds in addition to the measured one.
const HELD: [usize; 2] = [0, 100_000];

/// Number of tasks that wait for one lock.
const WAITERS: [usize; 2] = [100, 10_000];

pub(super) fn measure(criterion: &mut Criterion<ThreadTime>) {
    let mut group = criterion.benchmark_group("holds");
    for held in HELD {
        let (runtime, _server, client) = started();
        let guards: Vec<_> = runtime.block_on(async {
            let mut guards = Vec::with_capacity(held);
            for number in 0..held {
                guards.push(Lock::new(&client, format!("held:{number}")).acquire().await.expect("it is free"));
            }
            guards
        });
        let lock = Lock::new(&client, "pair");
        group.bench_function(BenchmarkId::new("acquire and release, beside held locks", held), |bencher| {
            bencher.iter_custom(|turns| runtime.block_on(pairs(&lock, turns)));
        });
        guards.into_iter().for_each(|guard| guard.forget());
    }

    let (runtime, _server, client) = started();
    let lock = Lock::new(&client, "again");
    let holder = Holder::new();
    let outer = runtime.block_on(lock.acquire().holder(&holder).into_future()).expect("it is free");
    group.bench_function("enter again and release", |bencher| {
        bencher.iter_custom(|turns| {
            runtime.block_on(async {
                let began = now();
                for _ in 0..turns {
                    let again = lock.acquire().holder(&holder).await.expect("it is held by the same");
                    again.release().await.expect("it is held");
                }
                now() - began
            })
        });
    });
    drop(outer);

    group.bench_function("a turn of 64 tasks that pass it on", |bencher| {
        bencher.iter_custom(|turns| runtime.block_on(passed_on(&client, turns)));
    });

    for waiters in WAITERS {
        let (runtime, server, client) = started();
        server.is_held_by_others(true);
        let waiting = runtime.block_on(waiting(&client, waiters));
        let lock = Lock::new(&client, "awaited");
        group.bench_function(BenchmarkId::new("queue up and leave, behind others", waiters), |bencher| {
            bencher.iter_custom(|turns| runtime.block_on(come_and_go(&lock, turns)));
        });
        drop(waiting);
    }
    group.finish();
}

/// Starts a runtime with one thread, so that scheduling does not affect the measurement.
fn started() -> (Runtime, std::sync::Arc<AtOnce>, Client) {
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (server, client) = {
        let _inside = runtime.enter();
        AtOnce::start()
    };
    (runtime, server, client)
}

async fn pairs(lock: &Lock, turns: u64) -> Duration {
    let began = now();
    for _ in 0..turns {
        lock.acquire().await.expect("it is free").release().await.expect("it is held");
    }
    now() - began
}

async fn passed_on(client: &Client, turns: u64) -> Duration {
    let lock = Lock::new(client, "passed on");
    let mut tasks = JoinSet::new();
    let began = now();
    for task in 0..TASKS {
        let (lock, turns) = (lock.clone(), turns / TASKS + u64::from(task < turns % TASKS));
        tasks.spawn(async move { pairs(&lock, turns).await });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no task panics");
    }
    now() - began
}

/// Starts tasks that wait for a lock that another client holds.
async fn waiting(client: &Client, waiters: usize) -> JoinSet<()> {
    let lock = Lock::new(client, "awaited");
    let mut tasks = JoinSet::new();
    for _ in 0..waiters {
        let lock = lock.clone();
        tasks.spawn(async move { drop(lock.acquire().timeout(Duration::from_secs(3600)).await) });
    }
    while client.stats().waiting < waiters {
        tokio::task::yield_now().await;
    }
    tasks
}

/// Measures joining and leaving the wait queue of a lock.
async fn come_and_go(lock: &Lock, turns: u64) -> Duration {
    let began = now();
    for _ in 0..turns {
        let mut waits = Box::pin(lock.acquire().timeout(Duration::from_secs(3600)).into_future());
        assert!(futures_util::poll!(&mut waits).is_pending(), "others have it");
        drop(waits);
    }
    now() - began
}
