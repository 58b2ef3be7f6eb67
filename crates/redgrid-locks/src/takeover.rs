//! Taking a lock by force.

use std::sync::Arc;
use std::time::Duration;

use redgrid_core::author::{ClientExt, LockExt, LockProtocol};
use redgrid_core::config::Durability;
use redgrid_core::lock::{AcquireRequest, LeaseMode, LockKeys, Takeover, TakeoverFrom};
use redgrid_core::{Client, Failure};

use crate::AcquireError;
use crate::inspect::LockHolder;
use crate::lock::{Lock, LockGuard};

/// Lifetime of the holder field of a takeover that is released afterwards: 5 s.
///
/// It matters only if the client that forces the release dies in between.
const FORCED_LEASE: Duration = Duration::from_secs(5);

/// The result of freeing a lock by force on condition that a given holder has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "the lock may still be held"]
#[non_exhaustive]
pub enum ForcedRelease {
    /// The holder has lost the lock.
    Done,
    /// The lock was free. Nothing has changed.
    Free,
    /// The lock is held, but not by this holder. Nothing has changed.
    HeldByAnother,
}

impl ForcedRelease {
    /// Returns whether the holder has lost the lock.
    pub fn is_done(self) -> bool {
        self == ForcedRelease::Done
    }
}

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
        Ok(self.take_over_and_release(TakeoverFrom::Holders).await?.is_done())
    }

    /// Frees the lock only while this holder has it. Returns what became of it.
    ///
    /// Comparison and takeover are one step on the server: a holder that acquired the lock after
    /// [`Lock::inspect`] keeps it.
    ///
    /// ```no_run
    /// # async fn demo(lock: redgrid_locks::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// if let Some(state) = lock.inspect().await? {
    ///     // … it is the holder that is known to be dead …
    ///     let freed = lock.force_release_if(&state.holders[0]).await?.is_done();
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// The holder is notified, and the lock is free half a second later, as by
    /// [`Lock::force_release`]. A lock that was released and is only retained for its
    /// `hold_at_least` is held by none of its former holders: the result is
    /// [`ForcedRelease::HeldByAnother`].
    ///
    /// # Errors
    ///
    /// [`AcquireError`] when the takeover failed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the lock may or may not be freed.
    pub async fn force_release_if(&self, holder: &LockHolder) -> Result<ForcedRelease, AcquireError> {
        self.take_over_and_release(TakeoverFrom::Holder(holder.field().into())).await
    }

    async fn take_over_and_release(&self, from: TakeoverFrom) -> Result<ForcedRelease, AcquireError> {
        take_over_and_release(&self.client, self.kind, self.target()?, self.request(), from).await
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
            Takeover::Done(grant) => Ok(LockGuard::new(grant)),
            Takeover::Free | Takeover::HeldByAnother => {
                Err(Failure::ShuttingDown { operation: AcquireError::operation(&target.name) }.into())
            }
        }
    }

    /// Returns a request with default options.
    fn request(&self) -> AcquireRequest {
        AcquireRequest { reenters: self.reenters, backoff: self.backoff, ..default_request(&self.client) }
    }
}

/// Takes a lock of any kind over, and releases it.
pub(crate) async fn take_over_and_release(
    client: &Client,
    kind: &'static dyn LockProtocol,
    target: &Arc<LockKeys>,
    request: AcquireRequest,
    from: TakeoverFrom,
) -> Result<ForcedRelease, AcquireError> {
    let request = AcquireRequest { lease: LeaseMode::Fixed(FORCED_LEASE), durability: Durability::Primary, ..request };
    match client.take_over(kind, target, request, from).await? {
        Takeover::Done(grant) => {
            // If the release fails, the takeover ends with its own lease.
            let _ = grant.release().await;
            Ok(ForcedRelease::Done)
        }
        Takeover::Free => Ok(ForcedRelease::Free),
        Takeover::HeldByAnother => Ok(ForcedRelease::HeldByAnother),
    }
}

/// Returns a request with the default options of the client.
pub(crate) fn default_request(client: &Client) -> AcquireRequest {
    AcquireRequest::new(LeaseMode::Renewed(client.watchdog_lease()), client.durability())
}
