//! Two thousand slots move between primaries under load: no errors, no lost wake-ups, and bounds
//! for requests and connections.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use redgrid_core::Client;
use redgrid_core::config::Durability;
use redgrid_locks::Lock;
use redgrid_testkit::Cluster;
use redgrid_tests::SOON;
use redgrid_tests::spread::{Spread, millis};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::counters::{Counter, all_connections};
use crate::fixture::{THIRDS, by_seeds, connected, hold, names_in};
use crate::pairs::{Pairs, Results, kind};
use crate::report::Report;

/// The moving slots, all of one primary. Each batch of 10 takes at least 100 ms: 20 s for all.
const MOVING: std::ops::RangeInclusive<u16> = 0..=1999;
const PACE: (u16, Duration) = (10, Duration::from_millis(100));

/// Names in the moving slots: free most of the time, held all the time, and contested by both
/// clients all the time.
const ABSENT: usize = 30;
const HELD: usize = 40;
const CONTESTED: usize = 30;

/// Lease with a renewal every second.
const LEASE: Duration = Duration::from_secs(3);

/// How long a client holds a contested name, so that the other client waits before the release.
const SECTION: Duration = Duration::from_millis(4);

/// The default `poll_interval`, and a second: every release is noticed within this time.
const NOTICED_WITHIN: Duration = Duration::from_secs(2);

/// A notified waiter is woken in a fraction of this time. A waiter without a notification is woken
/// by the poll, which takes longer.
const BY_POLL: Duration = Duration::from_millis(500);

/// Limit of slot-map requests: at most one every 50 ms, one every second without a reason, and one
/// to another node if a node is slow.
const REQUESTS_A_SECOND: f64 = 25.0;

/// Limit of connections: two clients with three primaries, and for each pair one connection for
/// requests and one for subscriptions.
const CONNECTIONS: f64 = 2.0 * 3.0 * 2.0;

/// The time before the slots move, and after.
const AROUND: Duration = Duration::from_secs(4);

pub(crate) async fn run(report: &mut Report) {
    let cluster = Cluster::start(3, 1).await.expect("it starts");
    let clients = [connected(by_seeds(&cluster)).await, connected(by_seeds(&cluster)).await];
    let mut held = Vec::new();
    let mut pairs = Vec::new();
    for (n, client) in clients.iter().enumerate() {
        held.extend(hold(client, &names_in(&cluster, MOVING, &format!("held:{n}"), HELD).await, LEASE).await);
        let mut names = names_in(&cluster, MOVING, &format!("absent:{n}"), ABSENT).await;
        names.extend(names_in(&cluster, THIRDS[2].clone(), &format!("elsewhere:{n}"), ABSENT / 3).await);
        pairs.push(Pairs::start(client, &names, SOON, Durability::Primary));
    }
    let contest = Contest::start(&clients, &names_in(&cluster, MOVING, "contested", CONTESTED).await);
    let intrusions = contest.intrude(&clients, &held);
    sleep(AROUND).await;
    let before = all_connections(cluster.nodes()).await;
    let (calm, contested) = (pairs.iter().map(Pairs::take).collect::<Vec<_>>(), contest.take());

    let counter = Counter::begin(cluster.nodes()).await;
    let began = Instant::now();
    let over = AtomicBool::new(false);
    let moves = async {
        let moved = cluster.migrate_slots(MOVING, &cluster.nodes()[1], PACE).await;
        over.store(true, Ordering::Relaxed);
        moved.expect("slots move");
        began.elapsed()
    };
    let watches = async {
        let mut most = 0;
        while !over.load(Ordering::Relaxed) {
            most = most.max(all_connections(cluster.nodes()).await);
            sleep(Duration::from_millis(250)).await;
        }
        most
    };
    let (took, most) = tokio::join!(moves, watches);
    let calls = counter.so_far().await;
    let during = (pairs.iter().map(Pairs::take).collect::<Vec<_>>(), contest.take());
    sleep(AROUND).await;
    let after = all_connections(cluster.nodes()).await;
    let lost = held.iter().filter(|guard| !guard.is_held()).count();
    let intruded = intrusions.load(Ordering::Relaxed);
    let rest = (contest.end().await, pairs);
    let mut all = vec![rest.0.results];
    for pairs in rest.1 {
        all.push(pairs.end().await);
    }
    all.extend(calm.into_iter().chain(during.0));
    let gaps = [during.1.gaps, rest.0.gaps].concat();
    all.extend([contested.results, during.1.results]);

    report.exactly("errors", all.iter().map(Results::error_count).sum(), 0);
    report.exactly("holds lost, of 80", lost, 0);
    report.exactly("held names granted to the other client", intruded, 0);
    report.at_most("longest time from a release to the next grant, ms", Spread::of(&gaps).max, millis(NOTICED_WITHIN));
    report.at_most("connections at most", most as f64, CONNECTIONS);
    report.at_most("connections after", after as f64, CONNECTIONS);
    let slots = calls.iter().filter_map(|calls| calls.get("cluster|slots")).sum::<u64>() as f64;
    let rate = slots / took.as_secs_f64() / clients.len() as f64;
    report.at_most("CLUSTER SLOTS of a client in a second", rate, REQUESTS_A_SECOND);
    report.number("slots took, s", took.as_secs_f64());
    report.number("CLUSTER SLOTS of both", slots);
    report.number("connections before", before);
    report.number("from a release to the next grant, calm, ms", Spread::of(&contested.gaps));
    report.number("from a release to the next grant, during and after, ms", Spread::of(&gaps));
    report.number("number of these", gaps.len());
    report.number("of these later than 500 ms", gaps.iter().filter(|gap| **gap > BY_POLL).count());
    let times: Vec<Duration> = all.iter().flat_map(|results| results.times.clone()).collect();
    report.number("pairs of uncontested names, ms", Spread::of(&times));
    report.number("number of these pairs", times.len());
    report.number("errors by kind", all.iter().map(|it| &it.errors).filter(|it| !it.is_empty()).collect::<Vec<_>>());
    report.number("error messages", all.iter().map(|it| &it.messages).filter(|it| !it.is_empty()).collect::<Vec<_>>());
    for guard in held {
        let _ = guard.release().await;
    }
}

/// Names for which both clients always compete.
struct Contest {
    notes: Arc<Mutex<Notes>>,
    over: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Notes {
    /// The times from a release to the next grant, for tasks that waited before the release.
    gaps: Vec<Duration>,
    results: Results,
    /// The last release of each name.
    released: HashMap<String, Instant>,
}

impl Contest {
    fn start(clients: &[Client; 2], names: &[String]) -> Self {
        let (notes, over) = (Arc::new(Mutex::new(Notes::default())), Arc::new(AtomicBool::new(false)));
        let one = |client: &Client, name: &String| {
            let (lock, name) = (Lock::new(client, name), name.clone());
            tokio::spawn(work(lock, name, Arc::clone(&notes), Arc::clone(&over)))
        };
        let tasks = clients.iter().flat_map(|client| names.iter().map(move |name| (client, name)));
        let tasks = tasks.map(|(client, name)| one(client, name)).collect();
        Contest { notes, over, tasks }
    }

    /// Each client keeps trying the names that the other client holds. Returns the number of
    /// grants.
    fn intrude(&self, clients: &[Client; 2], held: &[redgrid_locks::LockGuard]) -> Arc<AtomicUsize> {
        let granted = Arc::new(AtomicUsize::new(0));
        let locks: Vec<Lock> = clients
            .iter()
            .rev()
            .zip(held.chunks(HELD))
            .flat_map(|(other, held)| held.iter().map(move |guard| Lock::new(other, guard.name().as_str())))
            .collect();
        let (over, count, notes) = (Arc::clone(&self.over), Arc::clone(&granted), Arc::clone(&self.notes));
        tokio::spawn(async move {
            for lock in locks.iter().cycle() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                match lock.try_acquire().await {
                    Ok(taken) => drop(taken.map(|_| count.fetch_add(1, Ordering::Relaxed))),
                    Err(error) => locked(&notes).results.error(&format!("try: {}", kind(&error)), &error),
                }
                sleep(Duration::from_millis(5)).await;
            }
        });
        granted
    }

    /// Takes the results since the last call.
    fn take(&self) -> Notes {
        let mut notes = locked(&self.notes);
        let released = notes.released.clone();
        std::mem::replace(&mut *notes, Notes { released, ..Notes::default() })
    }

    async fn end(mut self) -> Notes {
        self.over.store(true, Ordering::Relaxed);
        for task in std::mem::take(&mut self.tasks) {
            task.await.expect("no task panics");
        }
        self.take()
    }
}

async fn work(lock: Lock, name: String, notes: Arc<Mutex<Notes>>, over: Arc<AtomicBool>) {
    while !over.load(Ordering::Relaxed) {
        let requested = Instant::now();
        let guard = match lock.acquire().timeout(SOON).await {
            Ok(guard) => guard,
            Err(error) => {
                locked(&notes).results.error(&kind(&error), &error);
                sleep(SECTION).await;
                continue;
            }
        };
        let granted = Instant::now();
        {
            let mut notes = locked(&notes);
            // Only a task that waited before the release shows how soon it was noticed.
            let released = notes.released.get(&name).filter(|released| **released > requested).copied();
            notes.gaps.extend(released.map(|released| granted.saturating_duration_since(released)));
        }
        sleep(SECTION).await;
        locked(&notes).released.insert(name.clone(), Instant::now());
        if let Err(error) = guard.release().await {
            locked(&notes).results.error(&format!("release: {}", kind(&error)), &error);
        }
    }
}

fn locked(notes: &Mutex<Notes>) -> std::sync::MutexGuard<'_, Notes> {
    notes.lock().unwrap_or_else(PoisonError::into_inner)
}
