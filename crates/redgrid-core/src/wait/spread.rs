//! What is heard at every primary at the same time: keyspace events are told by the node where they happen, and by no other.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::channel::{Reach, Registration, Sink};
use super::hub::Hub;
use super::tap::Tap;
use crate::connection::NodeId;

/// Channels that are heard at every primary for one reader. Dropped, they are heard no more.
pub(crate) struct Spread {
    hub: Arc<Hub>,
    id: u64,
}

/// One of those, as the hub has it.
pub(super) struct Spreading {
    tap: Arc<Tap>,
    channels: Vec<Bytes>,
    at: HashMap<NodeId, Vec<Registration>>,
}

impl Drop for Spread {
    fn drop(&mut self) {
        self.hub.spreads().remove(&self.id);
    }
}

impl Hub {
    /// Hears a channel that the primary of `key` alone publishes, for as long as the result lives.
    pub(crate) fn tap(self: &Arc<Self>, tap: &Arc<Tap>, channel: Bytes, key: &[u8]) -> Registration {
        self.tap_at(tap, channel, &Bytes::copy_from_slice(key), Reach::Everywhere)
    }

    /// The same of a channel of the slot of `key`, as scripts publish on those.
    pub(super) fn tap_in_slot(self: &Arc<Self>, tap: &Arc<Tap>, channel: Bytes, key: &Bytes) -> Registration {
        self.tap_at(tap, channel, key, Reach::Slot)
    }

    /// The same of one of this reach.
    pub(super) fn tap_at(self: &Arc<Self>, tap: &Arc<Tap>, channel: Bytes, key: &Bytes, reach: Reach) -> Registration {
        let sink = Sink::Tap { tap: Arc::clone(tap), seat: tap.seat() };
        let id = self.add(&channel, key, reach, sink, None);
        Registration { hub: Arc::clone(self), channel, id }
    }

    /// Hears channels that each primary publishes for itself, at all of them, those that come later too.
    pub(crate) fn tap_all(self: &Arc<Self>, tap: &Arc<Tap>, channels: Vec<Bytes>) -> Spread {
        let id = self.next_id();
        let spreading = Spreading { tap: Arc::clone(tap), channels, at: HashMap::new() };
        self.spreads().insert(id, spreading);
        self.spread();
        Spread { hub: Arc::clone(self), id }
    }

    /// Has what is heard everywhere heard at the primaries there are by now.
    pub(super) fn spread(self: &Arc<Self>) {
        // Outside the hub's state: registrations that end here take that.
        let mut spreads = self.spreads();
        if spreads.is_empty() {
            return;
        }
        let primaries = self.topology.primaries();
        for Spreading { tap, channels, at } in spreads.values_mut() {
            at.retain(|node, _| primaries.iter().any(|primary| primary.id() == node));
            for primary in &primaries {
                let node = primary.id();
                if at.contains_key(node) {
                    continue;
                }
                let hear = |channel: &Bytes| {
                    let sink = Sink::Tap { tap: Arc::clone(tap), seat: tap.seat() };
                    let known = heard_at(node, channel);
                    let place = Bytes::copy_from_slice(node.0.as_bytes());
                    let id = self.add(&known, &place, Reach::Node, sink, None);
                    Registration { hub: Arc::clone(self), channel: known, id }
                };
                at.insert(node.clone(), channels.iter().map(hear).collect());
            }
        }
    }
}

/// By what the hub knows a channel that is heard at one node whatever its name, as the same may be heard at others: no name begins so.
pub(super) fn heard_at(node: &NodeId, channel: &[u8]) -> Bytes {
    apart(&node.0, channel)
}

/// By what the hub knows a channel that is of one sort whatever its name.
pub(super) fn apart(sort: &str, channel: &[u8]) -> Bytes {
    [b"\0", sort.as_bytes(), b"\0", channel].concat().into()
}

/// The name of a channel, by what the hub knows it.
pub(super) fn on_wire(known: &Bytes) -> Bytes {
    match known.strip_prefix(b"\0").and_then(|rest| rest.iter().position(|&byte| byte == 0)) {
        Some(node) => known.slice(node + 2..),
        None => known.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_of_a_node_has_its_own_name_on_the_wire() {
        let node = NodeId("[::1]:6379".into());
        assert_eq!(on_wire(&heard_at(&node, b"__keyevent@0__:del")), "__keyevent@0__:del");
        assert_eq!(on_wire(&Bytes::from_static(b"redisson_lock__channel:{a}")), "redisson_lock__channel:{a}");
        assert_ne!(heard_at(&node, b"c"), heard_at(&NodeId("a".into()), b"c"));
    }
}
