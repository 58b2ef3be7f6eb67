//! A snapshot of the topology.

use std::fmt;
use std::ops::RangeInclusive;

use crate::connection::{NodeId, Topology};

/// A snapshot of the topology as a client knows it; returned by
/// [`Client::topology`](crate::Client::topology).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deployment {
    /// The kind of the deployment.
    pub kind: DeploymentKind,
    /// The primaries with their slots and replicas; empty while they are unknown.
    pub shards: Vec<Shard>,
}

/// How the servers of a deployment work together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeploymentKind {
    /// One server.
    Single,
    /// A fixed primary with replicas.
    MasterSlave,
    /// A list of nodes. One of them is the primary.
    Replicated,
    /// One primary. Sentinels report its address.
    Sentinel,
    /// Several primaries. Each of them serves a part of the slots.
    Cluster,
}

impl fmt::Display for DeploymentKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeploymentKind::Single => "single",
            DeploymentKind::MasterSlave => "master-slave",
            DeploymentKind::Replicated => "replicated",
            DeploymentKind::Sentinel => "sentinel",
            DeploymentKind::Cluster => "cluster",
        })
    }
}

/// A primary with its slots and replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shard {
    /// The primary.
    pub primary: NodeId,
    /// The slots that the primary serves, in order. Empty if the deployment is no cluster: the
    /// primary then serves every key.
    pub slots: Vec<RangeInclusive<u16>>,
    /// The replicas that the client uses for reads or subscriptions.
    ///
    /// Empty if the client uses primaries only (`read_mode`, `subscription_mode`).
    pub replicas: Vec<NodeId>,
}

impl Shard {
    /// Returns whether the two shards have a slot in common. Outside a cluster this is always true,
    /// because each shard serves every key.
    pub(in crate::connection) fn shares_slots(&self, other: &Shard) -> bool {
        let overlap = |one: &RangeInclusive<u16>, other: &RangeInclusive<u16>| {
            one.start() <= other.end() && other.start() <= one.end()
        };
        let both_serve_all = self.slots.is_empty() && other.slots.is_empty();
        both_serve_all || self.slots.iter().any(|one| other.slots.iter().any(|other| overlap(one, other)))
    }

    /// Returns whether this shard serves every slot of `other`.
    pub(in crate::connection) fn serves_all_of(&self, other: &Shard) -> bool {
        // The ranges of one shard do not touch each other. So each range of `other` must lie within
        // one range of this shard.
        let is_covered = |inner: &RangeInclusive<u16>| {
            self.slots.iter().any(|outer| outer.start() <= inner.start() && inner.end() <= outer.end())
        };
        other.slots.iter().all(is_covered)
    }
}

impl Deployment {
    /// Returns the shard of a primary; `None` if the node is not a primary.
    pub fn shard(&self, primary: &NodeId) -> Option<&Shard> {
        self.shards.iter().find(|shard| shard.primary == *primary)
    }

    pub(in crate::connection) fn of(topology: &dyn Topology) -> Deployment {
        let shards = topology.shards().into_iter().map(|shard| Shard {
            primary: shard.primary.id().clone(),
            slots: shard.slots,
            replicas: shard.replicas.iter().map(|replica| replica.id().clone()).collect(),
        });
        Deployment { kind: topology.kind(), shards: shards.collect() }
    }
}
