//! What a process has on the server under one name: one holder field, for all of its tasks that hold it in turn.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use super::deadline::Deadline;
use super::handover_count::HandoverCount;
use super::lock_state::LockId;
use super::protocol::{HoldArgs, LockKeys, LockProtocol};
use super::terms::{self, LeaseMode};
use crate::clock::{Clock, Instant, nanos};
use crate::config::Durability;
use crate::connection::{Exchange, NodeId};
use crate::short::Short;

/// What a grant of the server was, before it becomes a server lease.
pub(crate) struct GrantReply {
    pub(crate) id: u64,
    pub(crate) field: Bytes,
    /// The server's time in microseconds when it granted.
    pub(crate) token: u64,
    pub(crate) sent: Instant,
    pub(crate) received: Instant,
    pub(crate) retransmission_ends: Option<Instant>,
    /// The lease on the server.
    pub(crate) lease: Duration,
    /// Until when it may pass from task to task without asking the server.
    pub(crate) handover_ends: Instant,
    /// The node that granted it.
    pub(crate) node: NodeId,
    /// How durable the grant is.
    pub(crate) durability: Durability,
}

impl GrantReply {
    /// What the answer to `asked` granted.
    pub(super) fn by(
        asked: &Exchange,
        id: u64,
        field: Bytes,
        token: u64,
        (lease, durability): (Duration, Durability),
        stretch_ends: Instant,
    ) -> GrantReply {
        let (sent, received, unanswered_until) = (asked.sent, asked.received, asked.unanswered_until);
        GrantReply {
            id,
            field,
            token,
            sent,
            received,
            retransmission_ends: unanswered_until,
            lease,
            handover_ends: stretch_ends,
            node: asked.by.id().clone(),
            durability,
        }
    }
}

/// One grant of the server, from its acquire to its release.
pub(crate) struct ServerLease {
    /// The number in its field; unique in this client.
    pub(crate) id: u64,
    field: Field,
    pub(crate) target: Arc<LockKeys>,
    pub(crate) kind: &'static dyn LockProtocol,
    /// Which of the grants of its key it is.
    grant_id: u64,
    /// Another hold was asked for under it: it goes back to the server, and nobody else comes in before.
    sealed: AtomicBool,
    /// Also the lock under which the deadline moves.
    inner: Mutex<LeaseInner>,
    pub(crate) clock: Clock,
    /// The token of its first owner.
    pub(crate) token: u64,
    /// When the answer was here.
    pub(crate) granted: Instant,
    pub(crate) stretch_ends: Instant,
    owners: HandoverCount,
    deadline: Deadline,
    /// The lease that renewals write, in nanoseconds.
    lease: AtomicU64,
    /// Whether the present owner's lease is renewed, and until when.
    renewed: AtomicBool,
    renewed_until: AtomicU64,
    /// When something is to be done about the present owner: its lease ends. Never, for one that is renewed.
    owner_due: AtomicU64,
    /// No longer ours, or no longer believed.
    over: AtomicBool,
}

struct LeaseInner {
    /// The node that was last known to have it.
    node: NodeId,
    cold: Option<Box<ColdFields>>,
}

impl LeaseInner {
    fn raise_upper_bound(&mut self, until: Instant) {
        let reach = &mut self.cold.get_or_insert_default().server_lease_upper_bound;
        *reach = until.max(*reach);
    }
}

/// What most server leases do not have.
#[derive(Default)]
struct ColdFields {
    /// Where more than the primary is wanted.
    durable: DurabilityState,
    shortenings: PendingShortenings,
    /// A copy of its acquire that was not answered: until when it may still be carried out, and the lease that it would get.
    retransmission: Option<(Instant, Duration)>,
    /// Until when the server may have it by a lengthening or a renewal that was not answered, or does not count.
    server_lease_upper_bound: Instant,
    /// All but one of those who shared it have left: for who waits for that, from when he does.
    alone: Option<Arc<Notify>>,
}

/// A holder field. Whatever is sent of it is made for that: it is sent rarely, and kept for long.
enum Field {
    Here(Short),
    /// One that is longer than ours are.
    Apart(Bytes),
}

impl Field {
    fn of(text: Bytes) -> Field {
        Short::new().with(&text).map_or(Field::Apart(text), Field::Here)
    }
}

/// How durable a server lease is, and is to be.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct DurabilityState {
    /// Its present lease is.
    is: Durability,
    /// Its owner wants its renewals to be.
    wanted: Durability,
}

/// Extensions to a shorter lease that may be carried out late, and undo what a later request confirmed.
#[derive(Default)]
struct PendingShortenings {
    /// Until when those without an answer may be carried out; never over for those that have just begun.
    unanswered: Vec<Instant>,
    /// When the last of the others was answered: what left before it says nothing about what came after.
    settled: Instant,
}

impl PendingShortenings {
    /// From when on a request that leaves is certainly carried out after them.
    fn over(&self) -> Instant {
        self.unanswered.iter().copied().max().unwrap_or(Instant::PAST).max(self.settled)
    }
}

impl ServerLease {
    pub(super) fn new(
        granted: GrantReply,
        key: &LockId,
        target: Arc<LockKeys>,
        kind: &'static dyn LockProtocol,
        clock: Clock,
    ) -> Self {
        let durable = DurabilityState { is: granted.durability, wanted: granted.durability };
        let copy = granted.retransmission_ends.map(|until| (until, granted.lease));
        let is_rare = durable != DurabilityState::default() || copy.is_some();
        let rare = is_rare.then(|| Box::new(ColdFields { durable, retransmission: copy, ..ColdFields::default() }));
        ServerLease {
            id: granted.id,
            field: Field::of(granted.field),
            target,
            kind,
            grant_id: key.2,
            sealed: AtomicBool::new(false),
            inner: Mutex::new(LeaseInner { node: granted.node, cold: rare }),
            clock,
            token: granted.token,
            granted: granted.received,
            stretch_ends: granted.handover_ends,
            owners: HandoverCount::default(),
            deadline: Deadline::new(terms::deadline(granted.sent, granted.lease)),
            lease: AtomicU64::new(nanos(granted.lease)),
            renewed: AtomicBool::new(false),
            renewed_until: AtomicU64::new(0),
            owner_due: AtomicU64::new(Instant::NEVER.as_nanos()),
            over: AtomicBool::new(false),
        }
    }

    /// Whether another node than this one was last known to have it; from now on this one is.
    pub(crate) fn has_moved(&self, to: &NodeId) -> bool {
        let mut changing = self.inner();
        changing.node != *to && {
            changing.node = to.clone();
            true
        }
    }

    /// Until when an unanswered copy of its acquire may still be carried out.
    pub(crate) fn retransmission_ends(&self) -> Option<Instant> {
        self.retransmission().map(|(until, _)| until)
    }

    /// The lease that such a copy would get; where there is none, the one that it has.
    pub(crate) fn first_lease(&self) -> Duration {
        self.retransmission().map_or_else(|| self.lease(), |(_, lease)| lease)
    }

    fn retransmission(&self) -> Option<(Instant, Duration)> {
        self.inner().cold.as_ref()?.retransmission
    }

    /// The name in the table.
    pub(super) fn slot_key(&self) -> LockId {
        LockId(self.kind.name(), Arc::clone(&self.target), self.grant_id)
    }

    /// Keeps it from all others of this process; under the table's lock.
    pub(super) fn seal(&self) {
        self.sealed.store(true, Ordering::Release);
    }

    /// Whether another of this process may have it, or share it, without asking the server.
    pub(super) fn may_hand_over(&self, now: Instant) -> bool {
        now < self.stretch_ends && !self.sealed.load(Ordering::Acquire)
    }

    /// Tells the last one who has it that the others have left.
    pub(super) fn left_alone(&self) {
        // Who comes to wait now looks once more before he does.
        if let Some(alone) = self.inner().cold.as_ref().and_then(|rare| rare.alone.as_ref()) {
            alone.notify_waiters();
        }
    }

    /// What tells that.
    pub(super) fn alone(&self) -> Arc<Notify> {
        Arc::clone(self.inner().cold.get_or_insert_default().alone.get_or_insert_default())
    }

    /// Until when it may be believed.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline.at()
    }

    /// A lengthening or a renewal was not answered, or does not count: the server may have it until then, although nobody here may
    /// believe so.
    pub(crate) fn raise_upper_bound(&self, until: Instant) {
        self.inner().raise_upper_bound(until);
    }

    /// When its lease ends on the server, at the latest.
    pub(crate) fn lease_ends(&self) -> Instant {
        let believed = self.deadline() + terms::margin(self.lease());
        believed.max(self.inner().cold.as_ref().map_or(Instant::PAST, |rare| rare.server_lease_upper_bound))
    }

    /// The lease that renewals write.
    pub(crate) fn lease(&self) -> Duration {
        Duration::from_nanos(self.lease.load(Ordering::Acquire))
    }

    /// Whether it is ours by our own clock.
    pub(crate) fn is_valid_locally(&self) -> bool {
        self.is_valid_locally_at(self.clock.now())
    }

    /// The same for who has just read the clock.
    pub(crate) fn is_valid_locally_at(&self, now: Instant) -> bool {
        !self.over.load(Ordering::Acquire) && !self.has_expired(now)
    }

    /// Whether its deadline has passed, or was seen passed before.
    pub(crate) fn has_expired(&self, now: Instant) -> bool {
        self.deadline.has_passed(now)
    }

    /// Whether it was found or given up as no longer ours.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// It is no longer ours; false when that was known before.
    pub(crate) fn end(&self) -> bool {
        !self.over.swap(true, Ordering::AcqRel)
    }

    /// Whether renewals lengthen it; otherwise they only look whether it is still ours.
    pub(crate) fn is_renewed(&self) -> bool {
        self.is_renewed_at(self.clock.now())
    }

    /// The same for who has just read the clock.
    pub(crate) fn is_renewed_at(&self, now: Instant) -> bool {
        self.has_renewed_lease() && now.as_nanos() < self.renewed_until.load(Ordering::Acquire)
    }

    /// Whether the present owner asked for a lease that is renewed.
    pub(crate) fn has_renewed_lease(&self) -> bool {
        self.renewed.load(Ordering::Acquire)
    }

    /// From here on it is left to its lease.
    pub(crate) fn stop_renewing(&self) {
        self.renewed_until.store(0, Ordering::Release);
    }

    /// How durable its present lease is.
    pub(crate) fn durability(&self) -> Durability {
        self.durable(|_| {}).is
    }

    /// How durable its renewals are to be.
    pub(crate) fn wanted_durability(&self) -> Durability {
        self.durable(|_| {}).wanted
    }

    /// How durable it is, and is to be, after a change.
    fn durable(&self, change: impl FnOnce(&mut DurabilityState)) -> DurabilityState {
        let mut changing = self.inner();
        let mut durable = changing.cold.as_ref().map(|rare| rare.durable).unwrap_or_default();
        let before = durable;
        change(&mut durable);
        if durable != before {
            changing.cold.get_or_insert_default().durable = durable;
        }
        durable
    }

    /// Takes over an owner's wishes: what renewals write, how durable, until when they do, and when the owner's own lease is
    /// looked at.
    pub(crate) fn serve(&self, lease: LeaseMode, durability: Durability, renewed_until: Instant, owner_due: Instant) {
        self.durable(|durable| durable.wanted = durability);
        if let LeaseMode::Renewed(lease) = lease {
            self.lease.store(nanos(lease), Ordering::Release);
        }
        self.renewed_until.store(renewed_until.as_nanos(), Ordering::Release);
        self.renewed.store(matches!(lease, LeaseMode::Renewed(_)), Ordering::Release);
        self.set_owner_due(owner_due);
    }

    pub(crate) fn set_owner_due(&self, due: Instant) {
        self.owner_due.store(due.as_nanos(), Ordering::Release);
    }

    pub(crate) fn owner_due(&self) -> Instant {
        Instant::from_nanos(self.owner_due.load(Ordering::Acquire))
    }

    /// When something ends by the clock: the belief in it, or the lease of its owner.
    pub(crate) fn next_end(&self) -> Instant {
        self.deadline().min(self.owner_due())
    }

    /// The token of the next owner, and from when on the server's clock is certainly past it.
    pub(crate) fn next_token(&self) -> (u64, Instant) {
        self.owners.next_token(self.token, self.granted)
    }

    /// Whether nobody has had it yet.
    pub(crate) fn is_unowned(&self) -> bool {
        self.owners.is_zero()
    }

    /// It has another owner.
    pub(crate) fn count_owner(&self) {
        self.owners.increment();
    }

    /// A confirmation that left at `sent`, so durable by now: the deadline moves forward, unless a shortening may still come
    /// after it. Then, or where it comes too late, the server may have it for longer than is believed.
    pub(crate) fn confirmed(&self, sent: Instant, lease: Duration, durability: Durability) -> Instant {
        self.durable(|durable| durable.is = durability);
        let mut changing = self.inner();
        let now = self.clock.now();
        let counts = changing.cold.as_ref().is_none_or(|rare| sent >= rare.shortenings.over());
        if !counts || !self.deadline.extend(terms::deadline(sent, lease), now) {
            changing.raise_upper_bound(now + lease);
        }
        self.deadline()
    }

    /// Lowers the deadline for a shortening that is about to leave, at `sent` or later.
    pub(crate) fn begin_shortening(&self, sent: Instant, lease: Duration) {
        self.inner().cold.get_or_insert_default().shortenings.unanswered.push(Instant::NEVER);
        self.deadline.lower(terms::deadline(sent, lease));
    }

    /// The shortening was answered by now, or may be carried out until `unanswered_until`. What leaves from then on counts
    /// again.
    pub(crate) fn end_shortening(&self, unanswered_until: Option<Instant>) {
        let now = self.clock.now();
        let mut changing = self.inner();
        let shortenings = &mut changing.cold.get_or_insert_default().shortenings;
        let begun = shortenings.unanswered.iter().position(|until| *until == Instant::NEVER);
        if let Some(begun) = begun {
            shortenings.unanswered.swap_remove(begun);
        }
        match unanswered_until {
            Some(until) => shortenings.unanswered.push(until),
            None => shortenings.settled = now.max(shortenings.settled),
        }
    }

    fn inner(&self) -> MutexGuard<'_, LeaseInner> {
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Its holder field, as it is.
    pub(crate) fn field(&self) -> &[u8] {
        match &self.field {
            Field::Here(text) => text.as_ref(),
            Field::Apart(text) => text,
        }
    }

    /// The same to be sent.
    pub(crate) fn copied_field(&self) -> Bytes {
        match &self.field {
            Field::Here(text) => text.into_bytes(),
            Field::Apart(text) => text.clone(),
        }
    }

    /// It as its scripts see it, under its [field](ServerLease::copied_field).
    pub(crate) fn claim<'a>(&'a self, field: &'a Bytes, lease: Duration) -> HoldArgs<'a> {
        HoldArgs { target: &self.target, field, lease }
    }
}
