//! What a client knows of a cluster: who serves which slots, and which nodes there are.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::EAGER_FOR;
use crate::clock::Instant;
use crate::config::Address;
use crate::connection::Server;
use crate::connection::link::Part;
use crate::connection::node::Node;
use crate::connection::slot::SLOTS;

#[derive(Default)]
pub(super) struct Map {
    /// Who serves which slots, by their first; empty until the first answer.
    pub(super) served: Vec<Served>,
    /// Slots that are elsewhere by the word of a node that had them, and until when that counts more than any map.
    pub(super) moved: HashMap<u16, (Arc<Node>, Instant)>,
    pub(super) replicas: HashMap<Address, Vec<Arc<Node>>>,
    pub(super) known: HashMap<Address, Known>,
    /// Whether it is known if messages go by sharded channels.
    pub(super) probed: bool,
}

/// Slots in a row that one node serves.
pub(super) struct Served {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) node: Arc<Node>,
}

impl PartialEq for Served {
    fn eq(&self, other: &Self) -> bool {
        (self.first, self.last) == (other.first, other.last) && Arc::ptr_eq(&self.node, &other.node)
    }
}

pub(super) struct Known {
    pub(super) node: Arc<Node>,
    pub(super) part: Part,
    /// Until when it stays although no map names it.
    pub(super) until: Instant,
    /// Since when it has not answered, although it is a primary.
    pub(super) missed_since: Option<Instant>,
}

impl Known {
    pub(super) fn is_looked_for(&self, now: Instant) -> bool {
        self.missed_since.is_some_and(|since| now < since + EAGER_FOR)
    }
}

impl Map {
    pub(super) fn owner(&self, slot: u16) -> Option<&Arc<Node>> {
        if let Some((node, _)) = self.moved.get(&slot) {
            return Some(node);
        }
        let after = self.served.partition_point(|served| served.first <= slot);
        let served = self.served.get(after.checked_sub(1)?)?;
        (slot <= served.last).then_some(&served.node)
    }

    pub(super) fn owners(&self) -> Vec<Arc<Node>> {
        let mut owners: Vec<Arc<Node>> = Vec::new();
        let served = self.served.iter().map(|served| &served.node);
        for owner in served.chain(self.moved.values().map(|(node, _)| node)) {
            if !owners.iter().any(|known| Arc::ptr_eq(known, owner)) {
                owners.push(Arc::clone(owner));
            }
        }
        owners
    }

    /// For how long a primary has been missed, the latest one of those that others are looked for eagerly in whose place.
    pub(super) fn misses_a_primary(&mut self, now: Instant) -> Option<Duration> {
        let mut latest = None;
        for known in self.known.values_mut() {
            let is_missed = !known.node.answers() && self.served.iter().any(|it| Arc::ptr_eq(&it.node, &known.node));
            known.missed_since = is_missed.then(|| known.missed_since.unwrap_or(now));
            if let Some(since) = known.missed_since.filter(|_| known.is_looked_for(now)) {
                latest = latest.max(Some(since));
            }
        }
        latest.map(|since| now.since(since))
    }

    /// The slots of a node, in ranges.
    pub(super) fn slots_of(&self, node: &Arc<Node>) -> Vec<RangeInclusive<u16>> {
        let mut ranges: Vec<RangeInclusive<u16>> = Vec::new();
        for slot in (0..SLOTS).filter(|slot| self.owner(*slot).is_some_and(|owner| Arc::ptr_eq(owner, node))) {
            match ranges.last_mut() {
                Some(last) if *last.end() + 1 == slot => *last = *last.start()..=slot,
                _ => ranges.push(slot..=slot),
            }
        }
        ranges
    }

    /// The replicas of a primary that are read from.
    pub(super) fn replicas_of(&self, primary: &Arc<Node>) -> &[Arc<Node>] {
        let mut known = self.known.iter();
        let address = known.find_map(|(address, known)| Arc::ptr_eq(&known.node, primary).then_some(address));
        address.and_then(|address| self.replicas.get(address)).map_or(&[], |replicas| replicas)
    }
}
