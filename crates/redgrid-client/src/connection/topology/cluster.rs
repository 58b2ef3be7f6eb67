//! The topology of a cluster. The slot map is refreshed at every `scan_interval` and after topology
//! hints. Hints in quick succession cause one refresh.
//!
//! A MOVED redirect takes effect at once for its slot. The redirect also triggers a refresh, which
//! updates all other slots. A node is opened when a slot map or a redirect first names the node.
//! The node is closed once neither the current map nor a recent redirect names it.

mod refresh;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::lag::{self, Copies};
use super::map::{Known, Map};
use super::unknown_primary::UnknownPrimary;
use super::{close, listener, reader, shard};
use crate::clock::Instant;
use crate::config::{Address, ShardedSubscriptions};
use crate::connection::link::NodeRole;
use crate::connection::node::{Node, Nodes};
use crate::connection::slot::slot;
use crate::connection::{DeploymentKind, Server, ShardServers, Topology, TopologyHint};
use crate::sync::Mutex;

/// How long a node stays open after a redirect has named it, if no slot map names it: 30 s. The
/// migration of a slot takes less time.
const NAMED_FOR: Duration = Duration::from_secs(30);

/// How long a MOVED overrides the map: 1 s. Within that time, all nodes learn the new owner of the
/// slot.
const MOVED_FOR: Duration = Duration::from_secs(1);

/// Opens the topology of a cluster, and starts to query its seeds.
pub(super) fn open(seeds: &[Address], nodes: Nodes) -> Arc<Cluster> {
    let sharded = nodes.settings.sharded_subscriptions;
    nodes.sharded.store(sharded == ShardedSubscriptions::On, Ordering::Relaxed);
    let cluster = Arc::new(Cluster {
        nodes,
        seeds: seeds.to_vec(),
        unknown_primary: Arc::new(UnknownPrimary::new("no node of the cluster has answered yet")),
        map: Mutex::default(),
        doubts: Notify::new(),
        changes: watch::Sender::new(0),
        next_reader: AtomicUsize::new(0),
        refreshes: AtomicUsize::new(0),
        closed: AtomicBool::new(false),
        tasks: Mutex::default(),
    });
    for seed in seeds {
        cluster.node(&mut cluster.map.lock(), seed, NodeRole::Any, Instant::MAX);
    }
    cluster.tasks.lock().spawn(Arc::clone(&cluster).watch());
    if cluster.nodes.settings.uses_replicas() {
        let (of, changes) = (Arc::clone(&cluster), cluster.changes.clone());
        cluster.tasks.lock().spawn(lag::watch(cluster.nodes.clone(), move || of.copies(), changes));
    }
    cluster
}

pub(super) struct Cluster {
    nodes: Nodes,
    seeds: Vec<Address>,
    unknown_primary: Arc<UnknownPrimary>,
    map: Mutex<Map>,
    doubts: Notify,
    changes: watch::Sender<u64>,
    next_reader: AtomicUsize,
    refreshes: AtomicUsize,
    closed: AtomicBool,
    tasks: Mutex<JoinSet<()>>,
}

impl Cluster {
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Returns the node at an address; `None` once the cluster is closed.
    ///
    /// The node is opened if necessary, and replaced if its role has changed.
    fn node(&self, map: &mut Map, address: &Address, part: NodeRole, until: Instant) -> Option<Arc<Node>> {
        if let Some(known) = map.known.get_mut(address) {
            let is_replica = |part| part == NodeRole::ClusterReplica;
            if is_replica(known.part) == is_replica(part) {
                known.until = known.until.max(until);
                return Some(Arc::clone(&known.node));
            }
        }
        // The flag `closed` is checked while the map is locked. `close` sets the flag before it
        // locks the map, so `close` also closes a node that is opened here.
        if self.is_closed() {
            return None;
        }
        let node = self.nodes.open(address, part);
        let known = Known { node: Arc::clone(&node), part, until, missed_since: None };
        if let Some(former) = map.known.insert(address.clone(), known) {
            map.forget(&former.node);
            close(vec![former.node]);
        }
        Some(node)
    }

    fn copies(&self) -> Vec<Copies> {
        let map = self.map.lock();
        let copies = |primary: Arc<Node>| Copies { replicas: map.replicas_of(&primary).to_vec(), primary };
        map.owners().into_iter().map(copies).collect()
    }

    fn choose(&self, key: &[u8], choose: impl Fn(&Map, &Arc<Node>) -> Arc<dyn Server>) -> Arc<dyn Server> {
        let map = self.map.lock();
        match map.owner(slot(key)) {
            Some(primary) => choose(&map, primary),
            None => Arc::clone(&self.unknown_primary) as Arc<dyn Server>,
        }
    }
}

#[async_trait]
impl Topology for Cluster {
    fn primary(&self, key: &[u8]) -> Arc<dyn Server> {
        self.choose(key, |_, primary| Arc::clone(primary) as Arc<dyn Server>)
    }

    fn primaries(&self) -> Vec<Arc<dyn Server>> {
        let owners = self.map.lock().owners();
        if owners.is_empty() {
            return vec![Arc::clone(&self.unknown_primary) as Arc<dyn Server>];
        }
        owners.into_iter().map(|node| node as Arc<dyn Server>).collect()
    }

    fn kind(&self) -> DeploymentKind {
        DeploymentKind::Cluster
    }

    fn shards(&self) -> Vec<ShardServers> {
        let map = self.map.lock();
        map.owners().iter().map(|primary| shard(primary, map.slots_of(primary), map.replicas_of(primary))).collect()
    }

    fn reader(&self, key: &[u8]) -> Arc<dyn Server> {
        let mode = self.nodes.settings.read_mode;
        self.choose(key, |map, primary| reader(mode, &self.next_reader, primary, map.replicas_of(primary)))
    }

    fn listener(&self, key: &[u8]) -> Arc<dyn Server> {
        let mode = self.nodes.settings.subscription_mode;
        self.choose(key, |map, primary| listener(mode, key, primary, map.replicas_of(primary)))
    }

    fn slot(&self, key: &[u8]) -> u16 {
        slot(key)
    }

    fn is_sharded(&self) -> bool {
        self.nodes.sharded.load(Ordering::Relaxed)
    }

    fn at(&self, address: &Address) -> Option<Arc<dyn Server>> {
        let until = self.nodes.clock.now() + NAMED_FOR;
        Some(self.node(&mut self.map.lock(), address, NodeRole::Any, until)?)
    }

    fn suspect(&self, doubt: TopologyHint) {
        if let TopologyHint::Moved(slot, address) = &doubt {
            let until = self.nodes.clock.now() + MOVED_FOR;
            let mut map = self.map.lock();
            if let Some(known) = map.known.get(address) {
                let node = Arc::clone(&known.node);
                let is_news = map.owner(*slot).is_none_or(|owner| !Arc::ptr_eq(owner, &node));
                if is_news || map.moved.contains_key(slot) {
                    map.moved.insert(*slot, (node, until));
                }
                drop(map);
                if is_news {
                    self.changes.send_modify(|count| *count += 1);
                }
            }
        }
        if let TopologyHint::Node(id) | TopologyHint::Silent(id) = &doubt {
            let (map, now) = (self.map.lock(), self.nodes.clock.now());
            if map.known.values().any(|known| known.node.id() == id && known.is_searched(now)) {
                // Frequent refreshes are already running because of this node. No further refresh
                // is needed.
                return;
            }
        }
        self.doubts.notify_one();
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    async fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.tasks.lock().abort_all();
        let known = std::mem::take(&mut *self.map.lock());
        join_all(known.known.values().map(|known| known.node.close())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::slots::Range;
    use super::*;
    use crate::clock::Clock;
    use crate::config::{Config, ReadMode, Servers};

    /// Returns a cluster with addresses at which nothing listens.
    fn cluster() -> Arc<Cluster> {
        let config = Config::cluster(["127.0.0.1:1"]).unwrap().read_mode(ReadMode::Any);
        let nodes = Nodes::new(&config, &Clock::runtime()).unwrap();
        let Servers::Cluster(seeds) = &config.servers else { unreachable!() };
        open(seeds, nodes)
    }

    fn address(port: u16) -> Address {
        Address::new("127.0.0.1", port)
    }

    fn range(first: u16, last: u16, primary: u16, replicas: &[u16]) -> Range {
        Range { first, last, primary: address(primary), replicas: replicas.iter().map(|port| address(*port)).collect() }
    }

    /// Returns the address of a slot's owner. Panics if the owner's node was closed.
    fn owner(of: &Cluster, slot: u16) -> Option<Address> {
        let map = of.map.lock();
        let owner = map.owner(slot)?;
        let known = map.known.iter().find(|(_, known)| Arc::ptr_eq(&known.node, owner));
        Some(known.expect("a node that was not closed").0.clone())
    }

    fn replicas(of: &Cluster, primary: u16) -> Vec<Address> {
        let map = of.map.lock();
        let copies = map.replicas_of(&map.known[&address(primary)].node).to_vec();
        let address_of = |copy: &Arc<Node>| {
            let known = map.known.iter().find(|(_, known)| Arc::ptr_eq(&known.node, copy));
            known.expect("a node that was not closed").0.clone()
        };
        copies.iter().map(address_of).collect()
    }

    #[tokio::test]
    async fn slots_that_a_map_leaves_out_stay_for_a_while_and_their_replicas_with_them() {
        let cluster = cluster();
        cluster.apply(&[range(0, 99, 11, &[12]), range(100, 199, 21, &[22, 23])]);
        // Primary 21 has failed: the new map lists neither this node nor its replicas. It lists
        // some slots of primary 11 in two ranges.
        cluster.apply(&[range(20, 49, 11, &[12]), range(40, 60, 11, &[12])]);
        for (slot, port) in [(0, 11), (30, 11), (61, 11), (99, 11), (100, 21), (199, 21)] {
            assert_eq!(owner(&cluster, slot), Some(address(port)), "{slot}");
        }
        assert_eq!(owner(&cluster, 200), None);
        assert_eq!(replicas(&cluster, 11), [address(12)]);
        let mut kept = replicas(&cluster, 21);
        kept.sort_by_key(|address| address.port);
        assert_eq!(kept, [address(22), address(23)]);
        // Replica 22 is promoted. The new map does not list replica 23, so it is still regarded as
        // a replica of primary 21.
        cluster.apply(&[range(0, 99, 11, &[12]), range(100, 149, 22, &[])]);
        assert_eq!((owner(&cluster, 120), owner(&cluster, 150)), (Some(address(22)), Some(address(21))));
        assert_eq!(replicas(&cluster, 21), [address(23)]);
        cluster.close().await;
    }

    #[tokio::test]
    async fn slots_that_no_map_names_any_more_are_given_up() {
        let cluster = cluster();
        cluster.apply(&[range(0, 99, 11, &[])]);
        let now = cluster.nodes.clock.now();
        let later = now + Duration::from_secs(3600);
        cluster.apply(&[range(0, 9, 11, &[])]);
        {
            let map = cluster.map.lock();
            let left_out = |at| map.left_out(&[], at).iter().map(|kept| (kept.first, kept.last)).collect::<Vec<_>>();
            assert_eq!(left_out(now), [(0, 9), (10, 99)]);
            assert_eq!(left_out(later), [(0, 9)]);
        }
        cluster.close().await;
    }

    #[tokio::test]
    async fn a_slot_that_was_redirected_is_at_no_node_that_was_closed() {
        let cluster = cluster();
        cluster.apply(&[range(0, 99, 11, &[12])]);
        assert!(cluster.at(&address(12)).is_some());
        assert!(replicas(&cluster, 11).is_empty(), "it was opened anew as a primary");
        cluster.suspect(TopologyHint::Moved(5, address(12)));
        assert_eq!(owner(&cluster, 5), Some(address(12)));
        // An older map lists node 12 as a replica.
        cluster.apply(&[range(0, 99, 11, &[12])]);
        assert_eq!(owner(&cluster, 5), Some(address(11)));
        cluster.close().await;
    }

    #[tokio::test]
    async fn one_node_with_an_old_view_takes_no_slots_from_a_live_primary() {
        let cluster = cluster();
        let present = vec![range(0, 99, 11, &[12]), range(100, 199, 21, &[])];
        cluster.apply(&present);
        let now = cluster.nodes.clock.now();
        {
            let map = cluster.map.lock();
            let id = |port: u16| map.known[&address(port)].node.id().clone();
            let all = |_: &Node| true;
            for to in [12, 31] {
                // The map `old` gives slots of node 11 to a replica (12) or to an unknown node
                // (31).
                let old = vec![range(0, 89, to, &[]), range(90, 99, 11, &[]), range(100, 199, 21, &[])];
                assert_eq!(map.trusted(std::slice::from_ref(&old), now, all), None, "{to}");
                assert_eq!(map.trusted(&[old.clone(), present.clone()], now, all), Some(1));
                // The map `old` is trusted if another map gives these slots to the same node, or if
                // their previous owner, node 11, is silent.
                let another = vec![range(0, 99, to, &[]), range(150, 199, 41, &[])];
                assert_eq!(map.trusted(&[another.clone(), old.clone()], now, all), Some(1));
                assert_eq!(map.trusted(&[old], now, |node| *node.id() != id(11)), Some(0));
            }
            // Here node 21 gets the slots. It is a primary and answers, so the map is not doubtful.
            assert_eq!(map.trusted(&[vec![range(0, 199, 21, &[])]], now, all), Some(0));
        }
        cluster.close().await;
    }

    #[tokio::test]
    async fn one_node_alone_cannot_give_slots_back_to_a_recent_owner() {
        let cluster = cluster();
        let before = vec![range(0, 99, 11, &[]), range(100, 199, 21, &[])];
        cluster.apply(&before);
        cluster.apply(&[range(0, 49, 11, &[]), range(50, 199, 21, &[])]);
        let now = cluster.nodes.clock.now();
        {
            let map = cluster.map.lock();
            let maps = [before.clone(), before];
            assert_eq!(map.trusted(&maps[..1], now, |_| true), None);
            assert_eq!(map.trusted(&maps, now, |_| true), Some(0));
            assert_eq!(map.trusted(&maps[..1], now + Duration::from_secs(60), |_| true), Some(0));
        }
        cluster.close().await;
    }
}
