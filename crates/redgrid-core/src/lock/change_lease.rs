//! Changes the length of a server lease.
//!
//! The script that sets a longer lease is idempotent, and is sent again after a lost reply. The
//! script that sets a shorter lease is not sent again, because a late copy could undo later
//! changes.

use std::sync::Arc;
use std::time::Duration;

use redgrid_client::internal::{Progress, RetryPolicy, may_execute_until};
use redgrid_client::{CommitError, ServerError};

use super::hold::ServerLease;
use super::table::Table;
use crate::clock::Instant;
use crate::config::Durability;
use crate::lease::deadline;

pub(super) enum LeaseChange {
    /// The server has the new lease. The lease counts from `sent`, although the request may have
    /// been sent later.
    Done {
        sent: Instant,
    },
    /// The server replied that this process does not hold the lock any more.
    Gone,
    /// The server rejected the request because it arrived too late.
    TooLate,
    Failed(ServerError),
    /// The primary has the new lease, but not with the requested durability.
    NotDurable(CommitError),
}

impl Table {
    /// Lengthens the lease. The script is idempotent, so it is sent again after a lost reply.
    pub(super) async fn lengthen(
        self: &Arc<Self>,
        server_lease: &Arc<ServerLease>,
        lease: Duration,
        durability: Durability,
    ) -> LeaseChange {
        let request = server_lease.protocol.renew(&[server_lease.claim(&self.core.field(server_lease.id), lease)]);
        let until = server_lease.deadline().min(self.now() + self.core.settings.patience());
        let (timeout, progress) = (self.core.settings.response_timeout, Progress::default());
        let mut underway = Lengthening { server_lease, lease, timeout, progress, is_known: false };
        let outcome = self.core.exchange(request, until, RetryPolicy::Retries, &underway.progress).await;
        let status = outcome.result.clone().and_then(|reply| reply.into_typed::<Vec<i64>>());
        let set = match status.map(|list| list.first().copied()) {
            Ok(Some(1)) => match self.core.commit(&outcome, durability, &server_lease.keys.key).await {
                Ok(()) => confirmed(server_lease, outcome.sent, lease, durability),
                Err(error) => LeaseChange::NotDurable(error),
            },
            Ok(Some(0)) => LeaseChange::Gone,
            Ok(_) => LeaseChange::Failed(ServerError::not_sent("the server could not read or write the lease")),
            Err(error) => LeaseChange::Failed(error),
        };
        underway.is_known =
            matches!(set, LeaseChange::Done { .. } | LeaseChange::Gone) && outcome.retransmission_ends.is_none();
        self.reschedule(server_lease);
        set
    }

    /// Shortens the lease.
    ///
    /// The deadline is lowered before the request is sent. The request is not sent again after a
    /// lost reply: a late copy could undo later changes.
    pub(super) async fn shorten(
        self: &Arc<Self>,
        server_lease: &Arc<ServerLease>,
        lease: Duration,
        durability: Durability,
    ) -> LeaseChange {
        let sent = self.now();
        let underway = Shortening::begin(server_lease, sent, lease, self.core.settings.response_timeout);
        self.reschedule(server_lease);
        let request = server_lease.protocol.extend(server_lease.claim(&self.core.field(server_lease.id), lease));
        let until = server_lease.deadline().min(self.now() + self.core.settings.patience());
        let outcome = self.core.exchange(request, until, RetryPolicy::Retries, &Progress::default()).await;
        let answer = outcome.result.clone().and_then(|reply| reply.into_typed::<(i64, u64)>());
        underway.end(outcome.retransmission_ends, matches!(answer, Ok((0 | 1, _))));
        let set = match answer {
            // Count the lease from the start of this call: the request was sent later. Replicas may
            // have the longer lease for a while, which does no harm.
            Ok((1, _)) if server_lease.durability().covers(durability) => {
                confirmed(server_lease, sent, lease, server_lease.durability())
            }
            Ok((1, _)) => match self.core.commit(&outcome, durability, &server_lease.keys.key).await {
                Ok(()) => confirmed(server_lease, sent, lease, durability),
                Err(error) => LeaseChange::NotDurable(error),
            },
            Ok((0, _)) => LeaseChange::Gone,
            Ok(_) => LeaseChange::TooLate,
            Err(error) => LeaseChange::Failed(error),
        };
        self.reschedule(server_lease);
        set
    }
}

/// Records a confirmed lease. Returns `Failed` while an unanswered request for a shorter lease can
/// still undo the change.
fn confirmed(server_lease: &ServerLease, sent: Instant, lease: Duration, durability: Durability) -> LeaseChange {
    if server_lease.confirmed(sent, lease, durability) >= deadline(sent, lease) {
        LeaseChange::Done { sent }
    } else {
        LeaseChange::Failed(ServerError::unknown("an unanswered request for a shorter lease may still be executed"))
    }
}

/// A request for a longer lease, while it is in flight.
///
/// When this value is dropped, the lease on the server may be longer than this process knows. In
/// that case the drop raises the upper bound of the lease. So releases are retried until the longer
/// lease is over.
struct Lengthening<'a> {
    server_lease: &'a ServerLease,
    lease: Duration,
    timeout: Duration,
    progress: Progress,
    is_known: bool,
}

impl Drop for Lengthening<'_> {
    fn drop(&mut self) {
        if !self.is_known && self.progress.is_sent() {
            let limit = self.server_lease.clock.now() + self.timeout;
            self.server_lease.raise_upper_bound(may_execute_until(limit, self.timeout) + self.lease);
        }
    }
}

/// A request for a shorter lease, while it is in flight. If this value is dropped before `end`, the
/// request is recorded as unanswered.
struct Shortening<'a> {
    server_lease: &'a ServerLease,
    timeout: Duration,
    /// End of the lease before the change.
    former: Instant,
    ended: bool,
}

impl<'a> Shortening<'a> {
    fn begin(server_lease: &'a ServerLease, sent: Instant, lease: Duration, timeout: Duration) -> Self {
        let former = server_lease.lease_ends();
        server_lease.begin_shortening(sent, lease);
        Shortening { server_lease, timeout, former, ended: false }
    }

    /// Records the outcome. If `is_known` is true, the server confirmed the change or replied that
    /// the lock is not held.
    fn end(mut self, unanswered_until: Option<Instant>, is_known: bool) {
        self.ended = true;
        if !is_known {
            self.server_lease.raise_upper_bound(self.former);
        }
        self.server_lease.end_shortening(unanswered_until);
    }
}

impl Drop for Shortening<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let limit = self.server_lease.clock.now() + self.timeout;
            self.server_lease.raise_upper_bound(self.former);
            self.server_lease.end_shortening(Some(may_execute_until(limit, self.timeout)));
        }
    }
}
