//! Resources that serve their waiters strictly in order, such as the permits of a rate limiter.
//!
//! A poll finds that the first waiter has to wait. The waiters behind it then wait too, whatever
//! they ask for, and the next poll is due at the time of the first waiter. The queue is blocked
//! until that poll starts or the first waiter leaves. While it is blocked, a new waiter is no
//! reason to poll.

use std::sync::Arc;

use super::{Resource, WaitQueue, Waiter, WaiterId};

impl<R: Resource> WaitQueue<R> {
    /// Blocks the queue by its first waiter; for [`Resource::replied`]. Returns false and does
    /// nothing if `first` is no longer the first one, which is a reason to poll again.
    ///
    /// The reply counts for all waiters of the queue then, also for those that came after the poll
    /// was sent.
    pub fn block(&self, first: WaiterId) -> bool {
        let mut state = self.state();
        let is_first = state.waiters.keys().next() == Some(&first);
        if is_first {
            state.blocked_by = Some(first);
            state.replied_to = state.next_id;
        }
        is_first
    }

    /// Adds a waiter unless the queue is blocked. For callers that do not wait behind others.
    pub fn enter_unblocked(self: &Arc<Self>, request: R::Request) -> Option<Waiter<R>> {
        let state = self.state();
        state.blocked_by.is_none().then(|| self.add(state, request))
    }
}
