//! All pools of a client: found by name, their leases renewed, given back when it shuts down.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use tokio::sync::{Notify, mpsc, oneshot};

use super::exchange::Source;
use super::permit::Permit;
use super::pool::{Answer, Ask, Failure, Pool};
use super::queue::{Back, Seen};
use super::stock::Stock;
use crate::clock::Instant;
use crate::connection::{Client, Core, Server};
use crate::lock::{BackgroundTask, InlineTask, LostReason};

/// All pools of a client.
pub(crate) struct Pools {
    core: Arc<Core>,
    work: mpsc::UnboundedSender<BackgroundTask>,
    state: Mutex<State>,
    /// Counts exchanges.
    next: AtomicU64,
    /// When the keeper wakes by itself, in nanoseconds; and what wakes it earlier.
    keeper_wakes: AtomicU64,
    keeper: Notify,
    kept: AtomicBool,
}

#[derive(Default)]
struct State {
    /// By key, and whether permits have leases and are given in order.
    pools: HashMap<(Bytes, bool, bool), Arc<Pool>>,
    closed: bool,
}

impl Pools {
    pub(crate) fn new(core: &Arc<Core>, work: mpsc::UnboundedSender<BackgroundTask>) -> Arc<Pools> {
        Arc::new(Pools {
            core: Arc::clone(core),
            work,
            state: Mutex::default(),
            next: AtomicU64::new(1),
            keeper_wakes: AtomicU64::new(Instant::MAX.as_nanos()),
            keeper: Notify::new(),
            kept: AtomicBool::new(false),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Has `work` driven by a task.
    pub(super) fn hand_over(&self, work: BackgroundTask) {
        let _ = self.work.send(work);
    }

    /// Enters the queue of a name.
    pub(super) fn enter(
        self: &Arc<Self>,
        client: &Client,
        source: &Arc<Source>,
        ask: Ask,
        until: Instant,
        seen: &Arc<Seen>,
    ) -> (Arc<Pool>, oneshot::Receiver<Answer>, u64, Option<InlineTask>) {
        // Under this lock, as an idle pool is swept under it.
        let mut state = self.state();
        let known = (source.key.clone(), source.leased, source.fair);
        let new = || Pool::new(&self.core, self, Arc::clone(source));
        let pool = match state.closed {
            true => {
                let pool = new();
                pool.state().closed = true;
                pool
            }
            false => Arc::clone(state.pools.entry(known).or_insert_with(new)),
        };
        let (receiver, id, kick) = pool.enter(client, ask, until, seen);
        // Whoever polls a flight may wait for this lock.
        drop(state);
        (pool, receiver, id, kick.by_caller(self))
    }

    /// A guard without permits; `None` where the client is shut down.
    pub(super) fn none(self: &Arc<Self>, client: &Client, source: &Arc<Source>) -> Option<Permit> {
        let state = self.state();
        if state.closed {
            return None;
        }
        let known = (source.key.clone(), source.leased, source.fair);
        let pool = state.pools.get(&known).cloned();
        let pool = pool.unwrap_or_else(|| Pool::new(&self.core, self, Arc::clone(source)));
        Some(Permit::new(client.clone(), pool, Stock::default()))
    }

    /// Forgets a pool that nobody uses.
    pub(super) fn sweep(&self, pool: &Arc<Pool>) {
        let source = &pool.source;
        let mut state = self.state();
        let known = (source.key.clone(), source.leased, source.fair);
        if pool.is_idle() && state.pools.get(&known).is_some_and(|ours| Arc::ptr_eq(ours, pool)) {
            state.pools.remove(&known);
        }
    }

    /// The names of which permits are held, or on their way back, as far as nobody is at them at
    /// the moment.
    pub(crate) fn held_names(&self) -> Vec<String> {
        let Ok(state) = self.state.try_lock() else { return Vec::new() };
        let pools: Vec<_> = state.pools.values().cloned().collect();
        drop(state);
        let holds = |pool: &Arc<Pool>| pool.holds();
        pools.iter().filter(|pool| holds(pool)).map(|pool| pool.source.name.to_string()).collect()
    }

    /// How many names are in use, permits held, and requests waiting, for tests and diagnosis.
    pub(crate) fn in_hand(&self) -> (usize, usize, usize) {
        let pools: Vec<_> = self.state().pools.values().cloned().collect();
        pools.iter().fold((0, 0, 0), |(names, held, waiting), pool| {
            let state = pool.state();
            let live = state.queue.iter().filter(|entry| !entry.answer.is_closed()).count();
            (names + 1, held + usize::try_from(state.out).unwrap_or(usize::MAX), waiting + live)
        })
    }

    /// Has the keeper look at `at`, if it would not earlier.
    pub(super) fn keep(self: &Arc<Self>, at: Instant) {
        if at == Instant::MAX {
            return;
        }
        if !self.kept.swap(true, Ordering::AcqRel) {
            self.hand_over(Box::pin(Arc::clone(self).run_keeper()));
        }
        if at.as_nanos() < self.keeper_wakes.load(Ordering::Acquire) {
            self.keeper.notify_one();
        }
    }

    /// Sees to leases while there are any.
    async fn run_keeper(self: Arc<Self>) {
        loop {
            // Until it is known when it wakes next, whatever is due is worth a word.
            self.keeper_wakes.store(Instant::MAX.as_nanos(), Ordering::Release);
            let pools: Vec<_> = self.state().pools.values().cloned().collect();
            let next = pools.iter().map(Pool::look_after).min().unwrap_or(Instant::MAX);
            self.keeper_wakes.store(next.as_nanos(), Ordering::Release);
            if next == Instant::MAX {
                self.kept.store(false, Ordering::Release);
                // One that came in between is seen here, or has begun anew.
                let none = self.state().pools.values().all(|pool| pool.state().renew_at == Instant::MAX);
                if none || self.kept.swap(true, Ordering::AcqRel) {
                    return;
                }
                continue;
            }
            tokio::select! {
                () = self.keeper.notified() => {}
                () = self.core.clock.sleep_until(next) => {}
            }
        }
    }

    /// Looks after all leases of a node whose connection is new: the server behind it may have forgotten them.
    pub(crate) async fn verify_after_reconnects(self: Arc<Self>, server: Arc<dyn Server>) {
        let mut epoch = server.connection_id();
        let mut last = epoch.borrow_and_update().clone();
        while epoch.changed().await.is_ok() {
            let now_at = epoch.borrow_and_update().clone();
            if now_at.is_some() && now_at != last {
                last = now_at;
                self.verify_all();
            }
        }
    }

    /// Looks after all leases: where they are may have changed.
    pub(crate) fn verify_all(self: &Arc<Self>) {
        let now = self.core.clock.now();
        let pools: Vec<_> = self.state().pools.values().cloned().collect();
        for pool in pools {
            let mut state = pool.state();
            if !state.leased.is_empty() {
                state.leased.values().for_each(|leased| leased.look_now());
                state.renew_at = state.renew_at.min(now);
                self.keep(now);
            }
        }
    }

    /// Refuses new requests, wakes those who wait, and has everything given back.
    pub(crate) fn close(self: &Arc<Self>) {
        let pools: Vec<_> = {
            let mut state = self.state();
            state.closed = true;
            state.pools.values().cloned().collect()
        };
        for pool in pools {
            pool.close();
        }
        // Also where the last pool has been swept since it looked.
        self.keeper.notify_one();
    }
}

impl Pool {
    /// Has leases renewed that are due, and ends those that are over; returns when the next is due.
    fn look_after(self: &Arc<Self>) -> Instant {
        let now = self.clock().now();
        let mut state = self.state();
        if state.renew_at > now {
            return state.renew_at;
        }
        let over: Vec<_> = state.leased.values().filter(|leased| now >= leased.deadline()).cloned().collect();
        for leased in &over {
            leased.end(LostReason::Expired);
            state.leased.remove(&leased.id);
        }
        if state.next_due() <= now {
            let kick = self.drive_if_needed(&mut state);
            let next = now + self.core.settings.retry_delay.max(std::time::Duration::from_millis(50));
            drop(state);
            kick.by_task(&self.pools);
            self.tell_losses(&over);
            return next;
        }
        self.schedule_renewal(&mut state, now);
        let next = state.renew_at;
        drop(state);
        self.tell_losses(&over);
        next
    }

    fn tell_losses(self: &Arc<Self>, over: &[Arc<super::stock::Leased>]) {
        if !over.is_empty() {
            self.lost.notify_waiters();
            self.pools.sweep(self);
        }
    }

    fn close(self: &Arc<Self>) {
        let mut state = self.state();
        state.closed = true;
        while let Some(entry) = state.remove(0, self) {
            let _ = entry.answer.send(Err(Failure::ShuttingDown));
        }
        state.extensions.clear();
        let leased: Vec<_> = state.leased.drain().map(|(_, leased)| leased).collect();
        let plain = if self.source.leased { 0 } else { state.out + state.spare.n };
        (state.out, state.spare) = (0, Stock::default());
        for leased in &leased {
            leased.end(LostReason::ShutDown);
        }
        state.renew_at = Instant::MAX;
        let stock = Stock { n: plain + leased.len() as u64, leased, ..Stock::default() };
        if !stock.is_empty() {
            state.back.push(Back { stock, audience: None });
        }
        let kick = self.drive_if_needed(&mut state);
        drop(state);
        kick.by_task(&self.pools);
        self.lost.notify_waiters();
    }
}
