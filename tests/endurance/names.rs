//! One client waits for many names at once, 100,000 by default: the cost without any release, and
//! the wake-up time after releases.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt};
use redgrid_core::Client;
use redgrid_locks::{AcquireError, Detached, Lock};
use redgrid_testkit::{Cluster, Observer, RedisServer};
use redgrid_tests::SOON;
use redgrid_tests::spread::{Spread, millis};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::counters::{Counter, connections, cpu_time};
use crate::fixture::{by_seeds, connected};
use crate::report::Report;

/// Number of waiters that begin together. Each sends two requests. With many more waiters, a
/// request would not be answered in time (3 s).
const BEGUN_AT_A_TIME: usize = 500;

/// Number of names released at random, and number of concurrent releases.
const RELEASED: usize = 1_000;
const AT_A_TIME: usize = 50;

/// Leases and timeouts that exceed the run.
const LONG: Duration = Duration::from_secs(1_200);

/// How long polls and processor time are counted while no name is released.
const IDLE: Duration = Duration::from_secs(10);

/// Limit of names polled per second and node: the `poll_budget`, and a tenth for the first and the
/// last moment.
const POLLS_A_SECOND: f64 = 550.0;

/// Limit from the start of a release until its waiter is woken. A waiter that is woken so early was
/// notified, because the poll would take minutes to reach it.
const WOKEN_WITHIN: Duration = Duration::from_secs(1);

/// Limit of processor time for waiting alone: a tenth of one core.
const IDLE_CPU_SECONDS: f64 = 1.0;

/// Limit until all subscriptions are active and only polls are left, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(200);

/// Slots that move while names are released, and the time of each. The subscription manager checks
/// all channels at each change.
const SLOTS: u16 = 40;
const EACH: Duration = Duration::from_millis(50);

/// Waiters by the number of the name; `None` once the result was taken.
type Waiting = Vec<Option<JoinHandle<Result<Instant, AcquireError>>>>;

/// Names that are held without renewal.
type Held = Vec<(usize, Detached)>;

pub(crate) async fn run(report: &mut Report, names: usize) {
    // The names suffice for two rounds of releases, with as many left.
    let names = names.max(4 * RELEASED);
    report.number("names", names);
    let single = RedisServer::start().await.expect("it starts");
    let config = || redgrid_core::Config::single(single.addr().to_string()).expect("an address");
    let clients = [connected(config()).await, connected(config()).await];
    measure(report, "single", (std::slice::from_ref(&single), None), &clients, names).await;
    drop(single);
    let cluster = Cluster::start(3, 0).await.expect("it starts");
    let clients = [connected(by_seeds(&cluster)).await, connected(by_seeds(&cluster)).await];
    measure(report, "cluster", (cluster.nodes(), Some(&cluster)), &clients, names).await;
}

async fn measure(
    report: &mut Report,
    topology: &str,
    (servers, cluster): (&[RedisServer], Option<&Cluster>),
    [holder, waiter]: &[Client; 2],
    names: usize,
) {
    let taken = stream::iter(0..names).map(|n| {
        let lock = Lock::new(holder, format!("name:{n}"));
        async move {
            let guard = lock.acquire().lease(LONG).timeout(LONG).await.expect("it is free");
            // A detached hold is not renewed meanwhile: only waiting is measured.
            (n, guard.detach().await.expect("it is held"))
        }
    });
    let mut held: Held = taken.buffer_unordered(BEGUN_AT_A_TIME / 2).collect().await;
    let began = Instant::now();
    let failed = Arc::new(AtomicUsize::new(0));
    let mut observers = Vec::new();
    for server in servers {
        observers.push(server.observer().await.expect("the server answers"));
    }
    let mut waiting: Waiting = Vec::with_capacity(names);
    while waiting.len() < names {
        let more = waiting.len()..names.min(waiting.len() + BEGUN_AT_A_TIME);
        waiting.extend(more.map(|n| Some(wait(waiter, n, &failed))));
        // These waiters find their names held, and subscribe. INFO reports the number of subscribed
        // channels, which is cheap for the servers.
        while subscribed_channels(&observers).await + failed.load(Ordering::Relaxed) < waiting.len() {
            assert!(
                began.elapsed() < PATIENCE,
                "{} of {} are subscribed",
                subscribed_channels(&observers).await,
                waiting.len()
            );
            sleep(Duration::from_millis(20)).await;
        }
    }
    until_active(waiter, names, &failed).await;
    let active = began.elapsed();
    until_quiet(servers).await;
    report.number(format!("{topology}: all active after, s"), active.as_secs_f64());
    report.number(format!("{topology}: quiet after, s"), began.elapsed().as_secs_f64());
    report.number(format!("{topology}: resident memory of both clients and all tasks, MB"), resident_megabytes());

    let mut subscribers = 0;
    for server in servers {
        // The client `holder` has one subscriber connection at one node, for its own notification
        // channel.
        subscribers = subscribers.max(connections(server).await.1);
    }
    report.at_most(format!("{topology}: subscribers of two clients at a node"), subscribers as f64, 2.0);

    let (counter, cpu) = (Counter::begin(servers).await, cpu_time());
    sleep(IDLE).await;
    let (calls, cpu) = (counter.so_far().await, cpu_time() - cpu);
    let seconds = IDLE.as_secs_f64();
    let polls: Vec<f64> = calls.iter().map(|it| it.get("pttl").copied().unwrap_or_default() as f64 / seconds).collect();
    let most = polls.iter().copied().fold(0.0, f64::max);
    report.at_most(format!("{topology}: names polled by a node in a second"), most, POLLS_A_SECOND);
    report.at_most(format!("{topology}: processor seconds of 10 s of waiting"), cpu.as_secs_f64(), IDLE_CPU_SECONDS);
    report.number(format!("{topology}: calls in 10 s, by node"), calls);

    let delays = release_some(holder, &mut held, &mut waiting, Duration::ZERO).await;
    add_delays(report, topology, "released", &delays);
    if let Some(cluster) = cluster {
        // The releases are spread over the time in which the slots move.
        let pause = EACH * u32::from(SLOTS) / u32::try_from(RELEASED / AT_A_TIME).unwrap_or(1);
        let moving = async {
            let (began, cpu) = (Instant::now(), cpu_time());
            cluster.migrate_slots(0..=SLOTS - 1, &cluster.nodes()[1], (1, EACH)).await.expect("slots move");
            (began.elapsed(), cpu_time() - cpu)
        };
        let (delays, (took, cpu)) = tokio::join!(release_some(holder, &mut held, &mut waiting, pause), moving);
        add_delays(report, topology, "released while 40 slots move", &delays);
        report.number("cluster: the slots took, s", took.as_secs_f64());
        report.number("cluster: processor seconds meanwhile", cpu.as_secs_f64());
    }
    report.exactly(format!("{topology}: waiters that failed"), failed.load(Ordering::Relaxed), 0);
    // The waiters end before the shutdown, so that its releases wake none of them.
    waiting.into_iter().flatten().for_each(|task| task.abort());
    for client in [waiter, holder] {
        let _ = client.shutdown(SOON).await;
    }
}

fn add_delays(report: &mut Report, topology: &str, what: &str, delays: &[Duration]) {
    let spread = Spread::of(delays);
    report.exactly(format!("{topology}: woken of 1,000 {what}"), delays.len(), RELEASED);
    report.at_most(format!("{topology}: the last woken of 1,000 {what}, ms"), spread.max, millis(WOKEN_WITHIN));
    report.number(format!("{topology}: delays of 1,000 {what}, ms"), spread);
}

/// Starts a waiter, which returns the time of its grant.
fn wait(client: &Client, n: usize, failed: &Arc<AtomicUsize>) -> JoinHandle<Result<Instant, AcquireError>> {
    let (lock, failed) = (Lock::new(client, format!("name:{n}")), Arc::clone(failed));
    tokio::spawn(async move {
        let granted = lock.acquire().timeout(LONG).await;
        let at = Instant::now();
        if let Err(error) = &granted
            && failed.fetch_add(1, Ordering::Relaxed) == 0
        {
            eprintln!("{error:?}");
        }
        granted.map(|guard| {
            drop(guard);
            at
        })
    })
}

/// Returns the number of subscribed channels on all servers.
async fn subscribed_channels(servers: &[Observer]) -> usize {
    let mut all = 0;
    for server in servers {
        let stats: String = server.query(&["INFO", "stats"]).await.expect("the server answers");
        let lines = stats.lines().filter_map(|line| line.split_once(':'));
        let counts = lines.filter(|(name, _)| matches!(*name, "pubsub_channels" | "pubsubshard_channels"));
        all += counts.filter_map(|(_, count)| count.trim().parse::<usize>().ok()).sum::<usize>();
    }
    all
}

async fn until_active(client: &Client, names: usize, failed: &AtomicUsize) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let health = client.health().await;
        let sum = |count: fn(&redgrid_core::NodeHealth) -> usize| health.nodes.iter().map(count).sum::<usize>();
        let (wanted, subscribed) = (sum(|node| node.channels), sum(|node| node.subscribed));
        if wanted + failed.load(Ordering::Relaxed) >= names && subscribed == wanted {
            return;
        }
        assert!(Instant::now() < deadline, "{subscribed} of {wanted} are active");
        sleep(Duration::from_millis(200)).await;
    }
}

/// Waits until the checks after new subscriptions are over: then only polls are left.
async fn until_quiet(servers: &[RedisServer]) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let counter = Counter::begin(servers).await;
        sleep(Duration::from_secs(1)).await;
        let scripts = counter.of("evalsha").await;
        if (scripts as f64) < POLLS_A_SECOND * servers.len() as f64 {
            return;
        }
        assert!(Instant::now() < deadline, "{scripts} scripts in a second");
    }
}

/// Releases some names in batches, with a pause after each release. Returns how long each waiter
/// slept from the start of its release.
async fn release_some(holder: &Client, held: &mut Held, waiting: &mut Waiting, pause: Duration) -> Vec<Duration> {
    let chosen: Vec<_> = (0..RELEASED).map(|_| held.swap_remove(fastrand::usize(..held.len()))).collect();
    let releases = stream::iter(chosen).map(async |(n, detached): (usize, Detached)| {
        let guard = Lock::new(holder, format!("name:{n}")).attach(&detached).await.expect("no other client has it");
        let at = Instant::now();
        guard.release().await.expect("it is held");
        sleep(pause).await;
        (n, at)
    });
    let releases: Vec<_> = releases.buffer_unordered(AT_A_TIME).collect().await;
    let mut delays = Vec::new();
    for (n, at) in releases {
        let Some(task) = waiting[n].take() else { continue };
        if let Ok(Ok(Ok(granted))) = tokio::time::timeout(SOON, task).await {
            delays.push(granted.saturating_duration_since(at));
        }
    }
    delays
}

/// Returns the resident memory of this process.
fn resident_megabytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or_default() / 1000
}
