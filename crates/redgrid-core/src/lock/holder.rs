//! Who holds. Said explicitly, never guessed from a task or thread: tasks move between threads, and two branches of one
//! `join!` are one task.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Tells holders of one process apart.
pub type HolderId = u64;

static NEXT: AtomicU64 = AtomicU64::new(1);

tokio::task_local! {
    static CURRENT: Holder;
}

/// An identity that may enter again what it already holds.
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
    /// A holder that nobody else is.
    #[allow(clippy::new_without_default, reason = "a default would suggest that all defaults are equal")]
    pub fn new() -> Self {
        Holder(Arc::new(NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// Runs `work` with a holder of its own: everything acquired in it without another holder belongs to that one, so
    /// functions that call each other may take the same lock. It does not reach tasks that `work` spawns.
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

    /// The holder of the scope we are in.
    pub fn current() -> Option<Holder> {
        CURRENT.try_with(Clone::clone).ok()
    }

    /// The number behind it.
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
