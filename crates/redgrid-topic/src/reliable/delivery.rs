//! One message with its subscriber.

use std::fmt;
use std::sync::Arc;

use redgrid_core::object::ObjectError;

use super::MessageId;
use super::deliveries::Desk;

/// A message that is to be acknowledged when it is dealt with. Dropped without that, it comes again.
#[must_use = "dropped without `ack`, it comes again"]
pub struct Delivery<T> {
    id: MessageId,
    again: bool,
    message: Result<T, ObjectError>,
    desk: Option<Arc<Desk>>,
}

impl<T> Delivery<T> {
    pub(super) fn new(id: MessageId, again: bool, message: Result<T, ObjectError>, desk: Arc<Desk>) -> Self {
        Delivery { id, again, message, desk: Some(desk) }
    }

    /// The id that the server gave it: the same each time it comes.
    pub fn id(&self) -> MessageId {
        self.id
    }

    /// What was published.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Decode`] where it can not be read as the type that was asked for. It comes again unless it is acknowledged all the same.
    pub fn message(&self) -> Result<&T, &ObjectError> {
        self.message.as_ref()
    }

    /// Whether it came before to this subscription. What came to another process of the subscriber is not known here.
    pub fn is_redelivered(&self) -> bool {
        self.again
    }

    /// It is dealt with. The server drops it when all subscribers have acknowledged it and those before it, and so does a process that goes on as this
    /// subscriber: what is behind a message that is not acknowledged comes there again.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] where the server was not told. It does not come again here, and the server is told with the next one.
    ///
    /// # Cancel safety
    ///
    /// As with an error.
    pub async fn ack(mut self) -> Result<(), ObjectError> {
        match self.desk.take() {
            Some(desk) => desk.acknowledge(self.id).await,
            None => Ok(()),
        }
    }
}

impl<T> Drop for Delivery<T> {
    fn drop(&mut self) {
        if let Some(desk) = self.desk.take() {
            desk.give_back(self.id);
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Delivery<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").field("id", &self.id).field("message", &self.message).finish_non_exhaustive()
    }
}
