//! What is published to channels of users' own, for one reader: whoever subscribes, the hub has one subscription for all of a channel.

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::join_all;

use super::channel::{Reach, Registration};
use super::hub::Hub;
use super::spread::apart;
use super::tap::{Tap, Tapped};
use crate::connection::{Client, FromReply, Pairs, Request, is_same};
use crate::error::ServerError;

/// Which channels are heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Channels {
    /// One, by SUBSCRIBE: in a cluster what is published at any node comes to all.
    Plain(Bytes),
    /// One, by SSUBSCRIBE, at the primary of its slot.
    Sharded(Bytes),
    /// All whose names are of a pattern, by PSUBSCRIBE.
    Pattern(Bytes),
}

/// What comes of a [`Feed`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fed {
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
    Refused(ServerError),
}

/// The messages of channels as they come, for one reader. Dropped, they are heard no more. It does not keep the client.
pub struct Feed {
    hub: Arc<Hub>,
    tap: Arc<Tap>,
    place: Registration,
}

/// By what the hub knows a channel that is plain on every server, also where waiters have a sharded one of that name.
pub(super) fn plain(channel: &[u8]) -> Bytes {
    apart("plain", channel)
}

/// By what the hub may know channels of a name.
pub(super) fn namesakes(channel: &Bytes) -> [Bytes; 3] {
    [channel.clone(), plain(channel), sharded(channel)]
}

/// By what the hub knows a channel that is sharded on every server.
pub(super) fn sharded(channel: &[u8]) -> Bytes {
    apart("sharded", channel)
}

/// By what the hub knows a pattern.
pub(super) fn of_pattern(pattern: &[u8]) -> Bytes {
    apart("pattern", pattern)
}

impl Channels {
    fn known(&self) -> Bytes {
        match self {
            Channels::Plain(channel) => plain(channel),
            Channels::Sharded(channel) => sharded(channel),
            Channels::Pattern(pattern) => of_pattern(pattern),
        }
    }

    fn place(&self) -> (&Bytes, Reach) {
        match self {
            Channels::Plain(channel) => (channel, Reach::Everywhere),
            Channels::Sharded(channel) => (channel, Reach::Sharded),
            Channels::Pattern(pattern) => (pattern, Reach::Patterns),
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
    pub async fn feed(&self, channels: Channels, kept: usize) -> Result<Feed, ServerError> {
        let hub = &self.core().hub;
        let ((name, reach), known) = (channels.place(), channels.known());
        let (tap, place) = self.tapped(kept, |tap| hub.tap_at(tap, known, name, reach)).await?;
        Ok(Feed { hub: Arc::clone(hub), tap, place })
    }

    /// How many feeds of these channels this client has.
    pub fn feeds(&self, channels: &Channels) -> usize {
        self.core().hub.watchers(&channels.known())
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
        let told: Vec<Pairs<Bytes, u64>> = self.at_all_nodes(request).await?;
        Ok(told.into_iter().flat_map(|pairs| pairs.0).map(|(_, count)| count).sum())
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
    pub async fn channels_of(&self, pattern: &Bytes) -> Result<Vec<Bytes>, ServerError> {
        let request = Request::command("PUBSUB").arg("CHANNELS").arg(pattern.clone()).idempotent();
        let mut channels = self.at_all_nodes::<Vec<Bytes>>(request).await?.concat();
        channels.sort();
        channels.dedup();
        Ok(channels)
    }

    async fn at_all_nodes<T: FromReply>(&self, request: Request) -> Result<Vec<T>, ServerError> {
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
        let mut told = Vec::new();
        for (_, answer) in at_primaries? {
            told.push(answer?);
        }
        told.extend(at_replicas.into_iter().flatten());
        Ok(told)
    }
}

impl Feed {
    /// What comes next; `None` when the client has ended.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Fed>> {
        self.tap.poll_next(context).map(|tapped| {
            Some(match tapped? {
                Tapped::Message { channel, payload } => Fed::Message { channel, payload },
                Tapped::Gap => Fed::Gap,
                Tapped::Missed(count) => Fed::Missed(count),
                Tapped::Denied(why) => Fed::Refused(why),
            })
        })
    }

    /// Whether the server has confirmed it on the present connection.
    pub fn is_in_force(&self) -> bool {
        self.hub.heard(&self.place.channel).is_some()
    }
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Feed").field("channel", &self.place.channel).finish_non_exhaustive()
    }
}
