//! Message buffers that start once the server has confirmed all of their channels.

use std::future::poll_fn;
use std::sync::Arc;

use super::buffer::{MessageBuffer, SubscribeError};
use crate::clock::Instant;
use crate::connection::{Core, refused};
use crate::error::ServerError;

impl Core {
    /// Opens a buffer of `capacity` messages, and registers its channels with `register`. Completes
    /// when all channels are active.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if the server refuses a channel or this client, if the client ends, or if
    /// the channels are not confirmed within `response_timeout × (retries + 1)`.
    pub(super) async fn open_buffer<P>(
        &self,
        capacity: usize,
        register: impl FnOnce(&Arc<MessageBuffer>) -> P,
    ) -> Result<(Arc<MessageBuffer>, P), ServerError> {
        if self.life.closes_by().is_some() {
            return Err(self.life.why());
        }
        let deadline = self.clock.now() + self.settings.patience();
        let buffer = Arc::new(MessageBuffer::new(capacity));
        let registrations = register(&buffer);
        let to_error = |error| match error {
            SubscribeError::ShutDown => self.life.why(),
            SubscribeError::Timeout => self.unconfirmed(),
            other => other.into_error(),
        };
        self.wait_active(&buffer, deadline).await.map_err(to_error)?;
        buffer.start();
        Ok((buffer, registrations))
    }

    /// Returns the error of a subscription that was not confirmed in time. If a primary is not
    /// connected, the error says why.
    fn unconfirmed(&self) -> ServerError {
        let primaries = self.topology.primaries();
        let unreached = primaries.iter().find(|server| server.current_connection_id().is_none());
        unreached.map_or_else(|| SubscribeError::Timeout.into_error(), |server| server.unreached())
    }

    /// Completes when all channels of a buffer are active.
    ///
    /// The wait fails at once if a channel is denied, if the client shuts down, or if every primary
    /// has a lasting error.
    pub async fn wait_active(&self, buffer: &MessageBuffer, deadline: Instant) -> Result<(), SubscribeError> {
        tokio::select! {
            biased;
            active = poll_fn(|context| buffer.poll_active(context)) => active,
            () = self.life.closing() => Err(SubscribeError::ShutDown),
            refused = refused(self) => Err(SubscribeError::ClientRefused(refused)),
            () = self.clock.sleep_until(deadline) => Err(SubscribeError::Timeout),
        }
    }
}

impl SubscribeError {
    /// Converts this error into the error for the caller.
    pub fn into_error(self) -> ServerError {
        match self {
            SubscribeError::Denied(why) | SubscribeError::ClientRefused(why) => why,
            SubscribeError::ShutDown => ServerError::ShuttingDown,
            SubscribeError::Timeout => ServerError::not_sent("the subscription was not confirmed in time"),
        }
    }
}
