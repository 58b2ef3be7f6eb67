//! Message buffers that start once the server has confirmed all of their channels.

use std::future::poll_fn;

use super::buffer::{MessageBuffer, SubscribeError};
use crate::clock::Instant;
use crate::connection::{Core, refused};
use crate::error::ServerError;

impl Core {
    /// Returns the error of a subscription that was not confirmed in time. If a primary is not
    /// connected, the error says why.
    pub(super) fn unconfirmed(&self) -> ServerError {
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
