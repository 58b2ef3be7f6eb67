//! Options of a cluster, and its formation.

use std::time::Duration;

use crate::{
    builder::{Role, ServerBuilder},
    cluster::{Cluster, view::SLOTS},
    server::RedisServer,
    start_error::StartError,
    topology::{SETTLED_WITHIN, TopologyError, ask, member, start_all, until},
};

/// The options of a [`Cluster`], see [`Cluster::builder`].
#[derive(Debug, Clone)]
#[must_use = "does nothing until `start` is awaited"]
pub struct ClusterBuilder {
    primaries: usize,
    replicas_per_primary: usize,
    node_timeout: Duration,
    full_coverage: bool,
    options: ServerBuilder,
}

impl Default for ClusterBuilder {
    fn default() -> Self {
        Self {
            primaries: 3,
            replicas_per_primary: 1,
            node_timeout: Duration::from_millis(1500),
            full_coverage: false,
            options: ServerBuilder::default(),
        }
    }
}

impl ClusterBuilder {
    /// Sets the number of primaries, at least one. The default is 3: fewer primaries have no
    /// majority for a failover.
    pub fn primaries(mut self, count: usize) -> Self {
        self.primaries = count.max(1);
        self
    }

    /// Sets the number of replicas of each primary. The default is 1.
    pub fn replicas_per_primary(mut self, count: usize) -> Self {
        self.replicas_per_primary = count;
        self
    }

    /// Sets how long a node may be silent before the others consider it dead
    /// (`cluster-node-timeout`). The default is 1.5 s: a shorter time causes unwanted failovers on
    /// a loaded machine.
    pub fn node_timeout(mut self, silence: Duration) -> Self {
        self.node_timeout = silence;
        self
    }

    /// Sets whether all slots are refused while one of them has no primary
    /// (`cluster-require-full-coverage`). The default is `false`: a dead primary does not block the
    /// other primaries.
    pub fn full_coverage(mut self, required: bool) -> Self {
        self.full_coverage = required;
        self
    }

    /// Sets the options of every node. Replicas use the same password to log in.
    pub fn server_options(mut self, options: ServerBuilder) -> Self {
        self.options = options;
        self
    }

    /// Starts the nodes and forms the cluster. Returns once every node is healthy and every replica
    /// has caught up. This takes at least two seconds, because servers keep a new cluster closed
    /// for that long.
    ///
    /// # Errors
    ///
    /// [`StartError`]; no process is left running.
    pub async fn start(self) -> Result<Cluster, StartError> {
        let count = self.primaries * (1 + self.replicas_per_primary);
        let cluster = Cluster { nodes: start_all(vec![self.node().among_themselves()?; count]).await? };
        self.introduce(&cluster.nodes).await?;
        self.share_out_slots(&cluster.nodes).await?;
        self.assign_replicas(&cluster.nodes).await?;
        cluster.wait_until_ok().await?;
        Ok(cluster)
    }

    fn node(&self) -> ServerBuilder {
        let full_coverage = if self.full_coverage { "yes" } else { "no" };
        member(&self.options)
            .role(Role::ClusterNode)
            .config(format!("cluster-node-timeout {}", self.node_timeout.as_millis()))
            .config(format!("cluster-require-full-coverage {full_coverage}"))
            // A replica stays with its primary, and may take over however long it was disconnected.
            .config("cluster-allow-replica-migration no")
            .config("cluster-replica-validity-factor 0")
    }

    /// Gives every node its own epoch, which avoids conflicts, and the addresses of the others.
    async fn introduce(&self, nodes: &[RedisServer]) -> Result<(), TopologyError> {
        for (place, node) in nodes.iter().enumerate() {
            let observer = node.observer().await?;
            observer.cmd(&["CLUSTER", "SET-CONFIG-EPOCH", &(place + 1).to_string()]).await?;
            // Each node is introduced to all earlier ones: gossip alone takes seconds.
            for other in &nodes[..place] {
                let (ip, port) = (other.announced().ip().to_string(), other.announced().port().to_string());
                observer.cmd(&["CLUSTER", "MEET", &ip, &port]).await?;
            }
        }
        Ok(())
    }

    async fn share_out_slots(&self, nodes: &[RedisServer]) -> Result<(), TopologyError> {
        // Rounded as by `redis-cli --cluster create`.
        let first_of = |place: usize| (usize::from(SLOTS) * place + self.primaries / 2) / self.primaries;
        for (place, primary) in nodes[..self.primaries].iter().enumerate() {
            // Slots are listed singly, because Redis 6.2 does not support ranges here.
            let slots = (first_of(place)..first_of(place + 1)).map(|slot| slot.to_string());
            let command: Vec<String> = ["CLUSTER", "ADDSLOTS"].map(str::to_owned).into_iter().chain(slots).collect();
            primary.observer().await?.cmd(&command).await?;
        }
        Ok(())
    }

    async fn assign_replicas(&self, nodes: &[RedisServer]) -> Result<(), TopologyError> {
        let (primaries, replicas) = nodes.split_at(self.primaries);
        for (replica, primary) in replicas.iter().zip(primaries.iter().cycle()) {
            let id: String = primary.observer().await?.query(&["CLUSTER", "MYID"]).await?;
            // The replica rejects this command until it has met the primary.
            let command = ["CLUSTER", "REPLICATE", &id];
            until(SETTLED_WITHIN, || ask::<()>(replica, &command)).await?;
        }
        Ok(())
    }
}
