//! The guard of a held lock.

use std::time::Duration;

use redgrid_core::author::FromHoldGuard;
use redgrid_core::lock::{ExtendError, HoldGuard, HoldWatch, LostReason, ReleaseError};
use redgrid_core::{Name, Token};

/// A held lock. Dropping it releases the lock in the background; [`LockGuard::release`] waits for
/// the result.
///
/// The guard is owned, `Send` and `Sync`: it can move to other tasks and be stored in a struct. The
/// lease is renewed while the guard lives, unless [`lease`](crate::Acquire::lease) set a fixed one.
#[must_use = "dropping the guard releases the lock"]
pub struct LockGuard(HoldGuard);

impl LockGuard {
    pub(crate) fn new(grant: HoldGuard) -> Self {
        LockGuard(grant)
    }

    pub(crate) fn grant(&self) -> &HoldGuard {
        &self.0
    }

    pub(crate) fn into_grant(self) -> HoldGuard {
        self.0
    }

    /// Returns the name of the lock.
    #[doc(alias = "getName")]
    pub fn name(&self) -> &Name {
        self.0.name()
    }

    /// Returns the fencing token, which is higher than that of every earlier holder of this name.
    ///
    /// Send it with each write, and let the store refuse lower tokens.
    #[doc(alias = "lockAndGetToken")]
    #[doc(alias = "tryLockAndGetToken")]
    pub fn token(&self) -> Token {
        self.0.token()
    }

    /// Returns whether the hold is valid at this instant, by the local clock and with a margin.
    ///
    /// It sends no request.
    #[doc(alias = "isHeldByCurrentThread")]
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// Returns how long the hold is valid without a further renewal; zero when it is lost.
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Completes when the hold is no longer certain.
    ///
    /// The lease was not confirmed in time, the lock is gone from the server, or it was taken by
    /// force. Except by force, the server has not granted the lock to another holder before that.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn lost(&self) -> LostReason {
        self.0.lost().await
    }

    /// Returns a view of the hold for other tasks: `lost`, `is_held`, `token`.
    ///
    /// The view does not keep the lock.
    pub fn watch(&self) -> HoldWatch {
        self.0.watch()
    }

    /// Runs `work` while the lock is held, and drops it when the lock is lost.
    ///
    /// ```no_run
    /// # async fn demo(guard: redgrid_locks::LockGuard) -> Result<(), Box<dyn std::error::Error>> {
    /// let sum = guard.run(async { 1 + 1 }).await?;
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`LockLost`] when the lock was lost before the work completed. The work is dropped then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work. The guard keeps the lock.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockLost> {
        tokio::select! {
            biased;
            reason = self.0.lost() => Err(LockLost { name: self.name().clone(), reason }),
            done = work => Ok(done),
        }
    }

    /// Sets a fixed lease to end `lease` from now, which may be earlier than before.
    ///
    /// A renewed lease is only extended: a shorter `lease` changes nothing.
    ///
    /// # Errors
    ///
    /// [`ExtendError`] says which lease is valid then.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the new lease may or may not be in force. The earlier end of
    /// the two leases is valid.
    #[doc(alias = "expire")]
    pub async fn extend(&self, lease: Duration) -> Result<(), ExtendError> {
        self.0.extend(lease).await
    }

    /// Returns another guard of the same hold, without a request.
    ///
    /// The lock is released with the last guard.
    ///
    /// # Errors
    ///
    /// [`LockLost`] when the lock is no longer held.
    pub fn reenter(&self) -> Result<LockGuard, LockLost> {
        self.0.clone_guard().map(LockGuard).ok_or_else(|| {
            let reason = self.0.lost_reason().unwrap_or(LostReason::Expired);
            LockLost { name: self.name().clone(), reason }
        })
    }

    /// Releases the lock and waits for the reply of the server.
    ///
    /// If other tasks of this process wait, the lock is handed over to them, and there is nothing
    /// to wait for.
    ///
    /// The wait for the reply takes at most `response_timeout`. After that, and if the future is
    /// dropped, the release goes on in the background. It ends when the server has no lease of the
    /// hold any more. That includes the lease of an [`extend`](LockGuard::extend) without a reply.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] when the hold had ended before: another holder may have had the lock.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the release goes on in the background.
    #[doc(alias = "unlock")]
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.0.release().await
    }

    /// Stops the renewal and leaves the lock to its lease.
    ///
    /// No other holder can acquire the lock before the lease has ended. Other guards of the same
    /// hold ([`LockGuard::reenter`]) keep the lock: it is renewed, and the last of them releases
    /// it.
    pub fn forget(self) {
        self.0.forget();
    }
}

/// Lets a `Condition` release the lock and acquire it again.
impl FromHoldGuard for LockGuard {
    fn into_hold_guard(self) -> HoldGuard {
        self.0
    }

    fn from_hold_guard(grant: HoldGuard) -> Self {
        LockGuard(grant)
    }
}

impl std::fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockGuard")
            .field("name", self.name())
            .field("token", &self.token())
            .field("is_held", &self.is_held())
            .finish()
    }
}

/// Error of a lock that was lost while it was needed. Another holder may have had it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` was lost: {reason}")]
#[non_exhaustive]
pub struct LockLost {
    /// Name of the lock.
    pub name: Name,
    /// How it was lost.
    pub reason: LostReason,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_can_move_between_tasks() {
        fn assert_movable<T: Send + Sync + 'static>() {}
        assert_movable::<LockGuard>();
        assert_movable::<HoldWatch>();
        assert_movable::<crate::Lock>();
        assert_movable::<crate::Acquire>();
    }
}
