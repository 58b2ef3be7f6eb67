//! Between processes: everybody gets turns. Each client here stands for a process: it has a table and connections of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redgrid_core::Client;
use redgrid_locks::Lock;
use redgrid_testkit::RedisServer;
use redgrid_tests::{SOON, client, server};

/// What one process got.
#[derive(Debug, Default, Clone)]
struct Share {
    sections: u64,
    worst: Duration,
}

/// Many processes of many tasks want one lock for a while; returns what each got.
async fn contest(server: &RedisServer, processes: usize, tasks: usize, section: Duration, turns: u64) -> Vec<Share> {
    let stop = Arc::new(AtomicBool::new(false));
    let turn = Arc::new(Turns::default());
    let mut clients = Vec::new();
    for _ in 0..processes {
        let client = client(server).await;
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
    stop.store(true, Ordering::Relaxed);
    let mut shares = Vec::new();
    for (process, (_, count, workers)) in running.into_iter().enumerate() {
        let worst = turn.seen.lock().unwrap()[&(process as u64 + 1)].1;
        shares.push(Share { sections: count.load(Ordering::Relaxed), worst });
        for worker in workers {
            worker.await.unwrap();
        }
    }
    shares
}

/// How often the lock went from one process to another.
#[derive(Default)]
struct Turns {
    last: AtomicU64,
    passed: AtomicU64,
    /// When each process was in last, and the longest it was not.
    seen: std::sync::Mutex<std::collections::HashMap<u64, (Instant, Duration)>>,
}

impl Turns {
    fn entered(&self, process: u64) {
        if self.last.swap(process, Ordering::Relaxed) != process {
            self.passed.fetch_add(1, Ordering::Relaxed);
        }
        let now = Instant::now();
        let mut seen = self.seen.lock().unwrap();
        let entry = seen.entry(process).or_insert((now, Duration::ZERO));
        entry.1 = entry.1.max(now - entry.0);
        entry.0 = now;
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
) -> Duration {
    let lock = Lock::new(&client, "contested");
    let mut worst = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let guard = lock.acquire().wait(SOON).await.unwrap();
        worst = worst.max(asked.elapsed());
        turns.entered(process);
        if !section.is_zero() {
            tokio::time::sleep(section).await;
        }
        count.fetch_add(1, Ordering::Relaxed);
        guard.release().await.unwrap();
    }
    worst
}

fn spread(shares: &[Share]) -> f64 {
    let sections = shares.iter().map(|share| share.sections);
    sections.clone().max().unwrap() as f64 / sections.min().unwrap().max(1) as f64
}

#[tokio::test(flavor = "multi_thread")]
async fn explore() {
    let server = server().await;
    for (processes, tasks, ms) in [(8, 16, 0), (16, 16, 0), (16, 16, 0), (8, 16, 5), (16, 8, 5), (3, 1, 0)] {
        let began = Instant::now();
        let shares = contest(&server, processes, tasks, Duration::from_millis(ms), 500).await;
        eprintln!("{processes} x {tasks}, {ms} ms: {:.2} in {:?}: {shares:?}", spread(&shares), began.elapsed());
    }
}
