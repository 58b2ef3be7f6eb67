//! What is published to channels of users' own, for one reader: whoever subscribes, the hub has one subscription for all of a channel.

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

/// Which channels are heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelSelector {
    /// One, by SUBSCRIBE: in a cluster what is published at any node comes to all.
    Plain(Bytes),
    /// One, by SSUBSCRIBE, at the primary of its slot.
    Sharded(Bytes),
    /// All whose names are of a pattern, by PSUBSCRIBE.
    Pattern(Bytes),
}

/// What comes of a [`PubSubStream`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PubSubEvent {
    /// A message.
    Message {
        /// The channel to which it was published.
        channel: Bytes,
        /// What was published.
        payload: Bytes,
    },
    /// Nobody listened for a while, and somebody does again: what was published meanwhile is not here.
    Gap,
    /// The reader was slow: so many messages were not kept.
    Missed(u64),
    /// The server refuses the channel by now. It is tried again.
    Denied(ServerError),
}

/// The messages of channels as they come, for one reader. Dropped, they are heard no more. It does not keep the client.
pub struct PubSubStream {
    manager: Arc<SubscriptionManager>,
    buffer: Arc<MessageBuffer>,
    registration: Registration,
}

/// By what the hub knows a channel that is plain on every server, also where waiters have a sharded one of that name.
pub(super) fn plain_name(channel: &[u8]) -> Bytes {
    qualified_name("plain", channel)
}

/// By what the hub may know channels of a name.
pub(super) fn internal_names(channel: &Bytes) -> [Bytes; 3] {
    [channel.clone(), plain_name(channel), sharded_name(channel)]
}

/// By what the hub knows a channel that is sharded on every server.
pub(super) fn sharded_name(channel: &[u8]) -> Bytes {
    qualified_name("sharded", channel)
}

/// By what the hub knows a pattern.
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
    /// Hears channels from when this completes: then the server has confirmed it. So many messages are kept for a slow reader.
    ///
    /// # Errors
    ///
    /// [`ServerError::Refused`] where the user may not, or the server can not; [`ServerError::NotSent`] where nobody has confirmed it
    /// within `response_timeout × (retries + 1)`. Nothing is heard then.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, nothing is heard.
    pub async fn subscribe(&self, channels: ChannelSelector, capacity: usize) -> Result<PubSubStream, ServerError> {
        let manager = &self.core().subscriptions;
        let ((name, scope), internal_name) = (channels.name_and_scope(), channels.internal_name());
        let (buffer, registration) = self
            .open_buffer(capacity, |buffer| manager.subscribe_buffered_in_scope(buffer, internal_name, name, scope))
            .await?;
        Ok(PubSubStream { manager: Arc::clone(manager), buffer, registration })
    }

    /// How many feeds of these channels this client has.
    pub fn local_subscriptions(&self, channels: &ChannelSelector) -> usize {
        self.core().subscriptions.watcher_count(&channels.internal_name())
    }

    /// How many connections are subscribed to a channel, at all nodes that are known: primaries, and replicas that can be asked.
    ///
    /// # Errors
    ///
    /// [`ServerError`] of a primary that does not say.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn subscribers(&self, channel: &Bytes) -> Result<u64, ServerError> {
        let request = Request::command("PUBSUB").arg("NUMSUB").arg(channel.clone()).idempotent();
        let counts: Vec<Pairs<Bytes, u64>> = self.query_all_nodes(request).await?;
        Ok(counts.into_iter().flat_map(|pairs| pairs.0).map(|(_, count)| count).sum())
    }

    /// The channels of a pattern to which somebody is subscribed at one of all nodes that are known, each once, in order.
    ///
    /// # Errors
    ///
    /// As [`Client::subscribers`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
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
        // One that is down counts nobody.
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
    /// What comes next; `None` when the client has ended.
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

    /// Whether the server has confirmed it on the present connection.
    pub fn is_active(&self) -> bool {
        self.manager.message_count(&self.registration.channel).is_some()
    }
}

impl std::fmt::Debug for PubSubStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PubSubStream").field("channel", &self.registration.channel).finish_non_exhaustive()
    }
}
