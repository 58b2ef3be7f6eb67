//! One run: a world, some clients, a crowd of tasks. Faults come first, then a time without faults,
//! and the checks at the end.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::clock::Clock;
use redgrid_core::{Client, Config, Holder};
use redgrid_locks::Lock;
use redgrid_tests::NOTHING;
use redgrid_tests::simulated_network::{Plan, SimulatedServer, Witness, World};
use tokio::task::JoinSet;

use crate::crowd::{FOR_EVER, Member};
use crate::ledger::{Ledger, Seen};

const TIMEOUT: Duration = Duration::from_millis(300);
pub(crate) const WATCHDOG: Duration = Duration::from_secs(30);

/// After this time every released lock is gone. A late request is executed within one
/// `response_timeout`, and its clean-up may need two releases.
const SETTLED: Duration = Duration::from_millis(900);

/// After this, every lease has ended.
const LEASES: Duration = Duration::from_secs(31);

/// Acquisitions of one task.
const STEPS: u64 = 50;
const TASKS: u64 = 16;

/// Acquisitions of one run.
pub(crate) const ACQUISITIONS: u64 = STEPS * TASKS;

/// The result of a run.
pub(crate) struct Outcome {
    pub(crate) seen: Seen,
    pub(crate) violations: Vec<String>,
    pub(crate) trace: Vec<String>,
}

/// Runs a seed. The seed decides everything except two orders in the library: of hash maps, and of
/// ready branches of a `select!`. So a seed that failed once may need several rounds to fail again.
pub(crate) fn run(seed: u64) -> Outcome {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true);
    let runtime = builder.build().expect("a runtime");
    fastrand::seed(seed);
    runtime.block_on(async {
        let ledger = Ledger::new();
        run_crowd(seed, &ledger).await;
        let (violations, trace) = ledger.verdict();
        Outcome { seen: ledger.seen(), violations, trace }
    })
}

async fn run_crowd(seed: u64, ledger: &Ledger) {
    let mut random = fastrand::Rng::with_seed(seed ^ 0x5eed);
    let witness: Arc<dyn Witness> = Arc::new(ledger.clone());
    let world = World::new(Plan::new(seed, TIMEOUT), witness);
    let running = tokio::spawn(Arc::clone(&world).run());
    let clients: Vec<Client> = (0..random.usize(2..=3)).map(|_| client(&world)).collect();
    let names = random.u64(2..=5);
    let mut crowd = JoinSet::new();
    let holders: Vec<_> = clients.iter().map(|_| Holder::new()).collect();
    for number in 0..TASKS {
        let at = usize::try_from(number).unwrap_or(0) % clients.len();
        // About half of the tasks of a client share one holder; each other task has its own.
        let mut holder = (Holder::new(), 10 + number);
        if random.bool() {
            holder = (holders[at].clone(), at as u64);
        }
        let mut member = Member {
            random: random.fork(),
            ledger: ledger.clone(),
            world: Arc::clone(&world),
            client: clients[at].clone(),
            at,
            holder,
            names,
        };
        crowd.spawn(async move {
            for _ in 0..STEPS {
                member.step().await;
            }
        });
    }
    // Faults continue until some of the tasks have ended.
    let mut left = TASKS;
    let calm_at = random.u64(0..TASKS / 2);
    let all_tasks = async {
        while let Some(ended) = crowd.join_next().await {
            left -= 1;
            if left == calm_at {
                ledger.calm();
                world.calm();
            }
            if let Err(error) = ended {
                ledger.violation(format!("a task ended badly: {error}"));
            }
        }
        world.calm();
    };
    if tokio::time::timeout(FOR_EVER * 10, all_tasks).await.is_err() {
        ledger.violation(format!("{left} tasks wait for ever"));
        return;
    }
    check_end(ledger, &world, &clients, names).await;
    running.abort();
}

fn client(world: &Arc<World>) -> Client {
    let clock = Clock::runtime();
    let config = Config::single("lossy:1").expect("an address");
    let config = config.response_timeout(TIMEOUT).retries(3).retry_delay(Duration::from_millis(20));
    let config = config.watchdog_lease(WATCHDOG).poll_interval(Duration::from_millis(400));
    let server = SimulatedServer::new(Arc::clone(world), clock.clone(), TIMEOUT);
    Client::over_one(Arc::new(server), config, clock).expect("a client")
}

/// Checks that nothing is left on the server or in the clients.
async fn check_end(ledger: &Ledger, world: &Arc<World>, clients: &[Client], names: u64) {
    ledger.note("all tasks have ended");
    tokio::time::sleep(SETTLED).await;
    for (key, fields) in world.keys() {
        let strays: Vec<&Bytes> = fields.iter().filter(|field| !ledger.may_stay(field)).collect();
        if !strays.is_empty() {
            ledger.violation(format!("{key:?}: {strays:?} is still there {SETTLED:?} after all tasks had ended"));
        }
    }
    for (at, client) in clients.iter().enumerate() {
        if client.stats().channels > 0 {
            ledger.violation(format!("client {at} has subscriptions without waiters: {:?}", client.stats()));
        }
    }
    tokio::time::sleep(LEASES).await;
    let keys = world.keys();
    if !keys.is_empty() {
        ledger.violation(format!("left after all leases: {keys:?}"));
    }
    for (at, client) in clients.iter().enumerate() {
        if client.stats() != NOTHING {
            ledger.violation(format!("client {at} still has {:?}", client.stats()));
        }
    }
    let subscribed = world.channels();
    if subscribed.len() > clients.len() || subscribed.iter().any(|channel| !channel.starts_with(b"redgrid_client:{")) {
        ledger.violation(format!("still subscribed: {subscribed:?}"));
    }
    let before = ledger.submitted();
    tokio::time::sleep(WATCHDOG).await;
    let after = ledger.submitted();
    if after != before {
        ledger.violation(format!("{} requests of idle clients", after - before));
    }
    // The next acquire of each name succeeds at once.
    for client in clients {
        for name in 0..names {
            match Lock::new(client, format!("name:{name}")).try_acquire().await {
                Ok(Some(guard)) => {
                    if let Err(error) = guard.release().await {
                        ledger.violation(format!("name:{name}: in the end, {error}"));
                    }
                }
                other => ledger.violation(format!("name:{name} is not free in the end: {other:?}")),
            }
        }
    }
    for (at, client) in clients.iter().enumerate() {
        if let Err(error) = client.shutdown(Duration::from_secs(5)).await {
            ledger.violation(format!("client {at}: {error}"));
        }
    }
    let (keys, channels) = (world.keys(), world.channels());
    if !keys.is_empty() || !channels.is_empty() {
        ledger.violation(format!("left after the shutdown: {keys:?} {channels:?}"));
    }
}
