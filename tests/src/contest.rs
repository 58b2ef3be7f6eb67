//! A contest of processes for one lock. Each client represents a process: it has its own table of
//! locks and its own connections. A *turn* begins when the lock passes from one process to another.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redgrid_core::Client;
use redgrid_locks::Lock;
use tokio::time::Instant;

use crate::SOON;

/// Number of turns that are not measured. While the processes subscribe for the first time, the
/// lock is not yet passed on in an order.
const WARM: u64 = 30;

/// The result of a contest.
#[derive(Debug)]
pub struct Outcome {
    /// For each process, the number of critical sections, and the most turns between two of them.
    pub shares: Vec<(u64, u64)>,
    /// How often the lock moved from one process to another.
    pub turns: u64,
}

impl Outcome {
    /// Returns the number of critical sections.
    pub fn sections(&self) -> u64 {
        self.shares.iter().map(|(sections, _)| sections).sum()
    }

    /// Returns the ratio of the largest share to the smallest.
    pub fn spread(&self) -> f64 {
        let sections = || self.shares.iter().map(|(sections, _)| *sections);
        sections().max().unwrap_or_default() as f64 / sections().min().unwrap_or_default().max(1) as f64
    }

    /// Returns the most turns between two sections of the same process.
    pub fn longest_round(&self) -> u64 {
        self.shares.iter().map(|(_, most)| *most).max().unwrap_or_default()
    }

    /// Fails if a process waited longer than one hand-over window of each other process allows.
    ///
    /// The bound is a number of turns, because the duration of a turn depends on the machine. It is
    /// the sum of one turn for each process, one for a process that joined meanwhile, and the
    /// promised 50 ms in hand-over windows of 10 ms.
    #[track_caller]
    pub fn assert_each_in_turn(&self) {
        let bound = self.shares.len() as u64 + 1 + 5;
        assert!(self.longest_round() <= bound, "not within {bound} turns: {self:?}");
    }
}

/// Runs tasks of several processes that acquire one lock, until it has changed hands `turns` times.
pub async fn contest(clients: &[Client], tasks: usize, section: Duration, turns: u64) -> Outcome {
    let (stop, turn) = (Arc::new(AtomicBool::new(false)), Arc::new(Turns::default()));
    let mut running = Vec::new();
    for (process, client) in (1..).zip(clients) {
        let count = Arc::new(AtomicU64::new(0));
        let workers: Vec<_> = (0..tasks)
            .map(|_| {
                let (client, stop, turn, count) = (client.clone(), stop.clone(), turn.clone(), count.clone());
                tokio::spawn(work(client, process, section, stop, turn, count))
            })
            .collect();
        running.push((process, count, workers));
    }
    let began = Instant::now();
    while turn.passed() < turns {
        assert!(began.elapsed() < SOON * 2, "{} of {turns} turns", turn.passed());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let turns = turn.passed();
    stop.store(true, Ordering::Relaxed);
    let mut shares = Vec::new();
    for (process, count, workers) in running {
        let seen = turn.seen.lock().unwrap_or_else(PoisonError::into_inner).get(&process).copied();
        shares.push((count.load(Ordering::Relaxed), seen.map_or(turns, |(_, most)| most)));
        for worker in workers {
            worker.await.expect("no task panics");
        }
    }
    Outcome { shares, turns }
}

/// Counts how often the lock passed from one process to another.
#[derive(Debug, Default)]
pub struct Turns {
    last: AtomicU64,
    passed: AtomicU64,
    /// For each process, the turn of its last section, and the most turns between two of its
    /// sections.
    seen: Mutex<HashMap<u64, (u64, u64)>>,
}

impl Turns {
    fn entered(&self, process: u64) {
        if self.last.swap(process, Ordering::Relaxed) != process {
            self.passed.fetch_add(1, Ordering::Relaxed);
        }
        let turn = self.passed();
        if turn < WARM {
            return;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, most) = seen.entry(process).or_insert((turn, 0));
        *most = (turn - *last).max(*most);
        *last = turn;
    }

    /// Returns the number of turns so far.
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }
}

/// Acquires and releases the lock `contested` repeatedly, until `stop` is set.
pub async fn work(
    client: Client,
    process: u64,
    section: Duration,
    stop: Arc<AtomicBool>,
    turns: Arc<Turns>,
    count: Arc<AtomicU64>,
) {
    let lock = Lock::new(&client, "contested");
    while !stop.load(Ordering::Relaxed) {
        let guard = lock.acquire().timeout(SOON * 2).await.expect("it is granted in time");
        turns.entered(process);
        if !section.is_zero() {
            tokio::time::sleep(section).await;
        }
        count.fetch_add(1, Ordering::Relaxed);
        guard.release().await.expect("it is held");
    }
}
