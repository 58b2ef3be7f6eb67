//! The table of all locks of a client: entering and leaving their queues.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::fairness::{self, YieldPlan};
use super::handover_window;
use super::inline_task::BackgroundTask;
use super::lock_state::{LockId, LockState};
use super::pending_yields::{PendingYield, PendingYields};
use super::phantoms::Phantoms;
use super::protocol::LockProtocol;
use super::server_lease::Schedule;
use super::shared::GrantSet;
use super::terms::AcquireRequest;
use super::waiter::Answer;
use crate::clock::Instant;
use crate::connection::Core;
use crate::lease::Wakeup;
use crate::shrink::shrink_if_sparse;
/// All locks that one client holds or waits for.
pub(crate) struct Table {
    pub(super) core: Arc<Core>,
    state: Mutex<State>,
    /// Queue of background tasks, so that `Drop` need not spawn.
    pub(super) background: mpsc::UnboundedSender<BackgroundTask>,
    /// The next wake-up of the renewal loop.
    pub(super) alarm: Wakeup,
    next: AtomicU64,
    /// Number of locks with positions in a server queue that must be kept alive.
    pub(super) attended: AtomicU64,
}

/// A map by lock.
///
/// The names are chosen by the service itself, so a seeded, fast hash suffices. Every hand-over
/// does several look-ups.
pub(super) type ByName<T> = HashMap<LockId, T, foldhash::fast::RandomState>;

#[derive(Default)]
pub(super) struct State {
    pub(super) locks: ByName<Box<LockState>>,
    /// The options of the last request, shared with following requests that have equal ones.
    wished: Option<Arc<AcquireRequest>>,
    /// The keys that have more than one lock state.
    pub(super) parts: GrantSet,
    pub(super) schedule: Schedule,
    /// Locks that were released recently while other processes waited for them.
    pub(super) recent: PendingYields,
    /// Subscribers that never acquire the lock.
    pub(super) phantoms: Phantoms,
    /// Grants that another client took over before their reply arrived, and when the notice came.
    pub(super) forced: HashMap<u64, Instant>,
    pub(super) closed: bool,
}

impl State {
    /// Returns the pending yield of a lock that was released recently.
    pub(super) fn recent(&self, key: &LockId, now: Instant) -> Option<PendingYield> {
        self.recent.get(key, now)
    }

    fn forget(&mut self, key: &LockId) {
        self.locks.remove(key);
        shrink_if_sparse(&mut self.locks);
        self.parts.remove(key);
    }

    /// Returns the options as a shared value; consecutive equal requests use one allocation.
    pub(super) fn shared(&mut self, request: &AcquireRequest) -> Arc<AcquireRequest> {
        match &self.wished {
            Some(last) if **last == *request => Arc::clone(last),
            _ => Arc::clone(self.wished.insert(Arc::new(request.clone()))),
        }
    }
}

impl Table {
    pub(crate) fn new(core: Arc<Core>) -> (Arc<Table>, mpsc::UnboundedReceiver<BackgroundTask>) {
        let (work, receiver) = mpsc::unbounded_channel();
        let table = Table {
            core,
            state: Mutex::default(),
            background: work,
            alarm: Wakeup::new(),
            next: AtomicU64::new(1),
            attended: AtomicU64::new(0),
        };
        (Arc::new(table), receiver)
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn now(&self) -> Instant {
        self.core.clock.now()
    }

    /// Returns a number that is higher than all before.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Spawns a background task. After the client has gone none is run, and leases end what is
    /// left.
    pub(crate) fn spawn_background(&self, work: BackgroundTask) {
        let _ = self.background.send(work);
    }

    /// Returns the queue of background tasks.
    pub(crate) fn background(&self) -> mpsc::UnboundedSender<BackgroundTask> {
        self.background.clone()
    }

    /// Returns whether the client is shutting down.
    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Returns the number of locks in use, for tests and diagnosis.
    pub(crate) fn names(&self) -> usize {
        self.state().locks.len()
    }

    /// Returns the names that are held, or whose release was not answered yet.
    ///
    /// Returns none if the table is locked: the last handle of a client can be dropped under the
    /// lock.
    pub(crate) fn held_names(&self) -> Vec<String> {
        let Ok(state) = self.state.try_lock() else { return Vec::new() };
        let held = state.locks.values().filter(|lock| lock.server_lease.is_some() && !lock.is_forgotten());
        held.map(|lock| lock.keys.name.to_string()).collect()
    }

    /// Returns the number of waiting requests.
    pub(crate) fn waiting(&self) -> usize {
        self.state()
            .locks
            .values()
            .map(|lock| lock.queue.iter().filter(|entry| !entry.answer.is_closed()).count())
            .sum()
    }

    /// Remembers that other processes go first.
    ///
    /// The next request of this process obeys that if it comes soon, although no request waits now.
    pub(super) fn remember_yield(&self, state: &mut State, key: &LockId, turn: YieldPlan, handover_ends: Instant) {
        let since = self.now();
        let handover_window =
            state.locks.get(key).map_or(Duration::ZERO, |lock| self.handover_window(lock.protocol, key));
        let until = since + fairness::remembered_for(handover_window, self.round_trip(key));
        state.recent.insert(key.clone(), PendingYield { plan: turn, since, until, handover_ends }, since);
    }

    /// Returns how long tasks may hand the lock over without a request.
    pub(super) fn handover_window(&self, kind: &dyn LockProtocol, key: &LockId) -> Duration {
        match kind.hands_over_locally() {
            true => handover_window::length(self.core.settings.handover_window, self.round_trip(key)),
            false => Duration::ZERO,
        }
    }

    /// Returns the extra lease on the server for a fixed lease, which the last owner of the window
    /// needs.
    pub(super) fn extra_lease(&self, kind: &dyn LockProtocol, key: &LockId) -> Duration {
        match kind.queue() {
            Some(_) => handover_window::length(self.core.settings.handover_window, self.round_trip(key)),
            None => self.handover_window(kind, key),
        }
    }

    /// Returns the round-trip time of a request about this key.
    pub(super) fn round_trip(&self, key: &LockId) -> Duration {
        self.core.home(key.key()).time().round_trip()
    }

    /// Starts the loop of a lock, or notifies it if it runs.
    pub(super) fn start_loop(self: &Arc<Self>, key: &LockId, lock: &mut LockState) {
        if lock.loop_running {
            lock.notify_loop();
        } else {
            lock.loop_running = true;
            self.spawn_background(match lock.protocol.queue() {
                None => Box::pin(Arc::clone(self).wait_loop(key.clone())),
                Some(_) => Box::pin(Arc::clone(self).fair_loop(key.clone())),
            });
        }
    }

    /// Continues after a request or release was answered: starts the loop, or removes an idle lock
    /// state.
    pub(super) fn go_on(self: &Arc<Self>, state: &mut State, key: &LockId) {
        let Some(lock) = state.locks.get_mut(key) else { return };
        if !lock.queue.is_empty() || lock.loop_running {
            self.start_loop(key, lock);
        } else if lock.is_idle() {
            state.forget(key);
        }
    }

    /// Removes a lock state that is no longer needed.
    pub(super) fn remove_if_idle(state: &mut State, key: &LockId) {
        if state.locks.get_mut(key).is_some_and(|lock| lock.is_idle()) {
            state.forget(key);
        }
    }

    /// Removes a cancelled request from its queue.
    ///
    /// From then on it does not count as a waiter. A grant that was sent to it before is released
    /// with the receiver.
    pub(super) fn cancel(&self, key: &LockId, id: u64, receiver: &mut oneshot::Receiver<Answer>) {
        let mut state = self.state();
        // Close under the lock: code that reads the queue twice must see the same.
        receiver.close();
        let Some(lock) = state.locks.get_mut(key) else { return };
        if lock.cancel(id) {
            lock.notify_loop();
        }
        Self::remove_if_idle(&mut state, key);
    }

    /// Returns the last contact about this key: a reply, or now if a hold is valid and renewed.
    pub(super) fn contact(&self, key: &LockId) -> Option<Instant> {
        let state = self.state();
        let lock = state.locks.get(key)?;
        // This process holds it. A lease that is being adjusted or released does not count: that
        // needs a reply.
        if lock.holds.first().is_some_and(|hold| hold.server_lease.is_valid_locally()) {
            return Some(self.now());
        }
        // Another process holds it. While the connection is up and the server does not hang,
        // waiting does not count as loss of contact.
        let waits = if lock.contended { self.core.contact(key.key()) } else { None };
        Some(lock.contact.max(self.core.subscriptions.contact(key.key())).max(waits.unwrap_or(Instant::MIN)))
    }
}
