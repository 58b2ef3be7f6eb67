//! What is heard at every primary at the same time: keyspace events are told by the node where they happen, and by no other.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::buffer::MessageBuffer;
use super::channel::{ChannelScope, Registration, Sink};
use super::manager::SubscriptionManager;
use crate::connection::NodeId;

/// Channels that are heard at every primary for one reader. Dropped, they are heard no more.
pub(crate) struct AllPrimariesSubscription {
    manager: Arc<SubscriptionManager>,
    id: u64,
}

/// One of those, as the hub has it.
pub(super) struct AllPrimariesState {
    buffer: Arc<MessageBuffer>,
    channels: Vec<Bytes>,
    registrations: HashMap<NodeId, Vec<Registration>>,
}

impl Drop for AllPrimariesSubscription {
    fn drop(&mut self) {
        self.manager.all_primaries().remove(&self.id);
    }
}

impl SubscriptionManager {
    /// Hears a channel that the primary of `key` alone publishes, for as long as the result lives.
    pub(crate) fn subscribe_buffered(
        self: &Arc<Self>,
        buffer: &Arc<MessageBuffer>,
        channel: Bytes,
        key: &[u8],
    ) -> Registration {
        self.subscribe_buffered_in_scope(buffer, channel, &Bytes::copy_from_slice(key), ChannelScope::Everywhere)
    }

    /// The same of a channel of the slot of `key`, as scripts publish on those.
    pub(super) fn subscribe_buffered_in_slot(
        self: &Arc<Self>,
        buffer: &Arc<MessageBuffer>,
        channel: Bytes,
        key: &Bytes,
    ) -> Registration {
        self.subscribe_buffered_in_scope(buffer, channel, key, ChannelScope::Slot)
    }

    /// The same of one of this reach.
    pub(super) fn subscribe_buffered_in_scope(
        self: &Arc<Self>,
        buffer: &Arc<MessageBuffer>,
        channel: Bytes,
        key: &Bytes,
        scope: ChannelScope,
    ) -> Registration {
        let sink = Sink::Buffer { buffer: Arc::clone(buffer), channel_id: buffer.add_channel() };
        let id = self.add_watcher(&channel, key, scope, sink, None);
        Registration { manager: Arc::clone(self), channel, id }
    }

    /// Hears channels that each primary publishes for itself, at all of them, those that come later too.
    pub(crate) fn subscribe_buffered_on_primaries(
        self: &Arc<Self>,
        buffer: &Arc<MessageBuffer>,
        channels: Vec<Bytes>,
    ) -> AllPrimariesSubscription {
        let id = self.next_id();
        let state = AllPrimariesState { buffer: Arc::clone(buffer), channels, registrations: HashMap::new() };
        self.all_primaries().insert(id, state);
        self.subscribe_new_primaries();
        AllPrimariesSubscription { manager: Arc::clone(self), id }
    }

    /// Has what is heard everywhere heard at the primaries there are by now.
    pub(super) fn subscribe_new_primaries(self: &Arc<Self>) {
        // Outside the hub's state: registrations that end here take that.
        let mut all_primaries = self.all_primaries();
        if all_primaries.is_empty() {
            return;
        }
        let primaries = self.topology.primaries();
        for AllPrimariesState { buffer, channels, registrations } in all_primaries.values_mut() {
            registrations.retain(|node, _| primaries.iter().any(|primary| primary.id() == node));
            for primary in &primaries {
                let node = primary.id();
                if registrations.contains_key(node) {
                    continue;
                }
                let subscribe = |channel: &Bytes| {
                    let sink = Sink::Buffer { buffer: Arc::clone(buffer), channel_id: buffer.add_channel() };
                    let internal_name = name_at_node(node, channel);
                    let key = Bytes::copy_from_slice(node.0.as_bytes());
                    let id = self.add_watcher(&internal_name, &key, ChannelScope::Node, sink, None);
                    Registration { manager: Arc::clone(self), channel: internal_name, id }
                };
                registrations.insert(node.clone(), channels.iter().map(subscribe).collect());
            }
        }
    }
}

/// By what the hub knows a channel that is heard at one node whatever its name, as the same may be heard at others: no name begins so.
pub(super) fn name_at_node(node: &NodeId, channel: &[u8]) -> Bytes {
    qualified_name(&node.0, channel)
}

/// By what the hub knows a channel that is of one sort whatever its name.
pub(super) fn qualified_name(sort: &str, channel: &[u8]) -> Bytes {
    [b"\0", sort.as_bytes(), b"\0", channel].concat().into()
}

/// The name of a channel, by what the hub knows it.
pub(super) fn wire_name(internal_name: &Bytes) -> Bytes {
    match internal_name.strip_prefix(b"\0").and_then(|rest| rest.iter().position(|&byte| byte == 0)) {
        Some(node) => internal_name.slice(node + 2..),
        None => internal_name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_of_a_node_has_its_own_name_on_the_wire() {
        let node = NodeId("[::1]:6379".into());
        assert_eq!(wire_name(&name_at_node(&node, b"__keyevent@0__:del")), "__keyevent@0__:del");
        assert_eq!(wire_name(&Bytes::from_static(b"redisson_lock__channel:{a}")), "redisson_lock__channel:{a}");
        assert_ne!(name_at_node(&node, b"c"), name_at_node(&NodeId("a".into()), b"c"));
    }
}
