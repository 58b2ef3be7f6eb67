//! Taking a lock by force.

use std::time::Duration;

use redgrid_core::author::{ClientExt, LockExt};
use redgrid_core::config::Durability;
use redgrid_core::lock::{AcquireRequest, LeaseMode, TakeoverFrom};
use redgrid_core::{Client, Failure};

use crate::AcquireError;
use crate::inspect::LockHolder;
use crate::lock::{Lock, LockGuard};

/// Lifetime of the holder field of a takeover that is released afterwards: 5 s.
///
/// It matters only if the client that forces the release dies in between.
pub(crate) const FORCED_LEASE: Duration = Duration::from_secs(5);

impl Lock {
    /// Frees the lock, whichever holder has it. Returns whether there was one.
    ///
    /// Redgrid holders are notified of the loss a round trip later. A Redisson holder notices the
    /// loss only when it unlocks. Until then it may still be working: use the fencing token where
    /// that matters.
    ///
    /// The lock is free half a second later. If it were free at once, a holder that was not
    /// notified yet could give its own tasks tokens that are higher than those of the next holder.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] when the takeover failed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the lock may or may not be freed.
    #[doc(alias = "forceUnlock")]
    pub async fn force_release(&self) -> Result<bool, AcquireError> {
        self.take_over_and_release(TakeoverFrom::Holders).await
    }

    /// Frees the lock only while this holder has it. Returns whether it was freed.
    ///
    /// Comparison and takeover are one step on the server: a holder that acquired the lock after
    /// [`Lock::inspect`] keeps it.
    ///
    /// ```no_run
    /// # async fn demo(lock: redgrid_locks::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// if let Some(state) = lock.inspect().await? {
    ///     // … it is the holder that is known to be dead …
    ///     let freed = lock.force_release_if(&state.holders[0]).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// The holder is notified, and the lock is free half a second later, as by
    /// [`Lock::force_release`]. A lock that was released and is only retained for its
    /// `hold_at_least` has no holder: the result is false.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] when the takeover failed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the lock may or may not be freed.
    pub async fn force_release_if(&self, holder: &LockHolder) -> Result<bool, AcquireError> {
        self.take_over_and_release(TakeoverFrom::Holder(holder.field().into())).await
    }

    async fn take_over_and_release(&self, from: TakeoverFrom) -> Result<bool, AcquireError> {
        let request =
            AcquireRequest { lease: LeaseMode::Fixed(FORCED_LEASE), durability: Durability::Primary, ..self.request() };
        match self.client.take_over(self.kind, self.target()?, request, from).await? {
            None => Ok(false),
            Some(grant) => {
                // If the release fails, the takeover ends with its own lease.
                let _ = grant.release().await;
                Ok(true)
            }
        }
    }

    /// Takes the lock over, whichever holder has it.
    ///
    /// The former holders are notified as by [`Lock::force_release`]. The new token is higher than
    /// theirs, which takes half a second if the lock was held. If another client took the lock over
    /// meanwhile, the guard is already lost.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] when the takeover failed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the former holder may have lost the lock. The takeover is
    /// then released in the background.
    pub async fn steal(&self) -> Result<LockGuard, AcquireError> {
        let target = self.target()?;
        match self.client.take_over(self.kind, target, self.request(), TakeoverFrom::Anybody).await? {
            Some(grant) => Ok(LockGuard::new(grant)),
            None => Err(Failure::ShuttingDown { operation: AcquireError::operation(&target.name) }.into()),
        }
    }

    /// Returns a request with default options.
    fn request(&self) -> AcquireRequest {
        AcquireRequest { reenters: self.reenters, backoff: self.backoff, ..default_request(&self.client) }
    }
}

/// Returns a request with the default options of the client.
pub(crate) fn default_request(client: &Client) -> AcquireRequest {
    AcquireRequest {
        lease: LeaseMode::Renewed(client.watchdog_lease()),
        holder: None,
        at_least: Duration::ZERO,
        max_hold: None,
        once: false,
        wait: None,
        durability: client.durability(),
        reenters: true,
        backoff: None,
        label: None,
    }
}
