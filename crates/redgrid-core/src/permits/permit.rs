//! The guard of granted permits.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redgrid_client::{Client, ServerError};
use tokio::sync::oneshot;

use super::error::ReleaseError;
use super::held::Held;
use super::local_semaphore::LocalSemaphore;
use super::permit_set::{PermitId, PermitSet};
use super::semaphore_state::Extension;
use crate::author::ClientExt;
use crate::config::{LONGEST_LEASE, SHORTEST_LEASE};
use crate::exactly_once::PendingGuard;
use crate::lease::{LeaseMode, deadline};
use crate::lock::{ExtendError, GRACE, LostReason};
use crate::name::Name;
use crate::observe::CallerSpan;
use crate::observe::count::{self, Labels};
use crate::service::ClientParts;
use crate::unpolled::InPlace;

/// A guard of one or several permits. Dropping the guard returns the permits in the background.
///
/// Permits with a lease are renewed while the guard lives, unless a fixed lease was requested.
/// [`Permit::lost`] completes as soon as one of the permits is no longer valid locally. Permits
/// without a lease are held until they are returned. If the process dies, they are never available
/// again.
#[must_use = "dropping the permit returns it"]
pub struct Permit {
    client: Client,
    semaphore: Arc<LocalSemaphore>,
    permits: PermitSet,
    /// Set while permits without leases count as held, for metrics. For leased permits, each lease
    /// has such a value.
    plain: Option<Held>,
}

impl Permit {
    /// Creates a guard. The caller must add the number of permits to `held` in the semaphore's
    /// state.
    pub(super) fn new(client: Client, semaphore: Arc<LocalSemaphore>, permits: PermitSet) -> Self {
        Permit { client, semaphore, permits, plain: None }
    }

    /// Counts the permits as held, in metrics.
    pub(super) fn begin_count(&mut self, held: Held) {
        if cfg!(not(feature = "metrics")) {
            return;
        }
        self.permits.leases.iter().for_each(|lease| lease.begin_count(held));
        if self.permits.leases.is_empty() && !self.permits.is_empty() {
            count::permits_held(held.labels, self.permits.count);
            self.plain = Some(held);
        }
    }

    /// Records the span of the caller.
    #[cfg_attr(not(any(feature = "metrics", feature = "tracing")), allow(dead_code, reason = "for spans"))]
    pub(crate) fn set_caller(&self, caller: CallerSpan, labels: Labels) {
        self.permits.leases.iter().for_each(|lease| lease.set_caller(caller, labels));
    }

    /// Counts the end of the permits, in metrics, and emits an event for each that was lost.
    fn end_count(&mut self, is_forgotten: bool) {
        if cfg!(not(any(feature = "metrics", feature = "tracing"))) {
            return;
        }
        for lease in &self.permits.leases {
            lease.end_count(&self.semaphore.keys.name, || {
                let lost = lease.lost().map(Err);
                if is_forgotten && lost.is_none() { None } else { Some(lost.unwrap_or(Ok(()))) }
            });
        }
        if let Some(held) = self.plain.take() {
            let how = if is_forgotten { None } else { Some(Ok(())) };
            held.end(self.permits.count, self.client.clock().now(), how);
        }
    }

    /// Takes the permits out of the guard, and drops the guard without returning them.
    pub(super) fn disarm(mut self) -> PermitSet {
        std::mem::take(&mut self.permits)
    }

    /// Returns the name of the semaphore.
    pub fn name(&self) -> &Name {
        &self.semaphore.keys.name
    }

    /// Returns the number of permits that the guard holds.
    pub fn num_permits(&self) -> u64 {
        self.permits.count
    }

    /// Returns the ids of leased permits.
    pub fn ids(&self) -> impl Iterator<Item = PermitId> + '_ {
        self.permits.leases.iter().map(|lease| lease.id)
    }

    /// Returns whether all permits of the guard are valid at this instant by the local clock.
    ///
    /// Permits without a lease are always valid.
    pub fn is_held(&self) -> bool {
        self.permits.lost().is_none()
    }

    /// Returns why the first lost permit was lost; `None` if no permit was lost.
    pub fn lost_reason(&self) -> Option<LostReason> {
        self.permits.lost()
    }

    /// Returns how long the permits stay valid if no renewal is confirmed from now on; `None` if
    /// they have no lease.
    pub fn remaining(&self) -> Option<Duration> {
        if self.permits.leases.is_empty() {
            return None;
        }
        let left = self.permits.deadline().since(self.client.clock().now());
        Some(if self.is_held() { left } else { Duration::ZERO })
    }

    /// Completes when one of the permits is no longer valid locally. Never completes if the permits
    /// have no lease.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn lost(&self) -> LostReason {
        loop {
            let mut notified = pin!(self.semaphore.lost.notified());
            notified.as_mut().enable();
            if let Some(reason) = self.permits.lost() {
                return reason;
            }
            tokio::select! {
                () = notified => {}
                () = self.client.clock().sleep_until(self.permits.deadline()) => {}
            }
        }
    }

    /// Returns the permits and waits for the reply, for at most `response_timeout`.
    ///
    /// If no reply has arrived by then, the release goes on in the background.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] if one of the permits had been lost before. [`ReleaseError::Refused`]
    /// if the server refused the release. [`ReleaseError::OutcomeUnknown`] if no reply arrived in
    /// time.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the release goes on in the background.
    pub async fn release(mut self) -> Result<(), ReleaseError> {
        if self.permits.is_empty() {
            return Ok(());
        }
        self.end_count(false);
        let (semaphore, permits) = (Arc::clone(&self.semaphore), std::mem::take(&mut self.permits));
        let (result_sender, receiver) = oneshot::channel();
        let handoff = semaphore.release(permits, Some(result_sender));
        let task = handoff.into_inline(&semaphore.registry);
        let mut released = InPlace { client: self.client.clone(), receiver, task };
        let unknown = |source| Err(ReleaseError::OutcomeUnknown { name: semaphore.keys.name.clone(), source });
        let clock = self.client.clock();
        tokio::select! {
            biased;
            result = &mut released => result.unwrap_or_else(|| unknown(self.client.ended())),
            () = clock.sleep_until(clock.now() + self.client.response_timeout() + GRACE) => {
                unknown(ServerError::unknown("no answer came in time; the release goes on"))
            }
        }
    }

    /// Sets the leases of the permits to `lease`, counted from now: 100 ms to 30 days.
    ///
    /// If the permits are renewed, their lease can only be lengthened: a shorter `lease` changes
    /// nothing. To end their lease earlier, release the permits.
    ///
    /// # Errors
    ///
    /// [`ExtendError`] says which lease is valid after the failure. Permits without a lease cannot
    /// be extended.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped before the request is sent, the request is never sent. A request
    /// that was sent may or may not be executed. As long as the extension is not confirmed, the
    /// permits are valid locally until the old or the new end of the lease, whichever is earlier.
    pub async fn extend(&self, lease: Duration) -> Result<(), ExtendError> {
        let name = || self.name().clone();
        if !(SHORTEST_LEASE..=LONGEST_LEASE).contains(&lease) {
            return Err(ExtendError::InvalidArgument { name: name(), expected: "100 ms to 30 days", got: lease });
        }
        if self.permits.leases.is_empty() {
            let source = ServerError::not_sent("these permits have no lease");
            return Err(ExtendError::NotExtended { name: name(), source });
        }
        if let Some(reason) = self.permits.lost() {
            return Err(ExtendError::Lost { name: name(), reason });
        }
        let now = self.client.clock().now();
        let renewed = self.permits.leases.iter().all(|lease| lease.is_renewed());
        if renewed && deadline(now, lease) < self.permits.deadline() {
            return Ok(());
        }
        // The loop of the semaphore sends extensions in order, so the last one is executed last.
        let (result_sender, receiver) = oneshot::channel();
        let leases = self.permits.leases.clone();
        let pending = PendingGuard(Arc::default());
        let lease = if renewed { LeaseMode::Renewed(lease) } else { LeaseMode::Fixed(lease) };
        let extension = Extension { leases, lease, result_sender, progress: Arc::clone(&pending.0) };
        self.semaphore.extend(extension).into_background(&self.semaphore.registry);
        let durability = self.permits.leases.iter().map(|lease| lease.durability.timeout()).max().unwrap_or_default();
        tokio::select! {
            biased;
            result = receiver => result.unwrap_or_else(|_| Err(match self.permits.lost() {
                Some(reason) => ExtendError::Lost { name: name(), reason },
                None => ExtendError::of(name(), self.client.ended()),
            })),
            () = self.client.clock().sleep_until(now + self.client.patience() + durability + GRACE) => {
                let source = match pending.0.abandon() {
                    true => self.client.core().no_contact(&self.semaphore.keys.key),
                    false => ServerError::unknown("no answer came in time"),
                };
                Err(ExtendError::of(name(), source))
            }
        }
    }

    /// Moves `permits` permits into a new guard. Returns `None` if this guard has fewer permits.
    ///
    /// If all permits are moved, this guard has 0 permits afterwards.
    pub fn split(&mut self, permits: u64) -> Option<Permit> {
        let split = (permits <= self.permits.count).then(|| self.permits.split(permits))?;
        let mut other = Permit::new(self.client.clone(), Arc::clone(&self.semaphore), split);
        other.plain = self.plain.filter(|_| permits > 0);
        if self.permits.is_empty() {
            self.plain = None;
        }
        Some(other)
    }

    /// Moves the permits of `other` into this guard.
    ///
    /// # Errors
    ///
    /// Returns `other` if `other` belongs to another semaphore or client.
    pub fn merge(&mut self, mut other: Permit) -> Result<(), Permit> {
        if !Arc::ptr_eq(&self.semaphore, &other.semaphore) {
            // A guard without permits does not keep its `LocalSemaphore` registered. So two guards
            // with different `LocalSemaphore`s may belong to the same semaphore. The keys show
            // whether they do.
            let (own, others) = (&self.semaphore.keys, &other.semaphore.keys);
            let is_same = own.id() == others.id();
            let has_none = self.permits.is_empty() || other.permits.is_empty();
            if !(is_same && has_none && self.client.id() == other.client.id()) {
                return Err(other);
            }
            if self.permits.is_empty() {
                self.semaphore = Arc::clone(&other.semaphore);
            }
        }
        if let Some(others) = other.plain.take() {
            let own = *self.plain.get_or_insert(others);
            if own.labels != others.labels {
                count::permits_never_held(others.labels, other.permits.count);
                count::permits_held(own.labels, other.permits.count);
            }
        }
        self.permits.merge(std::mem::take(&mut other.permits));
        Ok(())
    }

    /// Drops the guard without returning the permits.
    ///
    /// Permits with a lease are available again when the lease ends. Permits without a lease are
    /// never available again.
    pub fn forget(mut self) {
        self.end_count(true);
        self.semaphore.forget(&std::mem::take(&mut self.permits));
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.end_count(false);
        let permits = std::mem::take(&mut self.permits);
        if !permits.is_empty() {
            self.semaphore.release(permits, None).into_background(&self.semaphore.registry);
        }
    }
}

crate::debug_fields!(Permit, |it| name: it.name(), permits: it.permits.count, held: it.is_held());
