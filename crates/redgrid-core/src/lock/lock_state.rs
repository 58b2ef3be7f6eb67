//! What this process knows about one key: its queue, its server lease and its in-flight requests.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use smallvec::SmallVec;
use tokio::sync::Notify;

use super::fairness::YieldPlan;
use super::hold::Hold;
use super::inline_task::InlineTask;
use super::lazy_queue::mark_cancelled;
use super::local_pass::LocalPass;
use super::protocol::{LockKeys, LockProtocol};
use super::server_lease::ServerLease;
use super::waiter::{Answers, Waiter};
use crate::clock::Instant;
/// Identifies a [`LockState`]: the lock kind, the key, and the number of the grant.
///
/// A key may have several grants at a time; the first has number 0. Only the key of the
/// [`LockKeys`] is compared. The whole struct is stored because an `Arc` is smaller than a copy of
/// the key.
#[derive(Clone)]
pub(super) struct LockId(pub(super) &'static str, pub(super) Arc<LockKeys>, pub(super) u64);

impl LockId {
    pub(super) fn of(kind: &dyn LockProtocol, target: &Arc<LockKeys>) -> Self {
        LockId(kind.name(), Arc::clone(target), 0)
    }

    /// The key on the server.
    pub(super) fn key(&self) -> &Bytes {
        &self.1.key
    }
}

impl PartialEq for LockId {
    fn eq(&self, other: &Self) -> bool {
        self.2 == other.2 && self.0 == other.0 && (Arc::ptr_eq(&self.1, &other.1) || self.key() == other.key())
    }
}

impl Eq for LockId {}

impl Hash for LockId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Few lock kinds use the same key, so the hash leaves the kind out.
        state.write(self.key());
        state.write_u64(self.2);
    }
}

/// What this process knows about one key.
///
/// Every held lock has one. Fields that few locks need are boxed or created on first use.
pub(super) struct LockState {
    pub(super) protocol: &'static dyn LockProtocol,
    pub(super) keys: Arc<LockKeys>,
    pub(super) queue: VecDeque<Waiter>,
    /// Waiters cancelled since the last compaction of `queue`.
    pub(super) cancelled: usize,
    /// The server lease under this key, until its release is answered.
    pub(super) server_lease: Option<Arc<ServerLease>>,
    /// Holds of the server lease: one, or one for each task that shares it.
    pub(super) holds: SmallVec<[Arc<Hold>; 1]>,
    /// Holder field of the hold that the requests convert from.
    pub(super) under: Option<Box<Bytes>>,
    /// No further request may share this grant.
    pub(super) private: bool,
    /// Server time since which the requests wait, in microseconds; 0 while none waits.
    pub(super) waits_since: u64,
    /// The server was notified that this client has a waiter.
    pub(super) announced: bool,
    /// Lost holds whose guards are still alive; their holders cannot re-enter.
    pub(super) lost: Lost,
    /// In-flight requests that their callers poll inline, by the id of the request or server lease.
    pub(super) inline_tasks: InlineTasks,
    /// An acquire request is in flight.
    pub(super) asking: bool,
    /// The in-flight operation on the server lease.
    pub(super) busy: Busy,
    /// The wait loop is running.
    pub(super) loop_running: bool,
    /// The wait loop waits for another process to release the lock.
    pub(super) contended: bool,
    /// Set while other processes go first.
    pub(super) yield_plan: Option<Box<YieldPlan>>,
    /// The queue positions at the head of the server's queue, for locks with a local pass.
    pub(super) local_pass: Option<Box<LocalPass>>,
    /// End of the hand-over window that the next grant continues; in the past if there is none.
    pub(super) continued: Instant,
    /// Notifies the wait loop; created with the loop.
    changed: Option<Arc<Notify>>,
    /// The last grant: its token, and when this process received it.
    pub(super) last: (u64, Instant),
    /// When a server last answered a request about this key.
    pub(super) contact: Instant,
}

/// Lost holds; usually none.
#[derive(Default)]
pub(super) struct Lost(Option<Box<SmallVec<[Weak<Hold>; 1]>>>);

impl Lost {
    pub(super) fn push(&mut self, hold: Weak<Hold>) {
        self.0.get_or_insert_default().push(hold);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Weak<Hold>> {
        self.0.iter().flat_map(|holds| holds.iter())
    }

    fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Removes the holds whose last guard was dropped.
    fn remove_unguarded(&mut self) {
        if let Some(holds) = &mut self.0 {
            holds.retain(|hold| hold.upgrade().is_some_and(|hold| hold.guards.load(Ordering::Acquire) > 0));
            if holds.is_empty() {
                self.0 = None;
            }
        }
    }
}

/// Inline tasks by id; usually one or none.
pub(super) type InlineTasks = SmallVec<[(u64, InlineTask); 1]>;

/// The in-flight operation on a server lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Busy {
    No,
    /// The lease of the server lease with this id is being adjusted to the next request.
    AdjustingLease(u64),
    /// The server lease is being released.
    Release {
        /// Id of the release. A server lease that was reclaimed meanwhile is released under another
        /// id.
        id: u64,
        /// Id of the server lease.
        server_lease: u64,
        /// The release was not sent yet, so a new request may still reclaim the server lease.
        queued: bool,
    },
}

impl LockState {
    pub(super) fn new(kind: &'static dyn LockProtocol, target: Arc<LockKeys>, now: Instant) -> Self {
        LockState {
            protocol: kind,
            keys: target,
            queue: VecDeque::new(),
            cancelled: 0,
            server_lease: None,
            holds: SmallVec::new(),
            under: None,
            private: false,
            waits_since: 0,
            announced: false,
            lost: Lost::default(),
            inline_tasks: InlineTasks::new(),
            asking: false,
            busy: Busy::No,
            loop_running: false,
            contended: false,
            yield_plan: None,
            local_pass: None,
            continued: Instant::MIN,
            changed: None,
            last: (0, Instant::MIN),
            contact: now,
        }
    }

    /// Returns the holds that are locally valid and have a guard.
    ///
    /// A forgotten hold has no guard: it is left to its lease.
    pub(super) fn held(&self) -> impl Iterator<Item = &Arc<Hold>> {
        self.holds.iter().filter(|hold| hold.guards.load(Ordering::Acquire) > 0 && hold.is_held())
    }

    /// Returns the index of a hold in `holds`.
    pub(super) fn position(&self, hold: &Arc<Hold>) -> Option<usize> {
        let is_it = |held: &Arc<Hold>| Arc::ptr_eq(held, hold);
        // Many tasks may share the lease: try the cached index first, and scan only if it is wrong.
        let at = hold.index.load(Ordering::Relaxed);
        if self.holds.get(at).is_some_and(is_it) { Some(at) } else { self.holds.iter().position(is_it) }
    }

    /// Adds a hold and records its index.
    pub(super) fn add(&mut self, hold: Arc<Hold>) {
        hold.index.store(self.holds.len(), Ordering::Relaxed);
        self.holds.push(hold);
    }

    /// Removes the hold at index `at`.
    pub(super) fn remove(&mut self, at: usize) {
        self.holds.swap_remove(at);
        if let Some(moved) = self.holds.get(at) {
            moved.index.store(at, Ordering::Relaxed);
        }
    }

    /// Returns whether all holds were forgotten, and so left to their leases.
    pub(super) fn is_forgotten(&self) -> bool {
        !self.holds.is_empty() && self.holds.iter().all(|hold| hold.guards.load(Ordering::Acquire) == 0)
    }

    /// Returns whether the lock is known to be held, by this process or another.
    pub(super) fn is_taken(&self) -> bool {
        let given_back = matches!(self.busy, Busy::Release { .. });
        self.contended
            || (!given_back && self.server_lease.as_ref().is_some_and(|server_lease| server_lease.is_valid_locally()))
    }

    /// Returns the first waiter that still wants the lock at `now`.
    ///
    /// A waiter that timed out stays queued until its caller polls it and receives the error.
    pub(super) fn next(&mut self, now: Instant) -> Option<&Waiter> {
        let at = self.next_at(now)?;
        self.queue.get(at)
    }

    /// Returns the index of that waiter in the queue.
    pub(super) fn next_at(&mut self, now: Instant) -> Option<usize> {
        if self.queue.is_empty() {
            return None;
        }
        self.drop_cancelled_head();
        self.queue.iter().position(|entry| !entry.answer.is_closed() && entry.until > now)
    }

    /// Removes a request that was cancelled and can no longer receive an answer.
    ///
    /// Returns whether the loop must be notified: the queue is empty now, or a position on the
    /// server is free.
    pub(super) fn cancel(&mut self, id: u64) -> bool {
        let waited = self.queue.len();
        if self.protocol.queue().is_none() && !self.protocol.is_shared() {
            mark_cancelled(&mut self.queue, &mut self.cancelled, |entry| entry.answer.is_closed());
            return waited > 0 && self.queue.is_empty();
        }
        // Other lock kinds count waiters by position, on the server or among the sharers.
        if let Some(at) = self.index_of(id) {
            self.queue.remove(at);
        }
        waited > self.queue.len() && (self.queue.is_empty() || self.protocol.queue().is_some())
    }

    /// Removes the cancelled waiters at the head. A queue without live waiters is empty afterwards.
    pub(super) fn drop_cancelled_head(&mut self) {
        while self.queue.front().is_some_and(|entry| entry.answer.is_closed()) {
            self.queue.pop_front();
        }
    }

    /// Returns the index of a request. Waiters are sorted by id, except for promoted ones.
    fn index_of(&self, id: u64) -> Option<usize> {
        let in_order = self.queue.binary_search_by_key(&id, |entry: &Waiter| entry.id).ok();
        in_order.or_else(|| self.queue.iter().position(|entry| entry.id == id))
    }

    /// Moves the request with this id to the head of the queue. Returns `false` if it no longer
    /// waits.
    pub(super) fn promote(&mut self, id: u64, now: Instant) -> bool {
        let wants = |entry: &Waiter| entry.id == id && !entry.answer.is_closed() && entry.until > now;
        let Some(entry) = self.queue.iter().position(wants).and_then(|at| self.queue.remove(at)) else { return false };
        self.queue.push_front(entry);
        true
    }

    /// Registers an inline task, so that other tasks can move it to a background task.
    pub(super) fn register(&mut self, number: u64, inline_task: &InlineTask) {
        self.inline_tasks.retain(|(_, inline_task)| !inline_task.is_over());
        self.inline_tasks.push((number, inline_task.clone()));
    }

    /// Unregisters an inline task that has delivered its result.
    pub(super) fn completed(&mut self, number: u64) {
        self.inline_tasks.retain(|(flying, _)| *flying != number);
    }

    /// Appends a waiter. Most waiters are alone, so the first one allocates capacity for one.
    pub(super) fn enqueue(&mut self, entry: Waiter) {
        if self.queue.capacity() == 0 {
            self.queue.reserve_exact(1);
        }
        self.queue.push_back(entry);
    }

    /// Replaces each waiter by the result of `keep`, in order; `None` removes it.
    pub(super) fn retain_map(&mut self, mut keep: impl FnMut(Waiter) -> Option<Waiter>) {
        for _ in 0..self.queue.len() {
            let kept = self.queue.pop_front().and_then(&mut keep);
            self.queue.extend(kept);
        }
    }

    /// Frees the memory of an empty queue unless the loop runs, which adds and removes waiters
    /// often.
    pub(super) fn shrink_if_idle(&mut self) {
        if self.queue.is_empty() && !self.loop_running {
            self.queue = VecDeque::new();
        }
    }

    /// Returns the `Notify` that wakes the wait loop, and creates it on first use.
    pub(super) fn changed(&mut self) -> Arc<Notify> {
        Arc::clone(self.changed.get_or_insert_with(Arc::default))
    }

    /// Notifies the wait loop. A loop that has not started yet checks everything when it starts.
    pub(super) fn notify_loop(&self) {
        if let Some(changed) = &self.changed {
            changed.notify_one();
        }
    }

    /// Returns whether `server_lease` is the current server lease of this key.
    pub(super) fn has(&self, server_lease: &Arc<ServerLease>) -> bool {
        self.server_lease.as_ref().is_some_and(|ours| Arc::ptr_eq(ours, server_lease))
    }

    /// Returns whether the current server lease has this id.
    pub(super) fn has_id(&self, server_lease: u64) -> bool {
        self.server_lease.as_ref().is_some_and(|ours| ours.id == server_lease)
    }

    pub(super) fn is_idle(&mut self) -> bool {
        self.lost.remove_unguarded();
        self.drop_cancelled_head();
        let asks_along = self.local_pass.as_ref().is_some_and(|run| run.is_asking());
        let nothing_under_way = self.busy == Busy::No && !self.asking && !self.loop_running && !asks_along;
        self.queue.is_empty() && self.server_lease.is_none() && self.lost.is_empty() && nothing_under_way
    }

    /// Returns whether a new request may reclaim the server lease, whose release was not sent yet.
    pub(super) fn is_reclaimable(&self, now: Instant) -> bool {
        let Some(server_lease) = self.server_lease.as_ref().filter(|_| self.holds.is_empty()) else { return false };
        let queued = matches!(self.busy, Busy::Release { server_lease: of, queued: true, .. } if of == server_lease.id);
        queued && server_lease.is_valid_locally() && server_lease.may_hand_over(now)
    }

    /// Rejects the try-only waiters, because another process has the lock.
    pub(super) fn reject_try_waiters(&mut self) -> Answers {
        let mut answers = Answers::new();
        if self.queue.iter().any(|entry| entry.request.once) {
            self.retain_map(|entry| match entry.request.once {
                true => {
                    answers.push((entry.answer, Ok(None)));
                    None
                }
                false => Some(entry),
            });
        }
        answers
    }
}
