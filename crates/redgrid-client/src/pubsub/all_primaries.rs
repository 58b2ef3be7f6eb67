//! Subscriptions at all primaries. Keyspace events need them: each event is published only by the
//! node where it occurs.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::buffer::MessageBuffer;
use super::channel::ChannelScope;
use super::handles::Registration;
use super::manager::SubscriptionManager;
use crate::connection::NodeId;

/// The subscriptions of one reader at every primary. Dropping this value ends the subscriptions.
pub struct AllPrimariesSubscription {
    manager: Arc<SubscriptionManager>,
    id: u64,
}

/// The manager's state of an [`AllPrimariesSubscription`].
pub(super) struct AllPrimariesState {
    buffer: Arc<MessageBuffer>,
    channels: Vec<Bytes>,
    registrations: HashMap<NodeId, Vec<Registration>>,
}

impl Drop for AllPrimariesSubscription {
    fn drop(&mut self) {
        self.manager.all_primaries.lock().remove(&self.id);
    }
}

impl SubscriptionManager {
    /// Subscribes to `channels` at all primaries, including primaries that are added later. Each
    /// primary publishes its own messages on these channels.
    pub fn subscribe_buffered_on_primaries(
        self: &Arc<Self>,
        buffer: &Arc<MessageBuffer>,
        channels: Vec<Bytes>,
    ) -> AllPrimariesSubscription {
        let id = self.next_id();
        let state = AllPrimariesState { buffer: Arc::clone(buffer), channels, registrations: HashMap::new() };
        self.all_primaries.lock().insert(id, state);
        self.subscribe_new_primaries();
        AllPrimariesSubscription { manager: Arc::clone(self), id }
    }

    /// Adds the current primaries to each [`AllPrimariesSubscription`], and removes former ones.
    pub(super) fn subscribe_new_primaries(self: &Arc<Self>) {
        // The manager's state must not be locked here: this function can drop registrations, and
        // each drop locks the state.
        let mut all_primaries = self.all_primaries.lock();
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
                    let key = Bytes::copy_from_slice(node.0.as_bytes());
                    self.subscribe_buffered_in_scope(buffer, name_at_node(node, channel), &key, ChannelScope::Node)
                };
                registrations.insert(node.clone(), channels.iter().map(subscribe).collect());
            }
        }
    }
}

/// Returns the internal name of a channel for its subscription at `node`.
///
/// If a channel is subscribed at several nodes, it has a separate internal name for each node.
/// These internal names begin with a zero byte; no name on the wire does.
pub(super) fn name_at_node(node: &NodeId, channel: &[u8]) -> Bytes {
    qualified_name(&node.0, channel)
}

/// Returns the internal name of a channel: its name on the wire, preceded by `sort`, which is
/// `plain`, `sharded`, `pattern` or the id of a node.
pub(super) fn qualified_name(sort: &str, channel: &[u8]) -> Bytes {
    [b"\0", sort.as_bytes(), b"\0", channel].concat().into()
}

/// Returns the name of a channel on the wire, from its internal name.
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
