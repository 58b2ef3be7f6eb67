//! Names acquired until the fault, so that the replicas may not know some of the held names.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use redgrid_core::Client;
use redgrid_core::config::Durability;
use redgrid_locks::{Lock, LockGuard};
use tokio::task::JoinHandle;

use crate::LEASE;
use crate::account::{Account, Mode};

/// How many of the last holds are kept. It is a multiple of the number of grants by which replicas
/// lag behind.
const KEPT: usize = 48;

/// A timeout longer than a grant takes, and shorter than a failover.
const WAIT: Duration = Duration::from_millis(500);

pub(crate) struct Burst {
    mode: Mode,
    over: Arc<AtomicBool>,
    task: JoinHandle<VecDeque<LockGuard>>,
}

impl Burst {
    /// Starts to acquire; all names share the slot of `tag`.
    pub(crate) fn start(client: &Client, mode: Mode, durability: Durability, tag: String, round: u32) -> Self {
        let (over, client) = (Arc::new(AtomicBool::new(false)), client.clone());
        let ended = Arc::clone(&over);
        let task = tokio::spawn(async move {
            let mut held = VecDeque::new();
            let mut number = 0;
            while !ended.load(Ordering::Relaxed) {
                number += 1;
                let lock = Lock::new(&client, format!("{{{tag}}}:burst:{}:{round}:{number}", mode.word()));
                let taken = lock.acquire().timeout(WAIT).lease(LEASE).durability(durability).await;
                held.extend(taken.ok());
                if held.len() > KEPT {
                    held.pop_front();
                }
            }
            held
        });
        Burst { mode, over, task }
    }

    /// Ends new acquires; acquires in flight may still be granted.
    pub(crate) fn stop(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Makes another client try all held names. It requests no durability, because replicas are
    /// missing after the failover.
    pub(crate) async fn contest(self, other: &Client, account: &Account) {
        self.stop();
        let held = self.task.await.expect("no task panics");
        let one = async |guard: &LockGuard| {
            if !guard.is_held() {
                return;
            }
            let name = guard.name().as_str();
            if let Ok(taken) = Lock::new(other, name).try_acquire().durability(Durability::Primary).await {
                let double = taken.is_some() && guard.is_held();
                account.contested(self.mode, name, double);
            }
        };
        join_all(held.iter().map(one)).await;
        for guard in held {
            let _ = guard.release().await;
        }
    }
}
