//! A cluster: several primaries with replicas; each primary serves a part of the keys.

mod builder;
mod migration;
mod view;

use std::net::SocketAddr;
use std::time::Duration;

pub use builder::ClusterBuilder;

use crate::{
    cluster::view::{Member, members},
    server::RedisServer,
    start_error::StartError,
    topology::{self, SETTLED_WITHIN, TopologyError, ask, follows, running, until},
};

/// Servers silently abandon a planned failover after 5 s; after this time it is requested again.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(6);

/// A cluster of primaries and replicas. The 16384 slots are distributed evenly among the primaries.
///
/// Each node is a [`RedisServer`] with all its faults; a node remains a member after each of them.
/// If a primary is down or paused for longer than the node timeout, one of its replicas replaces
/// it. When the old primary is back, it becomes a replica. [`wait_until_ok`](Self::wait_until_ok)
/// waits for both changes.
///
/// # Examples
///
/// ```no_run
/// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_testkit::Cluster;
///
/// let cluster = Cluster::start(3, 1).await?;
/// let slot = cluster.slot_of("a").await?;
/// cluster.primary_of(slot).await?.kill().await?;
/// cluster.wait_until_ok().await?; // a replica has taken over
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<RedisServer>,
}

impl Cluster {
    /// Starts a cluster, and returns once every node is healthy and every replica has caught up.
    ///
    /// # Errors
    ///
    /// As for [`ClusterBuilder::start`].
    pub async fn start(primaries: usize, replicas_per_primary: usize) -> Result<Self, StartError> {
        Self::builder().primaries(primaries).replicas_per_primary(replicas_per_primary).start().await
    }

    /// Returns a builder for options; [`ClusterBuilder::start`] then starts the nodes.
    pub fn builder() -> ClusterBuilder {
        ClusterBuilder::default()
    }

    /// Returns all nodes: first those that were primaries at the start, in the order of their
    /// slots, then the replicas.
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// Returns the announced addresses of all nodes.
    pub fn addrs(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(RedisServer::announced).collect()
    }

    /// Returns the node that listens on `addr`, for example one named by a `MOVED`.
    pub fn node_at(&self, addr: SocketAddr) -> Option<&RedisServer> {
        topology::at(&self.nodes, addr)
    }

    /// Returns `redis-cluster://host:port,…` with all nodes, and the password if there is one.
    pub fn url(&self) -> String {
        topology::url("cluster", &self.nodes[0], &self.nodes)
    }

    /// Returns the slot of a key, from 0 to 16383.
    ///
    /// # Errors
    ///
    /// [`TopologyError::TimedOut`]: for four minutes no node answered.
    pub async fn slot_of(&self, key: &str) -> Result<u16, TopologyError> {
        until(SETTLED_WITHIN, || async { ask(self.any_running()?, &["CLUSTER", "KEYSLOT", key]).await }).await
    }

    /// Returns the running primary that serves `slot`. During a failover, this method waits for the
    /// new primary.
    ///
    /// # Errors
    ///
    /// [`TopologyError::TimedOut`]: for four minutes no running primary served the slot.
    pub async fn primary_of(&self, slot: u16) -> Result<&RedisServer, TopologyError> {
        until(SETTLED_WITHIN, || async {
            let mut latest = None;
            for (node, own) in self.views().await?.iter().filter_map(|(node, view)| Some((node, view::own(view)?))) {
                // A primary that was replaced while it was paused briefly claims its slots, with an
                // older epoch.
                if own.serves(slot) && latest.is_none_or(|(_, epoch)| own.epoch > epoch) {
                    latest = Some((*node, own.epoch));
                }
            }
            latest.map(|(node, _)| node).ok_or_else(|| format!("a running primary of slot {slot}"))
        })
        .await
    }

    /// Returns the running replicas of a primary.
    ///
    /// # Errors
    ///
    /// [`TopologyError::TimedOut`]: for four minutes one of the nodes did not answer.
    pub async fn replicas_of(&self, primary: &RedisServer) -> Result<Vec<&RedisServer>, TopologyError> {
        until(SETTLED_WITHIN, || async {
            let id: String = ask(primary, &["CLUSTER", "MYID"]).await?;
            let views = self.views().await?;
            let follows = |view: &[Member]| view::own(view).is_some_and(|own| own.primary.as_ref() == Some(&id));
            Ok(views.iter().filter(|(_, view)| follows(view)).map(|(node, _)| *node).collect())
        })
        .await
    }

    /// Promotes a replica of the running `primary`, and returns that replica when the cluster has
    /// settled as in [`wait_until_ok`](Self::wait_until_ok). No write is lost.
    ///
    /// # Errors
    ///
    /// [`TopologyError::NoReplica`]; or [`TopologyError::Server`] if the replica rejects the
    /// request. In these two cases nothing changes. [`TopologyError::TimedOut`]: four minutes were
    /// not enough.
    pub async fn fail_over(&self, primary: &RedisServer) -> Result<&RedisServer, TopologyError> {
        let replicas = self.replicas_of(primary).await?;
        let none = TopologyError::NoReplica { primary: primary.addr() };
        let successor = replicas.first().copied().ok_or(none)?;
        let observer = successor.observer().await?;
        observer.cmd(&["CLUSTER", "FAILOVER"]).await?;
        for _ in 1..SETTLED_WITHIN.as_secs() / GIVEN_UP_AFTER.as_secs() {
            if until(GIVEN_UP_AFTER, || follows(primary, successor)).await.is_ok() {
                break;
            }
            // A replica rejects this command if the failover has happened meanwhile.
            let _ = observer.cmd(&["CLUSTER", "FAILOVER"]).await;
        }
        until(GIVEN_UP_AFTER, || follows(primary, successor)).await?;
        self.wait_until_ok().await?;
        Ok(successor)
    }

    /// Waits until all running nodes have settled: every node is healthy, all agree on the primary
    /// of each slot, no node is suspected to be down, and the replicas have caught up.
    ///
    /// # Errors
    ///
    /// [`TopologyError::TimedOut`] after four minutes.
    pub async fn wait_until_ok(&self) -> Result<(), TopologyError> {
        until(SETTLED_WITHIN, || self.settled()).await
    }

    async fn settled(&self) -> Result<(), String> {
        let views = self.views().await?;
        let running: Vec<SocketAddr> = views.iter().map(|(node, _)| node.addr()).collect();
        let map = views.first().map(|(_, view)| view::owners(view)).ok_or("a running node")?;
        for (node, view) in &views {
            view::check(view, self.nodes.len(), &running)
                .map_err(|missing| format!("{} sees {missing}", node.addr()))?;
            if view::owners(view) != map {
                return Err(format!("{} and {} agreeing about the slots", node.addr(), running[0]));
            }
            let info: String = ask(node, &["CLUSTER", "INFO"]).await?;
            if !info.lines().any(|line| line == "cluster_state:ok") {
                return Err(format!("{} saying cluster_state:ok", node.addr()));
            }
            let primary = view::own(view).and_then(|own| own.primary.as_ref());
            if let Some(primary) = primary.and_then(|id| view.iter().find(|member| member.id == *id)) {
                let primary = primary.addr.and_then(|addr| self.node_at(addr)).ok_or("an address of every primary")?;
                follows(node, primary).await?;
            }
        }
        Ok(())
    }

    /// Returns the cluster as each running node sees it.
    async fn views(&self) -> Result<Vec<(&RedisServer, Vec<Member>)>, String> {
        let mut views = Vec::new();
        for node in running(&self.nodes) {
            views.push((node, members(&ask::<String>(node, &["CLUSTER", "NODES"]).await?)));
        }
        Ok(views)
    }

    fn any_running(&self) -> Result<&RedisServer, String> {
        running(&self.nodes).first().copied().ok_or_else(|| "a running node".to_owned())
    }
}
