//! Opens nodes. Also contains the properties of a node that a topology reads and sets.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::Semaphore;

use super::Node;
use super::batch_queue::Batchers;
use crate::clock::Clock;
use crate::config::{Address, Config, ConfigError, Servers, Settings};
use crate::connection::dedicated::DedicatedConnection;
use crate::connection::durability::DurabilityWaiter;
use crate::connection::endpoint::{ConnectOptions, Connections, Endpoint, Target};
use crate::connection::link::{Handshake, NodeRole};
use crate::connection::pool::ConnectionPool;
use crate::connection::subscriber::Subscriptions;
use crate::connection::{NodeId, Server, ServerClock};

/// State that the nodes of one client share.
#[derive(Clone)]
pub(crate) struct Nodes {
    pub(crate) entry: ConnectOptions,
    pub(crate) settings: Settings,
    pub(crate) clock: Clock,
    /// Whether messages are published on sharded channels; known once the first node of a cluster
    /// has answered.
    pub(crate) sharded: Arc<AtomicBool>,
    /// Whether the keys of a request must share a slot.
    pub(crate) clustered: bool,
}

impl Nodes {
    /// Reads the settings and certificates that all nodes use.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if a configured file cannot be used.
    pub(crate) fn new(config: &Config, clock: &Clock) -> Result<Nodes, ConfigError> {
        let (entry, settings) = (ConnectOptions::of(config)?, config.settings.clone());
        let clustered = matches!(config.servers(), Servers::Cluster(_));
        Ok(Nodes { entry, settings, clock: clock.clone(), sharded: Arc::default(), clustered })
    }

    /// Opens a node, which connects in the background. It is treated as connected only while its
    /// server has the expected role.
    pub(crate) fn open(&self, address: &Address, part: NodeRole) -> Arc<Node> {
        self.open_at(Endpoint::Tcp(address.clone()), part)
    }

    pub(crate) fn open_at(&self, place: Endpoint, part: NodeRole) -> Arc<Node> {
        let (entry, settings, clock) = (self.entry.clone(), self.settings.clone(), self.clock.clone());
        Node::open(self, Target { place, entry, settings, clock, without_resp3: Arc::default() }, part)
    }
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
    pub(crate) fn address(&self) -> Option<&Address> {
        match &self.connections.target.place {
            Endpoint::Tcp(address) => Some(address),
            #[cfg(unix)]
            Endpoint::Unix(_) => None,
        }
    }

    pub(crate) fn is_at(&self, address: &Address) -> bool {
        self.address() == Some(address)
    }

    /// Schedules a role check. If the node has lost its role, it is treated as disconnected until
    /// it has the role again.
    pub(crate) fn schedule_check(&self) {
        self.commands.suspect();
    }

    /// Returns whether a replica can be used: it is connected, has the expected role, and does not
    /// lag.
    pub(crate) fn is_fit(&self) -> bool {
        self.commands.is_up() && !self.is_lagging()
    }

    pub(crate) fn set_behind(&self, behind: bool) {
        if self.behind.swap(behind, Ordering::AcqRel) != behind {
            let news = if behind { "a replica lags, and is not used" } else { "a replica has caught up" };
            tracing::info!(node = %self.id, news);
        }
    }

    /// Sets whether the client refuses to send requests to this node, retransmissions included.
    /// Returns the previous state.
    pub(crate) fn hold_back(&self, on: bool) -> bool {
        self.held_back.swap(on, Ordering::AcqRel)
    }
}
