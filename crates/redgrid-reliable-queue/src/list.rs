//! Pages of messages without their values, for tools of operators.

use bytes::Bytes;
use redgrid_core::object::ObjectError;
use redgrid_work::{MessageGroup, MessagePage, parse_page};

use crate::queue::ReliableQueue;

impl<T, C> ReliableQueue<T, C> {
    /// Returns up to 100 messages of a group, from the index `first` on, without their values. Use
    /// it for tools of operators.
    ///
    /// Messages that come or go between two calls move the indices of others. Messages that have
    /// expired are included until a change or a receive drops them.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if the server did not answer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    ///
    /// ```no_run
    /// # #[cfg(feature = "json")]
    /// # async fn demo(orders: &redgrid_reliable_queue::ReliableQueue<String>) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid_reliable_queue::MessageGroup;
    ///
    /// let dead = orders.list(MessageGroup::Dead, 0).await?;
    /// println!("{} dead letters", dead.total);
    /// for message in &dead.messages {
    ///     println!("{}: {:?}", message.id, message.state);
    /// }
    /// # Ok(()) }
    /// ```
    #[doc(alias = "listAll")]
    pub async fn list(&self, group: MessageGroup, first: u64) -> Result<MessagePage, ObjectError> {
        let request = self.queue_client()?.keys().list(group, first);
        let reply: Vec<Bytes> = self.object_ref().read(request).await?;
        parse_page(&reply).ok_or_else(|| self.unexpected("a page of messages"))
    }
}
