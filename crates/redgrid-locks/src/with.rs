//! Work under a lock, which is dropped when the lock is lost.

use redgrid_core::lock::{LostReason, ReleaseError};
use redgrid_core::{Name, Token};

use crate::AcquireError;
use crate::acquire::Acquire;
use crate::lock::{Lock, LockGuard};

impl Lock {
    /// Acquires the lock, runs `work` with the fencing token, and releases the lock.
    ///
    /// The work is dropped when the lock is lost.
    ///
    /// ```no_run
    /// # async fn demo(lock: redgrid_locks::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// let written = lock.with(|token| async move { token.get() }).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`WithError`] when the lock was not acquired, or was lost before the work was done.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and releases the lock in the background.
    pub async fn with<F, Fut>(&self, work: F) -> Result<Fut::Output, WithError>
    where
        F: FnOnce(Token) -> Fut + Send,
        Fut: Future + Send,
    {
        self.acquire().with(work).await
    }
}

impl Acquire {
    /// Acquires the lock, runs `work` with the fencing token, and releases the lock.
    ///
    /// The work is dropped when the lock is lost.
    ///
    /// # Errors
    ///
    /// [`WithError`] when the lock was not acquired, or was lost before the work was done.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and releases the lock in the background.
    pub async fn with<F, Fut>(self, work: F) -> Result<Fut::Output, WithError>
    where
        F: FnOnce(Token) -> Fut + Send,
        Fut: Future + Send,
    {
        let guard = self.await?;
        let done = guard.run(work(guard.token())).await?;
        match guard.release().await {
            // The work was done under a valid lease. Only the release is not confirmed; the hold
            // ends with its lease.
            Ok(()) | Err(ReleaseError::OutcomeUnknown { .. } | ReleaseError::Refused { .. }) => Ok(done),
            Err(ReleaseError::Lost { name, reason }) => Err(WithError::Lost(LockLost { name, reason })),
            Err(_) => Ok(done),
        }
    }
}

impl LockGuard {
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
            reason = self.lost() => Err(LockLost { name: self.name().clone(), reason }),
            done = work => Ok(done),
        }
    }
}

/// Reason why work under a lock was not done, or not completed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WithError {
    /// The lock was not acquired. The work was not started.
    #[error(transparent)]
    Acquire(#[from] AcquireError),
    /// The lock was lost. The work was dropped, or had just completed.
    #[error(transparent)]
    Lost(#[from] LockLost),
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
