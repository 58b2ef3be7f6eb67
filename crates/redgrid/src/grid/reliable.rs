//! Queues of messages that are acknowledged.

use super::Grid;

impl Grid {
    /// Returns the queue with this name. A message that is not acknowledged is delivered again.
    /// Messages are encoded as JSON. See [`ReliableQueue`](redgrid_reliable_queue::ReliableQueue).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let orders = grid.reliable_queue::<u64>("orders");
    /// orders.push(&42).await?;
    ///
    /// let order = orders.receive().await?; // waits if there is none
    /// match order.value() {
    ///     Ok(_) => order.ack().await?, // done: the message is removed
    ///     Err(_) => order.reject("not an order").await?, // a dead letter
    /// }
    /// # Ok(()) }
    /// ```
    #[cfg(all(feature = "reliable-queue", feature = "json"))]
    #[doc(alias = "getReliableQueue")]
    pub fn reliable_queue<T>(&self, name: impl AsRef<str>) -> redgrid_reliable_queue::ReliableQueue<T> {
        redgrid_reliable_queue::ReliableQueue::new(&self.client, name)
    }

    /// Returns the queue with this name. Its messages are acknowledged, and encoded by `codec`. See
    /// [`ReliableQueue`](redgrid_reliable_queue::ReliableQueue).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::codecs::Text;
    ///
    /// let orders = grid.reliable_queue_with::<String, _>("orders", Text);
    /// orders.push("order 42").await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "reliable-queue")]
    pub fn reliable_queue_with<T, C: redgrid_codecs::Codec>(
        &self,
        name: impl AsRef<str>,
        codec: C,
    ) -> redgrid_reliable_queue::ReliableQueue<T, C> {
        redgrid_reliable_queue::ReliableQueue::<T, redgrid_codecs::Raw>::new(&self.client, name).with_codec(codec)
    }
}
