//! The table of all locks of a client: entering and leaving their queues.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::error::AcquireError;
use super::fairness::{self, YieldPlan};
use super::guard::HoldGuard;
use super::handover::HandoverReason;
use super::handover_window;
use super::hold::{Hold, Phase};
use super::holder::{Holder, HolderId};
use super::inline_task::{BackgroundTask, InlineTask};
use super::lock_state::{
    AcquireFailure, Answer, Answers, Busy, InlineTasks, LockId, LockState, RequestStatus, Waiter, send,
};
use super::pending_acquire::{PendingAcquire, into_acquire_error};
use super::pending_yields::{PendingYield, PendingYields};
use super::phantoms::Phantoms;
use super::protocol::{LockKeys, LockProtocol};
use super::server_lease::Schedule;
use super::shared::{GrantSet, Placement};
use super::terms::AcquireRequest;
use crate::clock::Instant;
use crate::connection::{Client, Core};
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
    recent: PendingYields,
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

    pub(super) fn number(&self) -> u64 {
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

    /// Requests `target`. The table owns the request; the returned future waits for its outcome.
    pub(crate) fn enter(
        self: &Arc<Self>,
        client: &Client,
        kind: &'static dyn LockProtocol,
        target: &Arc<LockKeys>,
        request: AcquireRequest,
    ) -> Result<PendingAcquire, AcquireError> {
        self.enter_from(client, kind, target, request, None)
    }

    /// Like `enter`, converting from the hold with the holder field `under`.
    pub(super) fn enter_from(
        self: &Arc<Self>,
        client: &Client,
        kind: &'static dyn LockProtocol,
        target: &Arc<LockKeys>,
        wanted: AcquireRequest,
        under: Option<Bytes>,
    ) -> Result<PendingAcquire, AcquireError> {
        let now = self.now();
        let key = LockId::of(kind, target);
        let until = wanted.wait.map_or(Instant::MAX, |wait| now + wait);
        let (answer, receiver) = oneshot::channel();
        let request_status = Arc::new(RequestStatus::default());
        let id = self.number();
        // Dropping it locks the table, so it is declared before the guard and dropped after it.
        let mut ticket;
        let mut state = self.state();
        let wanted = state.shared(&wanted);
        ticket = PendingAcquire {
            table: Arc::clone(self),
            client: client.clone(),
            kind,
            request: Arc::clone(&wanted),
            keys: Arc::clone(target),
            key: key.clone(),
            id,
            entered: now,
            until,
            receiver,
            status: Arc::clone(&request_status),
            under: under.clone(),
            inline_task: None,
            ready: None,
            is_member: false,
            done: false,
        };
        if state.closed {
            return Err(into_acquire_error(&self.core, AcquireFailure::ShuttingDown, target.name.clone()));
        }
        // A request without a holder cannot re-enter: skip the search.
        let known = match wanted.holder.is_some() || Holder::current().is_some() {
            true => state.grants_of(key.0, target).find_map(|key| reenter(state.locks.get(&key)?, &wanted, target)),
            false => None,
        };
        let hold = match (known, under) {
            // An exclusive hold is re-entered, even if the request converts from another hold of
            // its holder.
            (Some(known), under) if under.is_none() || !kind.is_shared() => Err(known?),
            (_, under) => {
                let under = if under.is_none() { state.held_in_paired_mode(kind, target, &wanted)? } else { under };
                Ok(self.place(&mut state, kind, target, (&wanted, &under)))
            }
        };
        let key = match hold {
            Ok(Placement::Queue(key)) => key,
            Ok(Placement::Shared(hold)) => {
                ticket.ready = Some(Ok(Some(HoldGuard::first(client.clone(), hold))));
                return Ok(ticket);
            }
            Err(known) => {
                ticket.ready = Some(Ok(Some(HoldGuard::further(client.clone(), known))));
                return Ok(ticket);
            }
        };
        ticket.key = key.clone();
        let State { locks, recent, .. } = &mut *state;
        let lock = locks.entry(key.clone()).or_insert_with(|| Box::new(LockState::new(kind, Arc::clone(target), now)));
        if lock.is_taken() {
            request_status.set_busy();
            if wanted.once {
                ticket.ready = Some(Ok(None));
                return Ok(ticket);
            }
        }
        let (alone, once) = (lock.is_idle(), wanted.once);
        let before = if alone { recent.take(&key, now) } else { None };
        // A try-only request sent while others are being notified would always overtake them.
        let after = before.filter(|_| once).and_then(|before| Some((before, before.yields_until(now)?)));
        if let Some((before, _)) = after {
            recent.insert(key.clone(), before, now);
            if before.plan.is_wanted() {
                locks.remove(&key);
                ticket.ready = Some(Ok(None));
                return Ok(ticket);
            }
        }
        lock.enqueue(Waiter { id, request: wanted, client: client.clone(), answer, status: request_status, until });
        let mut to_tasks = InlineTasks::new();
        let mut answers = Answers::new();
        if lock.is_reclaimable(now) {
            // The server lease is about to be released: reclaim it instead of sending a request.
            lock.busy = Busy::No;
            answers = self.hand_over_next(&mut state, &key, HandoverReason::HandOver, self.now());
            self.go_on(&mut state, &key);
        } else if alone {
            let continued = before.as_ref().map(|before| before.handover_ends).filter(|ends| *ends > now);
            lock.continued = continued.unwrap_or(Instant::MIN);
            if continued.is_none() {
                lock.yield_plan = before.filter(|_| !once).map(|before| Box::new(before.plan));
            }
            if lock.yield_plan.is_some() {
                self.start_loop(&key, lock);
            } else {
                lock.asking = true;
                let attempt = self.attempt(&key, lock, now);
                let inline_task = InlineTask::observed(
                    &self.core.unpolled,
                    match after {
                        Some((_, at)) => self.begin_at(at, attempt),
                        None => attempt,
                    },
                );
                lock.register(id, &inline_task);
                ticket.inline_task = Some(inline_task);
            }
        } else {
            // A second waiter now depends on the in-flight request, which must not depend on its
            // caller polling.
            to_tasks = std::mem::take(&mut lock.inline_tasks);
            // The loop needs no notification for each new waiter, unless it waits for nothing else.
            // In a server queue each waiter needs its position at once.
            let lines_up = lock.protocol.queue().is_some();
            if lines_up || !lock.loop_running || (lock.server_lease.is_none() && lock.busy == Busy::No && !lock.asking)
            {
                self.start_loop(&key, lock);
            }
        }
        drop(state);
        send(answers);
        for work in to_tasks.into_iter().filter_map(|(_, inline_task)| inline_task.take()) {
            self.spawn_background(work);
        }
        Ok(ticket)
    }

    fn begin_at(&self, at: Instant, work: BackgroundTask) -> BackgroundTask {
        let clock = self.core.clock.clone();
        Box::pin(async move {
            clock.sleep_until(at).await;
            work.await;
        })
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

/// Re-enters the hold of the request's holder without a request; fails if that hold was lost.
pub(super) fn reenter(
    lock: &LockState,
    request: &AcquireRequest,
    target: &LockKeys,
) -> Option<Result<Arc<Hold>, AcquireError>> {
    let name = || target.name.clone();
    if let Some(holder) = request.holder {
        if let Some(hold) = lock.held().find(|hold| hold.holder() == Some(holder)) {
            if !request.reenters {
                return Some(Err(AcquireError::AlreadyHeld { name: name() }));
            }
            if request.at_least > hold.request.at_least {
                let expected = "as set by the holder's first acquire";
                let error = AcquireError::invalid_argument(&target.name, "hold_at_least", expected, request.at_least);
                return Some(Err(error));
            }
            return Some(Ok(Arc::clone(hold)));
        }
        // A loss ends with the last guard of its hold: then the holder may request again.
        let guarded = |hold: &Arc<Hold>| hold.guards.load(Ordering::Acquire) > 0;
        let lost_by =
            |hold: &Arc<Hold>| hold.holder() == Some(holder) && hold.phase() != Phase::Released && guarded(hold);
        let current = lock.holds.iter().any(lost_by);
        if current || lock.lost.iter().filter_map(Weak::upgrade).any(|hold| lost_by(&hold)) {
            return Some(Err(AcquireError::Lost { name: name() }));
        }
    }
    if lock.protocol.is_shared() || request.wait.is_some() || request.once {
        return None;
    }
    let scope: HolderId = Holder::current()?.id();
    let by_scope = lock.held().any(|hold| hold.holder() == Some(scope));
    by_scope.then(|| Err(AcquireError::WouldDeadlock { name: name() }))
}
