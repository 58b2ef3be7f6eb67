//! The memory of a held lock, and the allocations of acquiring and releasing it. A server in this
//! process answers at once while they are counted. This is a separate program, because the counter
//! covers the whole process. The numbers are those of Linux with 64-bit pointers; elsewhere a mutex
//! allocates its own block.
#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

use std::alloc::System;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redgrid_core::author::Server;
use redgrid_core::clock::Clock;
use redgrid_core::{Client, Code, Config, Reply, Request, ServerError};
use redgrid_locks::{Lock, LockGuard};
use redgrid_tests::SOON;
use redgrid_tests::fake_server::FakeServer;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Number of locks that are held at once. It is not just above a size at which a hash table
/// doubles, because the bytes per lock are too high there.
const HELD: usize = 10_000;

/// Pairs of an acquire and a release over which allocations are counted.
const PAIRS: usize = 400;

/// Tasks that hand one lock over to each other.
const TASKS: usize = 8;

/// The most bytes on the heap for a held lock with its guard, while a table of 10,000 is two thirds
/// full.
const MAX_BYTES: usize = 1_024;

/// The most blocks of memory for a held lock, each with its own overhead: the name, its texts, the
/// entry for look-ups, the grant of the server, and the local holder.
const MAX_BLOCKS: f64 = 8.0;

/// The most requests of a hand-over window: an acquire, a release, and the requests of the waiters.
const MAX_REQUESTS: usize = 8;

/// The most allocations of an acquire and a release of a free lock, including those of the fake
/// server.
const MAX_PER_PAIR: f64 = 31.0;

/// The most allocations of an acquire that gets the lock from another task, and of its release.
const MAX_PER_HAND_OVER: f64 = 4.8;

/// The most bytes of the future of an acquire. The allocator keeps blocks of up to 1,032 bytes for
/// each thread, and no larger ones. The span of an operation, with the feature `observability`,
/// takes some hundred bytes more.
const MAX_FUTURE_BYTES: usize = if cfg!(feature = "observability") { 2_048 } else { 1_032 };

/// A single test checks everything, because the allocations of a parallel test would be counted,
/// too.
#[test]
fn a_held_lock_is_small_and_comes_and_goes_with_few_allocations() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (server, client) = client();
        let lock = Lock::new(&client, "warm");
        pairs(&lock, 10).await;

        let region = Region::new(COUNTING);
        let asked = lock.acquire().into_future();
        let future = region.change().bytes_allocated;
        drop(asked);
        println!("the future of an acquire: {future} bytes");

        let pair = allocations(&server, PAIRS, 2 * PAIRS, || pairs(&lock, PAIRS)).await;
        println!("acquire and release: {pair:.1} allocations");
        let hand_over = allocations(&server, TASKS * PAIRS, MAX_REQUESTS, || passed_on(&client, PAIRS)).await;
        println!("passed on: {hand_over:.2} allocations");

        let mut guards: Vec<LockGuard> = Vec::with_capacity(HELD);
        let before = Region::new(COUNTING);
        for number in 0..HELD {
            guards.push(Lock::new(&client, format!("held:{number}")).acquire().await.expect("it is free"));
        }
        let held = before.change();
        let each = (held.bytes_allocated - held.bytes_deallocated) / HELD + size_of::<LockGuard>();
        let blocks = (held.allocations - held.deallocations) as f64 / HELD as f64;
        println!("a held lock: {each} bytes in {blocks:.1} blocks");

        guards.into_iter().for_each(LockGuard::forget);

        assert!(each <= MAX_BYTES, "a held lock takes {each} bytes");
        assert!(blocks <= MAX_BLOCKS, "a held lock takes {blocks:.1} blocks");
        assert!(future <= MAX_FUTURE_BYTES, "the future of an acquire takes {future} bytes");
        assert!(pair <= MAX_PER_PAIR, "an acquire and a release take {pair:.1} allocations");
        assert!(hand_over <= MAX_PER_HAND_OVER, "a hand-over takes {hand_over:.2} allocations");
    });
}

/// Returns the allocations per turn of a round with at most `requests` requests. A stall of the
/// machine ends a hand-over window, which causes more requests. In that case another round runs.
async fn allocations<W: Future<Output = ()>>(
    server: &FakeServer,
    turns: usize,
    requests: usize,
    round: impl Fn() -> W,
) -> f64 {
    // The first round fills buffers that later rounds use again.
    round().await;
    let until = Instant::now() + SOON;
    loop {
        let (before, region) = (server.asked(), Region::new(COUNTING));
        round().await;
        let (change, asked) = (region.change(), server.asked() - before);
        if asked <= requests {
            return (change.allocations + change.reallocations) as f64 / turns as f64;
        }
        assert!(Instant::now() < until, "{asked} requests in {turns} turns, not {requests}");
    }
}

async fn pairs(lock: &Lock, turns: usize) {
    for _ in 0..turns {
        lock.acquire().await.expect("it is free").release().await.expect("it is held");
    }
}

/// Runs tasks that hold one lock in turn.
async fn passed_on(client: &Client, turns: usize) {
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..TASKS {
        let lock = Lock::new(client, "passed on");
        tasks.spawn(async move { pairs(&lock, turns).await });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no task panics");
    }
}

fn client() -> (Arc<FakeServer>, Client) {
    let server = Arc::new(FakeServer::new("at-once:1", answer));
    // The window is so long that tasks hand the lock over inside the process, however slow the
    // machine is.
    let config = Config::single("at-once").expect("an address").local_handover_window(Duration::from_millis(500));
    let by: Arc<dyn Server> = server.clone();
    (server, Client::over_one(by, config, Clock::boot()).expect("a valid configuration"))
}

/// Answers as a server on which every lock is free and no client subscribes.
fn answer(request: &Request) -> Result<Reply, ServerError> {
    match request.label() {
        "lock/acquire" => {
            let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_micros();
            Ok(Reply::Int(i64::try_from(time).expect("a time of this century")))
        }
        "lock/release" => Ok(Reply::Int(1)),
        "lock/release-yielding" => Ok(Reply::Array(vec![Reply::Int(1), Reply::Int(0)])),
        "lock/renew" => Ok(Reply::Array(vec![Reply::Int(1); request.all_keys().len()])),
        "pubsub/ttl" => Ok(Reply::Int(30_000)),
        "pubsub/set-waiting" => Ok(Reply::Int(1)),
        other => {
            let message = format!("ERR this server does not know `{other}`");
            Err(ServerError::Refused { code: Code::of(&message), message })
        }
    }
}
