//! The guards of readers and writers, and the conversions between them.

use std::time::Duration;

use redgrid_core::lock::{AcquireRequest, ExtendError, HoldGuard, HoldWatch, LostReason, ReleaseError};
use redgrid_core::{Name, Token};

use super::kinds::{READING, WRITING};
use super::upgrade::UpgradeError;
use crate::AcquireError;
use crate::lock::LockGuard;
use crate::with::LockLost;

/// A lock that is held for reading, together with other readers and without a writer.
///
/// Dropping it releases the read in the background; [`ReadGuard::release`] waits for the result.
///
/// It has no fencing token: readers change nothing. The guard is owned, `Send` and `Sync`. The
/// lease is renewed while the guard lives, unless a fixed lease was set.
#[must_use = "dropping the guard releases the read lock"]
pub struct ReadGuard(pub(super) LockGuard);

/// A lock that is held for writing, by one holder. Only that holder may read meanwhile.
///
/// Dropping it releases the write in the background; [`WriteGuard::release`] waits for the result.
#[must_use = "dropping the guard releases the write lock"]
pub struct WriteGuard(LockGuard);

/// The methods that the guards of a read-write lock share with that of a lock.
macro_rules! guard_methods {
    ($guard:ident) => {
        impl $guard {
            pub(super) fn new(grant: HoldGuard) -> Self {
                $guard(LockGuard::new(grant))
            }

            /// Returns the name of the lock.
            pub fn name(&self) -> &Name {
                self.0.name()
            }

            /// Returns whether the hold is valid at this instant, by the local clock and with a
            /// margin.
            ///
            /// It sends no request.
            pub fn is_held(&self) -> bool {
                self.0.is_held()
            }

            /// Returns how long the hold is valid without a further renewal; zero when it is lost.
            pub fn remaining(&self) -> Duration {
                self.0.remaining()
            }

            /// Completes when the hold is no longer certain.
            ///
            /// The reasons are those of [`LostReason`]: its lease was not confirmed in time, it is
            /// gone from the server, it was taken by force, or the client was shut down.
            ///
            /// # Cancel safety
            ///
            /// Dropping the future changes nothing.
            pub async fn lost(&self) -> LostReason {
                self.0.lost().await
            }

            /// Returns a view of the hold for other tasks. The view does not keep the hold.
            pub fn watch(&self) -> HoldWatch {
                self.0.watch()
            }

            /// Runs `work` while the lock is held, and drops it when the lock is lost.
            ///
            /// # Errors
            ///
            /// [`LockLost`] when the lock was lost before the work completed. The work is dropped
            /// then.
            ///
            /// # Cancel safety
            ///
            /// Dropping the future drops the work. The guard keeps the lock.
            pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockLost> {
                self.0.run(work).await
            }

            /// Makes a fixed lease end `lease` from now, even if that is earlier than before.
            ///
            /// A renewed lease is only extended, never shortened.
            ///
            /// # Errors
            ///
            /// [`ExtendError`] states which lease is valid then.
            ///
            /// # Cancel safety
            ///
            /// If the future is dropped early, the new lease may or may not be in force. The hold
            /// is then valid until the earlier end of the two leases.
            pub async fn extend(&self, lease: Duration) -> Result<(), ExtendError> {
                self.0.extend(lease).await
            }

            /// Returns another guard of the same hold, without a request.
            ///
            /// The hold ends with the last guard.
            ///
            /// # Errors
            ///
            /// [`LockLost`] when the lock is no longer held.
            pub fn reenter(&self) -> Result<$guard, LockLost> {
                self.0.reenter().map($guard)
            }

            /// Releases the hold and waits for the reply of the server.
            ///
            /// If other tasks of this process share the grant, no request is sent.
            ///
            /// # Errors
            ///
            /// [`ReleaseError::Lost`] when the hold had ended before.
            ///
            /// # Cancel safety
            ///
            /// If the future is dropped early, the release goes on in the background.
            #[doc(alias = "unlock")]
            pub async fn release(self) -> Result<(), ReleaseError> {
                self.0.release().await
            }

            /// Stops the renewal and leaves the hold to its lease.
            ///
            /// Other guards of the same hold ([`reenter`](Self::reenter)) keep it, and the last of
            /// them releases it.
            pub fn forget(self) {
                self.0.forget();
            }

            fn loss(&self) -> Option<LockLost> {
                loss(&self.0)
            }
        }

        impl std::fmt::Debug for $guard {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut debug = f.debug_struct(stringify!($guard));
                debug.field("name", self.name()).field("is_held", &self.is_held()).finish_non_exhaustive()
            }
        }
    };
}

guard_methods!(ReadGuard);
guard_methods!(WriteGuard);

impl WriteGuard {
    /// Returns the fencing token, which is higher than that of every earlier writer of this name.
    ///
    /// Send it with each write, and let the store refuse lower tokens.
    pub fn token(&self) -> Token {
        self.0.token()
    }

    /// Converts the write into a read, without another writer in between.
    ///
    /// Waiting readers are woken, including those of Redisson. The read has a new lease of the same
    /// length. The rest of a `hold_at_least` stays in force: there is no other writer before it
    /// ends. If the same holder has other write guards, it continues to write.
    ///
    /// ```no_run
    /// # async fn demo(lock: redgrid_locks::RwLock) -> Result<(), Box<dyn std::error::Error>> {
    /// let write = lock.write().await?;
    /// // … change it …
    /// let read = write.downgrade().await?;
    /// // … read what was written, with other readers …
    /// read.release().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`DowngradeError::Held`] with this guard when nothing has changed; [`DowngradeError::Lost`]
    /// when the write is lost.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the write and the read are released.
    pub async fn downgrade(self) -> Result<ReadGuard, DowngradeError> {
        let request = AcquireRequest { at_least: self.0.grant().retained_for(), ..try_request(self.0.grant()) };
        let read = self.0.grant().convert(&READING, request).await;
        match (read, self.loss()) {
            (Ok(Some(read)), _) => {
                // From now on the read retains the lock. If the write retained it too, other
                // readers would be excluded.
                self.0.grant().drop_retention();
                let read = ReadGuard::new(read);
                self.release_converted().await.map_or(Ok(read), |lost| Err(DowngradeError::Lost(lost)))
            }
            (_, Some(lost)) => Err(DowngradeError::Lost(lost)),
            (Ok(None), None) => {
                let reason = LostReason::Gone;
                Err(DowngradeError::Lost(LockLost { name: self.name().clone(), reason }))
            }
            (Err(source), None) => Err(DowngradeError::Held { guard: Box::new(self), source }),
        }
    }
}

impl ReadGuard {
    /// Converts the read into a write if there is no other reader in this or another process.
    ///
    /// It never waits: two readers that waited for each other would wait forever. To wait for other
    /// readers, use [`RwLock::upgradable_read`](crate::RwLock::upgradable_read).
    ///
    /// After an attempt, later readers of this process send requests of their own.
    ///
    /// # Errors
    ///
    /// [`UpgradeError::Busy`] and [`UpgradeError::Held`], both with this guard;
    /// [`UpgradeError::Lost`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the read and the write are released.
    pub async fn try_upgrade(self) -> Result<WriteGuard, UpgradeError> {
        let write = self.0.grant().convert(&WRITING, try_request(self.0.grant())).await;
        match (write, self.loss()) {
            (_, Some(lost)) => Err(UpgradeError::Lost(lost)),
            // The read is released in the background. If its release were awaited here, a future
            // that is not polled would keep the write.
            (Ok(Some(write)), None) => Ok(WriteGuard::new(write)),
            (Ok(None), None) => Err(UpgradeError::Busy(Box::new(self))),
            (Err(source), None) => Err(UpgradeError::Held { guard: Box::new(self), source }),
        }
    }
}

impl WriteGuard {
    /// Releases the write after its conversion.
    ///
    /// Returns the loss of the write, if it was lost: there may have been other holders in between.
    async fn release_converted(self) -> Option<LockLost> {
        loss_of_release(self.release().await)
    }
}

/// Returns the loss that a release reported. After any other error the hold ends with its lease.
fn loss_of_release(released: Result<(), ReleaseError>) -> Option<LockLost> {
    match released {
        Err(ReleaseError::Lost { name, reason }) => Some(LockLost { name, reason }),
        _ => None,
    }
}

/// Returns the loss of a hold, if it is lost.
pub(super) fn loss(guard: &LockGuard) -> Option<LockLost> {
    let reason = guard.watch().lost_reason()?;
    Some(LockLost { name: guard.name().clone(), reason })
}

/// Returns a try-only request with the options of a hold.
fn try_request(grant: &HoldGuard) -> AcquireRequest {
    AcquireRequest { once: true, wait: None, at_least: Duration::ZERO, ..grant.request().clone() }
}

/// Reason why a downgrade failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DowngradeError {
    /// The write is still held.
    #[error("cannot downgrade, the write is still held: {source}")]
    Held {
        /// The guard of the write.
        guard: Box<WriteGuard>,
        /// The cause.
        source: AcquireError,
    },
    /// The write is lost.
    #[error(transparent)]
    Lost(#[from] LockLost),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_can_move_between_tasks() {
        fn assert_movable<T: Send + Sync + 'static>() {}
        assert_movable::<ReadGuard>();
        assert_movable::<WriteGuard>();
        assert_movable::<crate::UpgradableGuard>();
        assert_movable::<crate::RwLock>();
    }
}
