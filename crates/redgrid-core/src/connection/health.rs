//! How a client and its servers are, asked of each of them.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::future::join_all;

use super::{Client, NodeId, Request, Server};
use crate::clock::Clock;
use crate::error::ServerError;
use crate::wait::Hub;

/// Asks every node for a sign of life when awaited; made by [`Client::health`].
#[must_use = "nobody is asked until this is awaited"]
#[derive(Debug, Clone)]
pub struct HealthCheck {
    client: Client,
    within: Duration,
}

impl HealthCheck {
    pub(super) fn new(client: Client, within: Duration) -> Self {
        HealthCheck { client, within }
    }

    /// Waits at most this long for answers; `timeout` of the settings unless set. A shorter time answers a probe sooner, and
    /// takes a slow server for a dead one.
    pub fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }

    async fn run(self) -> Health {
        let core = self.client.core();
        let mut asked = Vec::new();
        let shards = core.topology.shards();
        if shards.is_empty() {
            // Nobody is known: whoever stands for that says why.
            asked.extend(core.topology.primaries().into_iter().map(|server| (server, NodePart::Primary)));
        }
        for shard in shards {
            asked.push((shard.primary, NodePart::Primary));
            asked.extend(shard.replicas.into_iter().map(|replica| (replica, NodePart::Replica)));
        }
        let (clock, hub) = (&core.clock, &core.hub);
        let nodes = asked.into_iter().map(|(server, part)| ask(server, part, self.within, clock, hub));
        let nodes = join_all(nodes).await;
        let in_hand = self.client.in_hand();
        Health {
            nodes,
            trouble: core.topology.trouble(),
            held: in_hand.holds,
            waiting: in_hand.waiting,
            is_shut_down: self.client.table().is_closed(),
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

/// How a client and its servers are.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Health {
    /// The nodes that it knows, each primary followed by its replicas. While nobody has told who they are, one entry says
    /// why.
    pub nodes: Vec<NodeHealth>,
    /// Why a failover would not be noticed at the moment: no sentinel has answered when they were last asked. `None` where one
    /// has, and where there are none. Requests can succeed all the same.
    pub trouble: Option<String>,
    /// Holds that are believed.
    pub held: usize,
    /// Requests that wait in this process.
    pub waiting: usize,
    /// Whether the client is shut down, or about to be.
    pub is_shut_down: bool,
}

impl Health {
    /// Whether requests can be expected to succeed: every primary has answered, and the client is not shut down. A dead
    /// replica does not count: reads go elsewhere.
    pub fn is_ready(&self) -> bool {
        let mut primaries = self.nodes.iter().filter(|node| node.part == NodePart::Primary).peekable();
        !self.is_shut_down && primaries.peek().is_some() && primaries.all(NodeHealth::is_well)
    }
}

/// What a node is to the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NodePart {
    /// It decides.
    Primary,
    /// It copies a primary, and is read from.
    Replica,
}

/// How one node is.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct NodeHealth {
    /// Which.
    pub node: NodeId,
    /// What it is to the client.
    pub part: NodePart,
    /// Whether there is a connection that has answered its handshake.
    pub connected: bool,
    /// Which server process answers there; `None` without a connection, or where the user may not ask.
    pub run_id: Option<String>,
    /// How long it took to answer just now; `None` when it did not.
    pub round_trip: Option<Duration>,
    /// By how many microseconds the server's wall clock is ahead of this machine's, or a little less; `None` before the
    /// first contact. Nothing depends on it: a large one is a hint that a clock is wrong.
    pub clock_offset_micros: Option<i64>,
    /// What stands in the way, in the words of the server or the system.
    pub trouble: Option<String>,
    /// Whether the node refuses the password, user or certificate of this client, or its own
    /// certificate is refused. Calls end early with `Unauthorized` then.
    pub is_unauthorized: bool,
    /// Why RESP2 is spoken at this node. `None` where RESP3 is spoken, and where the setting `protocol`
    /// asks for RESP2.
    pub without_resp3: Option<String>,
    /// Whether it is a replica that is behind its primary by more than `max_replica_lag`, and left out of reads for that.
    pub is_behind: bool,
    /// Channels that are wanted at this node.
    pub channels: usize,
    /// Channels whose subscription the server has confirmed; the others are made up for by polling.
    pub subscribed: usize,
    /// Why a channel is not confirmed, in the server's words: for example, because the user may not
    /// subscribe. `None` where all are, or where none has been tried yet.
    pub subscription_trouble: Option<String>,
}

impl NodeHealth {
    /// Whether it has answered just now.
    pub fn is_well(&self) -> bool {
        self.round_trip.is_some()
    }
}

async fn ask(server: Arc<dyn Server>, part: NodePart, within: Duration, clock: &Clock, hub: &Hub) -> NodeHealth {
    let asked = clock.now();
    let ping = async {
        let answer = server.call(vec![Request::command("PING")]).await.pop();
        answer.unwrap_or_else(|| Err(ServerError::unknown("no result")))
    };
    let answer = tokio::time::timeout(within, ping).await;
    let now = clock.now();
    let trouble = match answer {
        Ok(Ok(_)) => None,
        // Who may not ask is answered all the same.
        Ok(Err(ServerError::Refused { code, .. })) if !code.is_passing() => None,
        Ok(Err(ServerError::NotSent { reason })) => Some(server.trouble().unwrap_or_else(|| reason.into_owned())),
        Ok(Err(ServerError::Unauthorized { message })) => Some(message),
        Ok(Err(error)) => Some(error.to_string()),
        Err(_) => Some(format!("no answer within {within:?}")),
    };
    let epoch = server.current_connection_id();
    let subscriptions = hub.subscriptions(server.id());
    NodeHealth {
        node: server.id().clone(),
        part,
        connected: epoch.is_some(),
        run_id: epoch.map(|epoch| epoch.run_id.to_string()).filter(|run_id| !run_id.is_empty()),
        round_trip: trouble.is_none().then(|| now.since(asked)),
        clock_offset_micros: server.time().at(now, now).and_then(ahead_of_here),
        trouble,
        is_unauthorized: matches!(*server.refusal().borrow(), Some(ServerError::Unauthorized { .. })),
        without_resp3: server.without_resp3(),
        is_behind: server.is_lagging(),
        channels: subscriptions.wanted,
        subscribed: subscriptions.confirmed,
        subscription_trouble: subscriptions.trouble.map(|error| error.to_string()),
    }
}

/// Two wall clocks compared, for humans.
fn ahead_of_here(server_micros: u64) -> Option<i64> {
    let here = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_micros();
    i64::try_from(i128::from(server_micros) - i128::try_from(here).ok()?).ok()
}
