//! Subscribing, and what is heard then.

use std::fmt;
use std::future::{IntoFuture, poll_fn};
use std::marker::PhantomData;
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use redgrid_codecs::{Codec, Decode};
use redgrid_core::object::events::Gap;
use redgrid_core::object::{ObjectError, Place};
use redgrid_core::{ChannelSelector, Name, PubSubEvent, PubSubStream, ServerError};

use crate::message::{Message, SubscriptionError};

/// How many messages are kept for a slow reader, unless set: 1,024.
const KEPT: usize = 1024;

/// How many may be.
const MOST_KEPT: RangeInclusive<usize> = 1..=1_048_576;

/// Subscribes when awaited: then the server has confirmed it, and what is published from then on is heard.
#[must_use = "nothing is subscribed until this is awaited"]
pub struct Subscribe<T, C> {
    place: Place,
    channels: Result<ChannelSelector, ObjectError>,
    codec: C,
    kept: usize,
    messages: PhantomData<fn() -> T>,
}

impl<T, C> Subscribe<T, C> {
    pub(crate) fn new(place: &Place, channels: Result<ChannelSelector, ObjectError>, codec: C) -> Self {
        Subscribe { place: place.clone(), channels, codec, kept: KEPT, messages: PhantomData }
    }

    /// Keeps so many messages for a slow reader, 1 to 1,048,576; 1,024 unless set. Where more come they are not kept, and
    /// [`Gap::Slow`] tells how many, in their place. More cost memory, with fewer a burst is a gap sooner.
    pub fn keeping(mut self, messages: usize) -> Self {
        self.kept = messages;
        self
    }
}

impl<T, C: Codec + Decode<T>> Subscribe<T, C> {
    async fn begin(self) -> Result<Subscription<T, C>, ObjectError> {
        let Subscribe { place, channels, codec, kept, .. } = self;
        let name = place.named()?.0.clone();
        let channels = channels?;
        if !MOST_KEPT.contains(&kept) {
            return Err(place.invalid("keeping", "1 to 1048576 messages", kept));
        }
        let namespace = place.client().namespace().as_str();
        let before = if namespace.is_empty() { String::new() } else { format!("{namespace}:") };
        match place.client().subscribe(channels, kept).await {
            Ok(feed) => Ok(Subscription { name, before, codec, feed, messages: PhantomData }),
            Err(why) => Err(refused(&name, why)),
        }
    }
}

/// What knows sharded channels.
pub(crate) const SHARDED: &str = "sharded channels need Redis 7.0 or newer, or Valkey";

/// Why nothing is heard.
pub(crate) fn refused(name: &Name, source: ServerError) -> ObjectError {
    ObjectError::of_read(name, source).or_unsupported(SHARDED)
}

/// # Errors
///
/// [`ObjectError`] says what stands in the way: `Refused` where the user may not use the channel, `Unsupported` where servers do not have
/// sharded channels, `Unavailable` where no server has confirmed it within `response_timeout × (retries + 1)`. Nothing is subscribed then.
///
/// # Cancel safety
///
/// Dropped early, nothing is subscribed.
impl<T: 'static, C: Codec + Decode<T> + Send + 'static> IntoFuture for Subscribe<T, C> {
    type Output = Result<Subscription<T, C>, ObjectError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.begin())
    }
}

impl<T, C> fmt::Debug for Subscribe<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscribe").field("name", &self.place.name()).field("kept", &self.kept).finish_non_exhaustive()
    }
}

/// The messages of a topic as they come: a `Stream`, which ends with the client. All subscriptions of a client to one topic share one at the
/// server.
///
/// A connection that is lost, a primary that is replaced and a slot that moves are followed; each is a [`Gap::Interrupted`] in front of
/// the first message that is heard again. Messages of one publisher come in their order.
///
/// Dropped, it is over, and the last one of a topic ends the subscription at the server. It does not keep the client.
pub struct Subscription<T, C> {
    name: Name,
    /// What is in front of names.
    before: String,
    codec: C,
    feed: PubSubStream,
    messages: PhantomData<fn() -> T>,
}

impl<T, C: Codec + Decode<T>> Subscription<T, C> {
    /// What comes next; `None` when the client has ended.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: what was not returned is returned by the next call.
    pub async fn next(&mut self) -> Option<Result<Message<T>, SubscriptionError>> {
        poll_fn(|context| self.poll(context)).await
    }

    /// Whether the server has confirmed it on the present connection: what is published now is heard.
    pub fn is_in_force(&self) -> bool {
        self.feed.is_active()
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<Option<Result<Message<T>, SubscriptionError>>> {
        self.feed.poll_next(context).map(|fed| {
            Some(match fed? {
                PubSubEvent::Message { channel, payload } => self.message(&channel, &payload),
                PubSubEvent::Missed(missed) => Err(SubscriptionError::Gap(Gap::Slow { missed })),
                PubSubEvent::Denied(why) => Err(SubscriptionError::Refused(refused(&self.name, why))),
                _ => Err(SubscriptionError::Gap(Gap::Interrupted)),
            })
        })
    }

    fn message(&self, channel: &Bytes, payload: &Bytes) -> Result<Message<T>, SubscriptionError> {
        let channel = String::from_utf8_lossy(channel.strip_prefix(self.before.as_bytes()).unwrap_or(channel));
        let channel = channel.into_owned();
        match self.codec.decode(payload) {
            Ok(value) => Ok(Message { channel, value }),
            Err(why) => {
                let error = ObjectError::decode(&self.name, Some(channel), self.codec.name(), why);
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

impl<T, C> fmt::Debug for Subscription<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("name", &self.name).finish_non_exhaustive()
    }
}
