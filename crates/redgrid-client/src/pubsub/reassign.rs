//! Chooses the node where each channel is subscribed, and moves channels when that node changes.

use std::sync::Arc;

use super::channel::{ChannelScope, SubscriptionState};
use super::manager::{State, SubscriptionManager};
use super::node::NodeTask;
use super::poll::UNSUBSCRIBED_POLL;
use crate::connection::{ChannelKind, NodeId, Server, is_same};

impl SubscriptionManager {
    /// Returns the kind of a channel with this scope.
    pub(super) fn kind_of(&self, scope: ChannelScope) -> ChannelKind {
        match scope {
            ChannelScope::Slot | ChannelScope::SlotPrimary if self.topology.is_sharded() => ChannelKind::Sharded,
            ChannelScope::Everywhere | ChannelScope::Slot | ChannelScope::SlotPrimary => ChannelKind::Plain,
            ChannelScope::Sharded => ChannelKind::Sharded,
            ChannelScope::Patterns => ChannelKind::Patterns,
            ChannelScope::Node => ChannelKind::Events,
        }
    }

    /// Returns the node where a channel is to be subscribed, and the primary of its key.
    ///
    /// Returns `None` if the channel belongs to a node that is gone. Only channels with the scope
    /// [`ChannelScope::Slot`] can be subscribed at a replica. The channels for notices of forced
    /// takeovers, for example, are always subscribed at the primary. A replica that has failed may
    /// deliver nothing until its failure is detected, and no poll makes up for a lost notice.
    pub(super) fn nodes_for(&self, key: &[u8], scope: ChannelScope) -> Option<(Arc<dyn Server>, Arc<dyn Server>)> {
        if scope == ChannelScope::Node {
            let node = self.topology.primaries().into_iter().find(|node| node.id().0.as_bytes() == key)?;
            return Some((Arc::clone(&node), node));
        }
        let primary = self.topology.primary(key);
        Some((if scope == ChannelScope::Slot { self.topology.listener(key) } else { Arc::clone(&primary) }, primary))
    }

    /// Moves every channel to the node where it belongs in the current topology.
    pub(crate) fn reassign(self: &Arc<Self>) {
        let now = self.clock.now();
        let mut state = self.state.lock();
        if state.closed {
            return;
        }
        let moves: Vec<_> = state
            .channels
            .iter()
            .filter_map(|(name, channel)| {
                let (server, primary) = self.nodes_for(&channel.key, channel.scope)?;
                let kind = self.kind_of(channel.scope);
                let is_at = |id: &NodeId, node: &Arc<dyn Server>| {
                    state.node_tasks.get(id).is_some_and(|node_task| is_same(&node_task.subscriptions.server, node))
                };
                // If the primary of the key has changed, the channel is treated as moved, even if
                // it stays at the same replica. That replica may have ended sharded subscriptions
                // for slots of its former primary.
                let same_primary = is_at(&channel.primary, &primary);
                let unchanged = is_at(&channel.node, &server) && same_primary && channel.kind == kind;
                (!unchanged).then(|| (name.clone(), server, primary, same_primary, kind))
            })
            .collect();
        for (name, server, primary, same_primary, kind) in moves {
            let State { channels, node_tasks, denied, .. } = &mut *state;
            let Some(channel) = channels.get_mut(&name) else { continue };
            if let Some((poll, node_task)) = channel.poll.as_ref().zip(node_tasks.get_mut(&channel.primary)) {
                node_task.desired.polls.remove(&(poll.due, name.clone()));
            }
            let previous = node_tasks.get_mut(&channel.node);
            let mut interrupted = channel.subscription == SubscriptionState::Active;
            if let Some(NodeTask { subscriptions, desired, .. }) = previous {
                interrupted |= desired.interrupted;
                desired.remove(&name);
                // A sharded subscription at a primary ends by itself when its slot leaves that
                // primary. All other subscriptions must be ended here, also sharded ones at a
                // replica.
                let must_unsubscribe =
                    channel.kind != ChannelKind::Sharded || same_primary || channel.node != channel.primary;
                if channel.may_be_subscribed() && must_unsubscribe {
                    desired.to_unsubscribe_moved.insert((channel.kind, name.clone()));
                    subscriptions.desired_changed.notify_one();
                }
            }
            denied.remove(&name);
            if channel.watchers.is_empty() {
                channels.remove(&name);
                continue;
            }
            (channel.node, channel.primary) = (server.id().clone(), primary.id().clone());
            (channel.kind, channel.subscribe_sent, channel.confirmed_or_unknown) = (kind, false, false);
            channel.set_subscription(SubscriptionState::Pending);
            let due = channel.poll.as_mut().map(|poll| {
                poll.due = now + UNSUBSCRIBED_POLL;
                poll.due
            });
            let NodeTask { subscriptions, desired, .. } = state.ensure_node_task(self, &primary);
            desired.polls.extend(due.map(|due| (due, name.clone())));
            subscriptions.polls_changed.notify_one();
            let NodeTask { subscriptions, desired, .. } = state.ensure_node_task(self, &server);
            desired.interrupted |= interrupted;
            let still_subscribed = desired.to_unsubscribe_moved.remove(&(kind, name.clone()));
            desired.to_subscribe.insert(name.clone());
            subscriptions.desired_changed.notify_one();
            if let Some(channel) = state.channels.get_mut(&name).filter(|_| still_subscribed) {
                (channel.subscribe_sent, channel.confirmed_or_unknown) = (true, true);
            }
        }
        let mut nodes = self.topology.primaries();
        nodes.extend(self.topology.shards().into_iter().flat_map(|shard| shard.replicas));
        let State { node_tasks, draining, .. } = &mut *state;
        node_tasks.retain(|_, node_task| nodes.iter().any(|node| is_same(node, &node_task.subscriptions.server)));
        draining.retain(|_, sinks| {
            sinks.retain(|(node, _)| node_tasks.contains_key(node));
            !sinks.is_empty()
        });
        drop(state);
        self.subscribe_new_primaries();
    }
}
