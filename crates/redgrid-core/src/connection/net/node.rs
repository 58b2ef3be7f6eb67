//! One node with its connections.
//!
//! There are one or several for requests, and one that carries only subscriptions. More are opened
//! on demand: one per durability level, one each for keyspace events and patterns, and dedicated
//! ones.

mod batch_queue;
mod batcher;
mod carry;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;
use tokio::sync::{Semaphore, mpsc, watch};

use self::batcher::Batchers;
use crate::clock::{Clock, Instant};
use crate::config::{Address, Config, ConfigError, Durability, Servers, Settings};
use crate::connection::dedicated::DedicatedConnection;
use crate::connection::durability::DurabilityWaiter;
use crate::connection::endpoint::{ConnectOptions, Connections, Endpoint, Target};
use crate::connection::link::{Handshake, NodeRole};
use crate::connection::pool::ConnectionPool;
use crate::connection::subscriber::Subscriptions;
use crate::connection::{
    ChannelKind, CommitError, ConnectionId, NodeId, Push, Refused, Reply, Request, ResponseFuture, Server, ServerClock,
};
use crate::error::ServerError;

/// State that the nodes of one client share.
#[derive(Clone)]
pub(in crate::connection) struct Nodes {
    pub(in crate::connection) entry: ConnectOptions,
    pub(in crate::connection) settings: Settings,
    pub(in crate::connection) clock: Clock,
    /// Whether messages are published on sharded channels; known once the first node of a cluster
    /// has answered.
    pub(in crate::connection) sharded: Arc<AtomicBool>,
    /// Whether the keys of a request must share a slot.
    pub(in crate::connection) clustered: bool,
}

impl Nodes {
    /// Reads the settings and certificates that all nodes use.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if a file that it names cannot be used.
    pub(in crate::connection) fn new(config: &Config, clock: &Clock) -> Result<Nodes, ConfigError> {
        let (entry, settings) = (ConnectOptions::of(config)?, config.settings.clone());
        let clustered = matches!(config.servers(), Servers::Cluster(_));
        Ok(Nodes { entry, settings, clock: clock.clone(), sharded: Arc::default(), clustered })
    }

    /// Opens a node, which connects in the background and counts as connected only in the expected
    /// role.
    pub(in crate::connection) fn open(&self, address: &Address, part: NodeRole) -> Arc<Node> {
        self.open_at(Endpoint::Tcp(address.clone()), part)
    }

    /// Opens a node at any kind of endpoint; see [`Nodes::open`].
    pub(in crate::connection) fn open_at(&self, place: Endpoint, part: NodeRole) -> Arc<Node> {
        let (entry, settings, clock) = (self.entry.clone(), self.settings.clone(), self.clock.clone());
        Node::open(self, Target { place, entry, settings, clock, without_resp3: Arc::default() }, part)
    }
}

pub(in crate::connection) struct Node {
    id: NodeId,
    sharded: Arc<AtomicBool>,
    clock: Clock,
    time: Arc<ServerClock>,
    connections: Arc<Connections>,
    commands: Arc<ConnectionPool>,
    subscriptions: Subscriptions,
    commits: DurabilityWaiter,
    dedicated: Arc<DedicatedConnection>,
    batches: Arc<DedicatedConnection>,
    /// Number of the connection on which the server was found not to know EVALSHA_RO and EVAL_RO.
    without_read_only: AtomicU64,
    /// The replica lags by more than allowed.
    behind: AtomicBool,
    /// Requests are refused for a moment: another server is about to replace this one.
    held_back: AtomicBool,
    batchers: Batchers,
    /// Permits for requests in flight.
    admission: Semaphore,
}

impl Node {
    fn open(nodes: &Nodes, target: Target, part: NodeRole) -> Arc<Self> {
        let Settings { connections_per_node, max_in_flight, .. } = nodes.settings;
        let (id, time) = (NodeId(target.place.to_string().into()), Arc::new(ServerClock::default()));
        let connections = Connections::new(target);
        let (count, greeting) = match part {
            NodeRole::Sentinel => (1, Handshake::Life),
            _ => (connections_per_node, Handshake::Identity),
        };
        let commands = ConnectionPool::open(&connections, count, || match part {
            NodeRole::Sentinel => Handshake::Life,
            part => Handshake::Data { time: Arc::clone(&time), part },
        });
        Arc::new_cyclic(|me| Node {
            batchers: Batchers::new(Weak::clone(me), nodes.clustered),
            admission: Semaphore::new(usize::try_from(max_in_flight).unwrap_or(usize::MAX)),
            id,
            sharded: Arc::clone(&nodes.sharded),
            clock: nodes.clock.clone(),
            time,
            subscriptions: Subscriptions::open(&connections, commands.epoch(), greeting),
            dedicated: DedicatedConnection::new(&connections, None),
            batches: DedicatedConnection::new(&connections, Some(Arc::clone(&commands))),
            without_read_only: AtomicU64::new(0),
            commits: DurabilityWaiter::new(Arc::clone(&commands), Arc::clone(&connections)),
            connections,
            commands,
            behind: AtomicBool::new(false),
            held_back: AtomicBool::new(false),
        })
    }

    /// Returns the address; `None` for a Unix socket.
    pub(in crate::connection) fn address(&self) -> Option<&Address> {
        match &self.connections.target.place {
            Endpoint::Tcp(address) => Some(address),
            #[cfg(unix)]
            Endpoint::Unix(_) => None,
        }
    }

    pub(in crate::connection) fn is_at(&self, address: &Address) -> bool {
        self.address() == Some(address)
    }

    /// Schedules a role check. A node that lost its role counts as disconnected until it has it
    /// again.
    pub(in crate::connection) fn look_after(&self) {
        self.commands.suspect();
    }

    /// Returns whether a replica can be used: it is connected, has its role, and does not lag.
    pub(in crate::connection) fn is_fit(&self) -> bool {
        self.commands.is_up() && !self.is_lagging()
    }

    /// Records whether the replica lags behind its primary by more than allowed.
    pub(in crate::connection) fn set_behind(&self, behind: bool) {
        if self.behind.swap(behind, Ordering::AcqRel) != behind {
            let news = if behind { "a replica is behind, and left out" } else { "a replica has caught up" };
            tracing::info!(node = %self.id, news);
        }
    }

    /// Starts or stops refusing requests and retransmissions here; returns the previous state.
    pub(in crate::connection) fn hold_back(&self, on: bool) -> bool {
        self.held_back.swap(on, Ordering::AcqRel)
    }

    /// Returns why a request cannot be sent now, if so.
    fn in_the_way(&self, is_aside: bool) -> Option<ServerError> {
        match () {
            // A server with a script that runs for too long answers no handshake, but must receive
            // SCRIPT KILL.
            () if is_aside => None,
            () if !self.commands.is_up() => Some(self.commands.down()),
            () if self.held_back.load(Ordering::Acquire) => {
                Some(ServerError::not_sent(format!("a failover is about to replace {}", self.id)))
            }
            () => None,
        }
    }

    /// Sends one request, by itself or batched with requests of other callers.
    fn alone<'a>(&'a self, request: &'a Arc<Request>, limit: Option<Instant>) -> ResponseFuture<'a> {
        if let Some(error) = self.in_the_way(request.dedicated) {
            return ResponseFuture::inline(async || Err(error));
        }
        match (request.batch, limit) {
            (Some(batch), Some(limit)) => self.batchers.call(self, batch, request, limit),
            _ => ResponseFuture::inline(|| self.one(self.line(request), request, limit)),
        }
    }
}

#[async_trait]
impl Server for Node {
    fn id(&self) -> &NodeId {
        &self.id
    }

    async fn call(&self, requests: Vec<Request>) -> Vec<Result<Reply, ServerError>> {
        if let Some(error) = self.in_the_way(requests.iter().all(|request| request.dedicated)) {
            return requests.iter().map(|_| Err(error.clone())).collect();
        }
        match <[Request; 1]>::try_from(requests) {
            Ok([request]) => {
                let limit = request.limit();
                vec![self.alone(&Arc::new(request), limit).await]
            }
            // The first polls happen in order, and a first poll hands the bytes to the connection.
            Err(requests) => {
                // Requests that must stay in order use one connection.
                let line = requests.iter().all(|request| request.in_order).then(|| Arc::clone(self.line(&requests[0])));
                let one = async |request: Request| match &line {
                    Some(line) => self.one(line, &request, request.limit()).await,
                    None => self.one(self.line(&request), &request, request.limit()).await,
                };
                Box::pin(join_all(requests.into_iter().map(one))).await
            }
        }
    }

    fn ask<'a>(&'a self, request: &'a Arc<Request>, limit: Instant) -> ResponseFuture<'a> {
        self.alone(request, Some(limit))
    }

    async fn call_asking(&self, request: Request) -> Result<Reply, ServerError> {
        match self.in_the_way(false) {
            Some(error) => Err(error),
            None => self.carry(self.line(&request), &request, request.limit(), true).await,
        }
    }

    async fn commit(&self, since: ConnectionId, durability: Durability, tag: &[u8]) -> Result<(), CommitError> {
        self.commits.commit(since, durability, tag).await
    }

    fn connection_id(&self) -> watch::Receiver<Option<ConnectionId>> {
        self.commands.epoch()
    }

    fn current_connection_id(&self) -> Option<ConnectionId> {
        self.commands.current_epoch()
    }

    fn answers(&self) -> bool {
        self.commands.answers()
    }

    fn in_flight_limit(&self) -> Option<&Semaphore> {
        Some(&self.admission)
    }

    fn silent_for(&self) -> Duration {
        self.commands.silent_for()
    }

    fn trouble(&self) -> Option<String> {
        Some(self.commands.trouble())
    }

    fn refusal(&self) -> watch::Receiver<Option<ServerError>> {
        self.commands.refusal()
    }

    fn without_resp3(&self) -> Option<String> {
        self.connections.target.without_resp3.get().cloned()
    }

    fn is_lagging(&self) -> bool {
        self.behind.load(Ordering::Acquire)
    }

    fn time(&self) -> &ServerClock {
        &self.time
    }

    async fn subscribe(&self, kind: ChannelKind, channels: Vec<Bytes>) -> Result<Refused, ServerError> {
        self.subscriptions.subscribe(kind, channels).await
    }

    async fn unsubscribe(&self, kind: ChannelKind, channels: Vec<Bytes>) {
        self.subscriptions.unsubscribe(kind, channels).await;
    }

    fn pushes(&self) -> mpsc::UnboundedReceiver<Push> {
        self.subscriptions.pushes()
    }

    async fn close(&self) {
        self.connections.close().await;
    }
}

impl Drop for Node {
    /// Closes the connections, so that a forgotten node, or one of an aborted task, leaves none
    /// behind.
    fn drop(&mut self) {
        self.connections.stop();
    }
}
