//! The health of a client and its servers, checked by a request to each server.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;

use crate::connection::{Client, Core, NodeId, Request, Server};
use crate::error::ServerError;

/// A health check that pings every node when awaited; made by [`Client::health`].
#[must_use = "does nothing until awaited"]
#[derive(Debug, Clone)]
pub struct HealthCheck {
    pub(in crate::connection) client: Client,
    pub(in crate::connection) timeout: Duration,
}

impl HealthCheck {
    /// Sets how long to wait for replies; `response_timeout` of the settings by default.
    ///
    /// With a shorter time, the check completes sooner, but a slow server can be reported as dead.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    async fn run(self) -> Health {
        let core = self.client.core();
        let mut servers = Vec::new();
        let shards = core.topology.shards();
        if shards.is_empty() {
            // No node is known. The placeholder for the missing primary reports why.
            servers.extend(core.topology.primaries().into_iter().map(|server| (server, NodePart::Primary)));
        }
        for shard in shards {
            servers.push((shard.primary, NodePart::Primary));
            servers.extend(shard.replicas.into_iter().map(|replica| (replica, NodePart::Replica)));
        }
        let nodes = join_all(servers.into_iter().map(|(server, part)| ping(core, server, part, self.timeout))).await;
        let stats = self.client.stats();
        Health {
            nodes,
            trouble: core.topology.trouble(),
            held: stats.holds,
            waiting: stats.waiting,
            is_shut_down: core.life.is_closed(),
        }
    }
}

impl IntoFuture for HealthCheck {
    type Output = Health;
    type IntoFuture = Pin<Box<dyn Future<Output = Health> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// The health of a client and its servers.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Health {
    /// The known nodes, each primary followed by its replicas. While no node is known, one entry
    /// says why.
    pub nodes: Vec<NodeHealth>,
    /// The reason why no node reports the primary; `None` if a node reports the primary. While a
    /// reason is set, the client cannot detect a failover.
    ///
    /// A reason is set only in deployments with sentinels or a list of nodes. Even then, requests
    /// to the last known primary can still succeed.
    pub trouble: Option<String>,
    /// Number of holds that are valid by the local clock.
    pub held: usize,
    /// Number of requests for locks and permits that wait in this process.
    pub waiting: usize,
    /// Whether the client is shut down, or is being shut down.
    pub is_shut_down: bool,
}

impl Health {
    /// Returns whether requests can be expected to succeed.
    ///
    /// Requests can be expected to succeed if every primary has answered, and the client is not
    /// shut down. A dead replica does not matter, because other nodes serve the reads.
    pub fn is_ready(&self) -> bool {
        let mut primaries = self.nodes.iter().filter(|node| node.part == NodePart::Primary).peekable();
        !self.is_shut_down && primaries.peek().is_some() && primaries.all(NodeHealth::is_well)
    }
}

/// The role of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodePart {
    /// The node is a primary.
    Primary,
    /// The node is a replica that the client uses for reads or subscriptions.
    Replica,
}

/// The health of one node.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct NodeHealth {
    /// The node.
    pub node: NodeId,
    /// The node's role.
    pub part: NodePart,
    /// Whether there is a connection on which the node has answered the handshake.
    pub connected: bool,
    /// The `run_id` of the server process. `None` without a connection, or if the user has no
    /// permission to read it.
    pub run_id: Option<String>,
    /// Round-trip time of the ping; `None` without a reply.
    pub round_trip: Option<Duration>,
    /// How far the server's wall clock is ahead of this machine's, in microseconds. This is a lower
    /// bound; the true value is a little higher.
    ///
    /// `None` before the first contact. The client does not use this value. A large value hints at
    /// a wrong clock.
    pub clock_offset_micros: Option<i64>,
    /// Why the node does not answer, as reported by the server or the system.
    pub trouble: Option<String>,
    /// Whether the node refuses the password, user or certificate of this client, or this client
    /// refuses the node's certificate. In that case calls fail early with `Unauthorized`.
    pub is_unauthorized: bool,
    /// Why RESP2 is used with this node. `None` if RESP3 is used, or if the setting `protocol`
    /// selects RESP2.
    pub without_resp3: Option<String>,
    /// Whether the node is a replica that lags by more than `max_replica_lag`, and is therefore not
    /// used.
    pub is_behind: bool,
    /// Number of channels that should be subscribed at this node.
    pub channels: usize,
    /// Number of channels whose subscription the server has confirmed. Waiters of the other
    /// channels depend on polling.
    pub subscribed: usize,
    /// Why a subscription is not confirmed: the server's message. For example, the user may have no
    /// permission to subscribe.
    ///
    /// `None` if all subscriptions are confirmed, or none has been tried yet.
    pub subscription_trouble: Option<String>,
}

impl NodeHealth {
    /// Returns whether the node has answered the ping.
    pub fn is_well(&self) -> bool {
        self.round_trip.is_some()
    }
}

async fn ping(core: &Core, server: Arc<dyn Server>, part: NodePart, timeout: Duration) -> NodeHealth {
    let sent = core.clock.now();
    let answer = tokio::time::timeout(timeout, server.call_one(Request::command("PING"))).await;
    let now = core.clock.now();
    let trouble = match answer {
        Ok(Ok(_)) => None,
        // A refusal counts as an answer, too. Only a temporary refusal (such as LOADING) does not.
        Ok(Err(ServerError::Refused { code, .. })) if !code.is_passing() => None,
        Ok(Err(ServerError::NotSent { reason })) => Some(server.trouble().unwrap_or_else(|| reason.into_owned())),
        Ok(Err(ServerError::Unauthorized { message })) => Some(message),
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("no answer within {timeout:?}")),
    };
    let epoch = server.current_connection_id();
    let subscriptions = core.subscriptions.counts_at(server.id());
    NodeHealth {
        node: server.id().clone(),
        part,
        connected: epoch.is_some(),
        run_id: epoch.map(|epoch| epoch.run_id.to_string()).filter(|run_id| !run_id.is_empty()),
        round_trip: trouble.is_none().then(|| now.since(sent)),
        clock_offset_micros: server.time().at(now, now).and_then(ahead_of_here),
        trouble,
        is_unauthorized: matches!(*server.refusal().borrow(), Some(ServerError::Unauthorized { .. })),
        without_resp3: server.without_resp3(),
        is_behind: server.is_lagging(),
        channels: subscriptions.wanted,
        subscribed: subscriptions.confirmed,
        subscription_trouble: subscriptions.last_error.map(|error| error.to_string()),
    }
}

/// Returns by how many microseconds the server's wall clock is ahead, for display only.
fn ahead_of_here(server_micros: u64) -> Option<i64> {
    let here = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_micros();
    i64::try_from(i128::from(server_micros) - i128::try_from(here).ok()?).ok()
}
