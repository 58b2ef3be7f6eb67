//! Subscriptions to topics.

use std::future::poll_fn;
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use redgrid_codecs::{Codec, Decode};
use redgrid_core::author::ClientExt;
use redgrid_core::author::counts::{Direction, topic_messages};
use redgrid_core::into_future;
use redgrid_core::object::events::Gap;
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::{ChannelSelector, Name, PubSubEvent, PubSubStream, ServerError};

use crate::message::{Message, SubscriptionError};

/// The default size of the buffer for a slow reader, in messages.
const DEFAULT_BUFFER: usize = 1024;

/// The allowed sizes of the buffer.
const BUFFER_RANGE: RangeInclusive<usize> = 1..=1_048_576;

/// Subscribes when awaited.
///
/// When the future completes, the server has confirmed the subscription. Messages that are
/// published after that are received.
#[must_use = "does nothing until awaited"]
pub struct Subscribe<T, C> {
    object_ref: ObjectRef,
    channels: Result<ChannelSelector, ObjectError>,
    codec: C,
    buffer: usize,
    messages: PhantomData<fn() -> T>,
    family: &'static str,
}

impl<T, C> Subscribe<T, C> {
    pub(crate) fn new(
        object_ref: &ObjectRef,
        channels: Result<ChannelSelector, ObjectError>,
        codec: C,
        family: &'static str,
    ) -> Self {
        let (object_ref, messages) = (object_ref.clone(), PhantomData);
        Subscribe { object_ref, channels, codec, buffer: DEFAULT_BUFFER, messages, family }
    }

    /// Sets the size of the buffer for a slow reader, 1 to 1,048,576 messages. The default is
    /// 1,024.
    ///
    /// When the buffer is full, messages are discarded, and [`Gap::Slow`] reports their number at
    /// their position. A larger buffer needs more memory; with a smaller one, a burst causes a gap
    /// earlier.
    pub fn buffer(mut self, messages: usize) -> Self {
        self.buffer = messages;
        self
    }
}

impl<T, C: Codec + Decode<T>> Subscribe<T, C> {
    async fn begin(self) -> Result<Subscription<T, C>, ObjectError> {
        let Subscribe { object_ref, channels, codec, buffer, family, .. } = self;
        let name = object_ref.name_and_key()?.0.clone();
        let channels = channels?;
        if !BUFFER_RANGE.contains(&buffer) {
            return Err(object_ref.invalid("buffer", "1 to 1048576 messages", buffer));
        }
        let namespace = object_ref.client().namespace().as_str();
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}:") };
        match object_ref.client().subscribe(channels, buffer).await {
            Ok(stream) => Ok(Subscription { name, prefix, codec, stream, messages: PhantomData, family }),
            Err(error) => Err(subscribe_error(&name, error)),
        }
    }
}

/// The servers that support sharded channels, for error messages.
pub(crate) const SHARDED_REQUIREMENT: &str = "sharded channels need Redis 7.0 or newer, or Valkey";

/// Converts the error of a subscription.
pub(crate) fn subscribe_error(name: &Name, source: ServerError) -> ObjectError {
    ObjectError::of_read(name, source).or_unsupported(SHARDED_REQUIREMENT)
}

into_future!(
    /// # Errors
    ///
    /// [`ObjectError`] states what failed; in that case there is no subscription. `Refused`: the
    /// user may not use the channel. `Unsupported`: the servers do not have sharded channels.
    /// `Unavailable`: no server has confirmed the subscription within
    /// `response_timeout × (retries + 1)`.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, nothing is subscribed.
    [T: 'static, C: Codec + Decode<T> + Send + 'static] Subscribe<T, C> => Result<Subscription<T, C>, ObjectError>,
    |this| this.begin()
);

redgrid_core::debug_fields!([T, C] Subscribe<T, C>, |it| name: it.object_ref.name(), buffer: it.buffer);

/// A `Stream` of the messages of a topic, which ends with the client.
///
/// All subscriptions of a client to one topic share one subscription on the server. That
/// subscription is restored after a lost connection, after a failover and after the migration of
/// its slot. After each of these, a [`Gap::Interrupted`] is returned before the next message.
/// Messages of one publisher arrive in their order.
///
/// Dropping it ends the subscription. When the last subscription to a topic is dropped, the client
/// unsubscribes on the server. A subscription does not keep the client alive.
pub struct Subscription<T, C> {
    name: Name,
    /// The part of a channel before the topic's name: the namespace and a colon.
    prefix: String,
    codec: C,
    stream: PubSubStream,
    messages: PhantomData<fn() -> T>,
    /// The label in metrics.
    family: &'static str,
}

impl<T, C: Codec + Decode<T>> Subscription<T, C> {
    /// Returns the next item; `None` when the client has ended.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no item is lost: the next call returns it.
    pub async fn next(&mut self) -> Option<Result<Message<T>, SubscriptionError>> {
        poll_fn(|context| self.poll(context)).await
    }

    /// Returns whether the server has confirmed the subscription on the current connection. If so,
    /// messages that are published now will be received.
    pub fn is_active(&self) -> bool {
        self.stream.is_active()
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<Option<Result<Message<T>, SubscriptionError>>> {
        self.stream.poll_next(context).map(|event| {
            Some(match event? {
                PubSubEvent::Message { channel, payload } => {
                    topic_messages(self.family, Direction::Received, 1);
                    self.message(&channel, &payload)
                }
                PubSubEvent::Missed(missed) => {
                    topic_messages(self.family, Direction::Missed, missed);
                    Err(SubscriptionError::Gap(Gap::Slow { missed }))
                }
                PubSubEvent::Denied(error) => Err(SubscriptionError::Refused(subscribe_error(&self.name, error))),
                _ => Err(SubscriptionError::Gap(Gap::Interrupted)),
            })
        })
    }

    fn message(&self, channel: &Bytes, payload: &Bytes) -> Result<Message<T>, SubscriptionError> {
        let channel = String::from_utf8_lossy(channel.strip_prefix(self.prefix.as_bytes()).unwrap_or(channel));
        let channel = channel.into_owned();
        match self.codec.decode(payload) {
            Ok(value) => Ok(Message { channel, value }),
            Err(source) => {
                let error = ObjectError::decode(&self.name, Some(channel), self.codec.name(), source);
                Err(SubscriptionError::Undecodable(error))
            }
        }
    }
}

impl<T, C: Codec + Decode<T> + Unpin> Stream for Subscription<T, C> {
    type Item = Result<Message<T>, SubscriptionError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(context)
    }
}

redgrid_core::debug_fields!([T, C] Subscription<T, C>, |it| name: it.name);
