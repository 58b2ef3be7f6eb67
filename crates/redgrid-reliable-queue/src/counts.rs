//! Numbers of messages in each state of a queue, and totals since its creation.

use redgrid_core::object::ObjectError;

use crate::queue::ReliableQueue;

impl<T, C> ReliableQueue<T, C> {
    /// Returns the number of messages in each state, and totals since the queue was created.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if the server did not answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "size")]
    #[doc(alias = "isEmpty")]
    #[doc(alias = "countDelayedMessages")]
    #[doc(alias = "countUnacknowledgedMessages")]
    pub async fn counts(&self) -> Result<Counts, ObjectError> {
        let reply: Vec<u64> = self.object_ref().read(self.queue_client()?.keys.counts()).await?;
        self.parse_counts(&reply)
    }

    /// Parses the reply of counts.lua.
    pub(crate) fn parse_counts(&self, reply: &[u64]) -> Result<Counts, ObjectError> {
        let [ready, delayed, in_flight, dead, into_count @ ..] = reply else {
            return Err(self.unexpected("counts"));
        };
        let &[pushed, first, redelivered, acknowledged, returned, died, expired] = into_count else {
            return Err(self.unexpected("counts"));
        };
        let totals =
            Totals { pushed, received: first + redelivered, redelivered, acknowledged, returned, died, expired };
        Ok(Counts { ready: *ready, delayed: *delayed, in_flight: *in_flight, dead: *dead, totals })
    }
}

/// Numbers of messages in each state, and totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Ready to be received. Expired messages count until a change or a receive drops them.
    pub ready: u64,
    /// Not ready yet.
    pub delayed: u64,
    /// Received, but not settled.
    pub in_flight: u64,
    /// Dead letters: messages that are not delivered any more.
    pub dead: u64,
    /// Totals since the queue was created.
    pub totals: Totals,
}

/// Totals since a queue was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Messages pushed.
    pub pushed: u64,
    /// Messages received.
    pub received: u64,
    /// Received messages that had been delivered earlier.
    pub redelivered: u64,
    /// Messages acknowledged.
    pub acknowledged: u64,
    /// Messages returned, or not settled in time.
    pub returned: u64,
    /// Messages that became dead letters.
    pub died: u64,
    /// Messages whose lifetime ended, including dead letters.
    pub expired: u64,
}
