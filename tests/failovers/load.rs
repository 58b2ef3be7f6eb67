//! Tasks that lock, count and push during the whole run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use redgrid_core::config::Durability;
use redgrid_core::{Client, Failure, ServerError};
use redgrid_locks::{AcquireError, Lock, LockGuard};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::account::{Account, Mode};
use crate::ledger::Ledger;

/// Names of each mode; two clients compete for each of them.
const NAMES: usize = 6;

/// The pause after a refusal, and between two turns: the machine is to be busy, not overloaded.
const PAUSE: Duration = Duration::from_millis(5);

/// Longer than any failover takes.
const WAIT: Duration = Duration::from_secs(30);

pub(crate) struct Load {
    account: Arc<Account>,
    over: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Load {
    pub(crate) fn start(
        clients: &[Client; 2],
        ledger: &Arc<Ledger>,
        account: &Arc<Account>,
        durable: Durability,
    ) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let mut tasks = Vec::new();
        for mode in Mode::BOTH {
            let durability = if mode == Mode::All { durable } else { Durability::Primary };
            for (number, client) in clients.iter().enumerate() {
                for name in 0..NAMES {
                    let name = format!("{}:{name}", mode.word());
                    let worker = Worker {
                        number,
                        lock: Lock::new(client, &name),
                        list: format!("{name}:pushed"),
                        name,
                        mode,
                        durability,
                        client: client.clone(),
                        ledger: Arc::clone(ledger),
                        account: Arc::clone(account),
                    };
                    tasks.push(tokio::spawn(worker.work(Arc::clone(&over))));
                }
            }
        }
        Load { account: Arc::clone(account), over, tasks }
    }

    /// Waits until new grants of both modes arrive.
    pub(crate) async fn until_moving(&self) {
        let before = Mode::BOTH.map(|mode| self.account.grants(mode));
        let moving =
            async || Mode::BOTH.iter().zip(before).all(|(mode, before)| self.account.grants(*mode) >= before + 20);
        wait_until(2 * SOON, moving).await;
    }

    pub(crate) async fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.expect("no task panics");
        }
    }
}

struct Worker {
    number: usize,
    name: String,
    list: String,
    mode: Mode,
    durability: Durability,
    lock: Lock,
    client: Client,
    ledger: Arc<Ledger>,
    account: Arc<Account>,
}

impl Worker {
    async fn work(self, over: Arc<AtomicBool>) {
        let (mut turn, mut last) = (0, Instant::now());
        while !over.load(Ordering::Relaxed) {
            match self.lock.acquire().timeout(WAIT).durability(self.durability).await {
                Ok(guard) => {
                    if self.mode == Mode::Default {
                        self.account.succeeded(std::mem::replace(&mut last, Instant::now()));
                    }
                    self.account.granted(self.mode, &self.name, guard.token(), guard.watch());
                    self.run_section(&guard, turn).await;
                    turn += 1;
                    // The hold may be lost with its primary: that is an expected error of the
                    // release.
                    let _ = guard.release().await;
                }
                Err(error) => {
                    self.account
                        .refused(self.mode, matches!(error, AcquireError::Failed(Failure::OutcomeUnknown { .. })));
                }
            }
            sleep(PAUSE).await;
        }
    }

    async fn run_section(&self, guard: &LockGuard, turn: u64) {
        let count = self.ledger.read(&self.name).await;
        // Another task may read the same value meanwhile.
        sleep(Duration::from_millis(1)).await;
        if !guard.is_held() {
            return;
        }
        let taken = self.ledger.write(self.mode, &self.name, guard.token(), count + 1).await;
        self.account.incremented(self.mode, taken);
        let id = format!("{}:{turn}", self.number);
        let push = self.client.command("RPUSH").key(&self.list).expect("a name").arg(id.clone());
        match push.query::<()>().await {
            Ok(()) => self.account.pushed(self.mode, &self.list, id),
            Err(error) => self.account.refused(self.mode, matches!(error, ServerError::Unknown { .. })),
        }
    }
}
