//! The pass request. It reports the positions of this process whose waiters have had the lock, and
//! enqueues new positions.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use redgrid_client::internal::{Progress, RequestOutcome, RetryPolicy};
use redgrid_client::{Reply, ServerError};

use super::{PassArgs, ReleaseAfterPass, ServerQueue};
use crate::clock::Instant;
use crate::lock::acquire::LocalRequest;
use crate::lock::hold::ServerLease;
use crate::lock::table::{Table, Waiter};

/// One pass request.
pub(super) struct PassRequest {
    pub(super) server_lease: Arc<ServerLease>,
    pub(super) queue: &'static dyn ServerQueue,
    pub(super) served: Vec<u64>,
    pub(super) new: Vec<NewPosition>,
    /// Whether the request releases the lock if no position of this process is next. True only
    /// while no local task has the lock.
    pub(super) frees: bool,
}

/// A waiter that the pass request enqueues.
pub(super) struct NewPosition {
    pub(super) number: u64,
    pub(super) request: Arc<LocalRequest>,
}

impl NewPosition {
    /// Returns the new position of a waiter, and marks the position as requested.
    pub(super) fn of(waiter: &Waiter) -> NewPosition {
        waiter.request.position.mark_requested();
        NewPosition { number: waiter.request.position.get().number, request: Arc::clone(&waiter.request) }
    }
}

/// Parsed reply to a pass request.
pub(super) enum PassReply {
    Held(VecDeque<u64>),
    Released,
    NotOurs,
}

impl PassReply {
    pub(super) fn read(reply: Reply) -> Result<PassReply, ServerError> {
        let parts: Vec<u64> = reply.into_typed()?;
        match &parts[..] {
            [1, _, next @ ..] => Ok(PassReply::Held(next.iter().copied().collect())),
            [0, ..] => Ok(PassReply::NotOurs),
            [3, ..] => Ok(PassReply::Released),
            _ => Err(ServerError::unknown("an unexpected reply to a pass request")),
        }
    }
}

impl Table {
    pub(super) async fn send_pass_request(
        &self,
        queue: &dyn ServerQueue,
        server_lease: &ServerLease,
        (served, new): (&[u64], &[NewPosition]),
        gives_back: ReleaseAfterPass,
        until: Instant,
        policy: RetryPolicy,
    ) -> RequestOutcome {
        let request = {
            let served: Vec<_> = served.iter().map(|number| self.core.field(*number)).collect();
            let new: Vec<_> = new.iter().map(|new| self.core.field(new.number)).collect();
            let args = PassArgs { served: &served, new: &new, kept: self.position_ttl(), gives_back };
            queue.pass(server_lease.claim(&self.core.field(server_lease.id), Duration::ZERO), &args)
        };
        self.core.exchange(request, until, policy, &Progress::default()).await
    }
}
