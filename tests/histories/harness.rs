//! One history: four processes, a server, faults, and their records.

use std::time::Duration;

use fastrand::Rng;
use futures_util::future::join_all;
use redgrid_testkit::{Observer, RedisServer};
use redgrid_tests::history::{Orders, accepted, counter};

use super::crew::Worker;
use super::faults::FaultSpan;
use super::story::History;

/// Number of processes.
const PROCESSES: usize = 4;

/// Limit for the end of a history: its last sections, and all leases.
const LONG: Duration = Duration::from_secs(5);

/// The plan of a history, from its seed; only the timing depends on the machine.
#[derive(Debug)]
pub(crate) struct Plan {
    orders: Orders,
    faults: Vec<FaultSpan>,
    exclusive: bool,
    seeds: [u64; PROCESSES],
}

impl Plan {
    pub(crate) fn draw(seed: u64) -> Plan {
        let mut rng = Rng::with_seed(seed);
        let (calm, steals) = (seed % 8 == 1, seed % 8 == 5);
        let (millis, watchdog, timeout) = (rng.u64(900..1400), rng.u64(400..900), rng.u64(150..300));
        let names = (0..rng.usize(1..3)).map(|n| format!("lock:{n}")).collect();
        let stretch = rng.bool().then(|| rng.u64(0..400));
        let tasks = rng.u64(2..5);
        let sits = if seed % 4 == 2 { 4 } else { 80 };
        let (url, direct) = Default::default();
        let reads = seed.is_multiple_of(3) && !steals;
        let orders =
            Orders { url, direct, seed, tasks, millis, watchdog, timeout, stretch, names, sits, steals, reads };
        let faults = if calm { 0 } else { rng.usize(3..10) };
        let mut faults: Vec<FaultSpan> =
            (0..faults).map(|_| FaultSpan::draw(&mut rng, PROCESSES, millis, watchdog, sits < 80)).collect();
        faults.sort_by_key(|fault| fault.at);
        let seeds = std::array::from_fn(|_| rng.u64(..));
        Plan { orders, faults, exclusive: !steals, seeds }
    }

    /// Runs the history.
    pub(crate) async fn run(&self) -> Result<History, String> {
        let server = RedisServer::start().await.map_err(|error| error.to_string())?;
        let observer = server.observer().await.map_err(|error| error.to_string())?;
        let start = |seed: u64| Worker::start(&server, Orders { direct: server.url(), seed, ..self.orders.clone() });
        let workers = join_all(self.seeds.map(start)).await;
        join_all(self.faults.iter().map(async |fault| {
            tokio::time::sleep(Duration::from_millis(fault.at)).await;
            fault.inject(&server, &workers).await;
        }))
        .await;
        let _ = server.resume().await;
        for worker in &workers {
            // All faults end before the end of a history.
            worker.proxy.heal();
            worker.proxy.release_held().await;
            worker.proxy.cut_all();
            worker.go_on();
        }
        let mut ending = std::pin::pin!(join_all(workers.iter().map(Worker::end)));
        let mut left = Vec::new();
        let ended = tokio::select! {
            ended = &mut ending => ended,
            () = tokio::time::sleep(LONG) => {
                for name in &self.orders.names {
                    left.push(locked(&observer, name).await);
                }
                ending.await
            }
        };
        let (records, ends): (Vec<_>, Vec<_>) = ended.into_iter().unzip();
        let calm = self.faults.is_empty();
        let wrong: Vec<_> = ends.into_iter().flatten().collect();
        let mut history = History { records, wrong, left, exclusive: self.exclusive, calm, ..History::default() };
        for name in &self.orders.names {
            history.counters.insert(name.clone(), observer.get(&counter(name)).await.unwrap_or_default().unwrap_or(0));
            history.accepted.insert(name.clone(), register(&observer, name).await);
        }
        Ok(history)
    }
}

/// Returns the state of a lock on the server, and again a second later.
async fn locked(observer: &Observer, name: &str) -> String {
    let read_state = async || {
        let holders = observer.query::<Vec<String>>(&["HKEYS", name]).await.unwrap_or_default();
        let left = observer.time_to_live(name).await.unwrap_or_default();
        format!("held by {holders:?} for {left:?}")
    };
    let before = read_state().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    format!("{name} when it should have been free for long: {before}, {} a second later", read_state().await)
}

async fn register(observer: &Observer, name: &str) -> Vec<(u64, u64)> {
    let list: Vec<String> = observer.query(&["LRANGE", &accepted(name), "0", "-1"]).await.expect("the server answers");
    let parse = |line: &String| {
        let (token, value) = line.split_once(':')?;
        Some((token.parse().ok()?, value.parse().ok()?))
    };
    list.iter().map(|line| parse(line).expect("written by our script")).collect()
}
