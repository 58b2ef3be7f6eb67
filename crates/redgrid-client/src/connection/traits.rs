//! The two interfaces to the servers: [`Server`] is one node, [`Topology`] maps keys to nodes.
//!
//! Modules outside of `connection` reach the servers only through these traits. So tests can
//! replace the real connections by implementations that lose, delay and repeat requests and
//! replies.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc, watch};

use super::{CommitError, DeploymentKind, Reply, Request, ResponseFuture, ServerClock};
use crate::clock::Instant;
use crate::config::{Address, Durability};
use crate::error::ServerError;

/// Identifies a node by its address, or by `unix:` and the path of its socket.
///
/// Equal ids mean the same address, not the same server process.
#[derive(Clone, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
// Not `#[non_exhaustive]`: it only wraps its text.
pub struct NodeId(pub Arc<str>);

impl NodeId {
    /// Returns the host name or IP address.
    pub fn host(&self) -> &str {
        self.0.rsplit_once(':').map_or(&*self.0, |(host, _)| host.trim_start_matches('[').trim_end_matches(']'))
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Identifies one connection by its number and by the server process to which it leads.
///
/// A changed `run_id` means another server process, possibly with other data. The `run_id` is empty
/// if the node is a sentinel, or if the client's user is not allowed to read it.
#[derive(Clone, PartialEq, Eq, Debug)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub struct ConnectionId {
    /// The `run_id` of the server process.
    pub run_id: Arc<str>,
    /// Number of the connection. All connections of this process are numbered in ascending order,
    /// whatever node they lead to. So no two connections share a number.
    pub connection: u64,
}

/// How the messages of a channel are published.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub enum ChannelKind {
    /// Published by PUBLISH; in a cluster, the message reaches all nodes.
    Plain,
    /// Published by SPUBLISH; the message reaches the nodes of the channel's slot.
    Sharded,
    /// Keyspace events, published by the server itself: one kind of event on each channel
    /// (`__keyevent@0__:del`).
    ///
    /// These channels are subscribed like plain ones, but on a separate connection. So a large
    /// number of events does not delay the messages that wake waiters.
    Events,
    /// Published by PUBLISH. One subscription (PSUBSCRIBE) covers all channels whose names match a
    /// pattern. These subscriptions use a connection of their own at each node.
    Patterns,
}

/// An event on a subscriber connection of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub enum Push {
    /// A message of a subscribed channel.
    Message {
        /// The channel.
        channel: Bytes,
        /// The published payload.
        payload: Bytes,
    },
    /// A message that was published with SPUBLISH.
    ShardedMessage {
        /// The channel.
        channel: Bytes,
        /// The published payload.
        payload: Bytes,
    },
    /// A message of a channel whose name matches a subscribed pattern.
    PatternMessage {
        /// The pattern.
        pattern: Bytes,
        /// The channel.
        channel: Bytes,
        /// The published payload.
        payload: Bytes,
    },
    /// The server has confirmed that these subscriptions have ended. No more messages of these
    /// channels follow.
    Ended {
        /// The channels.
        channels: Vec<Bytes>,
    },
    /// The server has ended a sharded subscription that the client had not ended, because the slot
    /// of the channel has moved.
    Lost {
        /// The channel.
        channel: Bytes,
    },
    /// The connection for plain and sharded channels was lost, or is new. No channel is subscribed
    /// on it now, and messages may have been missed.
    Gap,
    /// A gap on the connection that carries [`ChannelKind::Events`]; see [`Push::Gap`].
    EventsGap,
    /// A gap on the connection that carries [`ChannelKind::Patterns`]; see [`Push::Gap`].
    PatternsGap,
}

/// Channels whose subscription the server refused, with the error of each.
pub type Refused = Vec<(Bytes, ServerError)>;

/// One node: a server that answers requests.
#[async_trait]
pub trait Server: Send + Sync + 'static {
    /// Returns the id of the node.
    fn id(&self) -> &NodeId;

    /// Sends requests and returns one result for each.
    ///
    /// Requests for one name (one key, or one hash tag) are executed in the order of the list, on
    /// one connection.
    ///
    /// A request is executed at most once. It is sent again only if the server refused it without
    /// executing it, for example because the server does not have the script. Later requests can
    /// overtake such a request; see [`Request::in_order`]. If no reply arrives within the client's
    /// `response_timeout`, the result is [`Unknown`](ServerError::Unknown). Without a connection,
    /// the error of [`Server::unreached`] is returned at once.
    async fn call(&self, requests: Vec<Request>) -> Vec<Result<Reply, ServerError>>;

    /// Sends one request, which the server must not execute after `limit`. The request's own
    /// [limit](Request::limit) is ignored.
    ///
    /// Two requests that can be [batched](Request::batchable) are executed in order only if the
    /// second is issued after the first was answered.
    fn ask<'a>(&'a self, request: &'a Arc<Request>, limit: Instant) -> ResponseFuture<'a> {
        ResponseFuture::inline(|| self.call_one(Request::clone(request).not_after(limit)))
    }

    /// Sends one request; see [`Server::call`].
    async fn call_one(&self, request: Request) -> Result<Reply, ServerError> {
        self.call(vec![request]).await.pop().unwrap_or_else(|| Err(ServerError::unknown("no result")))
    }

    /// Sends ASKING and, right after it, one request. Such a request is for a slot that is being
    /// migrated to this node.
    async fn call_asking(&self, request: Request) -> Result<Reply, ServerError> {
        of_asking(self.call(vec![Request::command("ASKING"), request]).await)
    }

    /// Waits until all writes that the server answered on the connection `since` before this call
    /// are as durable as requested.
    ///
    /// With [`Durability::Primary`] this method sends nothing and returns at once.
    ///
    /// `tag` is the part of a written key that a cluster hashes: the hash tag, or the whole key.
    ///
    /// # Errors
    ///
    /// [`CommitError`] if the durability is not confirmed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind and does not affect concurrent callers.
    async fn commit(&self, _since: ConnectionId, durability: Durability, _tag: &[u8]) -> Result<(), CommitError> {
        if Durability::Primary.covers(durability) {
            return Ok(());
        }
        Err(CommitError::Unsupported { missing: "this kind of server supports no durability".into() })
    }

    /// Watches the id of the connection that carries requests; `None` while there is no connection.
    fn connection_id(&self) -> watch::Receiver<Option<ConnectionId>>;

    /// Returns the id of the connection that carries requests. This method is called for every
    /// request. An implementation of it can be cheaper than [`Server::connection_id`], because it
    /// creates no receiver.
    fn current_connection_id(&self) -> Option<ConnectionId> {
        self.connection_id().borrow().clone()
    }

    /// Returns whether the node is connected and no reply has been overdue for long.
    fn answers(&self) -> bool {
        self.connection_id().borrow().is_some()
    }

    /// Returns the semaphore that limits the requests in flight at the node; `None` if there is no
    /// limit.
    fn in_flight_limit(&self) -> Option<&Semaphore> {
        None
    }

    /// Returns for how long the node has sent nothing while a reply is outstanding.
    ///
    /// The result is zero while no reply is outstanding. Without a connection it has no meaning.
    fn silent_for(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns why there is no connection, or why the last connection was lost, if known.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Watches the error that makes waiting for this node useless; `None` while waiting can help.
    ///
    /// Once there is such an error, most calls that wait for the node end early with it.
    /// [`ServerError::Unauthorized`] means that the node refuses this client, or that this client
    /// refuses the node's certificate. [`ServerError::NotSent`] means that the node's host name
    /// does not exist, or that the node does not speak the protocol.
    fn refusal(&self) -> watch::Receiver<Option<ServerError>> {
        watch::channel(None).1
    }

    /// Returns a message if the node was found to speak only RESP2. The message includes the error
    /// with which the node refused RESP3.
    ///
    /// Returns `None` if the node speaks RESP3, or if RESP2 is configured.
    fn without_resp3(&self) -> Option<String> {
        None
    }

    /// Returns the error of a request that is not sent because there is no connection.
    ///
    /// The error names the node and the cause.
    fn unreached(&self) -> ServerError {
        if let Some(refusal) = self.refusal().borrow().clone() {
            return refusal;
        }
        match self.trouble() {
            Some(trouble) => ServerError::not_sent(format!("no connection to {}: {trouble}", self.id())),
            None => ServerError::not_sent(format!("no connection to {}", self.id())),
        }
    }

    /// Returns whether the node is a replica that lags behind its primary by more than allowed.
    fn is_lagging(&self) -> bool {
        false
    }

    /// Returns the estimate of the server's clock.
    fn time(&self) -> &ServerClock;

    /// Subscribes to channels, and returns once the server has confirmed or refused each of them.
    ///
    /// # Errors
    ///
    /// After an error the caller must regard all of these channels as not subscribed. It can try
    /// again after a pause, or when a [`Push::Gap`] reports a new connection.
    async fn subscribe(&self, kind: ChannelKind, channels: Vec<Bytes>) -> Result<Refused, ServerError>;

    /// Ends subscriptions. Errors are not reported: if a channel stays subscribed, its messages are
    /// superfluous but do no harm.
    async fn unsubscribe(&self, kind: ChannelKind, channels: Vec<Bytes>);

    /// Returns the stream of pushed events. This method must be called only once, and before the
    /// first [`Server::subscribe`], because events before this call are lost.
    ///
    /// The result of a second call depends on the implementation: either the first stream ends and
    /// the second one continues, or the second stream is empty.
    fn pushes(&self) -> mpsc::UnboundedReceiver<Push>;

    /// Closes the connections.
    async fn close(&self);
}

/// Returns the result of a request that followed ASKING: the last of the two replies.
///
/// If the target node refuses ASKING, it redirects the request back to the source node. In that
/// case this function returns the error of ASKING, which is the cause of the redirect.
pub(super) fn of_asking(mut answers: Vec<Result<Reply, ServerError>>) -> Result<Reply, ServerError> {
    let answer = answers.pop().unwrap_or_else(|| Err(ServerError::unknown("no result")));
    match (answer, answers.pop()) {
        (Err(ServerError::Refused { .. }), Some(Err(asking @ ServerError::Refused { .. }))) => Err(asking),
        (answer, _) => answer,
    }
}

/// Returns whether both references are to the same object, not merely to nodes with the same
/// address.
pub fn is_same(one: &Arc<dyn Server>, other: &Arc<dyn Server>) -> bool {
    std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other))
}

/// A hint that the topology is stale.
#[derive(Debug, Clone, PartialEq, Eq)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub enum TopologyHint {
    /// A node redirected a request: it reports that the slot is served at this address.
    Moved(u16, Address),
    /// The node is not reachable, does not answer, or seems to be the wrong node for a request,
    /// judging by its error.
    Node(NodeId),
    /// A reply of this node is overdue, but may still arrive.
    Silent(NodeId),
}

/// The servers that serve the same slots.
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub struct ShardServers {
    /// The primary.
    pub primary: Arc<dyn Server>,
    /// The slots, in order; empty outside a cluster.
    pub slots: Vec<RangeInclusive<u16>>,
    /// The replicas that are used for reads or subscriptions.
    pub replicas: Vec<Arc<dyn Server>>,
}

/// Maps keys to servers. The mapping changes when a primary is replaced or a slot moves.
#[async_trait]
pub trait Topology: Send + Sync + 'static {
    /// Returns the primary of the slot of `key`. While that primary is unknown, returns a
    /// placeholder, which has no connection.
    fn primary(&self, key: &[u8]) -> Arc<dyn Server>;

    /// Returns all primaries.
    fn primaries(&self) -> Vec<Arc<dyn Server>>;

    /// Returns the kind of the deployment.
    fn kind(&self) -> DeploymentKind {
        DeploymentKind::Single
    }

    /// Returns the known shards.
    fn shards(&self) -> Vec<ShardServers> {
        let all = |primary| ShardServers { primary, slots: Vec::new(), replicas: Vec::new() };
        self.primaries().into_iter().map(all).collect()
    }

    /// Returns the sentinels that report the primary; empty without sentinels.
    fn sentinels(&self) -> Vec<Arc<dyn Server>> {
        Vec::new()
    }

    /// Returns a node to read `key` from, according to the read mode.
    fn reader(&self, key: &[u8]) -> Arc<dyn Server> {
        self.primary(key)
    }

    /// Returns the node where waiters of `key` subscribe, according to the subscription mode.
    fn listener(&self, key: &[u8]) -> Arc<dyn Server> {
        self.primary(key)
    }

    /// Returns the slot of a key. All keys of one request must have the same slot.
    fn slot(&self, _key: &[u8]) -> u16 {
        0
    }

    /// Returns whether messages are published on sharded channels.
    fn is_sharded(&self) -> bool {
        false
    }

    /// Returns the node at an address that another node has reported in a redirect; `None` if the
    /// redirect cannot be followed.
    fn at(&self, _address: &Address) -> Option<Arc<dyn Server>> {
        None
    }

    /// Schedules a refresh of the topology in the background. Concurrent hints lead to a single
    /// refresh.
    fn suspect(&self, _doubt: TopologyHint) {}

    /// Returns why the topology cannot be refreshed at the moment; `None` if it can. Until a
    /// refresh succeeds, the last known topology stays in use.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Watches the number of topology changes.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Closes all connections.
    async fn close(&self);
}
