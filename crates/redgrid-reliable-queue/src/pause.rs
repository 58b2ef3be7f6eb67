//! Pausing a queue: nothing is delivered until it is resumed.

use redgrid_core::Request;
use redgrid_core::object::ObjectError;

use crate::queue::ReliableQueue;

impl<T, C> ReliableQueue<T, C> {
    /// Pauses the queue: from now on, the server delivers none of its messages to any process.
    /// Returns whether it was not paused before.
    ///
    /// Use it to hold back work, such as during a migration or an incident, without stopping the
    /// consumers. The queue stays paused until it is [resumed](ReliableQueue::resume) or deleted;
    /// no client has to stay alive. While it is paused:
    ///
    /// - Pushes are accepted, up to the capacity.
    /// - Receives wait, within their timeouts, and [`try_receive`](ReliableQueue::try_receive)
    ///   returns `None`. [`peek`](ReliableQueue::peek) still returns the messages that come next.
    /// - Consumers keep the messages that they have, and can settle or extend them. A message that
    ///   was delivered before the pause, and is in flight by [`counts`](ReliableQueue::counts), may
    ///   reach its consumer later.
    /// - Time goes on: visibilities, delays and lifetimes end as usual. A message that was not
    ///   settled in time is returned, and becomes a dead letter if it has reached the maximum
    ///   number of attempts. The pause itself counts as no attempt.
    ///
    /// Versions of redgrid that do not have this method ignore a pause: update all consumers first.
    /// Like every write, a pause that was not replicated may be lost in a failover.
    ///
    /// ```no_run
    /// # #[cfg(feature = "json")]
    /// # async fn demo(orders: &redgrid_reliable_queue::ReliableQueue<String>) -> Result<(), Box<dyn std::error::Error>> {
    /// orders.pause().await?;
    /// println!("paused since {:?}", orders.counts().await?.paused_since);
    /// orders.resume().await?; // all waiting consumers continue
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says whether the queue may be paused. A server that is out of memory can
    /// still pause it.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after the request is sent, the request is still executed.
    #[doc(alias = "disableOperation")]
    pub async fn pause(&self) -> Result<bool, ObjectError> {
        self.set_paused(true).await
    }

    /// Resumes the queue, and wakes the waiting consumers of all processes. Returns whether it was
    /// paused before.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says whether the queue may be resumed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped after the request is sent, the request is still executed.
    #[doc(alias = "enableOperation")]
    pub async fn resume(&self) -> Result<bool, ObjectError> {
        self.set_paused(false).await
    }

    /// Returns whether the queue is paused, as its primary says.
    /// [`Counts::paused_since`](crate::Counts::paused_since) tells since when.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if the server did not answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn is_paused(&self) -> Result<bool, ObjectError> {
        let queue = self.queue_client()?.keys().queue().clone();
        self.object_ref().read_primary(Request::command("HEXISTS").key(queue).arg("paused")).await
    }

    async fn set_paused(&self, is_paused: bool) -> Result<bool, ObjectError> {
        let queue_client = self.queue_client()?;
        let reply = self.run_exactly_once(queue_client, queue_client.keys().pause(is_paused)).await?;
        Ok(reply.first() == Some(&1))
    }
}
