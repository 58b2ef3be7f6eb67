//! Grants and extensions that are valid only once they are as durable as requested.
//!
//! Separate tasks wait for replicas and disks, so other exchanges of the semaphore need not wait.

use std::sync::Arc;

use redgrid_client::internal::RequestOutcome;
use redgrid_client::{CommitError, ServerError};

use super::error::AcquireError;
use super::local_semaphore::LocalSemaphore;
use super::permit_set::{PermitLease, PermitSet};
use super::semaphore_state::{Extension, SemaphoreState};
use super::waiter::Waiter;
use crate::clock::Instant;
use crate::config::Durability;
use crate::lock::ExtendError;

/// Granted permits and their waiter. The waiter is `None` if it has left the queue.
pub(super) struct GrantedPermits {
    pub(super) waiter: Option<Waiter>,
    pub(super) permits: PermitSet,
}

impl GrantedPermits {
    /// Passes the permits to their waiter, keeps them for another waiter, or returns them to the
    /// server.
    fn deliver(self, semaphore: &Arc<LocalSemaphore>, state: &mut SemaphoreState, committed: &Result<(), CommitError>) {
        let GrantedPermits { waiter, permits } = self;
        let name = &semaphore.keys.name;
        let failure = match committed {
            Err(source) => Some(AcquireError::NotDurable { name: name.clone(), source: source.clone() }),
            Ok(()) if state.closed => Some(semaphore.ended()),
            // The permits were lost before their durability was confirmed.
            Ok(()) if permits.lost().is_some() => {
                let reason = "the lease ended before its durability was confirmed";
                Some(AcquireError::of(name, ServerError::unknown(reason)))
            }
            Ok(()) => None,
        };
        match (failure, waiter) {
            (None, Some(waiter)) => return state.grant(semaphore, waiter, permits, semaphore.clock().now()),
            (None, None) => return state.idle_permits.merge(permits),
            (Some(failure), Some(waiter)) => waiter.end(Err(failure)),
            (Some(_), None) => {}
        }
        state.give_back(permits, None);
    }
}

/// Leases that the server has extended.
pub(super) struct LeaseConfirmation {
    /// When the exchange was sent.
    pub(super) sent: Instant,
    /// Each lease, and its new deadline.
    pub(super) leases: Vec<(Arc<PermitLease>, Instant)>,
    /// The extension that a caller has requested, if any. Its leases are at the end of `leases`.
    pub(super) extension: Option<Extension>,
}

impl LeaseConfirmation {
    /// Returns the requested durabilities that the reply to the exchange does not prove.
    fn missing_durability(&self) -> Vec<Durability> {
        let mut missing = Vec::new();
        for (lease, _) in &self.leases {
            let durability = lease.durability;
            if !Durability::Primary.covers(durability) && !missing.contains(&durability) {
                missing.push(durability);
            }
        }
        missing
    }

    fn apply(self, semaphore: &LocalSemaphore, state: &mut SemaphoreState, committed: &Result<(), CommitError>) {
        for (lease, until) in &self.leases {
            match committed {
                Ok(()) => {
                    lease.count_renewal();
                    lease.confirm(*until, self.sent);
                }
                Err(_) => {
                    semaphore.count_failed_renewal(lease);
                    state.retry_renewal(lease, semaphore.clock().now());
                }
            }
        }
        let Some(Extension { leases, result_sender, .. }) = self.extension else { return };
        let name = || semaphore.keys.name.clone();
        let lost = leases.iter().find_map(|lease| lease.lost());
        let result = match (lost, committed) {
            (Some(reason), _) => Err(ExtendError::Lost { name: name(), reason }),
            (None, Err(source)) => Err(ExtendError::NotDurable { name: name(), source: source.clone() }),
            (None, Ok(())) => Ok(()),
        };
        let _ = result_sender.send(result);
    }
}

impl LocalSemaphore {
    /// Applies grants and extended leases: at once if the reply proves the requested durability,
    /// otherwise when that durability is confirmed.
    pub(super) fn apply_grants(
        self: &Arc<Self>,
        state: &mut SemaphoreState,
        (grants, durability): (Vec<GrantedPermits>, Durability),
        confirmation: LeaseConfirmation,
        outcome: &Arc<RequestOutcome>,
    ) {
        let sent = confirmation.sent;
        match confirmation.missing_durability() {
            missing if missing.is_empty() => confirmation.apply(self, state, &Ok(())),
            missing => self.when_durable(outcome, missing, |semaphore, state, committed| {
                confirmation.apply(semaphore, state, committed);
            }),
        }
        for grant in grants {
            for lease in &grant.permits.leases {
                state.leases.insert(Arc::clone(lease), lease.next_renewal(sent));
            }
            if state.closed || Durability::Primary.covers(durability) {
                grant.deliver(self, state, &Ok(()));
                continue;
            }
            state.held += grant.permits.count;
            self.when_durable(outcome, vec![durability], |semaphore, state, committed| {
                if !state.closed {
                    state.held = state.held.saturating_sub(grant.permits.count);
                    grant.deliver(semaphore, state, committed);
                } else if let Some(waiter) = grant.waiter {
                    // `close` has returned the permits together with all others.
                    waiter.end(Err(semaphore.ended()));
                }
            });
        }
    }

    /// Starts a task that waits for the `durabilities` of an answered request, and then calls
    /// `apply` with the result.
    fn when_durable(
        self: &Arc<Self>,
        outcome: &Arc<RequestOutcome>,
        durabilities: Vec<Durability>,
        apply: impl FnOnce(&Arc<Self>, &mut SemaphoreState, &Result<(), CommitError>) + Send + 'static,
    ) {
        let (semaphore, outcome) = (Arc::clone(self), Arc::clone(outcome));
        self.registry.core.spawn_background(Box::pin(async move {
            let mut committed = Ok(());
            for durability in durabilities {
                if committed.is_ok() {
                    committed = semaphore.core.commit(&outcome, durability, &semaphore.keys.key).await;
                }
            }
            let mut state = semaphore.state();
            apply(&semaphore, &mut state, &committed);
            semaphore.wake_renewal(&state);
            let handoff = semaphore.wake_or_start_loop(&mut state);
            drop(state);
            semaphore.lost.notify_waiters();
            handoff.into_background(&semaphore.registry);
        }));
    }
}
