//! The two seams: one server, and which server a name belongs to.
//!
//! Everything above works on these traits, so tests can lose, delay and repeat requests and replies, and another
//! client can stand below one day.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc, watch};

use super::{CommitError, DeploymentKind, Reply, Request, ResponseFuture, ServerClock};
use crate::clock::Instant;
use crate::config::Durability;
use crate::error::ServerError;

/// Which node a server is: its address, or `unix:` and the path of its socket. Equal ids mean the same place, not the same process behind it.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct NodeId(pub Arc<str>);

impl NodeId {
    /// The host's name or address.
    pub fn host(&self) -> &str {
        self.0.rsplit_once(':').map_or(&*self.0, |(host, _)| host.trim_start_matches('[').trim_end_matches(']'))
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One life of a connection: the server process behind it, and the number of the connection.
///
/// A changed `run_id` means another process with, perhaps, another memory. It is empty where the user may not ask.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectionId {
    /// The `run_id` of the server process.
    pub run_id: Arc<str>,
    /// Grows with every new connection of this process, to whichever node: no two nodes have the same.
    pub connection: u64,
}

/// How messages of a channel travel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub enum ChannelKind {
    /// By PUBLISH, in a cluster to all nodes.
    Plain,
    /// By SPUBLISH, to the nodes of the channel's slot.
    Sharded,
    /// By a server itself, which tells of one kind of keyspace events (`__keyevent@0__:del`) on each. They are subscribed as plain
    /// ones are, on a connection of their own: they are many, and hold up nobody who waits to be woken.
    Events,
    /// By PUBLISH, to channels whose names are of a pattern: PSUBSCRIBE, on connections of their own.
    Patterns,
}

/// What arrives on a node's subscriber connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Push {
    /// A message of a subscribed channel.
    Message {
        /// The channel.
        channel: Bytes,
        /// What was published.
        payload: Bytes,
    },
    /// The same by SPUBLISH.
    ShardedMessage {
        /// The channel.
        channel: Bytes,
        /// What was published.
        payload: Bytes,
    },
    /// A message of a channel whose name is of a subscribed pattern.
    PatternMessage {
        /// The pattern.
        pattern: Bytes,
        /// The channel.
        channel: Bytes,
        /// What was published.
        payload: Bytes,
    },
    /// The server has ended these subscriptions, as it was asked to: nothing of them comes behind this.
    Ended {
        /// The channels.
        channels: Vec<Bytes>,
    },
    /// The server has ended this sharded subscription by itself: the slot of the channel is elsewhere now.
    Lost {
        /// The channel.
        channel: Bytes,
    },
    /// The connection was lost, or is new: nothing is subscribed on it, and messages may have been missed.
    Gap,
    /// The same of the one that carries [`ChannelKind::Events`].
    EventsGap,
    /// The same of one that carries [`ChannelKind::Patterns`].
    PatternsGap,
}

/// Channels that a server refused to subscribe, and why.
pub type Refused = Vec<(Bytes, ServerError)>;

/// One node: a place that answers requests.
#[async_trait]
pub trait Server: Send + Sync + 'static {
    /// Which node it is.
    fn id(&self) -> &NodeId;

    /// Carries out requests and answers each by a result of its own. Those of one name (one key, or one hash tag) are carried
    /// out in their order, on one connection.
    ///
    /// A request is sent at most once. The answer comes within the client's `timeout`, or is
    /// [`Unknown`](ServerError::Unknown); without a connection it is [`NotSent`](ServerError::NotSent) at once.
    async fn call(&self, requests: Vec<Request>) -> Vec<Result<Reply, ServerError>>;

    /// The same of one request, which is not to be carried out after `limit`, whatever it says itself. Those that
    /// [join](Request::joins) others have an order only where one is asked when another has been answered.
    fn ask<'a>(&'a self, request: &'a Arc<Request>, limit: Instant) -> ResponseFuture<'a> {
        ResponseFuture::inline(|| async move {
            let answer = self.call(vec![Request::clone(request).not_after(limit)]).await.pop();
            answer.unwrap_or_else(|| Err(ServerError::unknown("no result")))
        })
    }

    /// Waits until all that was answered in the epoch `since` before this call is as durable as asked. With
    /// [`Durability::Primary`] nothing is sent and nothing waited for.
    ///
    /// `tag` is what a cluster hashes of a key that was written: the hash tag of the name, or the whole name.
    ///
    /// # Errors
    ///
    /// [`CommitError`] in every case in which it is not proven.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves nothing behind, and does not disturb those who wait beside it.
    async fn commit(&self, _since: ConnectionId, durability: Durability, _tag: &[u8]) -> Result<(), CommitError> {
        if Durability::Primary.covers(durability) {
            return Ok(());
        }
        Err(CommitError::Unsupported { missing: "this kind of server knows no durability".into() })
    }

    /// The present connection for requests; `None` while there is none.
    fn connection_id(&self) -> watch::Receiver<Option<ConnectionId>>;

    /// The same as it is now: cheaper, for what is asked with every request.
    fn current_connection_id(&self) -> Option<ConnectionId> {
        self.connection_id().borrow().clone()
    }

    /// Whether there is a connection, and the node has not owed an answer for long on it.
    fn answers(&self) -> bool {
        self.connection_id().borrow().is_some()
    }

    /// Limits how many requests are under way at the node at once; `None` where nothing does.
    fn in_flight_limit(&self) -> Option<&Semaphore> {
        None
    }

    /// For how long the node has owed an answer and sent nothing; zero while it owes none. Without
    /// a connection it says nothing.
    fn silent_for(&self) -> Duration {
        Duration::ZERO
    }

    /// Why there is no connection, or why the last one was lost, as far as it is known.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Why waiting for the node does not help; `None` where it may. It ends calls early:
    /// [`ServerError::Unauthorized`] where the node refuses this client or its certificate is
    /// refused, [`ServerError::NotSent`] where its name is unknown or it does not speak the protocol.
    fn refusal(&self) -> watch::Receiver<Option<ServerError>> {
        super::unauthorized::none()
    }

    /// What the node lacks because it does not speak RESP3, and why it does not; `None` while it does,
    /// or where RESP2 is wanted.
    fn without_resp3(&self) -> Option<String> {
        None
    }

    /// The error of a request that is not sent because there is no connection, with the node and
    /// what stands in the way.
    fn unreached(&self) -> ServerError {
        if let Some(refusal) = self.refusal().borrow().clone() {
            return refusal;
        }
        match self.trouble() {
            Some(trouble) => ServerError::not_sent(format!("no connection to {}: {trouble}", self.id())),
            None => ServerError::not_sent(format!("no connection to {}", self.id())),
        }
    }

    /// Whether it is a replica that is behind its primary by more than it may.
    fn is_lagging(&self) -> bool {
        false
    }

    /// What is known of the server's clock.
    fn time(&self) -> &ServerClock;

    /// Subscribes channels; returns when the server has confirmed that they are in force, but for those that it refused.
    ///
    /// # Errors
    ///
    /// After an error none of them counts as subscribed, and a [`Push::Gap`] tells when to try again.
    async fn subscribe(&self, kind: ChannelKind, channels: Vec<Bytes>) -> Result<Refused, ServerError>;

    /// Ends subscriptions. Nothing is reported: a message too many does no harm.
    async fn unsubscribe(&self, kind: ChannelKind, channels: Vec<Bytes>);

    /// The stream of what is pushed. There is one; later calls get an empty one.
    fn pushes(&self) -> mpsc::UnboundedReceiver<Push>;

    /// Ends the connections.
    async fn close(&self);
}

/// Whether two are the same node, and not merely at the same address.
pub(crate) fn is_same(one: &Arc<dyn Server>, other: &Arc<dyn Server>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}

/// What gives reason to look at the topology anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TopologyHint {
    /// A node says that the slot lives at this address (`host:port`).
    Moved(u16, String),
    /// A node that was taken for a primary says that it is none, or does not answer.
    Node(NodeId),
    /// It has owed an answer for some time, and may yet give it.
    Silent(NodeId),
}

/// The servers that serve the same slots.
pub struct ShardServers {
    /// The one that decides.
    pub primary: Arc<dyn Server>,
    /// The slots, in order; none outside a cluster.
    pub slots: Vec<RangeInclusive<u16>>,
    /// Those that are read from, or listened to.
    pub replicas: Vec<Arc<dyn Server>>,
}

/// Which server a name belongs to. That changes: a primary is replaced, a slot moves.
#[async_trait]
pub trait Topology: Send + Sync + 'static {
    /// The node that decides for `key`: the primary of its slot. While it is not known, one that answers nothing.
    fn primary(&self, key: &[u8]) -> Arc<dyn Server>;

    /// Every node that may decide for some key.
    fn primaries(&self) -> Vec<Arc<dyn Server>>;

    /// What kind of deployment it is.
    fn kind(&self) -> DeploymentKind {
        DeploymentKind::Single
    }

    /// Who serves what, as far as it is known.
    fn shards(&self) -> Vec<ShardServers> {
        let all = |primary| ShardServers { primary, slots: Vec::new(), replicas: Vec::new() };
        self.primaries().into_iter().map(all).collect()
    }

    /// Those that are asked who the primary is; none where nobody is.
    fn sentinels(&self) -> Vec<Arc<dyn Server>> {
        Vec::new()
    }

    /// A node to read `key` from, by the read mode.
    fn reader(&self, key: &[u8]) -> Arc<dyn Server> {
        self.primary(key)
    }

    /// The node where waiters of `key` listen, by the subscription mode.
    fn listener(&self, key: &[u8]) -> Arc<dyn Server> {
        self.primary(key)
    }

    /// Keys with the same number may be touched by one request.
    fn slot(&self, _key: &[u8]) -> u16 {
        0
    }

    /// Whether messages go by sharded channels.
    fn is_sharded(&self) -> bool {
        false
    }

    /// The node at an address that another node has named.
    fn at(&self, _address: &str) -> Option<Arc<dyn Server>> {
        None
    }

    /// Has the topology looked at anew, in the background; many doubts at once lead to one look.
    fn suspect(&self, _doubt: TopologyHint) {}

    /// Why nobody tells at the moment who serves what, where that is so. What is known from before goes on to be used.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Counts the changes.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Ends all connections.
    async fn close(&self);
}
