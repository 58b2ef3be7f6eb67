//! Deployments of each kind, their clients, and names in chosen slots.

use std::ops::RangeInclusive;

use futures_util::future::join_all;
use redgrid_core::{Client, Config};
use redgrid_testkit::{Cluster, RedisServer, Replicated, Sentinels};
pub(crate) use redgrid_tests::topology::{Topology, by_list, by_seeds, by_sentinels, connected};

/// Running servers.
pub(crate) enum Deployment {
    Single(RedisServer),
    MasterSlave(Replicated),
    Sentinel(Sentinels),
    Cluster(Cluster),
}

impl Deployment {
    /// Starts one server; one replica; three sentinels and two replicas; or three primaries with a
    /// replica each.
    pub(crate) async fn start(topology: Topology) -> Self {
        match topology {
            Topology::Single => Deployment::Single(RedisServer::start().await.expect("it starts")),
            Topology::MasterSlave => Deployment::MasterSlave(Replicated::start(1).await.expect("it starts")),
            Topology::Sentinel => Deployment::Sentinel(Sentinels::start().await.expect("it starts")),
            Topology::Cluster => Deployment::Cluster(Cluster::start(3, 1).await.expect("it starts")),
        }
    }

    pub(crate) fn config(&self) -> Config {
        match self {
            Deployment::Single(server) => Config::single(server.addr().to_string()).expect("an address"),
            Deployment::MasterSlave(replicated) => by_list(replicated),
            Deployment::Sentinel(sentinels) => by_sentinels(sentinels),
            Deployment::Cluster(cluster) => by_seeds(cluster),
        }
    }

    /// Returns all servers with data.
    pub(crate) fn servers(&self) -> &[RedisServer] {
        match self {
            Deployment::Single(server) => std::slice::from_ref(server),
            Deployment::MasterSlave(replicated) => replicated.servers(),
            Deployment::Sentinel(sentinels) => sentinels.servers(),
            Deployment::Cluster(cluster) => cluster.nodes(),
        }
    }

    /// Returns the primaries, before any failover.
    pub(crate) fn primaries(&self) -> &[RedisServer] {
        let count = if matches!(self, Deployment::Cluster(_)) { 3 } else { 1 };
        &self.servers()[..count]
    }

    pub(crate) fn sentinels(&self) -> &[RedisServer] {
        if let Deployment::Sentinel(sentinels) = self { sentinels.sentinels() } else { &[] }
    }
}

/// Returns this many names `prefix:…` whose slots are in a range.
pub(crate) async fn names_in(cluster: &Cluster, slots: RangeInclusive<u16>, prefix: &str, count: usize) -> Vec<String> {
    let observer = cluster.nodes()[0].observer().await.expect("the node answers");
    let mut names = Vec::with_capacity(count);
    for number in 0.. {
        if names.len() == count {
            break;
        }
        let name = format!("{prefix}:{number}");
        let slot: u16 = observer.query(&["CLUSTER", "KEYSLOT", &name]).await.expect("the node answers");
        names.extend(slots.contains(&slot).then_some(name));
    }
    names
}

/// The initial slots of three primaries, as `redis-cli --cluster create` assigns them.
pub(crate) const THIRDS: [RangeInclusive<u16>; 3] = [0..=5460, 5461..=10922, 10923..=16383];

/// Holds names with renewals until the result is dropped.
pub(crate) async fn hold(
    client: &Client,
    names: &[String],
    lease: std::time::Duration,
) -> Vec<redgrid_locks::LockGuard> {
    let taken =
        names.iter().map(|name| redgrid_locks::Lock::new(client, name).acquire().auto_renew(lease).into_future());
    join_all(taken).await.into_iter().map(|taken| taken.expect("a free name is granted")).collect()
}
