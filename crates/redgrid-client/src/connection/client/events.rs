//! Events of a client's connections, published to all receivers.
//!
//! For each node, a task watches the connection to the node, and publishes an event when the
//! connection comes up or is lost. There are two other kinds of events: a change of the topology,
//! and a subscription that is active again after an interruption. The code that detects such an
//! event also publishes it. The mutex in [`Events`] puts all events in one order.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::AbortHandle;

use crate::connection::views::Views;
use crate::connection::{Deployment, NodeId, Server};
use crate::count;
use crate::sync::Mutex;

/// Number of events that are buffered for a slow receiver: 256.
///
/// A failover in a cluster of fifty nodes causes fewer events than that. The buffer of each client
/// takes about ten kilobytes.
const KEPT: usize = 256;

/// An event of a client's connections, as [`Client::events`](crate::Client::events) reports it.
///
/// Events arrive in the order in which the client detected them. These guarantees hold:
///
/// - For each node, [`Connected`](ConnectionEvent::Connected) and [`Lost`](ConnectionEvent::Lost)
///   alternate, beginning with `Connected`. A receiver that is created later may see a `Lost`
///   first.
/// - While a node is lost, no [`Gap`](ConnectionEvent::Gap) of the node is reported. The `Gap`
///   follows the node's next `Connected`.
/// - The `Connected` of a new primary comes after its
///   [`PrimaryChanged`](ConnectionEvent::PrimaryChanged).
///
/// There is no guaranteed order between the events of different nodes. Two changes in quick
/// succession may be reported as one.
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
    /// The topology became known, or has a change other than a replaced primary: slots have moved,
    /// or nodes were added or removed.
    TopologyChanged,
    /// Subscriptions were interrupted, and are active again at this node.
    ///
    /// Messages that were published in the meantime may have been missed. Every waiter has been
    /// woken to poll.
    Gap {
        /// The node of the subscriptions.
        node: NodeId,
    },
    /// This receiver was too slow, so the oldest of its events were dropped. The next event is the
    /// first one after the dropped events.
    Missed {
        /// Number of dropped events.
        count: u64,
    },
}

/// Receives the events of a client; returned by [`Client::events`](crate::Client::events).
///
/// A receiver buffers up to 256 events. When more arrive, the oldest are dropped, and
/// [`ConnectionEvent::Missed`] contains their number. A slow receiver delays no other part of the
/// client.
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

pub(crate) struct Events(Mutex<State>);

struct State {
    /// `None` when the client has ended.
    sender: Option<broadcast::Sender<ConnectionEvent>>,
    nodes: HashMap<NodeId, Seen>,
    next: u64,
}

struct Seen {
    /// Number of the node's current watcher. Reports of earlier watchers are ignored.
    watcher: u64,
    is_up: bool,
    /// Whether a [`ConnectionEvent::Gap`] is to be published at the node's next `Connected`.
    gap: bool,
}

impl Events {
    pub(in crate::connection) fn new() -> Arc<Events> {
        let (sender, _) = broadcast::channel(KEPT);
        Arc::new(Events(Mutex::new(State { sender: Some(sender), nodes: HashMap::new(), next: 0 })))
    }

    pub(in crate::connection) fn receiver(&self) -> ConnectionEvents {
        let state = self.0.lock();
        ConnectionEvents(match &state.sender {
            Some(sender) => sender.subscribe(),
            None => broadcast::channel(1).1,
        })
    }

    /// Watches the connection of a node until the returned value is dropped. Calls `reconnected`
    /// after each new connection, because the node's server may have lost leases since the previous
    /// one.
    pub(in crate::connection) fn watch(
        self: &Arc<Self>,
        server: Arc<dyn Server>,
        reconnected: impl Fn(&Arc<dyn Server>) + Send + 'static,
    ) -> Watching {
        let node = server.id().clone();
        let mut state = self.0.lock();
        state.next += 1;
        let watcher = state.next;
        state.nodes.insert(node.clone(), Seen { watcher, is_up: false, gap: false });
        drop(state);
        count::node_added(&node);
        let task = tokio::spawn(watch(Arc::clone(self), watcher, Arc::clone(&server), reconnected)).abort_handle();
        Watching { events: Arc::clone(self), server, watcher, task }
    }

    fn connected(&self, node: &NodeId, watcher: u64, again: bool) {
        let mut state = self.0.lock();
        let Some(seen) = state.watched(node, watcher) else { return };
        seen.is_up = true;
        let gap = std::mem::take(&mut seen.gap);
        count::connected(again);
        state.publish(|| ConnectionEvent::Connected { node: node.clone() });
        if gap {
            state.publish(|| ConnectionEvent::Gap { node: node.clone() });
        }
    }

    fn lost(&self, node: &NodeId, watcher: u64, why: impl FnOnce() -> String) {
        let mut state = self.0.lock();
        let Some(seen) = state.watched(node, watcher) else { return };
        if std::mem::take(&mut seen.is_up) {
            count::disconnected();
            state.publish(|| ConnectionEvent::Lost { node: node.clone(), why: why() });
        }
    }

    /// Reports that subscriptions are active at a node after an interruption, or after they have
    /// moved there.
    pub(crate) fn gap(&self, node: &NodeId) {
        count::gap();
        let mut state = self.0.lock();
        match state.nodes.get_mut(node) {
            Some(seen) if !seen.is_up => seen.gap = true,
            _ => state.publish(|| ConnectionEvent::Gap { node: node.clone() }),
        }
    }

    pub(in crate::connection) fn changed(&self, views: &mut Views, now: Deployment) {
        let news = views.next(now);
        let state = self.0.lock();
        for event in news {
            count::topology_changed(&event);
            state.publish(|| event);
        }
    }

    pub(in crate::connection) fn close(&self) {
        self.0.lock().sender = None;
    }
}

impl State {
    fn watched(&mut self, node: &NodeId, watcher: u64) -> Option<&mut Seen> {
        self.nodes.get_mut(node).filter(|seen| seen.watcher == watcher)
    }

    /// Publishes an event. The event is built only if there is a receiver.
    fn publish(&self, event: impl FnOnce() -> ConnectionEvent) {
        if let Some(sender) = self.sender.as_ref().filter(|sender| sender.receiver_count() > 0) {
            let _ = sender.send(event());
        }
    }
}

/// A node that is watched. When this value is dropped, the node is reported as lost.
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
        self.events.lost(node, self.watcher, || "it is no longer used".into());
        count::node_removed(node);
        let mut state = self.events.0.lock();
        if state.watched(node, self.watcher).is_some() {
            state.nodes.remove(node);
        }
    }
}

async fn watch(
    events: Arc<Events>,
    watcher: u64,
    server: Arc<dyn Server>,
    reconnected: impl Fn(&Arc<dyn Server>) + Send,
) {
    let mut epoch = server.connection_id();
    let (mut last, mut again, mut is_first) = (None, false, true);
    loop {
        let present = epoch.borrow_and_update().clone();
        if present != last {
            // If the connection was lost and reopened before this poll, a `Lost` and then a
            // `Connected` are published.
            events.lost(server.id(), watcher, || server.trouble().unwrap_or_default());
            if present.is_some() {
                events.connected(server.id(), watcher, again);
                again = true;
                if !is_first {
                    reconnected(&server);
                }
            }
            last = present;
        }
        is_first = false;
        if epoch.changed().await.is_err() {
            // The node was closed and will not connect again. Dropping the [`Watching`] aborts this
            // task.
            return std::future::pending().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_slow_receiver_gets_the_number_of_missed_events() {
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
        events.0.lock().nodes.insert(node.clone(), Seen { watcher: 1, is_up: true, gap: false });
        events.lost(&node, 1, || "cut".into());
        events.gap(&node);
        events.connected(&node, 2, true);
        events.connected(&node, 1, true);
        assert_eq!(receiver.recv().await, Some(ConnectionEvent::Lost { node: node.clone(), why: "cut".into() }));
        assert_eq!(receiver.recv().await, Some(ConnectionEvent::Connected { node: node.clone() }));
        assert_eq!(receiver.recv().await, Some(ConnectionEvent::Gap { node }));
    }
}
