//! Messages with the trace context of the span that has pushed them.

use redgrid_work::{Propagator, TracePropagator};

use crate::queue::ReliableQueue;

impl<T, C> ReliableQueue<T, C> {
    /// Returns the same queue with trace contexts: each push adds the context of the current span
    /// to its message, as the headers `traceparent` and `tracestate`.
    ///
    /// The consumer reads it by [`Delivery::trace_context`](crate::Delivery::trace_context).
    ///
    /// ```no_run
    /// # #[cfg(feature = "json")]
    /// # fn demo(client: &redgrid_reliable_queue::Client) {
    /// use redgrid_reliable_queue::{ReliableQueue, TraceContext, TracePropagator};
    ///
    /// struct CurrentSpan;
    ///
    /// impl TracePropagator for CurrentSpan {
    ///     fn current(&self) -> Option<TraceContext> {
    ///         // … from your library for traces
    /// #       None
    ///     }
    /// }
    ///
    /// let mails: ReliableQueue<String> = ReliableQueue::new(client, "mails");
    /// let mails = mails.trace_with(CurrentSpan);
    /// # }
    /// ```
    #[must_use]
    pub fn trace_with(mut self, propagator: impl TracePropagator) -> Self {
        self.propagator = Propagator::new(propagator);
        self
    }
}
