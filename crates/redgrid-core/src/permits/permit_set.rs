//! The permits that this process has on the server: their number, and their leases if they have
//! any.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redgrid_client::internal::Mutex;
use uuid::Uuid;

use super::exchange::server_lease;
use super::held::Held;
use crate::clock::{Clock, Instant};
use crate::config::Durability;
use crate::label::Label;
use crate::lease::{Deadline, Lease, LeaseMode, Overdue, deadline, next_renewal};
use crate::lock::LostReason;
use crate::name::Name;

/// The id of a leased permit: 16 random bytes, displayed in hex as Redisson does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PermitId(Uuid);

impl PermitId {
    pub(super) fn new() -> Self {
        PermitId(Uuid::new_v4())
    }

    /// Returns the 16 bytes that are stored on the server.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl fmt::Display for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.simple())
    }
}

impl fmt::Debug for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not the id of a permit: an id has 32 hex digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the id of a permit: expected 32 hex digits")]
pub struct InvalidPermitId(String);

impl std::str::FromStr for PermitId {
    type Err = InvalidPermitId;

    fn from_str(text: &str) -> Result<Self, InvalidPermitId> {
        // Of the forms of a UUID, only the one without separators has 32 digits.
        let id = Uuid::try_parse(text).ok().filter(|_| text.len() == 32);
        id.map(PermitId).ok_or_else(|| InvalidPermitId(text.chars().take(64).collect()))
    }
}

/// A permit with a lease.
pub(super) struct PermitLease {
    pub(super) id: PermitId,
    /// The lease with which the permit was granted. Each renewal requests the same lease again.
    pub(super) mode: LeaseMode,
    /// The durability of the grant. A renewal is valid only once it is as durable as the grant.
    pub(super) durability: Durability,
    pub(super) clock: Clock,
    /// Set while a guard holds the permit, for metrics and events.
    pub(super) held: Mutex<Option<Held>>,
    pub(super) overdue: Overdue,
    /// The instant until which the lease is valid locally.
    deadline: Deadline,
    /// The send time of the last request that may shorten the lease, in nanoseconds. Replies to
    /// requests that were sent earlier do not extend the lease.
    set_at: AtomicU64,
    lost: OnceLock<LostReason>,
    /// Since when the current guard has held the permit, and the guard's label, for reports.
    pub(super) owner: Mutex<(Instant, Option<Label>)>,
}

impl Lease for PermitLease {
    type Id = PermitId;

    fn id(&self) -> PermitId {
        self.id
    }

    fn next_end(&self) -> Instant {
        self.deadline()
    }
}

impl PermitLease {
    /// Creates the lease of a permit whose request was sent at `sent`.
    pub(super) fn new(
        id: PermitId,
        (mode, durability): (LeaseMode, Durability),
        (sent, label): (Instant, Option<Label>),
        clock: Clock,
    ) -> Arc<Self> {
        let deadline = Deadline::new(deadline(sent, server_lease(mode)));
        let (set_at, lost, owner) = (AtomicU64::default(), OnceLock::new(), Mutex::new((sent, label)));
        let (held, overdue) = (Mutex::default(), Overdue::default());
        Arc::new(PermitLease { id, mode, durability, clock, held, overdue, deadline, set_at, lost, owner })
    }

    /// Returns the time of the lease's next renewal, if the last request for it was sent at `sent`.
    pub(super) fn next_renewal(&self, sent: Instant) -> Instant {
        match self.mode {
            LeaseMode::Renewed(lease) => next_renewal(lease, self.deadline(), sent),
            LeaseMode::Fixed(_) => Instant::MAX,
        }
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline.at()
    }

    /// Returns the reason for the loss if the permit was lost.
    ///
    /// A permit that has passed its deadline is lost, even if it was not marked as lost yet.
    pub(super) fn lost(&self) -> Option<LostReason> {
        let expired = || self.deadline.has_passed(self.clock.now()).then_some(LostReason::Expired);
        self.lost.get().copied().or_else(expired)
    }

    /// Marks the permit of the semaphore `name` as lost. A permit that was marked before keeps its
    /// first reason.
    pub(super) fn mark_lost(&self, name: &Name, reason: LostReason) {
        if self.lost.set(reason).is_ok() {
            self.end_count(name, || Some(Err(reason)));
        }
    }

    /// Extends the deadline to `deadline`, after the confirmation of a request that was sent at
    /// `sent`.
    ///
    /// A lost permit stays lost, because the loss may have been reported. If a request that was
    /// sent later has shortened the lease, the deadline is not changed.
    pub(super) fn confirm(&self, deadline: Instant, sent: Instant) {
        if self.lost().is_none() && sent.as_nanos() >= self.set_at.load(Ordering::Acquire) {
            self.deadline.extend(deadline, self.clock.now());
        }
    }

    /// Lowers the deadline to `deadline`, for a request that sets the end of the lease exactly.
    ///
    /// That request is sent at `sent` or later. From now on, requests that were sent before `sent`
    /// do not extend the lease.
    pub(super) fn shorten(&self, deadline: Instant, sent: Instant) {
        self.set_at.store(sent.as_nanos(), Ordering::Release);
        self.deadline.lower(deadline);
    }

    pub(super) fn is_renewed(&self) -> bool {
        matches!(self.mode, LeaseMode::Renewed(_))
    }
}

/// A number of permits. If they have leases, each permit has an entry in `leases`.
#[derive(Default)]
pub(super) struct PermitSet {
    pub(super) count: u64,
    pub(super) leases: Vec<Arc<PermitLease>>,
    /// A durability that the grants of all these permits have.
    pub(super) durability: Durability,
}

impl PermitSet {
    /// Moves `count` permits from this set into a new one. This set must have at least `count`
    /// permits.
    pub(super) fn split(&mut self, count: u64) -> PermitSet {
        self.count -= count;
        let keep = usize::try_from(self.count).unwrap_or(usize::MAX).min(self.leases.len());
        PermitSet { count, leases: self.leases.split_off(keep), durability: self.durability }
    }

    pub(super) fn merge(&mut self, mut other: PermitSet) {
        self.durability = match (self.durability, other.durability) {
            _ if other.is_empty() => self.durability,
            (_, others) if self.is_empty() => others,
            (own, others) if own.covers(others) => others,
            (own, others) if others.covers(own) => own,
            _ => Durability::Primary,
        };
        self.count += other.count;
        self.leases.append(&mut other.leases);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the time until which all permits are valid locally.
    pub(super) fn deadline(&self) -> Instant {
        self.leases.iter().map(|lease| lease.deadline()).min().unwrap_or(Instant::MAX)
    }

    /// Returns why the first lost permit was lost; `None` if no permit was lost.
    pub(super) fn lost(&self) -> Option<LostReason> {
        self.leases.iter().find_map(|lease| lease.lost())
    }

    /// Returns whether the permits can serve a request for `mode` and `durability` without an
    /// exchange.
    ///
    /// Permits with a fixed lease can never serve a request, because a fixed lease must begin with
    /// the grant.
    pub(super) fn satisfies(&self, mode: Option<LeaseMode>, durability: Durability, now: Instant) -> bool {
        if !self.durability.covers(durability) {
            return false;
        }
        let Some(mode) = mode else { return self.leases.is_empty() };
        let is_valid_for = |lease: &Arc<PermitLease>| {
            let enough = lease.is_renewed() && lease.lost().is_none() && now + mode.duration() / 2 <= lease.deadline();
            lease.mode == mode && enough
        };
        self.leases.iter().all(is_valid_for)
    }
}

/// Returns a duration in whole milliseconds, rounded up.
pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_exact_end_counts_over_what_earlier_requests_confirm() {
        const S: Duration = Duration::from_secs(1);
        let clock = Clock::runtime();
        let sent = clock.now();
        let lease = PermitLease::new(
            PermitId::new(),
            (LeaseMode::Fixed(30 * S), Durability::Primary),
            (sent, None),
            clock.clone(),
        );
        let first = lease.deadline();
        lease.confirm(first + S, sent);
        assert_eq!(lease.deadline(), first + S);
        tokio::time::advance(S).await;
        let set_at = clock.now();
        lease.shorten(set_at + 10 * S, set_at);
        lease.confirm(first + 60 * S, sent);
        assert_eq!(lease.deadline(), set_at + 10 * S, "an earlier request");
        lease.confirm(set_at + 12 * S, set_at);
        assert_eq!(lease.deadline(), set_at + 12 * S, "the request itself");
        tokio::time::advance(12 * S).await;
        assert_eq!(lease.lost(), Some(LostReason::Expired));
        lease.confirm(first + 60 * S, clock.now());
        assert_eq!((lease.lost(), lease.deadline()), (Some(LostReason::Expired), set_at + 12 * S));
    }

    #[test]
    fn a_renewed_lease_is_due_after_a_third_and_a_fixed_one_never() {
        let (clock, ms) = (Clock::boot(), Duration::from_millis(1));
        let sent = clock.now();
        let due = |mode| {
            PermitLease::new(PermitId::new(), (mode, Durability::Primary), (sent, None), clock.clone())
                .next_renewal(sent)
        };
        assert_eq!(due(LeaseMode::Renewed(30_000 * ms)), sent + 10_000 * ms);
        assert_eq!(due(LeaseMode::Fixed(30_000 * ms)), Instant::MAX);
    }
}
