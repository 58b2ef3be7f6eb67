//! Streams of messages, for two kinds of channels: those that users choose, and those in the slot
//! of an object. All streams of a channel share one subscription.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::join_all;

use super::all_primaries::qualified_name;
use super::buffer::{MessageBuffer, SubscribeError};
use super::channel::ChannelScope;
use super::handles::Registration;
use super::manager::SubscriptionManager;
use crate::connection::{Core, FromReply, Pairs, Request, is_same};
use crate::error::ServerError;

/// Selects the channels of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub enum ChannelSelector {
    /// One channel, by SUBSCRIBE. In a cluster, messages that are published at any node reach all
    /// nodes.
    Plain(Bytes),
    /// One channel, by SSUBSCRIBE at the primary of the channel's slot.
    Sharded(Bytes),
    /// All channels whose names match a pattern, by PSUBSCRIBE.
    Pattern(Bytes),
}

/// An event of a [`PubSubStream`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PubSubEvent {
    /// A message.
    Message {
        /// The channel on which the message was published.
        channel: Bytes,
        /// The published payload.
        payload: Bytes,
    },
    /// The subscription was interrupted, and is active again. Messages that were published during
    /// the interruption are missing.
    Gap,
    /// The reader was slow, and this many messages were dropped.
    Missed(u64),
    /// The server now refuses the channel. The client tries to subscribe again at intervals.
    Denied(ServerError),
}

/// A stream of the messages of channels, for one reader.
///
/// Dropping the stream ends the subscription. The stream does not keep the client alive.
pub struct PubSubStream {
    manager: Arc<SubscriptionManager>,
    buffer: Arc<MessageBuffer>,
    registrations: Vec<Registration>,
}

/// Returns the internal name of a plain channel. Such a channel is subscribed with SUBSCRIBE, with
/// or without a cluster.
///
/// The internal name of a channel of waiters is its name on the wire. In a cluster this can be a
/// sharded channel, and a plain channel with the same name is another channel. So the plain channel
/// needs another internal name.
pub(super) fn plain_name(channel: &[u8]) -> Bytes {
    qualified_name("plain", channel)
}

/// Returns the internal names of the three channels that can have the same name on the wire: the
/// channel of waiters, the plain channel and the sharded channel.
pub(super) fn internal_names(channel: &Bytes) -> [Bytes; 3] {
    [channel.clone(), plain_name(channel), sharded_name(channel)]
}

/// Returns the internal name of a sharded channel. Such a channel is subscribed with SSUBSCRIBE,
/// with or without a cluster.
pub(super) fn sharded_name(channel: &[u8]) -> Bytes {
    qualified_name("sharded", channel)
}

/// Returns the internal name of a pattern.
pub(super) fn pattern_name(pattern: &[u8]) -> Bytes {
    qualified_name("pattern", pattern)
}

impl ChannelSelector {
    pub(crate) fn internal_name(&self) -> Bytes {
        match self {
            ChannelSelector::Plain(channel) => plain_name(channel),
            ChannelSelector::Sharded(channel) => sharded_name(channel),
            ChannelSelector::Pattern(pattern) => pattern_name(pattern),
        }
    }

    fn name_and_scope(&self) -> (&Bytes, ChannelScope) {
        match self {
            ChannelSelector::Plain(channel) => (channel, ChannelScope::Everywhere),
            ChannelSelector::Sharded(channel) => (channel, ChannelScope::Sharded),
            ChannelSelector::Pattern(pattern) => (pattern, ChannelScope::Patterns),
        }
    }
}

/// Counts the connections that are subscribed to a channel, at all known nodes.
pub async fn subscribers(core: &Core, channel: &Bytes) -> Result<u64, ServerError> {
    let request = Request::command("PUBSUB").arg("NUMSUB").arg(channel.clone()).idempotent();
    let counts: Vec<Pairs<Bytes, u64>> = query_all_nodes(core, request).await?;
    Ok(counts.into_iter().flat_map(|pairs| pairs.0).map(|(_, count)| count).sum())
}

/// Returns the sorted list of the channels that match a pattern and have a subscriber at any known
/// node.
pub async fn channels_matching(core: &Core, pattern: &Bytes) -> Result<Vec<Bytes>, ServerError> {
    let request = Request::command("PUBSUB").arg("CHANNELS").arg(pattern.clone()).idempotent();
    let mut channels = query_all_nodes::<Vec<Bytes>>(core, request).await?.concat();
    channels.sort();
    channels.dedup();
    Ok(channels)
}

async fn query_all_nodes<T: FromReply + Send>(core: &Core, request: Request) -> Result<Vec<T>, ServerError> {
    let topology = &core.topology;
    let primaries = topology.primaries();
    let replicas: Vec<_> = topology.shards().into_iter().flat_map(|shard| shard.replicas).collect();
    let replicas = replicas.into_iter().filter(|replica| !primaries.iter().any(|primary| is_same(primary, replica)));
    // Replicas that do not answer are left out: a replica that is down has no subscribers.
    let at_replicas = join_all(replicas.filter(|replica| replica.answers()).map(|replica| {
        let request = request.clone();
        async move { replica.call_one(request).await.and_then(T::from_reply).ok() }
    }));
    let until = core.clock.now() + core.settings.patience();
    let at_primaries = core.run_at_primaries::<T>(request.clone(), until);
    let (at_primaries, at_replicas) = tokio::join!(at_primaries, at_replicas);
    let mut replies = Vec::new();
    for (_, answer) in at_primaries? {
        replies.push(answer?);
    }
    replies.extend(at_replicas.into_iter().flatten());
    Ok(replies)
}

impl Core {
    /// Subscribes to the selected channels, and completes when they are active.
    pub async fn open_stream(&self, channels: ChannelSelector, capacity: usize) -> Result<PubSubStream, ServerError> {
        let (name, scope) = channels.name_and_scope();
        self.open_stream_in([(channels.internal_name(), name.clone())], scope, capacity).await
    }

    /// Subscribes to channels in the slot of `key`, and completes when they are active.
    pub async fn open_stream_in_slot(
        &self,
        channels: impl IntoIterator<Item = Bytes>,
        key: &Bytes,
        capacity: usize,
    ) -> Result<PubSubStream, ServerError> {
        let channels = channels.into_iter().map(|channel| (channel, key.clone()));
        self.open_stream_in(channels, ChannelScope::Slot, capacity).await
    }

    /// Subscribes to channels, each given by its internal name and the key that determines its
    /// node.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if the server refuses a channel or this client, if the client ends, or if
    /// the channels are not confirmed within `response_timeout × (retries + 1)`.
    async fn open_stream_in(
        &self,
        channels: impl IntoIterator<Item = (Bytes, Bytes)>,
        scope: ChannelScope,
        capacity: usize,
    ) -> Result<PubSubStream, ServerError> {
        self.is_open()?;
        let deadline = self.clock.now() + self.settings.patience();
        let (manager, buffer) = (Arc::clone(&self.subscriptions), Arc::new(MessageBuffer::new(capacity)));
        let subscribe = |(name, key): (Bytes, Bytes)| manager.subscribe_buffered_in_scope(&buffer, name, &key, scope);
        let registrations = channels.into_iter().map(subscribe).collect();
        let to_error = |error| match error {
            SubscribeError::ShutDown => self.life.why(),
            SubscribeError::Timeout => self.unconfirmed(),
            other => other.into_error(),
        };
        self.wait_active(&buffer, deadline).await.map_err(to_error)?;
        buffer.start();
        Ok(PubSubStream { manager, buffer, registrations })
    }
}

impl PubSubStream {
    /// Polls for the next event; `None` when the client has ended.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<PubSubEvent>> {
        self.buffer.poll_next(context)
    }

    /// Returns whether the server has confirmed the subscriptions of all channels on the current
    /// connection. A stream without channels is never active.
    pub fn is_active(&self) -> bool {
        let is_active = |it: &Registration| self.manager.message_count(&it.channel).is_some();
        !self.registrations.is_empty() && self.registrations.iter().all(is_active)
    }
}

impl std::fmt::Debug for PubSubStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let channels: Vec<_> = self.registrations.iter().map(|registration| &registration.channel).collect();
        f.debug_struct("PubSubStream").field("channels", &channels).finish_non_exhaustive()
    }
}
