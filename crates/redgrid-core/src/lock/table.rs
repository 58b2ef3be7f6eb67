//! The table of all names: entering and leaving their queues.

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
use super::schedule::Schedule;
use super::shared::{GrantSet, Placement};
use super::terms::AcquireRequest;
use super::wakeup::Wakeup;
use crate::clock::Instant;
use crate::connection::{Client, Core};
use crate::slack::give_back;

/// All that one client holds and waits for.
pub(crate) struct Table {
    pub(super) core: Arc<Core>,
    state: Mutex<State>,
    /// Work for tasks, so that `Drop` need not spawn.
    pub(super) background: mpsc::UnboundedSender<BackgroundTask>,
    /// When the engine wakes.
    pub(super) alarm: Wakeup,
    next: AtomicU64,
    /// Names whose waiters stand in line on the server: their places are to be kept.
    pub(super) attended: AtomicU64,
}

/// By name. The names are the service's own, so a hash that is seeded, and quick, will do: each hand-over looks some up.
pub(super) type ByName<T> = HashMap<LockId, T, foldhash::fast::RandomState>;

#[derive(Default)]
pub(super) struct State {
    pub(super) slots: ByName<Box<LockState>>,
    /// What was wished last: who holds the same has it in common.
    wished: Option<Arc<AcquireRequest>>,
    /// The keys that have more than one slot.
    pub(super) parts: GrantSet,
    pub(super) schedule: Schedule,
    /// Names that others wait for and that we have just let go of.
    recent: PendingYields,
    /// Listeners that never take their turn.
    pub(super) phantoms: Phantoms,
    /// Tenures that were taken by force before their grant was known here, and when that was told.
    pub(super) forced: HashMap<u64, Instant>,
    pub(super) closed: bool,
}

impl State {
    /// What is remembered of a name that we have just let go of.
    pub(super) fn recent(&self, key: &LockId, now: Instant) -> Option<PendingYield> {
        self.recent.get(key, now)
    }

    fn forget(&mut self, key: &LockId) {
        self.slots.remove(key);
        give_back(&mut self.slots);
        self.parts.remove(key);
    }

    /// The wish as those have it in common who wish the same one after the other.
    pub(super) fn shared(&mut self, wish: &AcquireRequest) -> Arc<AcquireRequest> {
        match &self.wished {
            Some(last) if **last == *wish => Arc::clone(last),
            _ => Arc::clone(self.wished.insert(Arc::new(wish.clone()))),
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

    /// Has `work` driven by a task. After the client has gone there is nobody, and leases end what is left.
    pub(crate) fn spawn_background(&self, work: BackgroundTask) {
        let _ = self.background.send(work);
    }

    /// Where work for tasks goes.
    pub(crate) fn background(&self) -> mpsc::UnboundedSender<BackgroundTask> {
        self.background.clone()
    }

    /// Whether the client is being shut down.
    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// How many names are in use, for tests and diagnosis.
    pub(crate) fn names(&self) -> usize {
        self.state().slots.len()
    }

    /// The names that are held, or whose release has not been answered yet; none where the table is
    /// in use at the moment, as the last handle of a client can be dropped in there.
    pub(crate) fn held_names(&self) -> Vec<String> {
        let Ok(state) = self.state.try_lock() else { return Vec::new() };
        let held = state.slots.values().filter(|slot| slot.server_lease.is_some() && !slot.is_forgotten());
        held.map(|slot| slot.keys.name.to_string()).collect()
    }

    /// How many requests wait in queues.
    pub(crate) fn waiting(&self) -> usize {
        self.state()
            .slots
            .values()
            .map(|slot| slot.queue.iter().filter(|entry| !entry.answer.is_closed()).count())
            .sum()
    }

    /// Asks for `target`. The table owns the attempt from here on; the ticket waits for its outcome.
    pub(crate) fn enter(
        self: &Arc<Self>,
        client: &Client,
        kind: &'static dyn LockProtocol,
        target: &Arc<LockKeys>,
        wish: AcquireRequest,
    ) -> Result<PendingAcquire, AcquireError> {
        self.enter_from(client, kind, target, wish, None)
    }

    /// The same, `under` the holder field of another hold on the key.
    pub(super) fn enter_from(
        self: &Arc<Self>,
        client: &Client,
        kind: &'static dyn LockProtocol,
        target: &Arc<LockKeys>,
        wish: AcquireRequest,
        under: Option<Bytes>,
    ) -> Result<PendingAcquire, AcquireError> {
        let now = self.now();
        let key = LockId::of(kind, target);
        let until = wish.wait.map_or(Instant::NEVER, |wait| now + wait);
        let (answer, receiver) = oneshot::channel();
        let seen = Arc::new(RequestStatus::default());
        let id = self.number();
        // Its end has the table locked: it is declared before, and so ends after.
        let mut ticket;
        let mut state = self.state();
        let wish = state.shared(&wish);
        ticket = PendingAcquire {
            table: Arc::clone(self),
            client: client.clone(),
            kind,
            wish: Arc::clone(&wish),
            target: Arc::clone(target),
            key: key.clone(),
            id,
            entered: now,
            until,
            receiver,
            seen: Arc::clone(&seen),
            under: under.clone(),
            flight: None,
            ready: None,
            is_member: false,
            done: false,
        };
        if state.closed {
            return Err(into_acquire_error(&self.core, AcquireFailure::ShuttingDown, target.name.clone()));
        }
        // Without a holder nobody is in already, however many are.
        let known = match wish.holder.is_some() || Holder::current().is_some() {
            true => state.slots_of(key.0, target).find_map(|key| reenter(state.slots.get(&key)?, &wish, target)),
            false => None,
        };
        let hold = match (known, under) {
            // Who holds it alone has it, also where it is asked for under another hold of its own.
            (Some(known), under) if under.is_none() || !kind.is_shared() => Err(known?),
            (_, under) => {
                let under = if under.is_none() { state.held_in_paired_mode(kind, target, &wish)? } else { under };
                Ok(self.place(&mut state, kind, target, (&wish, &under)))
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
        let State { slots, recent, .. } = &mut *state;
        let slot = slots.entry(key.clone()).or_insert_with(|| Box::new(LockState::new(kind, Arc::clone(target), now)));
        if slot.is_taken() {
            seen.set_busy();
            if wish.once {
                ticket.ready = Some(Ok(None));
                return Ok(ticket);
            }
        }
        let (alone, once) = (slot.is_idle(), wish.once);
        let before = if alone { recent.take(&key, now) } else { None };
        // A look in the moment in which others are told would always come before theirs.
        let after = before.filter(|_| once).and_then(|before| Some((before, before.yields_until(now)?)));
        if let Some((before, _)) = after {
            recent.insert(key.clone(), before, now);
            if before.turn.is_wanted() {
                slots.remove(&key);
                ticket.ready = Some(Ok(None));
                return Ok(ticket);
            }
        }
        slot.enqueue(Waiter { id, request: wish, client: client.clone(), answer, seen, until });
        let mut to_tasks = InlineTasks::new();
        let mut answers = Answers::new();
        if slot.is_reclaimable(now) {
            // What is about to be given back need not be asked for again.
            slot.busy = Busy::No;
            answers = self.hand_over_next(&mut state, &key, HandoverReason::HandOver, self.now());
            self.go_on(&mut state, &key);
        } else if alone {
            let continued = before.as_ref().map(|before| before.stretch_ends).filter(|ends| *ends > now);
            slot.continued = continued.unwrap_or(Instant::PAST);
            if continued.is_none() {
                slot.yield_plan = before.filter(|_| !once).map(|before| Box::new(before.turn));
            }
            if slot.yield_plan.is_some() {
                self.start_loop(&key, slot);
            } else {
                slot.asking = true;
                let attempt = self.attempt(&key, slot, now);
                let flight = InlineTask::observed(
                    &self.core.unattended,
                    match after {
                        Some((_, at)) => self.begin_at(at, attempt),
                        None => attempt,
                    },
                );
                slot.register(id, &flight);
                ticket.flight = Some(flight);
            }
        } else {
            // Somebody else now waits for what is in flight: it must not depend on its caller's being polled.
            to_tasks = std::mem::take(&mut slot.inline_tasks);
            // The loop need not be told of each one that joins a queue, unless it has nothing else to wait for.
            // Where they stand in line on the server, each is to have its place at once.
            let lines_up = slot.protocol.queue().is_some();
            if lines_up || !slot.loop_running || (slot.server_lease.is_none() && slot.busy == Busy::No && !slot.asking)
            {
                self.start_loop(&key, slot);
            }
        }
        drop(state);
        send(answers);
        for work in to_tasks.into_iter().filter_map(|(_, flight)| flight.take()) {
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

    /// Remembers that others go first: the next request of ours, if it comes soon, obeys the order although nobody of us
    /// waits now.
    pub(super) fn remember_yield(&self, state: &mut State, key: &LockId, turn: YieldPlan, stretch_ends: Instant) {
        let since = self.now();
        let stretch = state.slots.get(key).map_or(Duration::ZERO, |slot| self.handover_window(slot.protocol, key));
        let until = since + fairness::remembered_for(stretch, self.round_trip(key));
        state.recent.insert(key.clone(), PendingYield { turn, since, until, stretch_ends }, since);
    }

    /// How long a name may pass from task to task without asking.
    pub(super) fn handover_window(&self, kind: &dyn LockProtocol, key: &LockId) -> Duration {
        match kind.hands_over_locally() {
            true => handover_window::length(self.core.settings.stretch, self.round_trip(key)),
            false => Duration::ZERO,
        }
    }

    /// What a fixed lease is longer on the server, for whoever gets the name within this time.
    pub(super) fn extra_lease(&self, kind: &dyn LockProtocol, key: &LockId) -> Duration {
        match kind.queue() {
            Some(_) => handover_window::length(self.core.settings.stretch, self.round_trip(key)),
            None => self.handover_window(kind, key),
        }
    }

    /// How long asking for a name takes.
    pub(super) fn round_trip(&self, key: &LockId) -> Duration {
        self.core.home(key.key()).time().round_trip()
    }

    /// Starts the drive loop of a name unless it runs.
    pub(super) fn start_loop(self: &Arc<Self>, key: &LockId, slot: &mut LockState) {
        if slot.loop_running {
            slot.notify_loop();
        } else {
            slot.loop_running = true;
            self.spawn_background(match slot.protocol.queue() {
                None => Box::pin(Arc::clone(self).wait_loop(key.clone())),
                Some(_) => Box::pin(Arc::clone(self).fair_loop(key.clone())),
            });
        }
    }

    /// After an attempt or release has landed: whoever still waits is driven, an idle name is forgotten.
    pub(super) fn go_on(self: &Arc<Self>, state: &mut State, key: &LockId) {
        let Some(slot) = state.slots.get_mut(key) else { return };
        if !slot.queue.is_empty() || slot.loop_running {
            self.start_loop(key, slot);
        } else if slot.is_idle() {
            state.forget(key);
        }
    }

    /// Forgets a name that nobody needs any more.
    pub(super) fn remove_if_idle(state: &mut State, key: &LockId) {
        if state.slots.get_mut(key).is_some_and(|slot| slot.is_idle()) {
            state.forget(key);
        }
    }

    /// Takes a request out of its queue. From here on nobody counts it among those who wait; what was answered before goes back with
    /// the receiver.
    pub(super) fn cancel(&self, key: &LockId, id: u64, receiver: &mut oneshot::Receiver<Answer>) {
        let mut state = self.state();
        // Under the lock: who looks at a queue twice is to see the same.
        receiver.close();
        let Some(slot) = state.slots.get_mut(key) else { return };
        if slot.cancel(id) {
            slot.notify_loop();
        }
        Self::remove_if_idle(&mut state, key);
    }

    /// When there was contact about this name: an answer, or a hold of ours that is being renewed.
    pub(super) fn contact(&self, key: &LockId) -> Option<Instant> {
        let state = self.state();
        let slot = state.slots.get(key)?;
        // One of ours has it. What is being fitted or given back does not count: that takes an answer.
        if slot.holds.first().is_some_and(|hold| hold.server_lease.is_valid_locally()) {
            return Some(self.now());
        }
        // Others have it. While the connection is up and the server does not hang, waiting is
        // contact.
        let waits = if slot.contended { self.core.contact(key.key()) } else { None };
        Some(slot.contact.max(self.core.hub.contact(key.key())).max(waits.unwrap_or(Instant::PAST)))
    }
}

/// A holder that is already in gets in again, without asking anybody; one that lost its hold is told.
pub(super) fn reenter(
    slot: &LockState,
    wish: &AcquireRequest,
    target: &LockKeys,
) -> Option<Result<Arc<Hold>, AcquireError>> {
    let name = || target.name.clone();
    if let Some(holder) = wish.holder {
        if let Some(hold) = slot.held().find(|hold| hold.holder() == Some(holder)) {
            if !wish.reenters {
                return Some(Err(AcquireError::AlreadyHeld { name: name() }));
            }
            if wish.at_least > hold.request.at_least {
                let (expected, got) = ("as set by the holder's first acquire", wish.at_least);
                return Some(Err(AcquireError::InvalidArgument { name: name(), option: "at_least", expected, got }));
            }
            return Some(Ok(Arc::clone(hold)));
        }
        // With its last guard a loss is over: the holder may ask anew.
        let guarded = |hold: &Arc<Hold>| hold.guards.load(Ordering::Acquire) > 0;
        let lost_by =
            |hold: &Arc<Hold>| hold.holder() == Some(holder) && hold.phase() != Phase::Released && guarded(hold);
        let current = slot.holds.iter().any(lost_by);
        if current || slot.lost.iter().filter_map(Weak::upgrade).any(|hold| lost_by(&hold)) {
            return Some(Err(AcquireError::Lost { name: name() }));
        }
    }
    if slot.protocol.is_shared() || wish.wait.is_some() || wish.once {
        return None;
    }
    let scope: HolderId = Holder::current()?.id();
    let by_scope = slot.held().any(|hold| hold.holder() == Some(scope));
    by_scope.then(|| Err(AcquireError::WouldDeadlock { name: name() }))
}
