//! A stream of the messages of an object's channels, for one reader. It reports missed messages.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

use super::buffer::MessageBuffer;
use super::channel::ChannelScope;
use super::handles::Registration;
use super::stream::PubSubEvent;
use crate::connection::Client;
use crate::error::ServerError;

/// A stream of the messages that are published on channels of one slot, for one reader.
///
/// [`ClientExt::message_stream`](crate::author::ClientExt::message_stream) creates it. Dropping it ends the subscriptions. It does not keep the
/// client alive.
pub struct MessageStream {
    buffer: Arc<MessageBuffer>,
    channels: Vec<Bytes>,
    _registrations: Vec<Registration>,
}

/// An event of a [`MessageStream`].
#[derive(Debug, Clone, PartialEq, Eq)]
// Exhaustive: only authors of objects use it.
pub enum MessageEvent {
    /// A message of a channel.
    Message {
        /// The index of the channel among the subscribed ones.
        channel: usize,
        /// The published payload.
        payload: Bytes,
    },
    /// The subscription was interrupted; messages that were published meanwhile are missing.
    Gap,
    /// The reader was slow, and this many messages were dropped.
    Missed(u64),
    /// The server refuses a channel, so its messages do not arrive.
    Denied,
}

impl MessageStream {
    /// See [`ClientExt::message_stream`](crate::author::ClientExt::message_stream).
    pub(crate) async fn open(
        client: &Client,
        channels: Vec<Bytes>,
        key: &Bytes,
        capacity: usize,
    ) -> Result<MessageStream, ServerError> {
        let manager = &client.core().subscriptions;
        let register = |buffer: &Arc<MessageBuffer>| {
            channels
                .iter()
                .map(|channel| manager.subscribe_buffered_in_scope(buffer, channel.clone(), key, ChannelScope::Slot))
                .collect()
        };
        let (buffer, registrations) = client.open_buffer(capacity, register).await?;
        Ok(MessageStream { buffer, channels, _registrations: registrations })
    }

    /// Polls for the next event; `None` when the client has ended.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<MessageEvent>> {
        loop {
            return Poll::Ready(Some(match std::task::ready!(self.buffer.poll_next(context)) {
                None => return Poll::Ready(None),
                Some(PubSubEvent::Message { channel, payload }) => {
                    let Some(channel) = self.channels.iter().position(|known| *known == channel) else { continue };
                    MessageEvent::Message { channel, payload }
                }
                Some(PubSubEvent::Gap) => MessageEvent::Gap,
                Some(PubSubEvent::Missed(missed)) => MessageEvent::Missed(missed),
                Some(PubSubEvent::Denied(_)) => MessageEvent::Denied,
            }));
        }
    }
}

impl std::fmt::Debug for MessageStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MessageStream").field("channels", &self.channels).finish_non_exhaustive()
    }
}
