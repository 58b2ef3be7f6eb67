//! Streams of the messages of users' own channels. All streams of a channel share one subscription.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::join_all;

use super::all_primaries::qualified_name;
use super::buffer::{BufferEvent, MessageBuffer};
use super::channel::{ChannelScope, Registration};
use super::manager::SubscriptionManager;
use crate::connection::{Client, FromReply, Pairs, Request, is_same};
use crate::error::ServerError;

/// Selects the channels of a subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelSelector {
    /// One channel, by SUBSCRIBE. In a cluster, messages that are published at any node reach all
    /// nodes.
    Plain(Bytes),
    /// One channel, by SSUBSCRIBE, at the primary of its slot.
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
        /// The channel to which it was published.
        channel: Bytes,
        /// The published payload.
        payload: Bytes,
    },
    /// The subscription was interrupted, and is active again; messages that were published
    /// meanwhile are missing.
    Gap,
    /// The reader was slow, and this many messages were dropped.
    Missed(u64),
    /// The server now refuses the channel. The subscription is tried again.
    Denied(ServerError),
}

/// The messages of channels as they arrive, for one reader.
///
/// Dropping it ends the subscription. It does not keep the client alive.
pub struct PubSubStream {
    manager: Arc<SubscriptionManager>,
    buffer: Arc<MessageBuffer>,
    registration: Registration,
}

/// Returns the internal name of a channel that is plain on every server, even if waiters have a
/// sharded channel of that name.
pub(super) fn plain_name(channel: &[u8]) -> Bytes {
    qualified_name("plain", channel)
}

/// Returns the internal names of channels with one name on the wire: of waiters, plain and sharded.
pub(super) fn internal_names(channel: &Bytes) -> [Bytes; 3] {
    [channel.clone(), plain_name(channel), sharded_name(channel)]
}

/// Returns the internal name of a channel that is sharded on every server.
pub(super) fn sharded_name(channel: &[u8]) -> Bytes {
    qualified_name("sharded", channel)
}

/// Returns the internal name of a pattern.
pub(super) fn pattern_name(pattern: &[u8]) -> Bytes {
    qualified_name("pattern", pattern)
}

impl ChannelSelector {
    fn internal_name(&self) -> Bytes {
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

impl Client {
    /// Subscribes to channels, and completes when the server has confirmed that.
    ///
    /// From then on messages are received. The stream keeps up to `capacity` messages for a slow
    /// reader.
    ///
    /// # Errors
    ///
    /// [`ServerError::Refused`] if the user has no permission, or the server does not support it.
    /// [`ServerError::NotSent`] if no server has confirmed it within
    /// `response_timeout × (retries + 1)`. After an error nothing is subscribed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the subscription.
    pub async fn subscribe(&self, channels: ChannelSelector, capacity: usize) -> Result<PubSubStream, ServerError> {
        let manager = &self.core().subscriptions;
        let ((name, scope), internal_name) = (channels.name_and_scope(), channels.internal_name());
        let (buffer, registration) = self
            .open_buffer(capacity, |buffer| manager.subscribe_buffered_in_scope(buffer, internal_name, name, scope))
            .await?;
        Ok(PubSubStream { manager: Arc::clone(manager), buffer, registration })
    }

    /// Returns the number of streams of these channels that this client has.
    pub fn local_subscriptions(&self, channels: &ChannelSelector) -> usize {
        self.core().subscriptions.watcher_count(&channels.internal_name())
    }

    /// Counts the connections that are subscribed to a channel, at all known nodes.
    ///
    /// The nodes are the primaries, and the replicas that answer.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if a primary returns no count.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn subscribers(&self, channel: &Bytes) -> Result<u64, ServerError> {
        let request = Request::command("PUBSUB").arg("NUMSUB").arg(channel.clone()).idempotent();
        let counts: Vec<Pairs<Bytes, u64>> = self.query_all_nodes(request).await?;
        Ok(counts.into_iter().flat_map(|pairs| pairs.0).map(|(_, count)| count).sum())
    }

    /// Returns the channels that match a pattern and have a subscriber at any known node, each
    /// once, sorted.
    ///
    /// # Errors
    ///
    /// As [`Client::subscribers`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn channels_matching(&self, pattern: &Bytes) -> Result<Vec<Bytes>, ServerError> {
        let request = Request::command("PUBSUB").arg("CHANNELS").arg(pattern.clone()).idempotent();
        let mut channels = self.query_all_nodes::<Vec<Bytes>>(request).await?.concat();
        channels.sort();
        channels.dedup();
        Ok(channels)
    }

    async fn query_all_nodes<T: FromReply>(&self, request: Request) -> Result<Vec<T>, ServerError> {
        let topology = &self.core().topology;
        let primaries = topology.primaries();
        let replicas: Vec<_> = topology.shards().into_iter().flat_map(|shard| shard.replicas).collect();
        let replicas =
            replicas.into_iter().filter(|replica| !primaries.iter().any(|primary| is_same(primary, replica)));
        // A replica that is down counts no subscribers.
        let at_replicas = join_all(replicas.filter(|replica| replica.answers()).map(|replica| {
            let request = request.clone();
            async move { replica.call(vec![request]).await.pop()?.ok().and_then(|reply| T::from_reply(reply).ok()) }
        }));
        let (at_primaries, at_replicas) = tokio::join!(self.run_on_primaries::<T>(request.clone()), at_replicas);
        let mut replies = Vec::new();
        for (_, answer) in at_primaries? {
            replies.push(answer?);
        }
        replies.extend(at_replicas.into_iter().flatten());
        Ok(replies)
    }
}

impl PubSubStream {
    /// Polls for the next event; `None` when the client has ended.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<PubSubEvent>> {
        self.buffer.poll_next(context).map(|event| {
            Some(match event? {
                BufferEvent::Message { channel, payload } => PubSubEvent::Message { channel, payload },
                BufferEvent::Gap => PubSubEvent::Gap,
                BufferEvent::Missed(count) => PubSubEvent::Missed(count),
                BufferEvent::Denied(why) => PubSubEvent::Denied(why),
            })
        })
    }

    /// Returns whether the server has confirmed the subscription on the current connection.
    pub fn is_active(&self) -> bool {
        self.manager.message_count(&self.registration.channel).is_some()
    }
}

impl std::fmt::Debug for PubSubStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PubSubStream").field("channel", &self.registration.channel).finish_non_exhaustive()
    }
}
