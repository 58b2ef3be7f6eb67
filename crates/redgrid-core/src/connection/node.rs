//! One node with its connections.
//!
//! There are one or several for requests, and one that carries only subscriptions. More are opened
//! on demand: one per durability level, one for keyspace events, those for patterns, and dedicated
//! ones.

mod batch_queue;
mod batcher;
mod carry;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;

use self::batcher::Batchers;
use super::dedicated::DedicatedConnection;
use super::durability::DurabilityWaiter;
use super::endpoint::{ConnectOptions, Endpoint, Target};
use super::link::{Connection, Handshake, NodeRole};
use super::pool::ConnectionPool;
use super::subscriber::{Carries, Subscriber};
use super::{
    ChannelKind, CommitError, ConnectionId, NodeId, Push, Refused, Reply, Request, ResponseFuture, Server, ServerClock,
};
use crate::clock::{Clock, Instant};
use crate::config::{Address, Config, ConfigError, Durability, Servers, Settings};
use crate::error::ServerError;

/// State that the nodes of one client share.
#[derive(Clone)]
pub(super) struct Nodes {
    pub(super) entry: ConnectOptions,
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    /// Whether messages are published on sharded channels; known once the first node of a cluster
    /// has answered.
    pub(super) sharded: Arc<AtomicBool>,
    /// Whether the keys of a request must share a slot.
    pub(super) clustered: bool,
}

impl Nodes {
    /// Reads the settings and certificates that all nodes use.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if a file that it names cannot be used.
    pub(super) fn new(config: &Config, clock: &Clock) -> Result<Nodes, ConfigError> {
        let (entry, settings) = (ConnectOptions::of(config)?, config.settings.clone());
        let clustered = matches!(config.servers(), Servers::Cluster(_));
        Ok(Nodes { entry, settings, clock: clock.clone(), sharded: Arc::default(), clustered })
    }

    /// Opens a node, which connects in the background and counts as connected only in the expected
    /// role.
    pub(super) fn open(&self, address: &Address, part: NodeRole) -> Result<Arc<Node>, ServerError> {
        self.open_at(address.into(), part)
    }

    /// Opens a node at any kind of endpoint; see [`Nodes::open`].
    pub(super) fn open_at(&self, place: Endpoint, part: NodeRole) -> Result<Arc<Node>, ServerError> {
        Node::open(self, Target::new(place, self.entry.clone()), part)
    }
}

/// The connection that carries events.
#[derive(Default)]
enum Carrier {
    /// No events have been subscribed yet.
    #[default]
    Unopened,
    Open(Arc<Subscriber>),
    Closed,
}

/// A pattern connection, and some of the patterns that it carries.
type Carriage = (Arc<Subscriber>, Vec<Bytes>);

pub(super) struct Node {
    id: NodeId,
    sharded: Arc<AtomicBool>,
    clock: Clock,
    time: Arc<ServerClock>,
    commands: Arc<ConnectionPool>,
    subscriber: Subscriber,
    /// The connection for events; opened at the first subscription.
    events: Mutex<Carrier>,
    /// The pattern connections. Patterns that may match the same channel never share one. Opened as
    /// needed; `None` when closed.
    patterns: Mutex<Option<Vec<Arc<Subscriber>>>>,
    /// Address and credentials, for further connections.
    way: Target,
    settings: Settings,
    commits: DurabilityWaiter,
    dedicated: DedicatedConnection,
    batches: DedicatedConnection,
    /// Number of the connection on which the server was found not to know EVALSHA_RO and EVAL_RO.
    without_read_only: AtomicU64,
    /// The replica lags by more than allowed.
    behind: AtomicBool,
    /// Requests are refused for a moment: another server is about to replace this one.
    held_back: AtomicBool,
    watchers: Mutex<Vec<JoinHandle<()>>>,
    batchers: Batchers,
    /// Permits for requests in flight.
    admission: Semaphore,
}

impl Node {
    fn open(nodes: &Nodes, way: Target, part: NodeRole) -> Result<Arc<Self>, ServerError> {
        let Nodes { settings, clock, sharded, .. } = nodes;
        let name = &settings.client_name;
        let time = Arc::new(ServerClock::default());
        let (lines, greeting) = match part {
            NodeRole::Sentinel => (1, None),
            part => (settings.connections_per_node, Some(part)),
        };
        let watchers = std::cell::RefCell::new(Vec::new());
        let open = |name, greeting, seat| {
            let (link, watching) = Connection::open(&way, settings, clock.clone(), name, greeting, seat)?;
            watchers.borrow_mut().push(watching);
            Ok(link)
        };
        let commands = ConnectionPool::open(lines, |seat| {
            let data = |part| Handshake::Data { time: Arc::clone(&time), part };
            open(name.clone(), greeting.map_or(Handshake::Life, data), Some(seat))
        })?;
        let identity = if part == NodeRole::Sentinel { Handshake::Life } else { Handshake::Identity };
        let subscriber = open(format!("{name}:subscriber"), identity, None)?;
        let (subscriber, reading) = Subscriber::open(subscriber, commands.epoch());
        let mut watchers = watchers.into_inner();
        watchers.push(reading);
        Ok(Arc::new_cyclic(|me| Node {
            batchers: Batchers::new(Weak::clone(me), nodes.clustered),
            admission: Semaphore::new(usize::try_from(settings.max_in_flight).unwrap_or(usize::MAX)),
            id: NodeId(way.place.to_string().into()),
            sharded: Arc::clone(sharded),
            clock: clock.clone(),
            time,
            subscriber,
            dedicated: DedicatedConnection::new(way.clone(), settings, clock.clone()),
            batches: DedicatedConnection::beside(Arc::clone(&commands), way.clone(), settings, clock.clone()),
            without_read_only: AtomicU64::new(0),
            events: Mutex::default(),
            patterns: Mutex::new(Some(Vec::new())),
            way: way.clone(),
            settings: settings.clone(),
            commits: DurabilityWaiter::new(Arc::clone(&commands), way, settings, clock.clone()),
            commands,
            behind: AtomicBool::new(false),
            held_back: AtomicBool::new(false),
            watchers: watchers.into(),
        }))
    }

    /// Schedules a role check. A node that lost its role counts as disconnected until it has it
    /// again.
    pub(super) fn look_after(&self) {
        self.commands.suspect();
    }

    /// Returns whether a replica can be used: it is connected, has its role, and does not lag.
    pub(super) fn is_fit(&self) -> bool {
        self.commands.is_up() && !self.is_lagging()
    }

    /// Records whether the replica lags behind its primary by more than allowed.
    pub(super) fn set_behind(&self, behind: bool) {
        if self.behind.swap(behind, Ordering::AcqRel) != behind {
            let news = if behind { "a replica is behind, and left out" } else { "a replica has caught up" };
            tracing::info!(node = %self.id, news);
        }
    }

    /// Starts or stops refusing requests and retransmissions here; returns the previous state.
    pub(super) fn hold_back(&self, on: bool) -> bool {
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

    /// Returns the connection for events, and opens it if needed.
    fn carrier(&self) -> Result<Arc<Subscriber>, ServerError> {
        let mut events = self.events.lock().unwrap_or_else(|p| p.into_inner());
        match &*events {
            Carrier::Open(events) => return Ok(Arc::clone(events)),
            Carrier::Closed => return Err(ServerError::not_sent("the connections are closed")),
            Carrier::Unopened => {}
        }
        let subscriber = self.beside("events", Carries::Events)?;
        *events = Carrier::Open(Arc::clone(&subscriber));
        Ok(subscriber)
    }

    /// Opens another subscriber connection that pushes to the same stream.
    fn beside(&self, name: &str, carries: Carries) -> Result<Arc<Subscriber>, ServerError> {
        let name = format!("{}:{name}", self.settings.client_name);
        let (link, watching) =
            Connection::open(&self.way, &self.settings, self.clock.clone(), name, Handshake::Identity, None)?;
        let (subscriber, reading) = self.subscriber.beside(link, self.commands.epoch(), carries);
        let mut watchers = self.watchers.lock().unwrap_or_else(|p| p.into_inner());
        watchers.retain(|watcher| !watcher.is_finished());
        watchers.extend([watching, reading]);
        Ok(Arc::new(subscriber))
    }

    /// Assigns each pattern to its connection, or to the first one that can carry it too.
    fn carriers(&self, patterns: Vec<Bytes>) -> Result<Vec<Carriage>, ServerError> {
        let closed = || ServerError::not_sent("the connections are closed");
        let mut open = self.patterns.lock().unwrap_or_else(|p| p.into_inner());
        let open = open.as_mut().ok_or_else(closed)?;
        let mut carried: Vec<Vec<Bytes>> = Vec::new();
        for pattern in patterns {
            let has = open.iter().position(|carrier| carrier.carries(&pattern));
            let at = match has.or_else(|| open.iter().position(|carrier| carrier.take_in(&pattern))) {
                Some(at) => at,
                None => {
                    let carrier = self.beside("patterns", Carries::Patterns)?;
                    carrier.take_in(&pattern);
                    open.push(carrier);
                    open.len() - 1
                }
            };
            carried.resize(open.len(), Vec::new());
            carried[at].push(pattern);
        }
        let carriers = open.iter().cloned().zip(carried);
        Ok(carriers.filter(|(_, patterns)| !patterns.is_empty()).collect())
    }

    /// Returns the connections that carry the given patterns; other patterns are ignored.
    fn carrying(&self, patterns: &[Bytes]) -> Vec<Carriage> {
        let open = self.patterns.lock().unwrap_or_else(|p| p.into_inner());
        let carried = |carrier: &Arc<Subscriber>| {
            let carried = patterns.iter().filter(|pattern| carrier.carries(pattern)).cloned().collect::<Vec<_>>();
            (Arc::clone(carrier), carried)
        };
        let carriers = open.iter().flatten().map(carried);
        carriers.filter(|(_, patterns)| !patterns.is_empty()).collect()
    }

    /// Removes patterns from a connection, and closes all idle connections but one.
    fn let_go(&self, carrier: &Subscriber, patterns: &[Bytes]) {
        let mut open = self.patterns.lock().unwrap_or_else(|p| p.into_inner());
        carrier.let_go(patterns);
        let Some(open) = open.as_mut() else { return };
        let mut kept = 0;
        open.retain(|carrier| {
            let stays = kept == 0 || !carrier.is_idle();
            kept += usize::from(carrier.is_idle());
            if !stays {
                carrier.close();
            }
            stays
        });
    }

    /// Sends one request, by itself or batched with requests of other callers.
    fn alone<'a>(&'a self, request: &'a Arc<Request>, limit: Option<Instant>) -> ResponseFuture<'a> {
        if let Some(error) = self.in_the_way(request.dedicated) {
            return ResponseFuture::inline(async || Err(error));
        }
        match (request.batch, limit) {
            (Some(batch), Some(limit)) => self.batchers.call(self, batch, request, limit),
            _ if request.adjacent => ResponseFuture::inline(async move || {
                let request = Request { not_after: limit, ..Request::clone(request) };
                let answer = self.together(vec![request]).await.pop();
                answer.unwrap_or_else(|| Err(ServerError::unknown("no result")))
            }),
            _ => ResponseFuture::inline(|| self.one(self.line(request), request, limit)),
        }
    }

    /// Signals all connections to close, and with them their supervising tasks to end.
    fn stop(&self) {
        self.commands.close();
        self.subscriber.close();
        let mut events = self.events.lock().unwrap_or_else(|p| p.into_inner());
        if let Carrier::Open(events) = std::mem::replace(&mut *events, Carrier::Closed) {
            events.close();
        }
        let patterns = self.patterns.lock().unwrap_or_else(|p| p.into_inner()).take();
        patterns.into_iter().flatten().for_each(|carrier| carrier.close());
        self.commits.stop();
        self.dedicated.stop();
        self.batches.stop();
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
        if requests.iter().any(|request| request.adjacent) {
            return self.together(requests).await;
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
        self.way.without_resp3.get().cloned()
    }

    fn is_lagging(&self) -> bool {
        self.behind.load(Ordering::Acquire)
    }

    fn time(&self) -> &ServerClock {
        &self.time
    }

    async fn subscribe(&self, kind: ChannelKind, channels: Vec<Bytes>) -> Result<Refused, ServerError> {
        match kind {
            ChannelKind::Events => {
                let events = self.carrier()?;
                events.connected().await;
                events.subscribe(kind, channels).await
            }
            ChannelKind::Patterns => {
                let mut refused = Vec::new();
                for (carrier, patterns) in self.carriers(channels)? {
                    carrier.connected().await;
                    let denied = carrier.subscribe(kind, patterns).await?;
                    let names: Vec<_> = denied.iter().map(|(pattern, _)| pattern.clone()).collect();
                    self.let_go(&carrier, &names);
                    refused.extend(denied);
                }
                Ok(refused)
            }
            ChannelKind::Plain | ChannelKind::Sharded => self.subscriber.subscribe(kind, channels).await,
        }
    }

    async fn unsubscribe(&self, kind: ChannelKind, channels: Vec<Bytes>) {
        match kind {
            ChannelKind::Events => {
                if let Ok(events) = self.carrier() {
                    events.unsubscribe(kind, channels).await;
                }
            }
            ChannelKind::Patterns => {
                for (carrier, patterns) in self.carrying(&channels) {
                    carrier.unsubscribe(kind, patterns.clone()).await;
                    self.let_go(&carrier, &patterns);
                }
            }
            ChannelKind::Plain | ChannelKind::Sharded => self.subscriber.unsubscribe(kind, channels).await,
        }
    }

    fn pushes(&self) -> mpsc::UnboundedReceiver<Push> {
        self.subscriber.pushes()
    }

    async fn close(&self) {
        self.stop();
        let watchers = std::mem::take(&mut *self.watchers.lock().unwrap_or_else(|p| p.into_inner()));
        for watcher in watchers {
            let _ = watcher.await;
        }
        self.commits.close().await;
        self.dedicated.close().await;
        self.batches.close().await;
    }
}

impl Drop for Node {
    /// Closes the connections, so that a forgotten node, or one of an aborted task, leaves none
    /// behind.
    fn drop(&mut self) {
        self.stop();
    }
}
