//! Messages of the channels of an object, kept for one reader, who is told of those that he misses.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::buffer::{BufferEvent, MessageBuffer};
use super::channel::Registration;
use crate::connection::Client;
use crate::error::ServerError;

/// What is published on channels of one slot from now on, for one reader; made by [`Client::message_stream`]. Dropped, the channels are heard no more. It does
/// not keep the client.
pub struct MessageStream {
    buffer: Arc<MessageBuffer>,
    channels: Vec<Bytes>,
    _registrations: Vec<Registration>,
}

/// What came of [`MessageStream`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageEvent {
    /// A message, and the place of its channel among those that were asked for.
    Message {
        /// The place of its channel.
        channel: usize,
        /// What was published.
        payload: Bytes,
    },
    /// Nobody listened for a while: what was published then is not told.
    Gap,
    /// The reader was slow, and so many messages were not kept.
    Missed(u64),
    /// The server refuses a channel: nothing comes of it any more.
    Denied,
}

impl Client {
    /// Hears `channels`, which scripts publish in the slot of `key`, and keeps `kept` messages for who reads. Completes when all of them are in force.
    ///
    /// # Errors
    ///
    /// [`ServerError`] where they are not in time, the server refuses one, or the client is shut down meanwhile.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, nothing is heard.
    pub async fn message_stream(
        &self,
        channels: Vec<Bytes>,
        key: &Bytes,
        capacity: usize,
    ) -> Result<MessageStream, ServerError> {
        let manager = &self.core().subscriptions;
        let register = |buffer: &Arc<MessageBuffer>| {
            channels.iter().map(|channel| manager.subscribe_buffered_in_slot(buffer, channel.clone(), key)).collect()
        };
        let (buffer, registrations) = self.open_buffer(capacity, register).await?;
        Ok(MessageStream { buffer, channels, _registrations: registrations })
    }
}

impl MessageStream {
    /// What comes next; `None` when the client has ended.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<MessageEvent>> {
        loop {
            return Poll::Ready(Some(match std::task::ready!(self.buffer.poll_next(context)) {
                None => return Poll::Ready(None),
                Some(BufferEvent::Message { channel, payload }) => {
                    let Some(channel) = self.channels.iter().position(|known| *known == channel) else { continue };
                    MessageEvent::Message { channel, payload }
                }
                Some(BufferEvent::Gap) => MessageEvent::Gap,
                Some(BufferEvent::Missed(missed)) => MessageEvent::Missed(missed),
                Some(BufferEvent::Denied(_)) => MessageEvent::Denied,
            }));
        }
    }
}

impl std::fmt::Debug for MessageStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MessageStream").field("channels", &self.channels).finish_non_exhaustive()
    }
}
