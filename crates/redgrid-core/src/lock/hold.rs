//! One grant of the server, and the share of one task in it.
//!
//! A [`ServerLease`] is one holder field on the server, used by consecutive tasks of this process,
//! or by several at a time. A [`Hold`] is the share of one task, with its own lease and end.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use redgrid_client::NodeId;
use redgrid_client::internal::{nanos, shrink_if_sparse};

use super::attempt::GrantReply;
use super::cold_fields::ColdFields;
use super::error::LostReason;
use super::hold_watch::EndWatchers;
use super::protocol::{AcquireRequest, HoldArgs, LockKeys, LockProtocol};
use super::table::LockId;
use crate::clock::{Clock, Instant};
use crate::config::Durability;
use crate::lease::{Deadline, Lease, LeaseMode, Overdue, deadline, margin};
use crate::observe::{HoldSpan, count};

/// One grant of the server, from its acquire to its release.
pub(crate) struct ServerLease {
    /// The number in the holder field; unique in this client.
    pub(super) id: u64,
    pub(super) keys: Arc<LockKeys>,
    pub(super) protocol: &'static dyn LockProtocol,
    /// The number of this grant among the grants of its key; see [`LockId`].
    grant: u64,
    pub(super) clock: Clock,
    /// Set when a hold of this lease is converted: from then on, no other task gets or shares it.
    pub(super) sealed: AtomicBool,
    /// Set when the server lease was lost or released, or is no longer valid locally.
    over: AtomicBool,
    pub(super) overdue: Overdue,
    /// Whether the current owner's lease is renewed; `renewed_until` says until when.
    renewed: AtomicBool,
    pub(super) renewed_until: AtomicU64,
    /// The token of the first owner.
    pub(super) token: u64,
    /// When the reply with the grant was received.
    pub(super) granted: Instant,
    pub(super) handover_ends: Instant,
    /// Number of local tasks that have owned the lease; changed under the table's lock.
    ///
    /// A server lease that is passed along the server's queue can have any number of owners. A
    /// counter of 32 bits would overflow after a day of hand-overs, and tokens would repeat.
    pub(super) owners: AtomicU64,
    pub(super) deadline: Deadline,
    /// The lease that renewals request, in nanoseconds.
    lease: AtomicU64,
    /// The end of the current owner's lease. While the hold is offered to a task, the end of the
    /// offer if that is earlier. `Instant::MAX` if neither ends.
    owner_due: AtomicU64,
    /// Fields behind a mutex, which is also locked while the deadline is extended.
    inner: Mutex<LeaseInner>,
}

/// The fields of a server lease that its mutex protects.
pub(super) struct LeaseInner {
    /// The node that was last known to have the lease.
    pub(super) node: NodeId,
    pub(super) cold: Option<Box<ColdFields>>,
    /// Notifies tasks that wait for the end of one of the holds; created for the first such task.
    pub(super) ended: Option<Box<EndWatchers>>,
}

impl Lease for ServerLease {
    type Id = u64;

    fn id(&self) -> u64 {
        self.id
    }

    /// Returns the earliest of three times: the end of the server lease, of the owner's lease, and
    /// of the owner's offer.
    fn next_end(&self) -> Instant {
        self.deadline().min(self.owner_due())
    }
}

impl ServerLease {
    pub(super) fn new(granted: GrantReply, key: &LockId, protocol: &'static dyn LockProtocol, clock: Clock) -> Self {
        let is_plain = granted.durability == Durability::default() && granted.retransmission_ends.is_none();
        ServerLease {
            id: granted.id,
            keys: Arc::clone(&key.keys),
            protocol,
            grant: key.grant,
            clock,
            sealed: AtomicBool::new(false),
            over: AtomicBool::new(false),
            overdue: Overdue::default(),
            renewed: AtomicBool::new(false),
            renewed_until: AtomicU64::new(0),
            token: granted.token,
            granted: granted.received,
            handover_ends: granted.handover_ends,
            owners: AtomicU64::new(0),
            deadline: Deadline::new(deadline(granted.sent, granted.lease)),
            lease: AtomicU64::new(nanos(granted.lease)),
            owner_due: AtomicU64::new(Instant::MAX.as_nanos()),
            inner: Mutex::new(LeaseInner {
                cold: if is_plain { None } else { Some(ColdFields::of(&granted)) },
                node: granted.node,
                ended: None,
            }),
        }
    }

    pub(super) fn lock_id(&self) -> LockId {
        LockId { kind: self.protocol.name(), keys: Arc::clone(&self.keys), grant: self.grant }
    }

    pub(super) fn claim<'a>(&'a self, field: &'a Bytes, lease: Duration) -> HoldArgs<'a> {
        HoldArgs { target: &self.keys, field, lease }
    }

    /// Returns the time until which the server lease is valid locally.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline.at()
    }

    /// Returns the latest time at which the lease can end on the server.
    pub(super) fn lease_ends(&self) -> Instant {
        let ends = self.deadline() + margin(self.lease());
        self.inner().cold.as_ref().map_or(ends, |cold| ends.max(cold.server_lease_upper_bound))
    }

    /// Returns the lease that renewals request.
    pub(super) fn lease(&self) -> Duration {
        Duration::from_nanos(self.lease.load(Ordering::Acquire))
    }

    /// Returns whether the server lease is valid, by the local clock.
    pub(super) fn is_valid_locally(&self) -> bool {
        self.is_valid_locally_at(self.clock.now())
    }

    /// Like `is_valid_locally`, for callers that have just read the clock.
    pub(super) fn is_valid_locally_at(&self, now: Instant) -> bool {
        !self.is_over() && !self.deadline.has_passed(now)
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Marks the server lease as ended. Returns `false` if it was ended before.
    pub(super) fn end(&self) -> bool {
        !self.over.swap(true, Ordering::AcqRel)
    }

    /// Returns whether renewals extend the lease; otherwise they only verify the grant.
    pub(super) fn is_renewed_at(&self, now: Instant) -> bool {
        self.has_renewed_lease() && now.as_nanos() < self.renewed_until.load(Ordering::Acquire)
    }

    /// Returns whether the current owner requested a renewed lease.
    pub(super) fn has_renewed_lease(&self) -> bool {
        self.renewed.load(Ordering::Acquire)
    }

    /// Adopts the options of a new owner, and returns the owner's token. `owner_due` is the earlier
    /// of two times: the end of the owner's lease, and the time by which the owner must have
    /// accepted the hold.
    fn serve(&self, request: &AcquireRequest, now: Instant, owner_due: Instant) -> u64 {
        if request.durability != Durability::default() || self.inner().cold.is_some() {
            self.want_durability(request.durability);
        }
        if let LeaseMode::Renewed(lease) = request.lease {
            self.lease.store(nanos(lease), Ordering::Release);
        }
        let until = request.max_hold.map_or(Instant::MAX, |longest| now + longest);
        self.renewed_until.store(until.as_nanos(), Ordering::Release);
        self.renewed.store(matches!(request.lease, LeaseMode::Renewed(_)), Ordering::Release);
        self.set_owner_due(owner_due);
        self.token + self.owners.fetch_add(1, Ordering::AcqRel)
    }

    pub(super) fn set_owner_due(&self, due: Instant) {
        self.owner_due.store(due.as_nanos(), Ordering::Release);
    }

    pub(super) fn owner_due(&self) -> Instant {
        Instant::from_nanos(self.owner_due.load(Ordering::Acquire))
    }

    pub(super) fn inner(&self) -> MutexGuard<'_, LeaseInner> {
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// How long an offered hold waits for its caller to poll and accept it: 1 s.
const UNCLAIMED_TIMEOUT: Duration = Duration::from_secs(1);

const OFFERED: u8 = 0;
const ACCEPTED: u8 = 1;
const REVOKED: u8 = 2;
/// Reserved for a multi-key acquire that is not complete: no caller has a guard of the hold yet.
const RESERVED: u8 = 3;

/// The share of one task, or of one holder, in a server lease.
pub(crate) struct Hold {
    pub(super) server_lease: Arc<ServerLease>,
    pub(super) token: u64,
    /// When this process created the hold.
    pub(super) granted: Instant,
    pub(super) request: Arc<AcquireRequest>,
    /// Number of guards that are alive; counted under the table's lock.
    pub(super) guards: AtomicU32,
    /// Index among the holds of the server lease; changed under the table's lock.
    pub(super) index: AtomicU32,
    /// Whether another hold, not this one, keeps the lock taken until `at_least` has passed.
    pub(super) retained_elsewhere: AtomicBool,
    /// Whether a caller has received a guard of the hold.
    given: AtomicBool,
    offer: AtomicU8,
    /// How the hold ended: `None` if it was released, otherwise why it was lost.
    pub(super) end: OnceLock<Option<LostReason>>,
    /// When the hold's fixed lease ends, in nanoseconds; `Instant::MAX` for a renewed lease.
    pub(super) ends: AtomicU64,
    /// The time until which the hold's own lease is valid locally. That lease ends a margin later.
    pub(super) own_deadline: Deadline,
    /// The span in which the hold was acquired; without the feature `tracing`, it has no size.
    pub(super) span: HoldSpan,
}

impl Hold {
    /// Creates a hold of `server_lease`. The hold's own lease counts from `from`.
    pub(super) fn new(
        server_lease: Arc<ServerLease>,
        from: Instant,
        now: Instant,
        request: Arc<AcquireRequest>,
    ) -> Self {
        count::held(server_lease.labels());
        let (ends, valid_until) = match request.lease {
            LeaseMode::Fixed(lease) => (from + lease, deadline(from, lease)),
            LeaseMode::Renewed(_) => (Instant::MAX, Instant::MAX),
        };
        let token = server_lease.serve(&request, now, valid_until.min(now + UNCLAIMED_TIMEOUT));
        Hold {
            server_lease,
            token,
            granted: now,
            request,
            guards: AtomicU32::new(0),
            index: AtomicU32::new(0),
            retained_elsewhere: AtomicBool::new(false),
            given: AtomicBool::new(false),
            offer: AtomicU8::new(OFFERED),
            end: OnceLock::new(),
            ends: AtomicU64::new(ends.as_nanos()),
            own_deadline: Deadline::new(valid_until),
            span: HoldSpan::default(),
        }
    }

    /// Returns whether a guard of the hold is alive. A forgotten hold has a lease, but no guard.
    pub(super) fn is_guarded(&self) -> bool {
        self.guards.load(Ordering::Acquire) > 0
    }

    /// Returns the time until which the offered hold waits for its caller to accept it.
    ///
    /// If the caller does not poll by then, other waiters can get the lock.
    pub(super) fn offered_until(&self) -> Instant {
        self.granted + UNCLAIMED_TIMEOUT
    }

    fn answer_offer(&self, from: u8, to: u8) -> Result<u8, u8> {
        self.offer.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Accepts the offered hold for its caller. Returns false if the offer was revoked.
    pub(super) fn accept(&self) -> bool {
        let accepted = self.answer_offer(OFFERED, ACCEPTED).or_else(|_| self.answer_offer(RESERVED, ACCEPTED));
        let is_accepted = accepted.map_or_else(|now| now == ACCEPTED, |_| true);
        if is_accepted {
            self.set_given();
        }
        is_accepted
    }

    /// Reserves the offered hold for a multi-key acquire. Returns false if the offer was revoked.
    ///
    /// The caller receives the first guard only when all members of that acquire are granted.
    pub(super) fn reserve(&self) -> bool {
        self.answer_offer(OFFERED, RESERVED) != Err(REVOKED)
    }

    /// Revokes the offered hold if it was neither accepted nor reserved. The table must be locked.
    pub(super) fn revoke_offer(&self) -> bool {
        self.answer_offer(OFFERED, REVOKED).is_ok()
    }

    pub(super) fn is_offered(&self) -> bool {
        self.offer.load(Ordering::Acquire) == OFFERED
    }

    /// Records that a guard of the hold has reached its caller.
    pub(super) fn set_given(&self) {
        self.given.store(true, Ordering::Release);
    }

    pub(super) fn is_given(&self) -> bool {
        self.given.load(Ordering::Acquire)
    }

    /// Subtracts one dropped guard, under the table's lock. Returns how many guards are left.
    ///
    /// Returns `None` for a first guard with a revoked offer: that guard was subtracted before.
    pub(super) fn count_off(&self, is_first: bool) -> Option<u32> {
        if is_first && !self.revoke_offer() && self.offer.load(Ordering::Acquire) == REVOKED {
            return None;
        }
        Some(self.guards.fetch_sub(1, Ordering::AcqRel) - 1)
    }

    pub(super) fn deadline(&self) -> Instant {
        self.own_deadline.at().min(self.server_lease.deadline())
    }

    pub(super) fn has_expired(&self, now: Instant) -> bool {
        self.own_deadline.has_passed(now) || self.server_lease.deadline.has_passed(now)
    }

    /// Returns the end of the hold's fixed lease. From then on, others can have the lock.
    pub(super) fn ends(&self) -> Instant {
        Instant::from_nanos(self.ends.load(Ordering::Acquire))
    }

    /// Returns whether the hold is valid by the local clock, without a request.
    pub(super) fn is_held(&self) -> bool {
        self.end.get().is_none() && !self.has_expired(self.server_lease.clock.now())
    }

    /// Ends the hold by its release (`None`), or by a loss. Returns false if it had ended before.
    pub(super) fn end(&self, lost: Option<LostReason>) -> bool {
        let has_ended = self.mark_ended(lost);
        if has_ended {
            self.notify_ended();
        }
        has_ended
    }

    /// Ends the hold like [`end`](Hold::end), for callers that call `notify_ended` later.
    ///
    /// When several holds end together, all are marked before the first watcher is woken.
    pub(super) fn mark_ended(&self, lost: Option<LostReason>) -> bool {
        let has_ended = self.end.set(lost).is_ok();
        if has_ended && (cfg!(feature = "metrics") || self.span.get().is_recorded()) {
            self.record_end(lost);
        }
        has_ended
    }

    /// Wakes the tasks that wait for the end of the hold.
    pub(super) fn notify_ended(&self) {
        let ended = self.server_lease.inner().ended.as_mut().and_then(|watchers| {
            let ended = watchers.remove(&self.token);
            shrink_if_sparse(watchers);
            ended
        });
        // The mutex is unlocked before waking: a waker may poll another hold, which locks it again.
        if let Some(ended) = ended {
            ended.notify_waiters();
        }
    }

    /// Returns the time until which the lock stays taken because of the option `at_least`.
    ///
    /// A hold that no caller has received does not keep its lock taken.
    pub(super) fn retained_until(&self) -> Instant {
        let is_its_own = self.is_given() && !self.retained_elsewhere.load(Ordering::Acquire);
        if is_its_own && !self.request.at_least.is_zero() { self.granted + self.request.at_least } else { Instant::MIN }
    }
}
