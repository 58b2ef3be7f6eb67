//! Events of a client's connections, published to all receivers.
//!
//! Each node has a task that watches its connection for requests. Topology changes and the ends of
//! interruptions are published by the code that causes them. One lock here gives all events their
//! order.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::AbortHandle;

use crate::connection::{Deployment, DeploymentKind, NodeId, Server, Shard};
use crate::observe::count;

/// Number of events that are buffered for a slow receiver: 256.
///
/// A failover of a cluster of fifty nodes publishes fewer. The buffer of each client takes some ten
/// kilobytes.
const KEPT: usize = 256;

/// An event of a client's connections; from [`Client::events`](crate::Client::events).
///
/// Events arrive in the order in which the client learned of them. These guarantees hold:
///
/// - For each node, [`Connected`](ConnectionEvent::Connected) and [`Lost`](ConnectionEvent::Lost) alternate, beginning
///   with `Connected`. A receiver that is created later may see a `Lost` first.
/// - A [`Gap`](ConnectionEvent::Gap) is never reported for a node that is lost. It follows the node's next
///   `Connected`.
/// - A new primary's `Connected` follows the [`PrimaryChanged`](ConnectionEvent::PrimaryChanged) that names
///   it.
///
/// There is no guaranteed order between different nodes. Two changes in quick succession may be
/// reported as one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionEvent {
    /// A node has answered its handshake and accepts requests.
    Connected {
        /// The node.
        node: NodeId,
    },
    /// The connection to a node was lost, or the client does not use the node any more.
    Lost {
        /// The node.
        node: NodeId,
        /// The reason, as reported by the server or the system.
        why: String,
    },
    /// A primary was replaced.
    PrimaryChanged {
        /// The former primary.
        from: NodeId,
        /// The new primary.
        to: NodeId,
    },
    /// The topology became known, or changed in another way: slots have moved, or nodes were added
    /// or removed.
    TopologyChanged,
    /// Subscriptions were interrupted and are active again, at this node.
    ///
    /// Messages of the time between may have been missed. Every waiter has been woken to poll.
    Gap {
        /// The node of the subscriptions.
        node: NodeId,
    },
    /// This receiver was too slow, and events before the next one were dropped.
    Missed {
        /// Number of dropped events.
        count: u64,
    },
}

/// Receives the events of a client; made by [`Client::events`](crate::Client::events).
///
/// It buffers up to 256 events. When more arrive, the oldest are dropped, and [`ConnectionEvent::Missed`]
/// contains their number. A slow receiver delays no other part of the client.
#[derive(Debug)]
pub struct ConnectionEvents(broadcast::Receiver<ConnectionEvent>);

impl ConnectionEvents {
    /// Waits for the next event; `None` when the client has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no event.
    pub async fn recv(&mut self) -> Option<ConnectionEvent> {
        match self.0.recv().await {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(count)) => Some(ConnectionEvent::Missed { count }),
            Err(RecvError::Closed) => None,
        }
    }
}

/// Publishes events in order.
pub(crate) struct Events(Mutex<State>);

struct State {
    /// `None` when the client has ended.
    sender: Option<broadcast::Sender<ConnectionEvent>>,
    nodes: HashMap<NodeId, Seen>,
    next: u64,
}

/// State of a node that is watched.
struct Seen {
    /// Number of the current watcher; others are ignored.
    watcher: u64,
    is_up: bool,
    /// An interruption is over but not published yet.
    gap: bool,
}

impl Events {
    pub(in crate::connection) fn new() -> Arc<Events> {
        let (sender, _) = broadcast::channel(KEPT);
        Arc::new(Events(Mutex::new(State { sender: Some(sender), nodes: HashMap::new(), next: 0 })))
    }

    pub(in crate::connection) fn receiver(&self) -> ConnectionEvents {
        let state = self.state();
        ConnectionEvents(match &state.sender {
            Some(sender) => sender.subscribe(),
            None => broadcast::channel(1).1,
        })
    }

    /// Watches the connection of a node until the result is dropped.
    pub(in crate::connection) fn watch(self: &Arc<Self>, server: Arc<dyn Server>) -> Watching {
        let node = server.id().clone();
        let mut state = self.state();
        state.next += 1;
        let watcher = state.next;
        state.nodes.insert(node.clone(), Seen { watcher, is_up: false, gap: false });
        drop(state);
        count::node_added();
        let task = tokio::spawn(watch(Arc::clone(self), watcher, Arc::clone(&server))).abort_handle();
        Watching { events: Arc::clone(self), server, watcher, task }
    }

    fn connected(&self, node: &NodeId, watcher: u64, again: bool) {
        let mut state = self.state();
        let Some(seen) = state.watched(node, watcher) else { return };
        seen.is_up = true;
        let gap = std::mem::take(&mut seen.gap);
        count::connected(again);
        state.tell(|| ConnectionEvent::Connected { node: node.clone() });
        if gap {
            state.tell(|| ConnectionEvent::Gap { node: node.clone() });
        }
    }

    fn lost(&self, node: &NodeId, watcher: u64, why: impl FnOnce() -> String) {
        let mut state = self.state();
        let Some(seen) = state.watched(node, watcher) else { return };
        if std::mem::take(&mut seen.is_up) {
            count::disconnected();
            state.tell(|| ConnectionEvent::Lost { node: node.clone(), why: why() });
        }
    }

    /// Reports that subscriptions of a node, or ones that have moved there, are active again.
    pub(crate) fn gap(&self, node: &NodeId) {
        count::gap();
        let mut state = self.state();
        match state.nodes.get_mut(node) {
            Some(seen) if !seen.is_up => seen.gap = true,
            _ => state.tell(|| ConnectionEvent::Gap { node: node.clone() }),
        }
    }

    /// Publishes the differences to the previous topology.
    pub(in crate::connection) fn changed(&self, views: &mut Views, now: Deployment) {
        let news = views.next(now);
        let state = self.state();
        for event in news {
            count::topology_changed(&event);
            state.tell(|| event);
        }
    }

    /// Stops publishing; receivers end.
    pub(in crate::connection) fn close(&self) {
        self.state().sender = None;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl State {
    fn watched(&mut self, node: &NodeId, watcher: u64) -> Option<&mut Seen> {
        self.nodes.get_mut(node).filter(|seen| seen.watcher == watcher)
    }

    /// Builds the event only if there is a receiver.
    fn tell(&self, event: impl FnOnce() -> ConnectionEvent) {
        if let Some(sender) = self.sender.as_ref().filter(|sender| sender.receiver_count() > 0) {
            let _ = sender.send(event());
        }
    }
}

/// A node that is watched. When it is dropped, the node counts as lost.
pub(in crate::connection) struct Watching {
    events: Arc<Events>,
    pub(in crate::connection) server: Arc<dyn Server>,
    watcher: u64,
    task: AbortHandle,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
        let node = self.server.id();
        self.events.lost(node, self.watcher, || "it is asked no more".into());
        count::node_removed();
        let mut state = self.events.state();
        if state.watched(node, self.watcher).is_some() {
            state.nodes.remove(node);
        }
    }
}

async fn watch(events: Arc<Events>, watcher: u64, server: Arc<dyn Server>) {
    let mut epoch = server.connection_id();
    let (mut last, mut again) = (None, false);
    loop {
        let present = epoch.borrow_and_update().clone();
        if present != last {
            // Lost and connected again before this poll: two events.
            events.lost(server.id(), watcher, || server.trouble().unwrap_or_default());
            if present.is_some() {
                events.connected(server.id(), watcher, again);
                again = true;
            }
            last = present;
        }
        if epoch.changed().await.is_err() {
            // Closed for good; the topology drops this watcher.
            return std::future::pending().await;
        }
    }
}

/// Compares each topology with the previous one.
pub(in crate::connection) struct Views {
    last: Deployment,
    /// New primaries that took slots of a primary that is still there, with that primary's former
    /// shard.
    ///
    /// A redirect reports one slot. It may be the first slot that moves, or the first sign that a
    /// primary was replaced.
    heirs: Vec<(NodeId, Shard)>,
}

impl Views {
    /// Creates the comparison, with no node known yet.
    pub(in crate::connection) fn new(kind: DeploymentKind) -> Views {
        Views { last: Deployment { kind, shards: Vec::new() }, heirs: Vec::new() }
    }

    /// Returns the events that lead from the previous topology to `now`.
    fn next(&mut self, now: Deployment) -> Vec<ConnectionEvent> {
        let before = std::mem::replace(&mut self.last, now);
        let now = &self.last;
        let mut events = Vec::new();
        let mut expected = before.shards.clone();
        for shard in expected.iter_mut().filter(|shard| now.shard(&shard.primary).is_none()) {
            let follows = |new: &&Shard| before.shard(&new.primary).is_none() && new.shares_slots(shard);
            let inherits = |new: &&Shard| {
                let is_its_heir = |(heir, of): &(NodeId, Shard)| {
                    *heir == new.primary && of.primary == shard.primary && new.serves_all_of(of)
                };
                self.heirs.iter().any(is_its_heir)
            };
            let new = now.shards.iter().find(follows).or_else(|| now.shards.iter().find(inherits));
            if let Some(new) = new {
                let from = std::mem::replace(&mut shard.primary, new.primary.clone());
                events.push(ConnectionEvent::PrimaryChanged { from, to: new.primary.clone() });
            }
        }
        if sorted(expected) != sorted(now.shards.clone()) {
            events.push(ConnectionEvent::TopologyChanged);
        }
        self.heirs.retain(|(heir, of)| now.shard(heir).is_some() && now.shard(&of.primary).is_some());
        for new in now.shards.iter().filter(|new| before.shard(&new.primary).is_none()) {
            let former = before.shards.iter().filter(|of| now.shard(&of.primary).is_some() && new.shares_slots(of));
            self.heirs.extend(former.map(|of| (new.primary.clone(), of.clone())));
        }
        events
    }
}

fn sorted(mut shards: Vec<Shard>) -> Vec<Shard> {
    shards.iter_mut().for_each(|shard| shard.replicas.sort());
    shards.sort_by(|one, other| one.primary.cmp(&other.primary));
    shards
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shard(primary: &str, slots: &[(u16, u16)], replicas: &[&str]) -> Shard {
        let id = |name: &&str| NodeId((*name).into());
        let slots = slots.iter().map(|(first, last)| *first..=*last).collect();
        Shard { primary: id(&primary), slots, replicas: replicas.iter().map(id).collect() }
    }

    fn cluster(shards: &[Shard]) -> Deployment {
        Deployment { kind: DeploymentKind::Cluster, shards: shards.to_vec() }
    }

    fn changed(from: &str, to: &str) -> ConnectionEvent {
        ConnectionEvent::PrimaryChanged { from: NodeId(from.into()), to: NodeId(to.into()) }
    }

    fn differences(before: &Deployment, after: &Deployment) -> Vec<ConnectionEvent> {
        Views { last: before.clone(), heirs: Vec::new() }.next(after.clone())
    }

    #[test]
    fn a_replaced_primary_is_no_other_change() {
        let before = cluster(&[shard("a", &[(0, 99)], &[]), shard("b", &[(100, 199)], &[])]);
        let after = cluster(&[shard("b", &[(100, 199)], &[]), shard("c", &[(0, 99)], &[])]);
        assert_eq!(differences(&before, &after), [changed("a", "c")]);
        assert_eq!(differences(&after, &after), []);
        let single = |name| Deployment { kind: DeploymentKind::Sentinel, shards: vec![shard(name, &[], &[])] };
        assert_eq!(differences(&single("a"), &single("b")), [changed("a", "b")]);
    }

    #[test]
    fn each_successor_has_the_slots_of_its_predecessor() {
        let before = cluster(&[shard("a", &[(0, 99)], &[]), shard("b", &[(100, 199)], &[])]);
        let after = cluster(&[shard("c", &[(100, 199)], &[]), shard("d", &[(0, 99)], &[])]);
        assert_eq!(differences(&before, &after), [changed("a", "d"), changed("b", "c")]);
    }

    #[test]
    fn slots_nodes_and_replicas_are_the_topology() {
        let before = cluster(&[shard("a", &[(0, 99)], &["x"]), shard("b", &[(100, 199)], &[])]);
        let moved = cluster(&[shard("a", &[(0, 98)], &["x"]), shard("b", &[(99, 199)], &[])]);
        let grown = cluster(&[shard("a", &[(0, 99)], &["x"]), shard("b", &[(100, 149)], &[]), shard("c", &[], &[])]);
        let bare = cluster(&[shard("a", &[(0, 99)], &[]), shard("b", &[(100, 199)], &[])]);
        for after in [&moved, &grown, &bare, &cluster(&[])] {
            assert_eq!(differences(&before, after), [ConnectionEvent::TopologyChanged]);
            assert_eq!(differences(after, &before), [ConnectionEvent::TopologyChanged]);
        }
        // A promoted replica causes both: a new primary, and one replica less.
        let promoted = cluster(&[shard("x", &[(0, 99)], &[]), shard("b", &[(100, 199)], &[])]);
        assert_eq!(differences(&before, &promoted), [changed("a", "x"), ConnectionEvent::TopologyChanged]);
    }

    #[test]
    fn a_primary_that_is_replaced_slot_by_slot_is_replaced_once() {
        let mut views = Views::new(DeploymentKind::Cluster);
        let before = cluster(&[shard("a", &[(0, 99)], &[]), shard("b", &[(100, 199)], &[])]);
        let first =
            cluster(&[shard("a", &[(0, 49), (51, 99)], &[]), shard("c", &[(50, 50)], &[]), before.shards[1].clone()]);
        let after = cluster(&[before.shards[1].clone(), shard("c", &[(0, 99)], &[])]);
        assert_eq!(views.next(before.clone()), [ConnectionEvent::TopologyChanged]);
        assert_eq!(views.next(first), [ConnectionEvent::TopologyChanged]);
        assert_eq!(views.next(after), [changed("a", "c"), ConnectionEvent::TopologyChanged]);
        assert!(views.heirs.is_empty());
        // A primary whose slots went to several others was given up, not replaced.
        let first = cluster(&[shard("c", &[(0, 49)], &[]), shard("d", &[(50, 99)], &[]), before.shards[1].clone()]);
        let parted = cluster(&[shard("d", &[(50, 99)], &[]), shard("b", &[(0, 49), (100, 199)], &[])]);
        assert_eq!(views.next(first), [ConnectionEvent::TopologyChanged]);
        assert_eq!(views.next(parted), [ConnectionEvent::TopologyChanged]);
    }

    #[tokio::test]
    async fn a_slow_reader_is_told_how_much_it_missed() {
        let events = Events::new();
        let mut receiver = events.receiver();
        let node = NodeId("a".into());
        for _ in 0..KEPT + 10 {
            events.gap(&node);
        }
        assert_eq!(receiver.recv().await, Some(ConnectionEvent::Missed { count: 10 }));
        for _ in 0..KEPT {
            assert_eq!(receiver.recv().await, Some(ConnectionEvent::Gap { node: node.clone() }));
        }
        events.close();
        assert_eq!(receiver.recv().await, None);
        assert_eq!(events.receiver().recv().await, None);
    }

    #[tokio::test]
    async fn a_gap_waits_for_the_connection() {
        let events = Events::new();
        let mut receiver = events.receiver();
        let node = NodeId("a".into());
        events.state().nodes.insert(node.clone(), Seen { watcher: 1, is_up: true, gap: false });
        events.lost(&node, 1, || "cut".into());
        events.gap(&node);
        events.connected(&node, 2, true);
        events.connected(&node, 1, true);
        assert_eq!(receiver.recv().await, Some(ConnectionEvent::Lost { node: node.clone(), why: "cut".into() }));
        assert_eq!(receiver.recv().await, Some(ConnectionEvent::Connected { node: node.clone() }));
        assert_eq!(receiver.recv().await, Some(ConnectionEvent::Gap { node }));
    }
}
