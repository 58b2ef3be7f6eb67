//! Fairness between processes. Each client here stands for a process: it has its own table and
//! connections.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use redgrid_core::author::ClientExt;
use redgrid_core::config::SubscriptionMode;
use redgrid_core::{Client, Config};
use redgrid_locks::Lock;
use redgrid_testkit::{Cluster, RedisServer, Replicated, Sentinels, wait_until};
use redgrid_tests::{SOON, client, client_with, sections, server};

/// Turns that are not measured.
const WARM: u64 = 30;

/// One contest at a time: they are about time.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// What came of a contest.
#[derive(Debug)]
struct Outcome {
    /// How often each process was in, and the most turns from one of its own to the next.
    shares: Vec<(u64, u64)>,
    turns: u64,
}

impl Outcome {
    fn sections(&self) -> u64 {
        self.shares.iter().map(|(sections, _)| sections).sum()
    }

    /// The most that one process got, against the least.
    fn spread(&self) -> f64 {
        let sections = self.shares.iter().map(|(sections, _)| *sections);
        sections.clone().max().unwrap() as f64 / sections.min().unwrap().max(1) as f64
    }

    fn longest_round(&self) -> u64 {
        self.shares.iter().map(|(_, most)| *most).max().unwrap()
    }
}

/// What holds on a machine that is not busy with other things for the whole of it: one of three
/// attempts has to show it. An order that is not kept fails by orders of magnitude, not by chance.
async fn one_of_three(what: &str, attempt: impl AsyncFn() -> Result<(), String>) {
    let mut failures = Vec::new();
    let _alone = ALONE.lock().await;
    for _ in 0..3 {
        match attempt().await {
            Ok(()) => return,
            Err(failure) => failures.push(failure),
        }
    }
    panic!("{what}: {failures:#?}");
}

/// Many processes of many tasks want one lock until it has changed hands `turns` times.
async fn contest(server: &RedisServer, processes: usize, tasks: usize, section: Duration, turns: u64) -> Outcome {
    contest_by(&Config::from_url(server.url()).unwrap(), processes, tasks, section, turns).await
}

/// The same, on servers that are found by `config`.
async fn contest_by(config: &Config, processes: usize, tasks: usize, section: Duration, turns: u64) -> Outcome {
    let stop = Arc::new(AtomicBool::new(false));
    let turn = Arc::new(Turns::default());
    let mut clients = Vec::new();
    for _ in 0..processes {
        let client = Client::connect(config.clone()).await.unwrap();
        client.wait_ready(SOON).await.unwrap();
        // Everything is known to the server, and all begin at once.
        Lock::new(&client, "warm").acquire().await.unwrap().release().await.unwrap();
        clients.push(client);
    }
    let mut running = Vec::new();
    for (process, client) in clients.into_iter().enumerate() {
        let count = Arc::new(AtomicU64::new(0));
        let workers: Vec<_> = (0..tasks)
            .map(|_| {
                let (client, stop, turn, count) = (client.clone(), stop.clone(), turn.clone(), count.clone());
                tokio::spawn(work(client, process as u64 + 1, section, stop, turn, count))
            })
            .collect();
        running.push((client, count, workers));
    }
    let began = Instant::now();
    while turn.passed() < turns && began.elapsed() < SOON * 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let turns = turn.passed();
    stop.store(true, Ordering::Relaxed);
    let mut shares = Vec::new();
    for (process, (_, count, workers)) in running.into_iter().enumerate() {
        let most = turn.seen.lock().unwrap().get(&(process as u64 + 1)).map_or(turns, |(_, most)| *most);
        shares.push((count.load(Ordering::Relaxed), most));
        for worker in workers {
            worker.await.unwrap();
        }
    }
    Outcome { shares, turns }
}

/// How often the lock went from one process to another.
#[derive(Default)]
struct Turns {
    last: AtomicU64,
    passed: AtomicU64,
    /// In which turn each process was in last, and the most turns from one of its own to the next.
    seen: Mutex<HashMap<u64, (u64, u64)>>,
}

impl Turns {
    fn entered(&self, process: u64) {
        if self.last.swap(process, Ordering::Relaxed) != process {
            self.passed.fetch_add(1, Ordering::Relaxed);
        }
        // While all of them subscribe for the first time, order is only about to be made.
        let turn = self.passed();
        if turn < WARM {
            return;
        }
        let mut seen = self.seen.lock().unwrap();
        let (last, most) = seen.entry(process).or_insert((turn, 0));
        *most = (turn - *last).max(*most);
        *last = turn;
    }

    fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }
}

async fn work(
    client: Client,
    process: u64,
    section: Duration,
    stop: Arc<AtomicBool>,
    turns: Arc<Turns>,
    count: Arc<AtomicU64>,
) {
    let lock = Lock::new(&client, "contested");
    while !stop.load(Ordering::Relaxed) {
        let guard = lock.acquire().timeout(SOON * 2).await.unwrap();
        turns.entered(process);
        if !section.is_zero() {
            tokio::time::sleep(section).await;
        }
        count.fetch_add(1, Ordering::Relaxed);
        guard.release().await.unwrap();
    }
}

const MS: Duration = Duration::from_millis(1);

#[tokio::test(flavor = "multi_thread")]
async fn three_processes_have_equal_shares() {
    let server = server().await;
    // Where each has one task, nobody listens while he is in, and who is next and how often he goes
    // on within his stretch is a matter of chance: equal in the long run. Of 12 contests of 500
    // turns 4 had more than 1.25, of 12 of 2,000 none, of 12 of 4,000 the most was 1.10; with 5 ms
    // inside, 500 are enough: of 12 the most was 1.20.
    for (tasks, section, turns) in [(16, 0, 500), (1, 0, 4000), (16, 5, 500), (1, 5, 500)] {
        one_of_three(&format!("3 processes of {tasks} tasks, {section} ms"), async || {
            let outcome = contest(&server, 3, tasks, section * MS, turns).await;
            let is_whole = outcome.turns >= turns;
            if outcome.spread() <= 1.25 && is_whole {
                Ok(())
            } else {
                Err(format!("{:.2}: {outcome:?}", outcome.spread()))
            }
        })
        .await;
    }
}

/// Counted in turns: how long one takes is a matter of the machine. The first of a queue enters in
/// its process's turn, so what it waits is the stretches, or sections, of this many.
#[tokio::test(flavor = "multi_thread")]
async fn no_process_waits_longer_than_a_stretch_of_each_of_the_others() {
    let server = server().await;
    for (processes, tasks, section) in [(2, 16, 0), (8, 16, 0), (16, 8, 5)] {
        one_of_three(&format!("{processes} processes of {tasks} tasks, {section} ms"), async || {
            let outcome = contest(&server, processes, tasks, section * MS, 230).await;
            // Each of the others once, our own, one that came in between; and the 50 ms of the
            // promise, in stretches of 10.
            let bound = processes as u64 + 1 + 5;
            if outcome.longest_round() <= bound { Ok(()) } else { Err(format!("not {bound}: {outcome:?}")) }
        })
        .await;
    }
}

/// The primary counts none of those who listen at a replica, and a replica tells them later.
#[tokio::test(flavor = "multi_thread")]
async fn the_order_is_the_same_where_a_replica_is_listened_to() {
    let replicated = Replicated::start(2).await.unwrap();
    let replicas = replicated.replicas().iter().map(|replica| replica.addr().to_string());
    let config = Config::master_slave(replicated.primary().addr().to_string(), replicas).unwrap();
    rounds_at_replicas(config, &[(2, 16), (3, 16), (8, 16)]).await;
    drop(replicated);
    let sentinels = Sentinels::start().await.unwrap();
    rounds_at_replicas(Config::from_url(sentinels.url()).unwrap(), &[(3, 16)]).await;
    drop(sentinels);
    let cluster = Cluster::start(3, 1).await.unwrap();
    rounds_at_replicas(Config::from_url(cluster.url()).unwrap(), &[(3, 16)]).await;
}

async fn rounds_at_replicas(config: Config, contests: &[(usize, usize)]) {
    let config = config.subscription_mode(SubscriptionMode::Replica).max_replica_lag(SOON);
    for (processes, tasks) in contests.iter().copied() {
        one_of_three(&format!("{processes} processes of {tasks} tasks"), async || {
            let outcome = contest_by(&config, processes, tasks, Duration::ZERO, 230).await;
            let bound = processes as u64 + 1 + 5;
            if outcome.longest_round() <= bound { Ok(()) } else { Err(format!("not {bound}: {outcome:?}")) }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_sections_longer_than_the_stretch_processes_alternate() {
    let server = server().await;
    one_of_three("2 processes of 4 tasks, 20 ms", async || {
        let outcome = contest(&server, 2, 4, 20 * MS, 100).await;
        let (turns, sections) = (outcome.turns, outcome.sections());
        if turns * 10 >= sections * 9 { Ok(()) } else { Err(format!("{turns} turns for {sections} sections")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_never_wants_the_lock_costs_no_more_than_the_probe() {
    let server = server().await;
    let client = client(&server).await;
    one_of_three("8 tasks", async || {
        let alone = sections(&client, 8, "contested", 400 * MS).await;
        // It listens, and never asks.
        let idle = redgrid_tests::client(&server).await;
        let watch = idle.watch("redisson_lock__channel:{contested}".into(), "contested".into());
        wait_until(SOON, async || watch.is_active()).await;
        let listened_to = sections(&client, 8, "contested", 400 * MS).await;
        // A stretch of 10 ms, a silence of 2 to 4 ms, a look, 1 or 2 ms: more than half of the time
        // is left.
        if listened_to * 2 >= alone { Ok(()) } else { Err(format!("{listened_to} against {alone} sections")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_that_may_only_poll_gets_in_within_a_few_polls() {
    let _alone = ALONE.lock().await;
    let server = server().await;
    server.set_user("half", &["on", ">secret", "~*", "resetchannels", "&redgrid_client:*", "+@all"]).await.unwrap();
    let poller = client_with(&server.url_for("half", "secret"), |config| config).await;
    let (stop, turns) = (Arc::new(AtomicBool::new(false)), Arc::new(Turns::default()));
    let mut workers = Vec::new();
    for process in 1..=2 {
        let client = client(&server).await;
        for _ in 0..8 {
            let (stop, turns, count) = (stop.clone(), turns.clone(), Arc::default());
            workers.push(tokio::spawn(work(client.clone(), process, Duration::ZERO, stop, turns, count)));
        }
    }
    wait_until(SOON, async || turns.passed() > 4).await;
    let mut waits = Vec::new();
    for _ in 0..5 {
        let asked = Instant::now();
        let guard = Lock::new(&poller, "contested").acquire().timeout(SOON).await.unwrap();
        waits.push(asked.elapsed());
        guard.release().await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.await.unwrap();
    }
    waits.sort();
    // A poll every 100 ms, at times only after 200.
    assert!(waits[2] < 1000 * MS, "{waits:?}");
}

/// The order in which the server has them line up is that in which they get in: by its own record,
/// over four processes. `cargo xtask fairness` does the same a hundred thousand times.
#[tokio::test(flavor = "multi_thread")]
async fn a_fair_lock_is_given_in_the_order_of_arrival_over_four_processes() {
    let _alone = ALONE.lock().await;
    let server = server().await;
    let contender = std::path::Path::new(env!("CARGO_BIN_EXE_role"));
    let contest = redgrid_tests::fair::contest(&server, contender, (4, 4, 50), SOON * 3).await.unwrap();
    let record = contest.record;
    assert_eq!((record.grants, record.overtaken.len()), (800, 0), "{record:?}");
    assert!(record.by_place > 400, "most of them waited: {record:?}");
}
