//! The proof of a held lock, and the means to end it.

use std::time::Duration;

use redgrid_core::lock::{ExtendError, FromHoldGuard, HoldGuard, HoldWatch, LostReason, ReleaseError};
use redgrid_core::{Name, Token};

/// A held lock. Dropping it gives the lock back in the background; [`LockGuard::release`] waits and tells.
///
/// Owned, `Send` and `Sync`: it may move to other tasks and live in a struct. The lease is renewed while it lives, unless
/// [`lease`](crate::Acquire::lease) set a fixed one.
#[must_use = "dropping the guard gives the lock back"]
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

    /// The name of the lock.
    #[doc(alias = "getName")]
    pub fn name(&self) -> &Name {
        self.0.name()
    }

    /// The fencing token: higher than that of every earlier holder of this name. Hand it to the store that is written to,
    /// and let it refuse lower ones.
    #[doc(alias = "lockAndGetToken")]
    #[doc(alias = "tryLockAndGetToken")]
    pub fn token(&self) -> Token {
        self.0.token()
    }

    /// Whether the lock may be believed to be ours at this instant, by our own clock and with a margin. Asks nobody.
    #[doc(alias = "isHeldByCurrentThread")]
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// How long it may be believed without a further renewal; zero when it is lost.
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Completes when the lock is no longer certainly ours: its lease was not confirmed in time, it is gone from the
    /// server, or it was taken by force. The server has not given it to anybody before (unless by force).
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn lost(&self) -> LostReason {
        self.0.lost().await
    }

    /// A view of the hold for other tasks: `lost`, `is_held`, `token`. It does not keep the lock.
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
    /// [`LockLost`] when the lock was lost first; the work is dropped then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the work; the guard still holds.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockLost> {
        tokio::select! {
            biased;
            reason = self.0.lost() => Err(LockLost { name: self.name().clone(), reason }),
            done = work => Ok(done),
        }
    }

    /// Sets a fixed lease to end `lease` from now, earlier than before too. A renewed lease is only ever lengthened: a
    /// shorter `lease` changes nothing there.
    ///
    /// # Errors
    ///
    /// [`ExtendError`] says what may be believed then.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the new lease may or may not be in force; the earlier end of the two is believed.
    #[doc(alias = "expire")]
    pub async fn extend(&self, lease: Duration) -> Result<(), ExtendError> {
        self.0.extend(lease).await
    }

    /// Another guard of the same hold, without asking anybody. The lock is given back with the last of them.
    ///
    /// # Errors
    ///
    /// [`LockLost`] when it is no longer held.
    pub fn reenter(&self) -> Result<LockGuard, LockLost> {
        self.0.clone_guard().map(LockGuard).ok_or_else(|| {
            let reason = self.0.lost_reason().unwrap_or(LostReason::Expired);
            LockLost { name: self.name().clone(), reason }
        })
    }

    /// Gives the lock back and waits for the server's answer. Where others of this process wait it is handed on, and there is nothing to
    /// wait for.
    ///
    /// It waits for the answer for `response_timeout` at most. After that, and if it is dropped, the release
    /// goes on in the background until the server has no lease of it: also none of an
    /// [`extend`](LockGuard::extend) that was not answered.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] when it had ended before: somebody else may have been in.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the release goes on in the background.
    #[doc(alias = "unlock")]
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.0.release().await
    }

    /// Stops the renewal and leaves the lock to its lease: nobody else acquires it before the lease has ended.
    ///
    /// While other guards of the same hold live ([`LockGuard::reenter`]), the lock is theirs: it is renewed, and the last of
    /// them releases it.
    pub fn forget(self) {
        self.0.forget();
    }
}

/// So that a condition can give it back and take it again.
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

/// A lock was lost while it was needed: somebody else may have been in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` was lost: {reason}")]
pub struct LockLost {
    /// The lock.
    pub name: Name,
    /// How it was lost.
    pub reason: LostReason,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_move_between_tasks() {
        fn is_free_to_move<T: Send + Sync + 'static>() {}
        is_free_to_move::<LockGuard>();
        is_free_to_move::<HoldWatch>();
        is_free_to_move::<crate::Lock>();
        is_free_to_move::<crate::Acquire>();
    }
}
