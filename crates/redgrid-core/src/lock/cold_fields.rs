//! The fields that most server leases do not need: durability, retransmissions, requests for a
//! shorter lease, and the notification of the last task that shares the lease.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use redgrid_client::NodeId;
use tokio::sync::Notify;

use super::attempt::GrantReply;
use super::hold::{LeaseInner, ServerLease};
use crate::clock::Instant;
use crate::config::Durability;
use crate::lease::deadline;

#[derive(Default)]
pub(super) struct ColdFields {
    durability: Durability,
    /// The durability that the current owner requests for renewals.
    wanted_durability: Durability,
    shortenings: Shortenings,
    /// Until when a retransmission of the acquire can execute, and the lease that it would acquire.
    pub(super) retransmission: Option<(Instant, Duration)>,
    /// Latest time at which the lease on the server can end. It can be later than the deadline in
    /// two cases: a change of the lease got no answer, or its reply did not move the deadline.
    pub(super) server_lease_upper_bound: Instant,
    /// Notifies the last sharer that all others have left; created when a sharer first waits for
    /// this notification.
    alone: Option<Arc<Notify>>,
}

impl ColdFields {
    pub(super) fn of(granted: &GrantReply) -> Box<ColdFields> {
        Box::new(ColdFields {
            durability: granted.durability,
            wanted_durability: granted.durability,
            retransmission: granted.retransmission_ends.map(|until| (until, granted.lease)),
            ..ColdFields::default()
        })
    }
}

impl LeaseInner {
    fn cold(&mut self) -> &mut ColdFields {
        self.cold.get_or_insert_default()
    }

    fn raise_upper_bound(&mut self, until: Instant) {
        let bound = &mut self.cold().server_lease_upper_bound;
        *bound = until.max(*bound);
    }
}

impl ServerLease {
    /// Records which node has the server lease now. Returns whether another node had it before.
    pub(super) fn has_moved(&self, to: &NodeId) -> bool {
        let mut inner = self.inner();
        inner.node != *to && {
            inner.node = to.clone();
            true
        }
    }

    /// Returns the time until which a retransmission of the acquire can execute.
    pub(super) fn retransmission_ends(&self) -> Option<Instant> {
        self.inner().cold.as_ref()?.retransmission.map(|(until, _)| until)
    }

    /// Stops hand-over and sharing. The table must be locked.
    pub(super) fn seal(&self) {
        self.sealed.store(true, Ordering::Release);
    }

    /// Stops the renewals, so that the server lease ends at its deadline.
    pub(super) fn stop_renewing(&self) {
        self.renewed_until.store(0, Ordering::Release);
    }

    /// Notifies the last sharer that all others have left.
    pub(super) fn left_alone(&self) {
        // A sharer that begins to wait at this moment needs no notification: it first checks
        // whether it is alone.
        let alone = self.inner().cold.as_ref().and_then(|cold| cold.alone.clone());
        if let Some(alone) = alone {
            alone.notify_waiters();
        }
    }

    /// Returns the `Notify` of `left_alone`, and creates it on first use.
    pub(super) fn alone(&self) -> Arc<Notify> {
        Arc::clone(self.inner().cold().alone.get_or_insert_default())
    }

    pub(super) fn retransmitted_lease(&self) -> Option<Duration> {
        self.inner().cold.as_ref()?.retransmission.map(|(_, lease)| lease)
    }

    /// Records that the lease on the server may last until `until`, if that is later than recorded
    /// before.
    ///
    /// This is needed if a change of the lease was not answered, or if its reply did not move the
    /// deadline. The local deadline stays as it is.
    pub(super) fn raise_upper_bound(&self, until: Instant) {
        self.inner().raise_upper_bound(until);
    }

    pub(super) fn durability(&self) -> Durability {
        self.inner().cold.as_ref().map(|cold| cold.durability).unwrap_or_default()
    }

    /// Returns the durability that renewals must have.
    pub(super) fn wanted_durability(&self) -> Durability {
        self.inner().cold.as_ref().map(|cold| cold.wanted_durability).unwrap_or_default()
    }

    pub(super) fn want_durability(&self, wanted: Durability) {
        self.inner().cold().wanted_durability = wanted;
    }

    /// Records that the server confirmed a request that was sent at `sent`, with this durability.
    /// Returns the deadline.
    ///
    /// The deadline is extended, except in two cases: the deadline has passed, or a request for a
    /// shorter lease may be executed after the confirmed request. In these two cases, only the
    /// upper bound of the lease on the server is raised.
    pub(super) fn confirmed(&self, sent: Instant, lease: Duration, durability: Durability) -> Instant {
        self.overdue.confirmed();
        let mut inner = self.inner();
        if durability != inner.cold.as_ref().map(|cold| cold.durability).unwrap_or_default() {
            inner.cold().durability = durability;
        }
        let now = self.clock.now();
        let counts = inner.cold.as_ref().is_none_or(|cold| cold.shortenings.allow(sent));
        if !counts || !self.deadline.extend(deadline(sent, lease), now) {
            inner.raise_upper_bound(now + lease);
        }
        self.deadline()
    }

    /// Lowers the deadline, because a request for a shorter lease will be sent at `sent` or later.
    pub(super) fn begin_shortening(&self, sent: Instant, lease: Duration) {
        self.inner().cold().shortenings.begin();
        self.deadline.lower(deadline(sent, lease));
    }

    /// Records the outcome of a request for a shorter lease. If `unanswered_until` is given, the
    /// request was not answered, and can execute until that time. Otherwise it was answered now.
    ///
    /// From then on, the deadline is extended only by requests that are sent after
    /// `unanswered_until` or, if there was an answer, after now.
    pub(super) fn end_shortening(&self, unanswered_until: Option<Instant>) {
        let now = self.clock.now();
        self.inner().cold().shortenings.end(unanswered_until, now);
    }
}

/// The shortenings of one server lease: requests for a shorter lease, which can execute late.
#[derive(Default)]
struct Shortenings {
    /// Until when each unanswered shortening can execute; `Instant::MAX` for those in flight.
    unanswered: Vec<Instant>,
    /// When the last reply to a shortening arrived. Requests from before that reply do not extend
    /// the deadline, even if they are confirmed later.
    settled: Instant,
}

impl Shortenings {
    fn begin(&mut self) {
        self.unanswered.push(Instant::MAX);
    }

    /// Records the outcome of a shortening. If `unanswered_until` is given, the shortening was not
    /// answered, and can execute until that time. Otherwise it was answered at `now`.
    fn end(&mut self, unanswered_until: Option<Instant>, now: Instant) {
        if let Some(begun) = self.unanswered.iter().position(|until| *until == Instant::MAX) {
            self.unanswered.swap_remove(begun);
        }
        match unanswered_until {
            Some(until) => self.unanswered.push(until),
            None => self.settled = now.max(self.settled),
        }
    }

    /// Returns whether a request that was sent at `sent` certainly executes after all shortenings.
    fn allow(&self, sent: Instant) -> bool {
        sent >= self.settled && self.unanswered.iter().all(|until| sent >= *until)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::MIN + Duration::from_secs(seconds)
    }

    #[test]
    fn only_requests_after_a_shortening_confirm_a_longer_lease() {
        let mut shortenings = Shortenings::default();
        assert!(shortenings.allow(at(0)));
        shortenings.begin();
        shortenings.begin();
        assert!(!shortenings.allow(at(1000)), "two are in flight");
        shortenings.end(None, at(10));
        assert!(!shortenings.allow(at(1000)), "one is in flight");
        shortenings.end(Some(at(20)), at(12));
        for (sent, allowed) in [(9, false), (11, false), (19, false), (20, true)] {
            assert_eq!(shortenings.allow(at(sent)), allowed, "{sent}");
        }
        shortenings.begin();
        shortenings.end(None, at(30));
        assert!(!shortenings.allow(at(29)) && shortenings.allow(at(30)), "answers may come in any order");
    }
}
