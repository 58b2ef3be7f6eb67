//! The guard of several locks that are held together.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use redgrid_core::lock::{ExtendError, HoldGuard, MultiGrant, ReleaseError};
use redgrid_core::{Name, Token};

use crate::with::LockLost;

/// Maximum number of lease extensions in flight: 64.
const MAX_IN_FLIGHT: usize = 64;

/// Several locks that are held together. Dropping the guard releases all of them in the background;
/// [`MultiGuard::release`] waits for the result.
///
/// The guard is owned, `Send` and `Sync`. Each lock is renewed on its own, and may be lost on its
/// own. The guard is held while all locks are.
#[must_use = "dropping the guard releases the locks"]
pub struct MultiGuard {
    /// The grants, in groups that are released together.
    groups: Vec<MultiGrant>,
}

impl MultiGuard {
    /// Creates the guard of a complete acquire, and hands all grants over to the caller.
    pub(crate) fn new(groups: Vec<MultiGrant>) -> Self {
        groups.iter().for_each(MultiGrant::commit);
        MultiGuard { groups }
    }

    fn grants(&self) -> impl Iterator<Item = &HoldGuard> {
        self.groups.iter().flat_map(MultiGrant::iter)
    }

    /// Returns each name with its fencing token, which is higher than that of every earlier holder.
    pub fn tokens(&self) -> impl Iterator<Item = (&Name, Token)> {
        self.grants().map(|grant| (grant.name(), grant.token()))
    }

    /// Returns the fencing token of one of the names; `None` for other names.
    pub fn token(&self, name: impl AsRef<str>) -> Option<Token> {
        let name = name.as_ref();
        self.tokens().find_map(|(held, token)| (held.as_str() == name).then_some(token))
    }

    /// Returns whether all holds are valid at this instant, by the local clock and with a margin.
    ///
    /// It sends no request.
    pub fn is_held(&self) -> bool {
        self.grants().all(HoldGuard::is_held)
    }

    /// Returns how long all holds are valid without a further renewal; zero when one is lost.
    pub fn remaining(&self) -> Duration {
        self.grants().map(HoldGuard::remaining).min().unwrap_or_default()
    }

    /// Completes when one of the holds is no longer certain. Returns its name and the reason.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn lost(&self) -> LockLost {
        let watch_grant = |grant: &HoldGuard| {
            let (name, watch) = (grant.name().clone(), grant.watch());
            Box::pin(async move { LockLost { name, reason: watch.lost().await } })
        };
        let mut watches: Vec<_> = self.grants().map(watch_grant).collect();
        poll_fn(|cx| {
            let lost = watches.iter_mut().find_map(|watch| match watch.as_mut().poll(cx) {
                Poll::Ready(lost) => Some(lost),
                Poll::Pending => None,
            });
            lost.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Runs `work` while all locks are held, and drops it when one is lost.
    ///
    /// # Errors
    ///
    /// [`LockLost`] when a lock was lost before the work completed. The work is dropped then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work. The guard keeps the locks.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockLost> {
        tokio::select! {
            biased;
            lost = self.lost() => Err(lost),
            done = work => Ok(done),
        }
    }

    /// Extends each lock, as [`LockGuard::extend`](crate::LockGuard::extend).
    ///
    /// Fixed leases end `lease` from now. Renewed leases are only extended, never shortened.
    ///
    /// # Errors
    ///
    /// The first [`ExtendError`]. Other locks may have been extended.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, each new lease may or may not be in force. Each hold is then
    /// valid until the earlier end of its old and its new lease.
    pub async fn extend(&self, lease: Duration) -> Result<(), ExtendError> {
        let grants: Vec<_> = self.grants().collect();
        let mut outcome = Ok(());
        for chunk in grants.chunks(MAX_IN_FLIGHT) {
            let extensions =
                chunk.iter().map(|grant| Box::pin(grant.extend(lease)) as Pin<Box<dyn Future<Output = _> + Send>>);
            for extended in join_all(extensions.collect()).await {
                outcome = outcome.and(extended);
            }
        }
        outcome
    }

    /// Releases all locks and waits for the replies of the servers.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] when a hold had ended before: another holder may have had its lock.
    /// Otherwise the error of the first release that was not confirmed. In both cases, all other
    /// locks are released.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the release goes on in the background.
    #[doc(alias = "unlock")]
    pub async fn release(self) -> Result<(), ReleaseError> {
        let mut errors = Vec::new();
        let releases = self.groups.into_iter().map(MultiGrant::release).collect::<Vec<_>>();
        for release in releases {
            errors.extend(release.await);
        }
        let lost = errors.iter().position(|error| matches!(error, ReleaseError::Lost { .. }));
        match errors.into_iter().nth(lost.unwrap_or(0)) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Stops renewing and leaves each lock to its lease.
    pub fn forget(self) {
        self.groups.into_iter().for_each(MultiGrant::forget);
    }
}

/// Waits for all futures, which are polled in order.
async fn join_all<T>(mut futures: Vec<Pin<Box<dyn Future<Output = T> + Send + '_>>>) -> Vec<T> {
    let mut done: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    poll_fn(|cx| {
        for (future, done) in futures.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
            if let Poll::Ready(value) = future.as_mut().poll(cx) {
                *done = Some(value);
            }
        }
        if done.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

impl std::fmt::Debug for MultiGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MultiGuard").field("names", &self.grants().count()).field("is_held", &self.is_held()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_can_move_between_tasks() {
        fn assert_movable<T: Send + Sync + 'static>() {}
        assert_movable::<MultiGuard>();
        assert_movable::<crate::MultiLock>();
        assert_movable::<crate::AcquireMany<crate::MultiLock>>();
    }
}
