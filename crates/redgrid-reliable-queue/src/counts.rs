//! Numbers of messages in each state of a queue, and totals since its creation.

use redgrid_core::object::ObjectError;
use redgrid_work::{Counts, parse_counts};

use crate::queue::ReliableQueue;

impl<T, C> ReliableQueue<T, C> {
    /// Returns the number of messages in each state, how long the oldest one has been ready, and
    /// totals since the queue was created.
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
        let reply: Vec<u64> = self.object_ref().read(self.queue_client()?.keys().counts()).await?;
        self.parse_counts(&reply)
    }

    /// Parses the reply of counts.lua.
    pub(crate) fn parse_counts(&self, reply: &[u64]) -> Result<Counts, ObjectError> {
        parse_counts(reply).ok_or_else(|| self.unexpected("counts"))
    }
}
