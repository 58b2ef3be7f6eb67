//! Changes the length of a server lease.
//!
//! The script that sets a longer lease is idempotent, and is sent again after a lost reply. The
//! script that sets a shorter lease is not sent again, because a late copy could undo later
//! changes.

use std::sync::Arc;
use std::time::Duration;

use redgrid_client::ServerError;
use redgrid_client::internal::{Progress, RequestOutcome, RetryPolicy, may_execute_until};

use super::error::{ExtendError, LostReason};
use super::hold::ServerLease;
use super::table::Table;
use crate::clock::Instant;
use crate::config::Durability;
use crate::lease::deadline;

impl Table {
    /// Lengthens the lease. The script is idempotent, so it is sent again after a lost reply.
    ///
    /// Returns when the new lease begins: when the request was sent.
    pub(super) async fn lengthen(
        self: &Arc<Self>,
        server_lease: &Arc<ServerLease>,
        lease: Duration,
        durability: Durability,
    ) -> Result<Instant, ExtendError> {
        let request = server_lease.protocol.renew(&[server_lease.claim(&self.core.field(server_lease.id), lease)]);
        let until = server_lease.deadline().min(self.now() + self.core.settings.patience());
        let (timeout, progress) = (self.core.settings.response_timeout, Progress::default());
        let mut underway = Lengthening { server_lease, lease, timeout, progress, is_known: false };
        let outcome = self.core.exchange(request, until, RetryPolicy::Retries, &underway.progress).await;
        let statuses = outcome.result.clone().and_then(|reply| reply.into_typed::<Vec<i64>>());
        let status = statuses.map(|list| list.first().copied().unwrap_or(-1));
        let (sent, otherwise) = (outcome.sent, "the server could not read or write the lease");
        let missing = (durability, durability);
        let set = self.lease_changed(server_lease, &outcome, (status, otherwise), (sent, lease), missing).await;
        underway.is_known =
            matches!(set, Ok(_) | Err(ExtendError::Lost { .. })) && outcome.retransmission_ends.is_none();
        self.reschedule(server_lease);
        set
    }

    /// Shortens the lease. Returns when the new lease begins: before the request is sent.
    ///
    /// The deadline is lowered before the request is sent. The request is not sent again after a
    /// lost reply: a late copy could undo later changes.
    pub(super) async fn shorten(
        self: &Arc<Self>,
        server_lease: &Arc<ServerLease>,
        lease: Duration,
        durability: Durability,
    ) -> Result<Instant, ExtendError> {
        let (sent, former) = (self.now(), server_lease.lease_ends());
        server_lease.begin_shortening(sent, lease);
        let timeout = self.core.settings.response_timeout;
        let mut underway = Shortening { server_lease, timeout, former, outcome: None };
        self.reschedule(server_lease);
        let request = server_lease.protocol.extend(server_lease.claim(&self.core.field(server_lease.id), lease));
        let until = server_lease.deadline().min(self.now() + self.core.settings.patience());
        let outcome = self.core.exchange(request, until, RetryPolicy::Retries, &Progress::default()).await;
        let status =
            outcome.result.clone().and_then(|reply| reply.into_typed::<(i64, u64)>()).map(|(status, _)| status);
        underway.outcome = Some((outcome.retransmission_ends, matches!(status, Ok(0 | 1))));
        drop(underway);
        // Replicas may have the longer lease for a while, which does no harm. So the durability of
        // the longer lease suffices.
        let known = server_lease.durability();
        let missing = if known.covers(durability) { (Durability::Primary, known) } else { (durability, durability) };
        let status = (status, "the request reached the server too late");
        // Count the lease from the start of this call: the request was sent later.
        let set = self.lease_changed(server_lease, &outcome, status, (sent, lease), missing).await;
        self.reschedule(server_lease);
        set
    }

    /// Evaluates the reply to a change of a lease. Status 1 means done, and 0 that the lock is not
    /// held. Any other status means that nothing was changed, for the reason `otherwise`.
    ///
    /// The change must be as durable as `required`. The lease is then known to have the durability
    /// `known`.
    async fn lease_changed(
        self: &Arc<Self>,
        server_lease: &Arc<ServerLease>,
        outcome: &RequestOutcome,
        (status, otherwise): (Result<i64, ServerError>, &'static str),
        (sent, lease): (Instant, Duration),
        (required, known): (Durability, Durability),
    ) -> Result<Instant, ExtendError> {
        let name = || server_lease.keys.name.clone();
        let source = match status {
            Ok(1) => {
                let committed = self.core.commit(outcome, required, &server_lease.keys.key).await;
                committed.map_err(|source| ExtendError::NotDurable { name: name(), source })?;
                if server_lease.confirmed(sent, lease, known) >= deadline(sent, lease) {
                    return Ok(sent);
                }
                ServerError::unknown("an unanswered request for a shorter lease may still be executed")
            }
            Ok(0) => {
                self.mark_lost(&mut self.state(), server_lease, LostReason::Gone);
                return Err(ExtendError::Lost { name: name(), reason: LostReason::Gone });
            }
            Ok(_) => ServerError::not_sent(otherwise),
            Err(error) => error,
        };
        Err(ExtendError::of(name(), source))
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

/// A request for a shorter lease, while it is in flight.
struct Shortening<'a> {
    server_lease: &'a ServerLease,
    timeout: Duration,
    /// End of the lease before the change.
    former: Instant,
    /// Until when an unanswered transmission can execute, and whether the server confirmed the
    /// change or replied that the lock is not held. `None` until the request has ended. If this
    /// value is dropped before that, the request counts as unanswered.
    outcome: Option<(Option<Instant>, bool)>,
}

impl Drop for Shortening<'_> {
    fn drop(&mut self) {
        let (unanswered_until, is_known) = self.outcome.unwrap_or_else(|| {
            let limit = self.server_lease.clock.now() + self.timeout;
            (Some(may_execute_until(limit, self.timeout)), false)
        });
        if !is_known {
            self.server_lease.raise_upper_bound(self.former);
        }
        self.server_lease.end_shortening(unanswered_until);
    }
}
