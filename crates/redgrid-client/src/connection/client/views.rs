//! Compares the topology with the previous one, and returns the differences as events.

use crate::connection::{ConnectionEvent, Deployment, DeploymentKind, NodeId, Shard};

pub(in crate::connection) struct Views {
    last: Deployment,
    /// New primaries that have taken over slots of an old primary, while the old primary still
    /// exists. Each new primary is stored with the shard that the old primary had before.
    ///
    /// A redirect reports the new primary of only one slot. It does not show whether slots are
    /// being moved or the old primary was replaced. The old primary is reported as replaced once it
    /// has disappeared, if the new primary then serves all slots of the stored shard.
    heirs: Vec<(NodeId, Shard)>,
}

impl Views {
    pub(in crate::connection) fn new(kind: DeploymentKind) -> Views {
        Views { last: Deployment { kind, shards: Vec::new() }, heirs: Vec::new() }
    }

    /// Returns the events that lead from the previous topology to `now`.
    pub(super) fn next(&mut self, now: Deployment) -> Vec<ConnectionEvent> {
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
        // A promoted replica causes two events, for the new primary and for the missing replica.
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
        // A primary whose slots went to several others is not reported as replaced.
        let first = cluster(&[shard("c", &[(0, 49)], &[]), shard("d", &[(50, 99)], &[]), before.shards[1].clone()]);
        let parted = cluster(&[shard("d", &[(50, 99)], &[]), shard("b", &[(0, 49), (100, 199)], &[])]);
        assert_eq!(views.next(first), [ConnectionEvent::TopologyChanged]);
        assert_eq!(views.next(parted), [ConnectionEvent::TopologyChanged]);
    }
}
