//! A client's view of a cluster: the slot map and the known nodes.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::EAGER_FOR;
use super::slots::Range;
use crate::clock::Instant;
use crate::config::Address;
use crate::connection::Server;
use crate::connection::link::NodeRole;
use crate::connection::node::Node;
use crate::connection::slot::SLOTS;

/// How long the client remembers that a node has lost slots: 10 s.
///
/// Within that time, a failover becomes known to all nodes that are not cut off.
const LEFT_FOR: Duration = Duration::from_secs(10);

/// How long slots stay with their previous node if no map assigns them to any node: 60 s.
///
/// After a primary has stopped answering, the map is refreshed more often, also for 60 s. If no
/// other node has got the slots by then, the primary was not replaced: it has lost the slots or
/// given them up.
const KEPT_FOR: Duration = EAGER_FOR;

#[derive(Default)]
pub(super) struct Map {
    /// The slot map, ordered by first slot; empty until the first answer.
    pub(super) served: Vec<Served>,
    /// Slots that a node has redirected (MOVED), each with its new node and the time until which
    /// the redirect overrides any map.
    pub(super) moved: HashMap<u16, (Arc<Node>, Instant)>,
    pub(super) replicas: HashMap<Address, Vec<Arc<Node>>>,
    pub(super) known: HashMap<Address, Known>,
    /// Nodes that have lost slots to other nodes recently, and until when the loss is remembered.
    left: HashMap<Address, Instant>,
    pub(super) replicas_checked: Instant,
    /// Whether the client has already determined if it uses sharded channels.
    pub(super) probed: bool,
}

pub(super) struct Served {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) address: Address,
    pub(super) node: Arc<Node>,
    /// Until when the node keeps the slots, even if no map assigns them to it.
    pub(super) kept_until: Instant,
}

/// Consecutive slots that a map assigns to another node than before.
struct Taken<'a> {
    first: u16,
    last: u16,
    from: &'a Served,
    to: &'a Address,
}

impl Taken<'_> {
    /// Returns whether the map `ranges`, too, assigns all these slots to the node `to`.
    fn is_in(&self, ranges: &[Range]) -> bool {
        ranges.iter().any(|range| range.primary == *self.to && range.first <= self.first && self.last <= range.last)
    }
}

impl PartialEq for Served {
    fn eq(&self, other: &Self) -> bool {
        (self.first, self.last) == (other.first, other.last) && Arc::ptr_eq(&self.node, &other.node)
    }
}

pub(super) struct Known {
    pub(super) node: Arc<Node>,
    pub(super) part: NodeRole,
    /// Until when the node stays open, even if no map names it.
    pub(super) until: Instant,
    /// Since when the node has not answered, if it is a primary.
    pub(super) missed_since: Option<Instant>,
}

impl Known {
    pub(super) fn is_searched(&self, now: Instant) -> bool {
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

    /// Returns for how long a primary has not answered; for several such primaries, the shortest
    /// time. Ignores primaries that have not answered for [`EAGER_FOR`] or longer. Returns `None`
    /// if no primary remains.
    ///
    /// While the result is not `None`, the map is refreshed more often.
    pub(super) fn misses_a_primary(&mut self, now: Instant) -> Option<Duration> {
        let mut latest = None;
        for known in self.known.values_mut() {
            let is_missed = !known.node.answers() && self.served.iter().any(|it| Arc::ptr_eq(&it.node, &known.node));
            known.missed_since = is_missed.then(|| known.missed_since.unwrap_or(now));
            if let Some(since) = known.missed_since.filter(|_| known.is_searched(now)) {
                latest = latest.max(Some(since));
            }
        }
        latest.map(|since| now.since(since))
    }

    /// Returns the index of the map to trust among `maps`, each reported by a different node.
    /// Returns `None` if no map can be trusted.
    ///
    /// If a node was cut off or has hung, it reports an old map, without any sign of the map's age.
    /// So a map is doubtful if it takes slots from a responding node and gives them to a suspect
    /// node. A node is suspect if it is silent, unknown or a replica, or has lost slots recently.
    /// Slots do not make a map doubtful if redirects (MOVED) have named the same new node for all
    /// of them. A doubtful map is trusted only if the maps of other nodes give the doubtful slots
    /// to the same new nodes.
    pub(super) fn trusted(&self, maps: &[Vec<Range>], now: Instant, answers: impl Fn(&Node) -> bool) -> Option<usize> {
        let doubtful: Vec<_> = maps.iter().map(|ranges| self.doubtful(ranges, now, &answers)).collect();
        let is_confirmed = |at: usize| {
            let is_by_another = |taken: &Taken<'_>| (0..maps.len()).any(|by| by != at && taken.is_in(&maps[by]));
            doubtful[at].iter().all(is_by_another)
        };
        let without_doubt = doubtful.iter().position(Vec::is_empty);
        without_doubt.or_else(|| (0..maps.len()).find(|at| is_confirmed(*at)))
    }

    fn doubtful<'a>(&'a self, ranges: &'a [Range], now: Instant, answers: impl Fn(&Node) -> bool) -> Vec<Taken<'a>> {
        let is_doubtful = |taken: &Taken<'_>| {
            let to = self.known.get(taken.to).map(|known| &known.node);
            let is_replica = self.known.get(taken.to).is_some_and(|known| known.part == NodeRole::ClusterReplica);
            let is_back = self.left.get(taken.to).is_some_and(|until| *until > now);
            let is_redirected = |slot| self.moved.get(&slot).zip(to).is_some_and(|((at, _), to)| Arc::ptr_eq(at, to));
            answers(&taken.from.node)
                && (is_back || is_replica || to.is_none_or(|to| !answers(to)))
                && !(taken.first..=taken.last).all(is_redirected)
        };
        self.taken(ranges).filter(is_doubtful).collect()
    }

    fn taken<'a>(&'a self, ranges: &'a [Range]) -> impl Iterator<Item = Taken<'a>> {
        ranges.iter().flat_map(|range| {
            let begin = self.served.partition_point(|served| served.last < range.first);
            let overlapping = self.served[begin..].iter().take_while(|served| served.first <= range.last);
            overlapping.filter(|served| served.address != range.primary).map(|from| Taken {
                first: range.first.max(from.first),
                last: range.last.min(from.last),
                from,
                to: &range.primary,
            })
        })
    }

    /// Remembers which nodes lose slots to other nodes in the accepted map `ranges`.
    pub(super) fn remember_left(&mut self, ranges: &[Range], now: Instant) {
        let leave: Vec<_> = self.taken(ranges).map(|taken| taken.from.address.clone()).collect();
        self.left.retain(|_, until| *until > now);
        self.left.extend(leave.into_iter().map(|from| (from, now + LEFT_FOR)));
    }

    /// Returns the slots that the new map (`named`) assigns to no node, with their previous nodes.
    ///
    /// The previous nodes keep these slots for a while. If a cluster node regards a primary as
    /// failed, that node's map omits the slots of the primary. The map is complete again when the
    /// node learns of the promotion of a replica. Different nodes learn of the promotion at
    /// different times. The ranges of the previous map and of `named` must be sorted.
    pub(super) fn left_out(&self, named: &[Served], now: Instant) -> Vec<Served> {
        let mut kept = Vec::new();
        let mut named = named.iter().peekable();
        for old in self.served.iter().filter(|old| old.kept_until > now) {
            let kept_until = old.kept_until.min(now + KEPT_FOR);
            let keep = |first, last| Served {
                first,
                last,
                kept_until,
                address: old.address.clone(),
                node: Arc::clone(&old.node),
            };
            while named.next_if(|new| new.last < old.first).is_some() {}
            let mut next = Some(old.first);
            for new in named.clone().take_while(|new| new.first <= old.last) {
                kept.extend(next.filter(|next| *next < new.first).map(|next| keep(next, new.first - 1)));
                next = next.and_then(|next| Some(next.max(new.last.checked_add(1)?)));
            }
            kept.extend(next.filter(|next| *next <= old.last).map(|next| keep(next, old.last)));
        }
        kept
    }

    /// Removes all references to a node that was closed and replaced by a new one.
    pub(super) fn forget(&mut self, former: &Arc<Node>) {
        self.moved.retain(|_, (node, _)| !Arc::ptr_eq(node, former));
        self.replicas.values_mut().for_each(|replicas| replicas.retain(|node| !Arc::ptr_eq(node, former)));
    }

    /// Returns whether `node` is still the known node at `address`.
    pub(super) fn is_known(&self, address: &Address, node: &Arc<Node>) -> bool {
        self.known.get(address).is_some_and(|known| Arc::ptr_eq(&known.node, node))
    }

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

    pub(super) fn replicas_of(&self, primary: &Arc<Node>) -> &[Arc<Node>] {
        let mut known = self.known.iter();
        let address = known.find_map(|(address, known)| Arc::ptr_eq(&known.node, primary).then_some(address));
        address.and_then(|address| self.replicas.get(address)).map_or(&[], |replicas| replicas)
    }
}
