//! Who serves what, as a value.

use std::fmt;
use std::ops::RangeInclusive;

use super::{NodeId, Topology};

/// Who serves what, as a client knows it at one moment; from [`Client::topology`](crate::Client::topology).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deployment {
    /// What kind of deployment it is.
    pub kind: DeploymentKind,
    /// The primaries with what belongs to them; none while nobody has told who they are.
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
    /// A list of nodes, of which one is the primary.
    Replicated,
    /// A primary that sentinels name.
    Sentinel,
    /// Primaries that share the slots among them.
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

/// A primary, and what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shard {
    /// The primary.
    pub primary: NodeId,
    /// The slots that it serves, in order; none outside a cluster, where it serves everything.
    pub slots: Vec<RangeInclusive<u16>>,
    /// The replicas that the client reads from or listens to; none where it has to do with primaries only (`read_mode`,
    /// `subscription_mode`).
    pub replicas: Vec<NodeId>,
}

impl Shard {
    /// Whether there is a slot that both serve. Outside a cluster each serves everything.
    pub(super) fn shares_slots(&self, other: &Shard) -> bool {
        let overlap = |one: &RangeInclusive<u16>, other: &RangeInclusive<u16>| {
            one.start() <= other.end() && other.start() <= one.end()
        };
        let both_serve_all = self.slots.is_empty() && other.slots.is_empty();
        both_serve_all || self.slots.iter().any(|one| other.slots.iter().any(|other| overlap(one, other)))
    }

    /// Whether it serves every slot that the other does.
    pub(super) fn serves_all_of(&self, other: &Shard) -> bool {
        // Ranges of one shard do not touch, so each of the other's lies within one of these.
        let within = |inner: &RangeInclusive<u16>| {
            self.slots.iter().any(|outer| outer.start() <= inner.start() && inner.end() <= outer.end())
        };
        other.slots.iter().all(within)
    }
}

impl Deployment {
    /// What belongs to a primary, if it is one.
    pub fn shard(&self, primary: &NodeId) -> Option<&Shard> {
        self.shards.iter().find(|shard| shard.primary == *primary)
    }

    pub(super) fn of(topology: &dyn Topology) -> Deployment {
        let shards = topology.shards().into_iter().map(|shard| Shard {
            primary: shard.primary.id().clone(),
            slots: shard.slots,
            replicas: shard.replicas.iter().map(|replica| replica.id().clone()).collect(),
        });
        Deployment { kind: topology.kind(), shards: shards.collect() }
    }
}
