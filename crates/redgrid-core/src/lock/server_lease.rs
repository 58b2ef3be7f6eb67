//! One grant of the server with its lease: one holder field, used by consecutive tasks of this
//! process.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use super::handover_count::HandoverCount;
use super::holder_field::HolderField;
use super::lock_state::LockId;
use super::protocol::{HoldArgs, LockKeys, LockProtocol};
use super::shortenings::Shortenings;
use super::terms::{self, LeaseMode};
use crate::clock::{Clock, Instant, nanos};
use crate::config::Durability;
use crate::connection::{NodeId, RequestOutcome};
use crate::lease::{Deadline, Lease};

/// The schedule of all server leases of a client.
pub(super) type Schedule = crate::lease::Schedule<ServerLease>;

/// A grant of the server, before it becomes a server lease.
pub(crate) struct GrantReply {
    pub(crate) id: u64,
    pub(crate) field: Bytes,
    /// Server time of the grant, in microseconds.
    pub(crate) token: u64,
    pub(crate) sent: Instant,
    pub(crate) received: Instant,
    pub(crate) retransmission_ends: Option<Instant>,
    /// The lease on the server.
    pub(crate) lease: Duration,
    /// Until when tasks may hand it over within this process, without a request.
    pub(crate) handover_ends: Instant,
    /// The node that granted it.
    pub(crate) node: NodeId,
    /// The durability of the grant.
    pub(crate) durability: Durability,
}

impl GrantReply {
    /// Builds the grant from the reply to `asked`.
    pub(super) fn by(
        asked: &RequestOutcome,
        id: u64,
        field: Bytes,
        token: u64,
        (lease, durability): (Duration, Durability),
        handover_ends: Instant,
    ) -> GrantReply {
        let RequestOutcome { sent, received, retransmission_ends, .. } = *asked;
        let node = asked.by.id().clone();
        GrantReply { id, field, token, sent, received, retransmission_ends, lease, handover_ends, node, durability }
    }
}

/// One grant of the server, from its acquire to its release.
pub(crate) struct ServerLease {
    /// The number in its holder field; unique in this client.
    pub(crate) id: u64,
    field: HolderField,
    pub(crate) keys: Arc<LockKeys>,
    pub(crate) protocol: &'static dyn LockProtocol,
    /// Which of the grants of its key it is.
    grant_id: u64,
    /// Set when another hold converts from it: it is released without further hand-over or sharing.
    sealed: AtomicBool,
    /// Also the mutex under which the deadline moves.
    inner: Mutex<LeaseInner>,
    pub(crate) clock: Clock,
    /// The token of its first owner.
    pub(crate) token: u64,
    /// When the reply was received.
    pub(crate) granted: Instant,
    pub(crate) handover_ends: Instant,
    owners: HandoverCount,
    deadline: Deadline,
    /// The lease that renewals send, in nanoseconds.
    lease: AtomicU64,
    /// Whether the current owner's lease is renewed, and until when.
    renewed: AtomicBool,
    renewed_until: AtomicU64,
    /// When the current owner's lease ends; `Instant::MAX` if it is renewed.
    owner_due: AtomicU64,
    /// Lost, released, or no longer valid locally.
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

/// Fields that most server leases do not need.
#[derive(Default)]
struct ColdFields {
    /// Set if more than the primary's confirmation is wanted.
    durable: DurabilityState,
    shortenings: Shortenings,
    /// Until when a retransmission of the acquire may execute, and the lease that it would get.
    retransmission: Option<(Instant, Duration)>,
    /// Latest end on the server after an extension or renewal that was unanswered or does not
    /// count.
    server_lease_upper_bound: Instant,
    /// Notifies a waiter that only one sharer is left; created by the first waiter.
    alone: Option<Arc<Notify>>,
}

/// The durability of a server lease.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct DurabilityState {
    /// The durability of its current lease.
    is: Durability,
    /// The durability that its owner wants for renewals.
    wanted: Durability,
}

impl Lease for ServerLease {
    type Id = u64;

    fn id(&self) -> u64 {
        self.id
    }

    /// Returns when it ends by the clock, or its owner's lease does.
    fn next_end(&self) -> Instant {
        self.deadline().min(self.owner_due())
    }
}

impl ServerLease {
    pub(super) fn new(
        granted: GrantReply,
        key: &LockId,
        keys: Arc<LockKeys>,
        protocol: &'static dyn LockProtocol,
        clock: Clock,
    ) -> Self {
        let durable = DurabilityState { is: granted.durability, wanted: granted.durability };
        let copy = granted.retransmission_ends.map(|until| (until, granted.lease));
        let is_rare = durable != DurabilityState::default() || copy.is_some();
        let rare = is_rare.then(|| Box::new(ColdFields { durable, retransmission: copy, ..ColdFields::default() }));
        ServerLease {
            id: granted.id,
            field: HolderField::of(granted.field),
            keys,
            protocol,
            grant_id: key.2,
            sealed: AtomicBool::new(false),
            inner: Mutex::new(LeaseInner { node: granted.node, cold: rare }),
            clock,
            token: granted.token,
            granted: granted.received,
            handover_ends: granted.handover_ends,
            owners: HandoverCount::default(),
            deadline: Deadline::new(terms::deadline(granted.sent, granted.lease)),
            lease: AtomicU64::new(nanos(granted.lease)),
            renewed: AtomicBool::new(false),
            renewed_until: AtomicU64::new(0),
            owner_due: AtomicU64::new(Instant::MAX.as_nanos()),
            over: AtomicBool::new(false),
        }
    }

    /// Records the node that has it now. Returns whether another node had it before.
    pub(crate) fn has_moved(&self, to: &NodeId) -> bool {
        let mut changing = self.inner();
        changing.node != *to && {
            changing.node = to.clone();
            true
        }
    }

    /// Returns until when a retransmission of the acquire may execute.
    pub(crate) fn retransmission_ends(&self) -> Option<Instant> {
        self.retransmission().map(|(until, _)| until)
    }

    /// Returns the same, and the lease that such a retransmission would get.
    pub(super) fn retransmission(&self) -> Option<(Instant, Duration)> {
        self.inner().cold.as_ref()?.retransmission
    }

    /// Returns the key of its lock in the table.
    pub(super) fn lock_id(&self) -> LockId {
        LockId(self.protocol.name(), Arc::clone(&self.keys), self.grant_id)
    }

    /// Stops hand-over and sharing; call it under the table's lock.
    pub(super) fn seal(&self) {
        self.sealed.store(true, Ordering::Release);
    }

    /// Returns whether another task may take it over, or share it, without a request to the server.
    pub(super) fn may_hand_over(&self, now: Instant) -> bool {
        now < self.handover_ends && !self.sealed.load(Ordering::Acquire)
    }

    /// Notifies the last sharer that all others have left.
    pub(super) fn left_alone(&self) {
        // A waiter that registers now checks once more before it waits.
        if let Some(alone) = self.inner().cold.as_ref().and_then(|rare| rare.alone.as_ref()) {
            alone.notify_waiters();
        }
    }

    /// Returns the `Notify` of `left_alone`, and creates it on first use.
    pub(super) fn alone(&self) -> Arc<Notify> {
        Arc::clone(self.inner().cold.get_or_insert_default().alone.get_or_insert_default())
    }

    /// Returns until when it is valid locally.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline.at()
    }

    /// Raises the latest end on the server to `until`.
    ///
    /// An extension or renewal that was unanswered, or does not count, may have lasted on the
    /// server until then. It is not valid locally for that time.
    pub(crate) fn raise_upper_bound(&self, until: Instant) {
        self.inner().raise_upper_bound(until);
    }

    /// Returns the latest time at which its lease ends on the server.
    pub(crate) fn lease_ends(&self) -> Instant {
        let believed = self.deadline() + terms::margin(self.lease());
        believed.max(self.inner().cold.as_ref().map_or(Instant::MIN, |rare| rare.server_lease_upper_bound))
    }

    /// Returns the lease that renewals send.
    pub(crate) fn lease(&self) -> Duration {
        Duration::from_nanos(self.lease.load(Ordering::Acquire))
    }

    /// Returns whether it is held, by the local clock.
    pub(crate) fn is_valid_locally(&self) -> bool {
        self.is_valid_locally_at(self.clock.now())
    }

    /// Like `is_valid_locally`, for callers that have just read the clock.
    pub(crate) fn is_valid_locally_at(&self, now: Instant) -> bool {
        !self.over.load(Ordering::Acquire) && !self.has_expired(now)
    }

    /// Returns whether its deadline has passed, or was observed as passed before.
    pub(crate) fn has_expired(&self, now: Instant) -> bool {
        self.deadline.has_passed(now)
    }

    /// Returns whether it was lost or given up.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Marks it as ended. Returns `false` if it was ended before.
    pub(crate) fn end(&self) -> bool {
        !self.over.swap(true, Ordering::AcqRel)
    }

    /// Returns whether renewals extend it; otherwise they only verify it.
    pub(crate) fn is_renewed(&self) -> bool {
        self.is_renewed_at(self.clock.now())
    }

    /// Like `is_renewed`, for callers that have just read the clock.
    pub(crate) fn is_renewed_at(&self, now: Instant) -> bool {
        self.has_renewed_lease() && now.as_nanos() < self.renewed_until.load(Ordering::Acquire)
    }

    /// Returns whether the current owner requested a renewed lease.
    pub(crate) fn has_renewed_lease(&self) -> bool {
        self.renewed.load(Ordering::Acquire)
    }

    /// Stops the renewals and leaves it to its lease.
    pub(crate) fn stop_renewing(&self) {
        self.renewed_until.store(0, Ordering::Release);
    }

    /// Returns the durability of its current lease.
    pub(crate) fn durability(&self) -> Durability {
        self.durable(|_| {}).is
    }

    /// Returns the durability that renewals must have.
    pub(crate) fn wanted_durability(&self) -> Durability {
        self.durable(|_| {}).wanted
    }

    /// Changes the durability and returns the result.
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

    /// Adopts the options of a new owner: lease and durability of renewals, their end, and the end
    /// of its own lease.
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

    /// Returns the next owner's token, and from when on the server's clock is certainly past it.
    pub(crate) fn next_token(&self) -> (u64, Instant) {
        self.owners.next_token(self.token, self.granted)
    }

    /// Returns whether it has had no owner yet.
    pub(crate) fn is_unowned(&self) -> bool {
        self.owners.is_zero()
    }

    /// Counts one more owner.
    pub(crate) fn count_owner(&self) {
        self.owners.increment();
    }

    /// Records a confirmation of a request sent at `sent`, with its durability. Returns the
    /// deadline.
    ///
    /// The deadline moves forward unless a shortening may still execute after it. In that case, or
    /// if the confirmation came too late, only the latest end on the server is raised.
    pub(crate) fn confirmed(&self, sent: Instant, lease: Duration, durability: Durability) -> Instant {
        self.durable(|durable| durable.is = durability);
        let mut changing = self.inner();
        let now = self.clock.now();
        let counts = changing.cold.as_ref().is_none_or(|rare| rare.shortenings.allow(sent));
        if !counts || !self.deadline.extend(terms::deadline(sent, lease), now) {
            changing.raise_upper_bound(now + lease);
        }
        self.deadline()
    }

    /// Lowers the deadline for a shortening that is sent at `sent` or later.
    pub(crate) fn begin_shortening(&self, sent: Instant, lease: Duration) {
        self.inner().cold.get_or_insert_default().shortenings.begin();
        self.deadline.lower(terms::deadline(sent, lease));
    }

    /// Ends a shortening that was answered, or that may execute until `unanswered_until`.
    ///
    /// Confirmations of requests that are sent from then on count again.
    pub(crate) fn end_shortening(&self, unanswered_until: Option<Instant>) {
        let now = self.clock.now();
        self.inner().cold.get_or_insert_default().shortenings.end(unanswered_until, now);
    }

    fn inner(&self) -> MutexGuard<'_, LeaseInner> {
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns the holder field.
    pub(crate) fn field(&self) -> &[u8] {
        self.field.as_bytes()
    }

    /// Returns a copy of the holder field for a request.
    pub(crate) fn copied_field(&self) -> Bytes {
        self.field.to_bytes()
    }

    /// Returns the script arguments for its [holder field](ServerLease::copied_field).
    pub(crate) fn claim<'a>(&'a self, field: &'a Bytes, lease: Duration) -> HoldArgs<'a> {
        HoldArgs { target: &self.keys, field, lease }
    }
}
