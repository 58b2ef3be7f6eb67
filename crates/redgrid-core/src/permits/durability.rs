//! What a reply grants or extends, and is valid only once it is as durable as requested.
//!
//! Separate tasks wait for replicas and disks, so that other exchanges of the semaphore go on.

use std::sync::Arc;

use super::local_semaphore::{AcquireFailure, LocalSemaphore};
use super::permit_set::{PermitLease, PermitSet};
use super::semaphore_state::{Extension, PendingReturn, SemaphoreState, Waiter};
use crate::clock::Instant;
use crate::config::Durability;
use crate::connection::{CommitError, RequestOutcome};
use crate::error::ServerError;
use crate::lock::ExtendError;

/// Granted permits, and their waiter unless it has left the queue.
pub(super) struct GrantedPermits {
    pub(super) waiter: Option<Waiter>,
    pub(super) permits: PermitSet,
}

impl GrantedPermits {
    /// Holds the permits, and renews their leases, until their durability is known.
    fn track(&self, state: &mut SemaphoreState) {
        state.held += self.permits.count;
        state.leases.extend(self.permits.leases.iter().map(|lease| (lease.id, Arc::clone(lease))));
    }

    fn untrack(&self, state: &mut SemaphoreState) {
        state.held = state.held.saturating_sub(self.permits.count);
        for lease in &self.permits.leases {
            state.leases.remove(&lease.id);
        }
    }

    /// Passes the permits to their waiter or the next one, or returns them to the server.
    fn deliver(self, semaphore: &Arc<LocalSemaphore>, state: &mut SemaphoreState, committed: &Result<(), CommitError>) {
        let GrantedPermits { waiter, permits } = self;
        // An exchange may have found them gone meanwhile.
        let is_lost = permits.lost().is_some();
        if committed.is_err() || is_lost || state.closed {
            state.returns.push(PendingReturn { permits, result_sender: None });
            let failure = match committed {
                Err(error) => AcquireFailure::NotDurable(error.clone()),
                Ok(()) if state.closed => AcquireFailure::ShuttingDown,
                Ok(()) => {
                    AcquireFailure::Unknown(ServerError::unknown("the lease had ended when it was known to be granted"))
                }
            };
            waiter.map(|waiter| waiter.result_sender.send(Err(failure)));
            return;
        }
        state.leases.extend(permits.leases.iter().map(|lease| (lease.id, Arc::clone(lease))));
        match waiter {
            Some(waiter) => state.grant(semaphore, waiter, permits, semaphore.clock().now()),
            None => state.idle_permits.merge(permits),
        }
    }
}

/// Leases that the server has extended.
pub(super) struct LeaseConfirmation {
    /// Each lease, its new deadline, and how often it had been shortened when the exchange was
    /// sent.
    pub(super) leases: Vec<(Arc<PermitLease>, Instant, u64)>,
    /// The change of leases that the last of them belong to.
    pub(super) extension: Option<Extension>,
}

impl LeaseConfirmation {
    /// Returns the durabilities for which the reply alone is not enough.
    fn missing_durability(&self) -> Vec<Durability> {
        let mut missing = Vec::new();
        for (lease, ..) in &self.leases {
            let durability = lease.durability;
            if !Durability::Primary.covers(durability) && !missing.contains(&durability) {
                missing.push(durability);
            }
        }
        missing
    }

    fn apply(self, semaphore: &LocalSemaphore, committed: &Result<(), CommitError>) {
        for (lease, until, times_shortened) in &self.leases {
            match committed {
                // A lease that was shortened meanwhile ends as the later request says.
                Ok(()) if lease.times_shortened() == *times_shortened => lease.confirm(*until),
                Ok(()) => {}
                Err(_) => lease.make_due(),
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

/// What still waits for replicas or a disk.
pub(super) enum AwaitingDurability {
    Permits(GrantedPermits, Durability),
    Confirmation(LeaseConfirmation, Vec<Durability>),
}

impl LocalSemaphore {
    /// Applies grants and extended leases. Returns those that must become more durable first.
    pub(super) fn apply_grants(
        self: &Arc<Self>,
        state: &mut SemaphoreState,
        (grants, durability): (Vec<GrantedPermits>, Durability),
        confirmation: LeaseConfirmation,
    ) -> Vec<AwaitingDurability> {
        let mut awaiting = Vec::new();
        match confirmation.missing_durability() {
            missing if missing.is_empty() => confirmation.apply(self, &Ok(())),
            missing => awaiting.push(AwaitingDurability::Confirmation(confirmation, missing)),
        }
        for grant in grants {
            if state.closed || Durability::Primary.covers(durability) {
                grant.deliver(self, state, &Ok(()));
            } else {
                grant.track(state);
                awaiting.push(AwaitingDurability::Permits(grant, durability));
            }
        }
        awaiting
    }

    /// Starts a task for each item that waits until it is as durable as requested.
    pub(super) fn await_durability(self: &Arc<Self>, awaiting: Vec<AwaitingDurability>, outcome: RequestOutcome) {
        let outcome = Arc::new(outcome);
        for item in awaiting {
            let (semaphore, outcome) = (Arc::clone(self), Arc::clone(&outcome));
            self.registry.spawn_background(Box::pin(async move {
                let committed = match &item {
                    AwaitingDurability::Permits(_, durability) => semaphore.commit(&outcome, &[*durability]).await,
                    AwaitingDurability::Confirmation(_, missing) => semaphore.commit(&outcome, missing).await,
                };
                semaphore.durability_known(item, &committed);
            }));
        }
    }

    async fn commit(&self, outcome: &RequestOutcome, durabilities: &[Durability]) -> Result<(), CommitError> {
        for durability in durabilities {
            self.core.commit(outcome, *durability, &self.keys.key).await?;
        }
        Ok(())
    }

    fn durability_known(self: &Arc<Self>, item: AwaitingDurability, committed: &Result<(), CommitError>) {
        let mut state = self.state();
        match item {
            AwaitingDurability::Confirmation(confirmation, _) => confirmation.apply(self, committed),
            // `close` has returned them together with all others.
            AwaitingDurability::Permits(GrantedPermits { waiter, .. }, _) if state.closed => {
                waiter.map(|waiter| waiter.result_sender.send(Err(AcquireFailure::ShuttingDown)));
                return;
            }
            AwaitingDurability::Permits(grant, _) => {
                grant.untrack(&mut state);
                grant.deliver(self, &mut state, committed);
            }
        }
        self.schedule_renewal(&mut state, self.clock().now());
        let handoff = self.wake_or_start_loop(&mut state);
        drop(state);
        self.lost.notify_waiters();
        handoff.into_background(&self.registry);
    }
}
