//! One name in this process: what we have of it, who waits for it, what is under way.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use smallvec::SmallVec;
use tokio::sync::{Notify, oneshot};

use super::fairness::YieldPlan;
use super::guard::HoldGuard;
use super::hold::Hold;
use super::inline_task::InlineTask;
use super::lazy_queue::mark_cancelled;
use super::local_pass::LocalPass;
use super::protocol::{LockKeys, LockProtocol};
use super::queue_position::QueuePosition;
use super::server_lease::ServerLease;
use super::terms::AcquireRequest;
use crate::clock::Instant;
use crate::connection::{Client, CommitError, Progress};
use crate::error::ServerError;

/// A kind and a key; and which of several grants, where a key has more than one at a time. The first is 0. Of the target only the key
/// counts: it is there whole as that is smaller.
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
        // Few kinds are of one key: they need not be told apart here.
        state.write(self.key());
        state.write_u64(self.2);
    }
}

/// One name in this process. Each lock that is held has one: what few of them need is boxed, or made when it is asked for.
pub(super) struct LockState {
    pub(super) protocol: &'static dyn LockProtocol,
    pub(super) keys: Arc<LockKeys>,
    pub(super) queue: VecDeque<Waiter>,
    /// How many have left since those were taken out of it who had.
    pub(super) cancelled: usize,
    /// What we have on the server under it, until its release has landed.
    pub(super) server_lease: Option<Arc<ServerLease>>,
    /// Who of us has it: one, or all who share it.
    pub(super) holds: SmallVec<[Arc<Hold>; 1]>,
    /// The holder field under which it was asked for.
    pub(super) under: Option<Box<Bytes>>,
    /// Nobody may share it.
    pub(super) private: bool,
    /// Since when its requests wait, by the server's clock; zero when they do not.
    pub(super) waits_since: u64,
    /// The server was told that somebody of us waits.
    pub(super) announced: bool,
    /// Holds that ended without us and whose guards still live: their holders can not enter again.
    pub(super) lost: Lost,
    /// The exchanges in flight that their callers poll in place, by the numbers of their requests or server leases.
    pub(super) inline_tasks: InlineTasks,
    /// An attempt is under way.
    pub(super) asking: bool,
    /// What is under way for our server lease.
    pub(super) busy: Busy,
    /// The drive loop runs.
    pub(super) loop_running: bool,
    /// The drive loop waits for somebody elsewhere to let go.
    pub(super) contended: bool,
    /// Others go first.
    pub(super) yield_plan: Option<Box<YieldPlan>>,
    /// What is known of our places on the server, where they are handed on along.
    pub(super) local_pass: Option<Box<LocalPass>>,
    /// The next grant continues a stretch that ends then; past, where it does not.
    pub(super) continued: Instant,
    /// What the drive loop is told by, from when there is one.
    changed: Option<Arc<Notify>>,
    /// The last grant: its token, and when it was known here.
    pub(super) last: (u64, Instant),
    /// When a server last answered for this name.
    pub(super) contact: Instant,
}

/// Holds that have ended: mostly none.
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

    /// Without those whose last guard has gone.
    fn remove_unguarded(&mut self) {
        if let Some(holds) = &mut self.0 {
            holds.retain(|hold| hold.upgrade().is_some_and(|hold| hold.guards.load(Ordering::Acquire) > 0));
            if holds.is_empty() {
                self.0 = None;
            }
        }
    }
}

/// Exchanges by numbers: mostly one, or none.
pub(super) type InlineTasks = SmallVec<[(u64, InlineTask); 1]>;

/// What is under way to the server for what we have under one name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Busy {
    No,
    /// The server lease with this number is being fitted to the next one's wishes.
    AdjustingLease(u64),
    /// The release of our server lease.
    Release {
        /// Its own number: what was adopted meanwhile is given back by another.
        id: u64,
        /// The server lease's number.
        server_lease: u64,
        /// It has not left yet: a new request may still have what it would give back.
        queued: bool,
    },
}

/// One request in a queue.
pub(super) struct Waiter {
    pub(super) id: u64,
    pub(super) request: Arc<AcquireRequest>,
    pub(super) client: Client,
    pub(super) answer: oneshot::Sender<Answer>,
    pub(super) seen: Arc<RequestStatus>,
    /// When its wait ends.
    pub(super) until: Instant,
}

/// What a request in a queue is told: a grant, "busy", or how it failed.
pub(super) type Answer = Result<Option<HoldGuard>, AcquireFailure>;

/// Answers with those who wait for them.
pub(super) type Answers = SmallVec<[(oneshot::Sender<Answer>, Answer); 1]>;

/// How a request failed, before it is told with its name.
#[derive(Debug, Clone)]
pub(super) enum AcquireFailure {
    Unavailable(ServerError),
    Unknown(ServerError),
    Refused(ServerError),
    /// The server does not accept this client.
    Unauthorized(ServerError),
    /// Its holder was granted it by another request of its own, and does not enter twice.
    AlreadyHeld,
    /// Its holder was granted it by another request of its own, and it enters again as soon as it is polled.
    Reenters,
    /// Granted, not as durable as asked, and given back.
    NotDurable(CommitError),
    ShuttingDown,
}

impl AcquireFailure {
    /// The same failure, where an earlier copy of the request may have been carried out.
    pub(super) fn unknown(self) -> AcquireFailure {
        match self {
            AcquireFailure::Unavailable(source)
            | AcquireFailure::Refused(source)
            | AcquireFailure::Unauthorized(source) => AcquireFailure::Unknown(source),
            other => other,
        }
    }
}

/// What a request has seen of its name, for the case that its time runs out.
#[derive(Default)]
pub(super) struct RequestStatus {
    pub(super) progress: Progress,
    busy: AtomicBool,
    /// Until when an unanswered copy of its request may still take the name, in nanoseconds.
    may_execute_until: AtomicU64,
    /// Its place in the server's queue, where the kind has one.
    pub(super) position: QueuePosition,
}

impl RequestStatus {
    pub(super) fn set_busy(&self) {
        self.busy.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    pub(super) fn set_maybe_executed(&self, until: Instant) {
        self.may_execute_until.fetch_max(until.as_nanos(), Ordering::Relaxed);
    }

    pub(super) fn may_be_executed(&self, now: Instant) -> bool {
        now < self.may_execute_until()
    }

    pub(super) fn may_execute_until(&self) -> Instant {
        Instant::from_nanos(self.may_execute_until.load(Ordering::Relaxed))
    }
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
            continued: Instant::PAST,
            changed: None,
            last: (0, Instant::PAST),
            contact: now,
        }
    }

    /// The holds under this name that may be believed and have a guard: what was forgotten is left to its lease, and nobody's.
    pub(super) fn held(&self) -> impl Iterator<Item = &Arc<Hold>> {
        self.holds.iter().filter(|hold| hold.guards.load(Ordering::Acquire) > 0 && hold.is_held())
    }

    /// Where a hold is among those who have it.
    pub(super) fn position(&self, hold: &Arc<Hold>) -> Option<usize> {
        let is_it = |held: &Arc<Hold>| Arc::ptr_eq(held, hold);
        // Many may share it: looked for only where it is not where it was put.
        let at = hold.index.load(Ordering::Relaxed);
        if self.holds.get(at).is_some_and(is_it) { Some(at) } else { self.holds.iter().position(is_it) }
    }

    /// One more has it.
    pub(super) fn add(&mut self, hold: Arc<Hold>) {
        hold.index.store(self.holds.len(), Ordering::Relaxed);
        self.holds.push(hold);
    }

    /// The one at `at` has it no more.
    pub(super) fn remove(&mut self, at: usize) {
        self.holds.swap_remove(at);
        if let Some(moved) = self.holds.get(at) {
            moved.index.store(at, Ordering::Relaxed);
        }
    }

    /// Whether those who have it have all left it to its lease.
    pub(super) fn is_forgotten(&self) -> bool {
        !self.holds.is_empty() && self.holds.iter().all(|hold| hold.guards.load(Ordering::Acquire) == 0)
    }

    /// Whether somebody else is known to have it: of this process, or elsewhere.
    pub(super) fn is_taken(&self) -> bool {
        let given_back = matches!(self.busy, Busy::Release { .. });
        self.contended
            || (!given_back && self.server_lease.as_ref().is_some_and(|server_lease| server_lease.is_valid_locally()))
    }

    /// The first of the queue that still wants it at `now`: one whose time is over need only be polled to be told so.
    pub(super) fn next(&mut self, now: Instant) -> Option<&Waiter> {
        let at = self.next_at(now)?;
        self.queue.get(at)
    }

    /// Where it stands in the queue.
    pub(super) fn next_at(&mut self, now: Instant) -> Option<usize> {
        if self.queue.is_empty() {
            return None;
        }
        self.drop_cancelled_head();
        self.queue.iter().position(|entry| !entry.answer.is_closed() && entry.until > now)
    }

    /// The request with this number waits no more, and its answer can not reach it any more. Tells whether that is to be looked at by
    /// the loop of the name: nobody waits then, or a place on the server is free.
    pub(super) fn cancel(&mut self, id: u64) -> bool {
        let waited = self.queue.len();
        if self.protocol.queue().is_none() && !self.protocol.is_shared() {
            mark_cancelled(&mut self.queue, &mut self.cancelled, |entry| entry.answer.is_closed());
            return waited > 0 && self.queue.is_empty();
        }
        // Others are counted by their places, on the server or among those who share.
        if let Some(at) = self.index_of(id) {
            self.queue.remove(at);
        }
        waited > self.queue.len() && (self.queue.is_empty() || self.protocol.queue().is_some())
    }

    /// Takes out those at the head who have left: where nobody waits, the queue is empty then.
    pub(super) fn drop_cancelled_head(&mut self) {
        while self.queue.front().is_some_and(|entry| entry.answer.is_closed()) {
            self.queue.pop_front();
        }
    }

    /// Where a request stands. They mostly stand in the order of their numbers; not where one was brought forward.
    fn index_of(&self, id: u64) -> Option<usize> {
        let in_order = self.queue.binary_search_by_key(&id, |entry: &Waiter| entry.id).ok();
        in_order.or_else(|| self.queue.iter().position(|entry| entry.id == id))
    }

    /// Has the request with this number be the next of the queue; false when nobody waits for it any more.
    pub(super) fn promote(&mut self, id: u64, now: Instant) -> bool {
        let wants = |entry: &Waiter| entry.id == id && !entry.answer.is_closed() && entry.until > now;
        let Some(entry) = self.queue.iter().position(wants).and_then(|at| self.queue.remove(at)) else { return false };
        self.queue.push_front(entry);
        true
    }

    /// Makes an exchange visible to whoever may need it to go on without its caller.
    pub(super) fn register(&mut self, number: u64, flight: &InlineTask) {
        self.inline_tasks.retain(|(_, flight)| !flight.is_over());
        self.inline_tasks.push((number, flight.clone()));
    }

    /// The exchange with this number has told what came of it: nobody needs it to go on.
    pub(super) fn completed(&mut self, number: u64) {
        self.inline_tasks.retain(|(flying, _)| *flying != number);
    }

    /// Joins the queue. One who waits alone has room for himself, as most do.
    pub(super) fn enqueue(&mut self, entry: Waiter) {
        if self.queue.capacity() == 0 {
            self.queue.reserve_exact(1);
        }
        self.queue.push_back(entry);
    }

    /// Takes out of the queue whom `keep` does not give back, and leaves the others in their order.
    pub(super) fn retain_map(&mut self, mut keep: impl FnMut(Waiter) -> Option<Waiter>) {
        for _ in 0..self.queue.len() {
            let kept = self.queue.pop_front().and_then(&mut keep);
            self.queue.extend(kept);
        }
    }

    /// A queue in which nobody waits takes no room, where others do not come and go all the time.
    pub(super) fn shrink_if_idle(&mut self) {
        if self.queue.is_empty() && !self.loop_running {
            self.queue = VecDeque::new();
        }
    }

    /// By what the drive loop is told that something has changed.
    pub(super) fn changed(&mut self) -> Arc<Notify> {
        Arc::clone(self.changed.get_or_insert_with(Arc::default))
    }

    /// Tells the drive loop. One that has not begun looks at everything when it does.
    pub(super) fn notify_loop(&self) {
        if let Some(changed) = &self.changed {
            changed.notify_one();
        }
    }

    /// Whether what is said of `server lease` concerns this name now.
    pub(super) fn has(&self, server_lease: &Arc<ServerLease>) -> bool {
        self.server_lease.as_ref().is_some_and(|ours| Arc::ptr_eq(ours, server_lease))
    }

    /// The same by its number.
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

    /// Whether a new request may have what is about to be given back.
    pub(super) fn is_reclaimable(&self, now: Instant) -> bool {
        let Some(server_lease) = self.server_lease.as_ref().filter(|_| self.holds.is_empty()) else { return false };
        let queued = matches!(self.busy, Busy::Release { server_lease: of, queued: true, .. } if of == server_lease.id);
        queued && server_lease.is_valid_locally() && server_lease.may_hand_over(now)
    }

    /// Tells those who only look that somebody else has the name.
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

/// Tells those who waited. Not under the table's lock: a grant that nobody takes is given back where it is dropped.
pub(super) fn send(answers: Answers) {
    for (sender, answer) in answers {
        let _ = sender.send(answer);
    }
}
