//! Resources that serve their waiters strictly in order, such as the permits of a rate limiter.
//!
//! If the reply of a poll says that the first waiter has to wait, the waiters behind it wait, too,
//! whatever they request. The next poll takes place when the first waiter can be served. The queue
//! is blocked until that poll starts or the first waiter leaves. While the queue is blocked, a new
//! waiter does not cause a poll.

use std::sync::Arc;

use super::{Resource, WaitQueue, Waiter, WaiterId};

impl<R: Resource> WaitQueue<R> {
    /// Blocks the queue because its first waiter has to wait. An implementation of
    /// [`Resource::replied`] calls this method.
    ///
    /// The reply then applies to all waiters of the queue, even to those that were added after the
    /// poll was sent. If `first` is no longer the first waiter, the method does nothing and returns
    /// false. In that case the resource should request another poll.
    pub fn block(&self, first: WaiterId) -> bool {
        let mut state = self.state.lock();
        let is_first = state.waiters.keys().next() == Some(&first);
        if is_first {
            state.blocked_by = Some(first);
            state.replied_to = state.next_id;
        }
        is_first
    }

    /// Adds a waiter, or returns `None` if the queue is blocked. This method is for callers that
    /// leave instead of waiting behind others.
    pub fn enter_unblocked(self: &Arc<Self>, request: R::Request) -> Option<Waiter<R>> {
        let state = self.state.lock();
        state.blocked_by.is_none().then(|| self.add(state, request))
    }
}
