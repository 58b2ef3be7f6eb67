//! All locks of a client: the table, and the state and the waiters of each lock.
//!
//! The table owns every server lease, every queue and every in-flight request. The caller's future
//! only waits for the outcome. If the future is dropped, its waiter leaves the queue, but a request
//! that is in flight still belongs to the table.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use bytes::Bytes;
use redgrid_client::Client;
use redgrid_client::internal::{Core, shrink_if_sparse};
use smallvec::SmallVec;
use tokio::sync::{Notify, oneshot};

use super::acquire::{HoldGuard, LocalRequest};
use super::error::AcquireFailure;
use super::fair::LocalPass;
use super::fairness::{PendingYields, YieldPlan};
use super::hold::{Hold, ServerLease};
use super::holder_lookup::HolderRead;
pub(super) use super::lock_id::LockId;
use super::phantoms::Phantoms;
use super::protocol::{AcquireRequest, LockKeys, LockProtocol};
use super::shared::{GrantSet, SharedGrant};
use crate::clock::Instant;
use crate::introspection::{Contention, EventLog, Tally};
use crate::lease::{Wakeup, handover_window};
use crate::unpolled::{InlineTask, UnpolledRegistry};

/// All locks that one client holds or waits for.
pub(crate) struct Table {
    pub(super) core: Arc<Core>,
    pub(super) state: Mutex<State>,
    pub(super) unpolled: Arc<UnpolledRegistry>,
    pub(super) events: Arc<EventLog>,
    /// The next wake-up of the renewal loop.
    pub(super) alarm: Wakeup,
    next: AtomicU64,
    /// Number of locks whose positions in a server queue must be kept alive.
    pub(super) attended: AtomicU64,
    /// Whether acquires may read the holder of a lock; false once a server has denied the command.
    pub(super) reads_holders: Arc<AtomicBool>,
}

/// A map with locks as keys.
///
/// A fast hash with a seed suffices, because the names of locks come from the application itself,
/// not from an attacker. Speed matters, because every hand-over does several look-ups.
pub(super) type ByName<T> = HashMap<LockId, T, foldhash::fast::RandomState>;

/// The schedule of all server leases of a client.
pub(super) type Schedule = crate::lease::Schedule<ServerLease>;

#[derive(Default)]
pub(super) struct State {
    pub(super) locks: ByName<Box<LockState>>,
    /// The options of the last request. Later requests with equal options share this value.
    wished: Option<Arc<AcquireRequest>>,
    /// The numbers of all grants, by lock kind and key. The number 0 (see [`LockId`]) is left out.
    pub(super) grants: GrantSet,
    pub(super) schedule: Schedule,
    /// Locks that were released recently while other processes waited for them.
    pub(super) recent: PendingYields,
    /// Subscribers that never acquire the lock, by key.
    pub(super) phantoms: Phantoms,
    /// Ids of grants that were lost to a takeover before this process received them. The value is
    /// the time at which this process learned of the takeover.
    pub(super) forced: HashMap<u64, Instant>,
    /// Statistics of ended waits for locks without a [`LockState`]: it was removed.
    pub(super) contention: Contention,
    /// The last lookup of the holder with its start, by key.
    pub(super) holder_lookups: HashMap<Bytes, (Instant, HolderRead), foldhash::fast::RandomState>,
    pub(super) closed: bool,
}

impl State {
    /// Returns the options as a shared value; consecutive equal requests use one allocation.
    pub(super) fn shared(&mut self, request: &AcquireRequest) -> Arc<AcquireRequest> {
        match &self.wished {
            Some(last) if **last == *request => Arc::clone(last),
            _ => Arc::clone(self.wished.insert(Arc::new(request.clone()))),
        }
    }

    pub(super) fn remove_if_idle(&mut self, key: &LockId) {
        if self.locks.get_mut(key).is_some_and(|lock| lock.is_idle()) {
            if let Some(tally) = self.locks.remove(key).and_then(|lock| lock.waits) {
                self.contention.merge(key.kind, &key.keys.name, *tally);
            }
            // Almost always empty. Then the key is not hashed.
            if !self.holder_lookups.is_empty() {
                self.holder_lookups.remove(key.key());
                shrink_if_sparse(&mut self.holder_lookups);
            }
            shrink_if_sparse(&mut self.locks);
            if key.grant != 0 {
                self.grants.remove(key);
            }
        }
    }
}

/// The local state of one key: its queue, its server lease and its in-flight requests.
///
/// Every lock that is held or waited for has such a lock state. Fields that few locks need are
/// boxed or created on first use.
pub(super) struct LockState {
    pub(super) protocol: &'static dyn LockProtocol,
    pub(super) keys: Arc<LockKeys>,
    pub(super) queue: VecDeque<Waiter>,
    /// Number of waiters that were cancelled since the last compaction of `queue`.
    pub(super) cancelled: u32,
    /// The current server lease of this key. It stays here until its release is answered.
    pub(super) server_lease: Option<Arc<ServerLease>>,
    /// Holds of the server lease: one, or one for each task that shares it.
    pub(super) holds: SmallVec<[Arc<Hold>; 1]>,
    /// Lost holds whose guards are still alive; their holders cannot re-enter.
    pub(super) lost: Option<Box<SmallVec<[Weak<Hold>; 1]>>>,
    /// The in-flight request that a caller polls inline. If it is an acquire, the number is the id
    /// of the waiter. If it is a release, the number is the id of the server lease.
    pub(super) inline_task: Option<(u64, InlineTask)>,
    pub(super) busy: Busy,
    /// Whether an acquire request for the key is in flight.
    pub(super) request_in_flight: bool,
    /// Whether the wait loop is running.
    pub(super) loop_running: bool,
    /// Whether the wait loop waits for another process to release the lock.
    pub(super) contended: bool,
    /// Set while other processes go first.
    pub(super) yield_plan: Option<Box<YieldPlan>>,
    /// End of the hand-over window that the next grant continues; in the past if the next grant
    /// begins a new window.
    pub(super) continued: Instant,
    /// Notifies the wait loop; created with the loop.
    changed: Option<Arc<Notify>>,
    /// The last grant: its token, and when this process received it.
    pub(super) last: (u64, Instant),
    /// When a server last answered a request about this key.
    pub(super) contact: Instant,
    /// For kinds with a server queue: this process's positions at the head of that queue.
    pub(super) local_pass: Option<Box<LocalPass>>,
    /// For readers and writers: the fields that other kinds do not need.
    pub(super) shared: Option<Box<SharedGrant>>,
    /// Statistics of the waits for this lock; created by the first wait.
    pub(super) waits: Option<Box<Tally>>,
}

/// The in-flight operation on a server lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Busy {
    No,
    /// The hand-over of the server lease with this id is not complete yet. The hand-over waits for
    /// one of three events: the lease is adjusted to the next request, a pass request of a fair
    /// lock is answered, or the next token is due.
    AdjustingLease(u64),
    /// The current server lease is being released.
    Release {
        /// Id of the release. If the server lease is reclaimed before this release is sent, its
        /// next release has another id.
        id: u64,
        /// Whether a new request can reclaim the server lease, because the release was not sent
        /// yet.
        queued: bool,
    },
}

impl LockState {
    pub(super) fn new(protocol: &'static dyn LockProtocol, keys: Arc<LockKeys>, now: Instant) -> Self {
        LockState {
            protocol,
            keys,
            queue: VecDeque::new(),
            cancelled: 0,
            server_lease: None,
            holds: SmallVec::new(),
            lost: None,
            inline_task: None,
            busy: Busy::No,
            request_in_flight: false,
            loop_running: false,
            contended: false,
            yield_plan: None,
            continued: Instant::MIN,
            changed: None,
            last: (0, Instant::MIN),
            contact: now,
            local_pass: None,
            shared: None,
            waits: None,
        }
    }

    pub(super) fn position(&self, hold: &Arc<Hold>) -> Option<usize> {
        let is_it = |held: &Arc<Hold>| Arc::ptr_eq(held, hold);
        // Many tasks can share the lease: try the cached index first, and scan only if it is wrong.
        let at = hold.index.load(Ordering::Relaxed) as usize;
        if self.holds.get(at).is_some_and(is_it) { Some(at) } else { self.holds.iter().position(is_it) }
    }

    pub(super) fn add(&mut self, hold: Arc<Hold>) {
        hold.index.store(u32::try_from(self.holds.len()).unwrap_or(u32::MAX), Ordering::Relaxed);
        self.holds.push(hold);
    }

    pub(super) fn remove_hold(&mut self, hold: &Arc<Hold>) {
        let Some(at) = self.position(hold) else { return };
        self.holds.swap_remove(at);
        if let Some(moved) = self.holds.get(at) {
            moved.index.store(u32::try_from(at).unwrap_or(u32::MAX), Ordering::Relaxed);
        }
    }

    /// Appends a waiter. Most waiters are alone, so an empty queue allocates capacity for one.
    pub(super) fn enqueue(&mut self, waiter: Waiter) {
        if self.queue.capacity() == 0 {
            self.queue.reserve_exact(1);
        }
        self.queue.push_back(waiter);
    }

    /// Frees the memory of an empty queue. While the wait loop runs, the memory is kept, because
    /// waiters are then added and removed often.
    pub(super) fn shrink_if_idle(&mut self) {
        if self.queue.is_empty() && !self.loop_running {
            self.queue = VecDeque::new();
        }
    }

    /// Unregisters an inline task that has delivered its result.
    pub(super) fn completed(&mut self, id: u64) {
        self.inline_task.take_if(|(flying, _)| *flying == id);
    }

    /// Returns the `Notify` that wakes the wait loop, and creates it on first use.
    pub(super) fn changed(&mut self) -> Arc<Notify> {
        Arc::clone(self.changed.get_or_insert_with(Arc::default))
    }

    /// Notifies the wait loop. A loop that has not started yet needs no notification: it checks
    /// everything when it starts.
    pub(super) fn notify_loop(&self) {
        if let Some(changed) = &self.changed {
            changed.notify_one();
        }
    }

    /// Returns whether `server_lease` is the current server lease of this key.
    pub(super) fn has(&self, server_lease: &Arc<ServerLease>) -> bool {
        self.server_lease.as_ref().is_some_and(|ours| Arc::ptr_eq(ours, server_lease))
    }

    /// Returns whether the lock is known to be held by this process or another one.
    pub(super) fn is_taken(&self) -> bool {
        let is_released = matches!(self.busy, Busy::Release { .. });
        self.contended || (!is_released && self.server_lease.as_ref().is_some_and(|ours| ours.is_valid_locally()))
    }

    /// Returns whether the lock state can be removed: no request waits or is in flight, and nothing
    /// is held.
    pub(super) fn is_idle(&mut self) -> bool {
        if let Some(lost) = &mut self.lost {
            lost.retain(|hold| hold.upgrade().is_some_and(|hold| hold.is_guarded()));
        }
        self.lost.take_if(|lost| lost.is_empty());
        if !self.queue.is_empty() {
            self.drop_cancelled_head();
        }
        let is_passing = self.local_pass.as_ref().is_some_and(|pass| pass.is_in_flight());
        let is_free = self.queue.is_empty() && self.server_lease.is_none() && self.lost.is_none();
        is_free && self.busy == Busy::No && !self.request_in_flight && !self.loop_running && !is_passing
    }
}

pub(super) struct Waiter {
    pub(super) request: Arc<LocalRequest>,
    pub(super) client: Client,
    pub(super) answer: oneshot::Sender<Answer>,
}

impl Waiter {
    /// Returns whether the caller still waits and its timeout has not passed at `now`.
    ///
    /// A waiter that timed out stays queued until its caller polls it and receives the error.
    pub(super) fn is_live(&self, now: Instant) -> bool {
        !self.answer.is_closed() && self.request.until > now
    }
}

/// The answer to a queued request: a grant, `None` for "busy", or the failure.
pub(super) type Answer = Result<Option<HoldGuard>, AcquireFailure>;

/// Answers and the channels to their waiters.
pub(super) type Answers = SmallVec<[(oneshot::Sender<Answer>, Answer); 1]>;

/// Sends the answers to their waiters.
///
/// The caller must not have locked the table: if a waiter is gone, its grant is dropped here, and
/// dropping a grant locks the table.
pub(super) fn send(answers: Answers) {
    for (sender, answer) in answers {
        let _ = sender.send(answer);
    }
}

impl Table {
    pub(crate) fn new(core: Arc<Core>, unpolled: Arc<UnpolledRegistry>, events: Arc<EventLog>) -> Arc<Table> {
        let (state, alarm, next, attended) =
            (Mutex::default(), Wakeup::default(), AtomicU64::new(1), AtomicU64::new(0));
        let reads_holders = Arc::new(AtomicBool::new(true));
        Arc::new(Table { core, state, unpolled, events, alarm, next, attended, reads_holders })
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn now(&self) -> Instant {
        self.core.clock.now()
    }

    /// Returns a number that is higher than all numbers that this method returned before.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the hand-over window: how long after a grant local tasks can hand the lock over.
    pub(super) fn handover_window(&self, kind: &dyn LockProtocol, key: &LockId) -> Duration {
        if kind.hands_over_locally() { self.extra_lease(kind, key) } else { Duration::ZERO }
    }

    /// Returns how much longer than requested a fixed lease lasts on the server.
    ///
    /// With this addition, a task that gets the lock at the end of the hand-over window still has
    /// its full lease. Kinds with a server queue get the same addition, because their tasks pass
    /// the lock along the queue.
    pub(super) fn extra_lease(&self, kind: &dyn LockProtocol, key: &LockId) -> Duration {
        match kind.hands_over_locally() || kind.queue().is_some() {
            true => handover_window(self.core.settings.handover_window, self.round_trip(key)),
            false => Duration::ZERO,
        }
    }

    /// Returns the round-trip time of a request about this key.
    pub(super) fn round_trip(&self, key: &LockId) -> Duration {
        self.core.home(key.key()).time().round_trip()
    }

    /// Starts the loop of a lock, or notifies the loop if it is running.
    pub(super) fn start_loop(self: &Arc<Self>, key: &LockId, lock: &mut LockState) {
        if std::mem::replace(&mut lock.loop_running, true) {
            lock.notify_loop();
        } else {
            self.core.spawn_background(match lock.protocol.queue() {
                None => Box::pin(Arc::clone(self).wait_loop(key.clone())),
                Some(_) => Box::pin(Arc::clone(self).fair_loop(key.clone())),
            });
        }
    }

    /// Continues after a request or release was answered: starts or notifies the loop, or removes
    /// an idle lock state.
    pub(super) fn go_on(self: &Arc<Self>, state: &mut State, key: &LockId) {
        match state.locks.get_mut(key) {
            Some(lock) if !lock.queue.is_empty() || lock.loop_running => self.start_loop(key, lock),
            _ => state.remove_if_idle(key),
        }
    }
}
