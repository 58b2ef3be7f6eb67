//! A process of a recorded history: its tasks acquire locks, work under them, release them, and
//! record what they observe.
//!
//! `historian ORDERS`: the orders are JSON ([`Orders`]). It prints one [`Event`] per line, as JSON,
//! at once, so that little is lost when it is killed.

mod read_write;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use redgrid_core::Config;
use redgrid_locks::{AcquireError, Client, Holder, Lock, LockGuard};
use redgrid_testkit::Observer;
use redgrid_tests::history::{Event, Kind, Orders, PATIENCE, REGISTER, STARVED, accepted, counter, fence, now};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let orders: Orders = serde_json::from_str(&std::env::args().nth(2).ok_or("historian ORDERS")?)?;
    let direct = Observer::connect(&orders.direct).await?;
    let ms = Duration::from_millis;
    let config = Config::from_url(&orders.url)?.client_name("historian").watchdog_lease(ms(orders.watchdog));
    let config = config.response_timeout(ms(orders.timeout)).retries(2).retry_delay(ms(10));
    let config = config.poll_interval(ms(200));
    let client = Client::connect(if let Some(stretch) = orders.stretch {
        config.local_handover_window(ms(stretch))
    } else {
        config
    });
    let client = client.await?;
    let ends = now() + orders.millis * 1_000_000;
    let ids = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..orders.tasks)
        .map(|task| {
            let (ids, direct, client, orders) = (ids.clone(), direct.clone(), client.clone(), orders.clone());
            let rng = Rng::with_seed(orders.seed.wrapping_add(task));
            tokio::spawn(Task { task, ids, rng, direct, client, orders }.work_until(ends))
        })
        .collect();
    for task in tasks {
        task.await?;
    }
    // The shutdown may not complete in time. Then the leases of its holds end.
    let _ = client.shutdown(ms(1000)).await;
    Ok(())
}

struct Task {
    task: u64,
    ids: Arc<AtomicU64>,
    rng: Rng,
    direct: Observer,
    client: Client,
    orders: Orders,
}

/// A guard, and the id of its request.
struct Entered {
    id: u64,
    guard: LockGuard,
}

impl Task {
    async fn work_until(mut self, ends: u64) {
        while now() < ends {
            let name = self.rng.choice(&self.orders.names).cloned().unwrap_or_default();
            if self.orders.reads {
                self.read_or_write(&name).await;
                continue;
            }
            let me = Holder::new();
            let Some(outer) = self.enter(&name, &me).await else {
                self.pause(0..4).await;
                continue;
            };
            let inner = if self.rng.u8(..5) == 0 { self.enter_again(&name, &me, outer.id).await } else { None };
            match inner {
                // The inner hold continues when the outer one has been released.
                Some(inner) if self.rng.bool() => {
                    self.end(outer).await;
                    self.work(&name, &inner).await;
                    self.end(inner).await;
                }
                inner => {
                    self.work(&name, &outer).await;
                    if let Some(inner) = inner {
                        self.end(inner).await;
                        self.work(&name, &outer).await;
                    }
                    self.end(outer).await;
                }
            }
            if self.rng.u8(..3) == 0 {
                self.pause(0..30).await;
            }
        }
    }

    async fn enter(&mut self, name: &str, me: &Holder) -> Option<Entered> {
        let steal = self.orders.steals && self.rng.u8(..12) == 0;
        let id = self.request(name, steal, None);
        let lock = Lock::new(&self.client, name);
        let (lease, wait) = (self.millis(100..400), self.millis(5..600));
        let how = self.rng.u8(..12);
        let watchdog = self.millis(150..600);
        let acquire = async {
            match how {
                _ if steal => lock.steal().await.map(Some),
                0..3 => lock.acquire().timeout(wait).await.map(Some),
                3..5 => lock.acquire().await.map(Some),
                5..8 => lock.acquire().lease(lease).await.map(Some),
                8 => lock.acquire().auto_renew(watchdog).holder(me).await.map(Some),
                9 => lock.acquire().lease(lease).timeout(wait).holder(me).await.map(Some),
                _ => lock.try_acquire().holder(me).await,
            }
        };
        // One in eight is cancelled, most of them while they wait.
        let leaves = self.rng.u8(..8) == 0;
        let patience = if leaves { self.millis(0..40) } else { PATIENCE };
        match tokio::time::timeout(patience, acquire).await {
            Ok(outcome) => self.outcome(id, outcome),
            Err(_) if leaves => self.no_grant(id, "left"),
            Err(_) => self.no_grant(id, STARVED),
        }
    }

    async fn enter_again(&mut self, name: &str, me: &Holder, outer: u64) -> Option<Entered> {
        // The outer hold may have another holder. An acquire would then wait for this task itself,
        // so it only tries.
        let id = self.request(name, false, Some(outer));
        let outcome = Lock::new(&self.client, name).try_acquire().holder(me).await;
        match outcome {
            // The outer hold itself may keep the lock busy, so this is not recorded as `Busy`. If
            // the outer hold was lost, a grant is a new one, which the checker counts as another
            // task's.
            Ok(None) => self.no_grant(id, "busy with ourselves"),
            outcome => self.outcome(id, outcome),
        }
    }

    fn outcome(&self, id: u64, outcome: Result<Option<LockGuard>, AcquireError>) -> Option<Entered> {
        match outcome {
            Ok(Some(guard)) => {
                self.record(id, Kind::Got { token: guard.token().get() });
                let entered = Entered { id, guard };
                self.check(&entered);
                Some(entered)
            }
            Ok(None) => {
                self.record(id, Kind::Busy);
                None
            }
            Err(error) => self.no_grant(id, &format!("{error:?}")),
        }
    }

    /// Updates the counter, updates the fenced register, or watches the lock.
    async fn work(&mut self, name: &str, entered: &Entered) {
        match self.rng.u64(..80) {
            n if n < 80 / self.orders.sits => match n % 2 {
                0 => self.watch(entered, 900).await,
                // A long pause between read and write without a check, which a lock alone cannot
                // make safe.
                _ => self.update(name, entered.id, &|| entered.guard.is_held(), 900).await,
            },
            70.. => {
                let most = self.rng.u64(5..80);
                self.watch(entered, most).await;
                self.update(name, entered.id, &|| entered.guard.is_held(), 3).await;
            }
            _ => {
                for _ in 0..self.rng.u8(..3) {
                    self.update(name, entered.id, &|| entered.guard.is_held(), 3).await;
                    self.update_fenced(name, entered).await;
                }
            }
        }
    }

    /// Watches the lock while it is held, at most this many milliseconds.
    async fn watch(&mut self, entered: &Entered, most: u64) {
        let ends = now() + most * 1_000_000;
        let mut recorded = 0;
        loop {
            let at = now();
            if !entered.guard.is_held() || at > ends {
                self.check(entered);
                return;
            }
            if at - recorded > 10_000_000 {
                self.check(entered);
                recorded = at;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// Reads the counter and writes it incremented: safe only under mutual exclusion.
    async fn update(&mut self, name: &str, id: u64, is_held: &(dyn Fn() -> bool + Sync), pause: u64) {
        let began = now();
        if !self.check_by(id, is_held) {
            return;
        }
        let Ok(read) = self.direct.get::<u64>(&counter(name)).await else { return };
        let read = read.unwrap_or(0);
        if self.rng.bool() {
            self.pause(0..pause).await;
        }
        self.record(id, Kind::Update { began, read });
        if self.direct.cmd(&["SET", &counter(name), &(read + 1).to_string()]).await.is_ok() {
            let at = now();
            let held = is_held();
            self.record_at(at, id, Kind::Updated { held });
        }
    }

    /// Updates a register that rejects old tokens, without checking the lock.
    async fn update_fenced(&mut self, name: &str, entered: &Entered) {
        let token = entered.guard.token().get().to_string();
        let (fence, accepted) = (fence(name), accepted(name));
        let register = async |value: &str| {
            let command = ["EVAL", REGISTER, "2", &fence, &accepted, &token, value];
            self.direct.query::<i64>(&command).await.ok()
        };
        let Some(read) = register("").await else { return };
        let answer = if read < 0 { Some(read) } else { register(&(read + 1).to_string()).await };
        if answer.is_some_and(|answer| answer < 0) {
            let at = now();
            let held = entered.guard.is_held();
            self.record_at(at, entered.id, Kind::Refused { held });
        }
    }

    async fn end(&mut self, entered: Entered) {
        self.check(&entered);
        let Entered { id, guard } = entered;
        self.record(id, Kind::Give);
        match self.rng.u8(..64) {
            0 => guard.forget(),
            1..16 => drop(guard),
            _ => {
                let released = guard.release().await;
                self.record(id, Kind::Gave { ok: released.is_ok() });
            }
        }
    }

    /// Checks whether the lock is held, and records the result.
    fn check(&self, entered: &Entered) -> bool {
        self.check_by(entered.id, &|| entered.guard.is_held())
    }

    fn check_by(&self, id: u64, is_held: &(dyn Fn() -> bool + Sync)) -> bool {
        let at = now();
        let held = is_held();
        if held {
            self.record_at(at, id, Kind::Held);
        } else {
            self.record(id, Kind::NotHeld);
        }
        held
    }

    fn request(&self, name: &str, steal: bool, again: Option<u64>) -> u64 {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        self.record(id, Kind::Request { name: name.to_owned(), steal, again });
        id
    }

    fn no_grant<T>(&self, id: u64, how: &str) -> Option<T> {
        self.record(id, Kind::NoGrant { how: how.to_owned() });
        None
    }

    fn millis(&mut self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.rng.u64(range))
    }

    async fn pause(&mut self, range: std::ops::Range<u64>) {
        let pause = self.millis(range);
        tokio::time::sleep(pause).await;
    }

    fn record(&self, id: u64, kind: Kind) {
        self.record_at(now(), id, kind);
    }

    fn record_at(&self, at: u64, id: u64, kind: Kind) {
        let mut line = serde_json::to_string(&Event { at, task: self.task, id, kind }).expect("plain data");
        line.push('\n');
        // One write per line. If the reader is gone, the history ends anyway.
        let _ = std::io::stdout().lock().write_all(line.as_bytes());
    }
}
