//! What a client knows of a cluster: who serves which slots, and which nodes there are.

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

/// How long it is remembered that slots have left a node: 10 s. News of a failover has reached every node by then that is not cut off.
const LEFT_FOR: Duration = Duration::from_secs(10);

/// How long slots stay with who served them although no map names them: as long as somebody is looked for in the place of a primary
/// that is missed. Who has none by then has lost them, or given them up.
const KEPT_FOR: Duration = EAGER_FOR;

#[derive(Default)]
pub(super) struct Map {
    /// Who serves which slots, by their first; empty until the first answer.
    pub(super) served: Vec<Served>,
    /// Slots that are elsewhere by the word of a node that had them, and until when that counts more than any map.
    pub(super) moved: HashMap<u16, (Arc<Node>, Instant)>,
    pub(super) replicas: HashMap<Address, Vec<Arc<Node>>>,
    pub(super) known: HashMap<Address, Known>,
    /// Who has lost slots to others lately, and until when that counts.
    left: HashMap<Address, Instant>,
    /// When the replicas were last looked after.
    pub(super) looked_after: Instant,
    /// Whether it is known if messages go by sharded channels.
    pub(super) probed: bool,
}

/// Slots in a row that one node serves.
pub(super) struct Served {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) address: Address,
    pub(super) node: Arc<Node>,
    /// Until when it does although no map says so.
    pub(super) kept_until: Instant,
}

/// Slots in a row that a map gives to another node than the one before.
struct Taken<'a> {
    first: u16,
    last: u16,
    from: &'a Served,
    to: &'a Address,
}

impl Taken<'_> {
    /// Whether another map says the same of all of them.
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

    /// What of several maps, told by as many nodes, is to be believed; `None` while none is. A node that was cut off, or has hung,
    /// tells an old one, and nothing in it says so. So one map alone takes no slots from a node that answers for one that does not, for
    /// a replica, or for one that has lost some lately: another has to say the same of them.
    pub(super) fn believed(&self, told: &[Vec<Range>], now: Instant, answers: impl Fn(&Node) -> bool) -> Option<usize> {
        let doubtful: Vec<_> = told.iter().map(|ranges| self.doubtful(ranges, now, &answers)).collect();
        let is_confirmed = |at: usize| {
            let is_by_another = |taken: &Taken<'_>| (0..told.len()).any(|by| by != at && taken.is_in(&told[by]));
            doubtful[at].iter().all(is_by_another)
        };
        let without_doubt = doubtful.iter().position(Vec::is_empty);
        without_doubt.or_else(|| (0..told.len()).find(|at| is_confirmed(*at)))
    }

    fn doubtful<'a>(&'a self, ranges: &'a [Range], now: Instant, answers: impl Fn(&Node) -> bool) -> Vec<Taken<'a>> {
        let is_doubtful = |taken: &Taken<'_>| {
            let to = self.known.get(taken.to).map(|known| &known.node);
            let is_replica = self.known.get(taken.to).is_some_and(|known| known.part == NodeRole::ClusterReplica);
            let is_back = self.left.get(taken.to).is_some_and(|until| *until > now);
            let is_told = |slot| self.moved.get(&slot).zip(to).is_some_and(|((at, _), to)| Arc::ptr_eq(at, to));
            answers(&taken.from.node)
                && (is_back || is_replica || to.is_none_or(|to| !answers(to)))
                && !(taken.first..=taken.last).all(is_told)
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

    /// Remembers from whom a map that is taken in takes slots.
    pub(super) fn remember_left(&mut self, ranges: &[Range], now: Instant) {
        let leave: Vec<_> = self.taken(ranges).map(|taken| taken.from.address.clone()).collect();
        self.left.retain(|_, until| *until > now);
        self.left.extend(leave.into_iter().map(|from| (from, now + LEFT_FOR)));
    }

    /// What no node serves by the new word, and who does by the last one. They still do, for a while: nodes that take a primary for
    /// failed leave its slots out for a moment, each at its own time, until they hear of the promoted one. Both are in order.
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

    /// Nothing is at that node any more: it was closed, and another one opened in its place.
    pub(super) fn forget(&mut self, former: &Arc<Node>) {
        self.moved.retain(|_, (node, _)| !Arc::ptr_eq(node, former));
        self.replicas.values_mut().for_each(|replicas| replicas.retain(|node| !Arc::ptr_eq(node, former)));
    }

    /// Whether that node is still the one at its address.
    pub(super) fn is_known(&self, address: &Address, node: &Arc<Node>) -> bool {
        self.known.get(address).is_some_and(|known| Arc::ptr_eq(&known.node, node))
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
