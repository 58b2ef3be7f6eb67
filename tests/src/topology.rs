//! The kinds of deployments, and their client configurations.

use std::fmt;

use redgrid_core::{Client, Config};
use redgrid_testkit::{Cluster, Replicated, Sentinels};

use crate::{SOON, protocol};

/// How the servers of a deployment are related.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One server.
    Single,
    /// A primary with replicas, without automatic failover.
    MasterSlave,
    /// A primary with replicas and sentinels.
    Sentinel,
    /// Several primaries, with replicas or without.
    Cluster,
}

impl Topology {
    /// All topologies.
    pub const ALL: [Topology; 4] = [Topology::Single, Topology::MasterSlave, Topology::Sentinel, Topology::Cluster];
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Topology::Single => "single",
            Topology::MasterSlave => "master_slave",
            Topology::Sentinel => "sentinel",
            Topology::Cluster => "cluster",
        })
    }
}

/// Returns the configuration of a sentinel deployment.
pub fn by_sentinels(sentinels: &Sentinels) -> Config {
    let addresses = sentinels.addrs().into_iter().map(|addr| addr.to_string());
    Config::sentinel(sentinels.master_name(), addresses).expect("addresses")
}

/// Returns the configuration of a cluster, with its first two nodes as seeds.
pub fn by_seeds(cluster: &Cluster) -> Config {
    Config::cluster(cluster.addrs().into_iter().take(2).map(|addr| addr.to_string())).expect("addresses")
}

/// Returns the configuration of a primary with replicas.
pub fn by_list(replicated: &Replicated) -> Config {
    let replicas = replicated.replicas().iter().map(|replica| replica.addr().to_string());
    Config::master_slave(replicated.primary().addr().to_string(), replicas).expect("addresses")
}

/// Returns a connected client.
pub async fn connected(config: Config) -> Client {
    let client = Client::connect(config.protocol(protocol())).await.expect("a valid configuration");
    client.wait_ready(SOON).await.expect("the servers answer");
    client
}
