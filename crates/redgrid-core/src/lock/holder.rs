//! Identity of a holder.
//!
//! It is explicit, never guessed from a task or thread. Tasks move between threads, and two
//! branches of one `join!` are one task.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Distinguishes the holders of one process.
pub type HolderId = u64;

static NEXT: AtomicU64 = AtomicU64::new(1);

tokio::task_local! {
    static CURRENT: Holder;
}

/// An identity that may reenter what it already holds.
///
/// ```
/// use redgrid_core::Holder;
///
/// let me = Holder::new();
/// let also_me = me.clone();
/// assert_eq!(me, also_me);
/// assert_ne!(me, Holder::new());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holder(Arc<HolderId>);

impl Holder {
    /// Creates a holder that is equal to no other.
    #[allow(clippy::new_without_default, reason = "a default would suggest that all defaults are equal")]
    pub fn new() -> Self {
        Holder(Arc::new(NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// Runs `work` with a holder of its own.
    ///
    /// Everything that is acquired in it without another holder belongs to that one. Functions that
    /// call each other may therefore take the same lock. The scope does not reach tasks that `work`
    /// spawns.
    ///
    /// Inside another scope, `work` stays with the outer holder.
    ///
    /// # Cancel safety
    ///
    /// As that of `work`.
    pub async fn scope<F: Future>(work: F) -> F::Output {
        match Holder::current() {
            Some(_) => work.await,
            None => CURRENT.scope(Holder::new(), work).await,
        }
    }

    /// Returns the holder of the current scope.
    pub fn current() -> Option<Holder> {
        CURRENT.try_with(Clone::clone).ok()
    }

    /// Returns the number of the holder.
    pub fn id(&self) -> HolderId {
        *self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_scope_has_one_holder_and_spawned_tasks_have_none() {
        let spawned = Holder::scope(async {
            let outer = Holder::current();
            assert!(outer.is_some());
            let inner = Holder::scope(async { Holder::current() }).await;
            assert_eq!(outer, inner);
            tokio::spawn(async { Holder::current() }).await
        });
        assert_eq!(spawned.await.ok(), Some(None));
    }
}
