//! The proof that several locks are held, and the means to end it.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use redgrid_core::lock::{ExtendError, HoldGuard, MultiGrant, ReleaseError};
use redgrid_core::{Name, Token};

use crate::guard::LockLost;

/// Extensions that are under way at the same time.
const AT_A_TIME: usize = 64;

/// Several held locks, which belong together. Dropping it gives all back in the background; [`MultiGuard::release`] waits and
/// tells.
///
/// Owned, `Send` and `Sync`. Each lock is renewed, and may be lost, on its own; the guard is held while all of them are.
#[must_use = "dropping the guard gives the locks back"]
pub struct MultiGuard {
    bundles: Vec<MultiGrant>,
}

impl MultiGuard {
    /// All that was asked for: from here on each of them is had.
    pub(crate) fn new(bundles: Vec<MultiGrant>) -> Self {
        bundles.iter().for_each(MultiGrant::commit);
        MultiGuard { bundles }
    }

    fn grants(&self) -> impl Iterator<Item = &HoldGuard> {
        self.bundles.iter().flat_map(MultiGrant::iter)
    }

    /// Each name with its fencing token, which is higher than that of every earlier holder of the name.
    pub fn tokens(&self) -> impl Iterator<Item = (&Name, Token)> {
        self.grants().map(|grant| (grant.name(), grant.token()))
    }

    /// The fencing token of one of the names; `None` for another.
    pub fn token(&self, name: &str) -> Option<Token> {
        self.tokens().find_map(|(held, token)| (held.as_str() == name).then_some(token))
    }

    /// Whether all may be believed to be ours at this instant, by our own clock and with a margin. Asks nobody.
    pub fn is_held(&self) -> bool {
        self.grants().all(HoldGuard::is_held)
    }

    /// How long all may be believed without a further renewal; zero when one is lost.
    pub fn remaining(&self) -> Duration {
        self.grants().map(HoldGuard::remaining).min().unwrap_or_default()
    }

    /// Completes when one of them is no longer certainly ours, and tells which.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn lost(&self) -> LockLost {
        let watched = |grant: &HoldGuard| {
            let (name, watch) = (grant.name().clone(), grant.watch());
            Box::pin(async move { LockLost { name, reason: watch.lost().await } })
        };
        let mut all: Vec<_> = self.grants().map(watched).collect();
        poll_fn(|cx| {
            let lost = all.iter_mut().find_map(|one| match one.as_mut().poll(cx) {
                Poll::Ready(lost) => Some(lost),
                Poll::Pending => None,
            });
            lost.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    /// Runs `work` while all are held, and drops it when one is lost.
    ///
    /// # Errors
    ///
    /// [`LockLost`] when one was lost first; the work is dropped then.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the work; the guard still holds.
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, LockLost> {
        tokio::select! {
            biased;
            lost = self.lost() => Err(lost),
            done = work => Ok(done),
        }
    }

    /// Sets fixed leases to end `lease` from now. Renewed ones are only ever lengthened. As
    /// [`LockGuard::extend`](crate::LockGuard::extend), for each.
    ///
    /// # Errors
    ///
    /// The first [`ExtendError`]; others may have been extended.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, each new lease may or may not be in force; the earlier end of the two is believed.
    pub async fn extend(&self, lease: Duration) -> Result<(), ExtendError> {
        let grants: Vec<_> = self.grants().collect();
        let mut outcome = Ok(());
        for part in grants.chunks(AT_A_TIME) {
            let under_way =
                part.iter().map(|grant| Box::pin(grant.extend(lease)) as Pin<Box<dyn Future<Output = _> + Send>>);
            for extended in all(under_way.collect()).await {
                outcome = outcome.and(extended);
            }
        }
        outcome
    }

    /// Gives all back and waits for the servers' answers.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] where one had ended before: somebody else may have been in. Otherwise the first that could not be
    /// confirmed. All that can be given back are, in either case.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the release goes on in the background.
    #[doc(alias = "unlock")]
    pub async fn release(self) -> Result<(), ReleaseError> {
        let mut errors = Vec::new();
        for told in self.bundles.into_iter().map(MultiGrant::release).collect::<Vec<_>>() {
            errors.extend(told.await);
        }
        let lost = errors.iter().position(|error| matches!(error, ReleaseError::Lost { .. }));
        match errors.into_iter().nth(lost.unwrap_or(0)) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Stops renewing and leaves each lock to its lease.
    pub fn forget(self) {
        self.bundles.into_iter().for_each(MultiGrant::forget);
    }
}

/// Waits for all of them, each polled in turn.
async fn all<T>(mut under_way: Vec<Pin<Box<dyn Future<Output = T> + Send + '_>>>) -> Vec<T> {
    let mut done: Vec<Option<T>> = under_way.iter().map(|_| None).collect();
    poll_fn(|cx| {
        for (future, done) in under_way.iter_mut().zip(&mut done).filter(|(_, done)| done.is_none()) {
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
    fn guards_move_between_tasks() {
        fn is_free_to_move<T: Send + Sync + 'static>() {}
        is_free_to_move::<MultiGuard>();
        is_free_to_move::<crate::MultiLock>();
        is_free_to_move::<crate::AcquireMany<crate::MultiLock>>();
    }
}
