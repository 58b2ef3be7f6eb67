//! Tasks that write counters and maps without a lock: their interruptions and losses.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use redgrid_core::Client;
use redgrid_tests::SOON;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::account::Account;

/// Number of counters, and number of maps; one task for each.
const EACH: usize = 6;

/// The pause between two writes of a task.
const PAUSE: Duration = Duration::from_millis(1);

pub(crate) struct Writers {
    over: Arc<AtomicBool>,
    account: Arc<Account>,
    /// Each key with its task, which returns the acknowledged writes.
    counters: Vec<(String, JoinHandle<u64>)>,
    maps: Vec<(String, JoinHandle<Vec<String>>)>,
}

impl Writers {
    pub(crate) fn start(clients: &[Client; 2], account: &Arc<Account>) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let writer = |n: usize, key: String| {
            let (over, account, client) = (Arc::clone(&over), Arc::clone(account), clients[n % 2].clone());
            Writer { key, client, over, account, last: Instant::now() }
        };
        let counters = (0..EACH).map(|n| {
            let key = format!("counter:{n}");
            (key.clone(), tokio::spawn(writer(n, key).count()))
        });
        let maps = (0..EACH).map(|n| {
            let key = format!("map:{n}");
            (key.clone(), tokio::spawn(writer(n, key).fill()))
        });
        let (counters, maps) = (counters.collect(), maps.collect());
        Writers { over, account: Arc::clone(account), counters, maps }
    }

    /// Ends the tasks, and compares the data with the acknowledged writes.
    pub(crate) async fn end(self, client: &Client) {
        self.over.store(true, Ordering::Relaxed);
        for (key, task) in self.counters {
            let acknowledged = task.await.expect("no task panics");
            let request = client.command("GET").key(&key).expect("a name").idempotent();
            let found = tokio::time::timeout(SOON, request.query::<Option<u64>>()).await.expect("an answer");
            let found = found.expect("the servers answer").unwrap_or(0);
            self.account.wrote(acknowledged, acknowledged.saturating_sub(found));
        }
        for (key, task) in self.maps {
            let acknowledged = task.await.expect("no task panics");
            let request = client.command("HKEYS").key(&key).expect("a name").idempotent();
            let found = tokio::time::timeout(SOON, request.query::<Vec<String>>()).await.expect("an answer");
            let found: HashSet<String> = found.expect("the servers answer").into_iter().collect();
            let lost = acknowledged.iter().filter(|field| !found.contains(*field)).count();
            self.account.wrote(acknowledged.len() as u64, lost as u64);
        }
    }
}

struct Writer {
    key: String,
    client: Client,
    over: Arc<AtomicBool>,
    account: Arc<Account>,
    last: Instant,
}

impl Writer {
    /// Increments a counter; returns the number of acknowledged increments.
    async fn count(mut self) -> u64 {
        let mut acknowledged = 0;
        while !self.over.load(Ordering::Relaxed) {
            let request = self.client.command("INCR").key(&self.key).expect("a name").query::<u64>().await;
            acknowledged += u64::from(request.is_ok());
            self.turn(request.is_ok()).await;
        }
        acknowledged
    }

    /// Adds fields to a map; returns the acknowledged fields.
    async fn fill(mut self) -> Vec<String> {
        let mut acknowledged = Vec::new();
        for n in 0_u64.. {
            if self.over.load(Ordering::Relaxed) {
                break;
            }
            let field = n.to_string();
            let request = self.client.command("HSET").key(&self.key).expect("a name").arg(field.clone()).arg("1");
            let is_done = request.query::<u64>().await.is_ok();
            if is_done {
                acknowledged.push(field);
            }
            self.turn(is_done).await;
        }
        acknowledged
    }

    async fn turn(&mut self, is_done: bool) {
        if is_done {
            self.account.succeeded(std::mem::replace(&mut self.last, Instant::now()));
        }
        sleep(PAUSE).await;
    }
}
