//! A message that was delivered to a subscriber.

use std::sync::Arc;

use redgrid_core::object::ObjectError;

use super::MessageId;
use super::subscriber::Subscriber;

/// A delivered message, to be acknowledged when it has been processed.
///
/// If it is dropped without an acknowledgement, the message is delivered again.
#[must_use = "dropped without `ack`, it is delivered again"]
pub struct Delivery<T> {
    id: MessageId,
    redelivered: bool,
    message: Result<T, ObjectError>,
    subscriber: Option<Arc<Subscriber>>,
}

impl<T> Delivery<T> {
    pub(super) fn new(
        id: MessageId,
        redelivered: bool,
        message: Result<T, ObjectError>,
        subscriber: Arc<Subscriber>,
    ) -> Self {
        Delivery { id, redelivered, message, subscriber: Some(subscriber) }
    }

    /// Returns the id that the server assigned to the message. It is the same for each delivery.
    pub fn id(&self) -> MessageId {
        self.id
    }

    /// Returns the published value.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Decode`] if the value cannot be decoded as the requested type. Such a message
    /// is also delivered again, unless it is acknowledged.
    pub fn message(&self) -> Result<&T, &ObjectError> {
        self.message.as_ref()
    }

    /// Returns whether the message was already delivered to this subscription.
    ///
    /// Deliveries to another process of the same subscriber are not included.
    pub fn is_redelivered(&self) -> bool {
        self.redelivered
    }

    /// Acknowledges the message, which means that it has been processed.
    ///
    /// The server removes the message when all subscribers have acknowledged it and all messages
    /// before it. A process that continues as this subscriber receives the message again, unless
    /// all messages before it were also acknowledged.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if the server did not confirm the acknowledgement. This process does not
    /// deliver the message again. The next acknowledgement, or the next call of
    /// [`Deliveries::next`](super::Deliveries::next), repeats this one.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the effect is the same as with an error.
    pub async fn ack(mut self) -> Result<(), ObjectError> {
        match self.subscriber.take() {
            Some(subscriber) => subscriber.acknowledge(self.id).await,
            None => Ok(()),
        }
    }
}

impl<T> Drop for Delivery<T> {
    fn drop(&mut self) {
        if let Some(subscriber) = self.subscriber.take() {
            subscriber.schedule_redelivery(self.id);
        }
    }
}

redgrid_core::debug_fields!([T: std::fmt::Debug] Delivery<T>, |it| id: it.id, message: it.message);
