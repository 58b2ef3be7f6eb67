//! The view of one node: parses `CLUSTER NODES`.

use std::{collections::BTreeMap, net::SocketAddr, ops::RangeInclusive};

/// Number of slots.
pub(crate) const SLOTS: u16 = 16_384;

/// A line of `CLUSTER NODES` (<https://redis.io/docs/latest/commands/cluster-nodes/>).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) id: String,
    /// The address; `None` until this view contains it.
    pub(crate) addr: Option<SocketAddr>,
    flags: Vec<String>,
    /// The id of the primary this replica follows.
    pub(crate) primary: Option<String>,
    pub(crate) epoch: u64,
    slots: Vec<RangeInclusive<u16>>,
    /// Slots that are migrating away, with the id of the target. A node reports only its own.
    leaving: Vec<(u16, String)>,
}

impl Member {
    pub(crate) fn serves(&self, slot: u16) -> bool {
        self.slots.iter().any(|range| range.contains(&slot))
    }

    /// Returns the id of the node that `slot` is migrating to.
    pub(crate) fn target_of(&self, slot: u16) -> Option<&str> {
        self.leaving.iter().find(|(leaving, _)| *leaving == slot).map(|(_, id)| id.as_str())
    }

    fn is(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }

    fn from_line(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [id, addr, flags, primary, _ping, _pong, epoch, _link, slots @ ..] = words.as_slice() else { return None };
        let (mut ranges, mut leaving) = (Vec::new(), Vec::new());
        for slot in slots {
            if let Some(moving) = slot.strip_prefix('[') {
                // `[77->-id]` is migrating away, `[77-<-id]` arriving.
                if let Some((slot, id)) = moving.trim_end_matches(']').split_once("->-") {
                    leaving.push((slot.parse().ok()?, id.to_owned()));
                }
            } else {
                let (from, to) = slot.split_once('-').unwrap_or((slot, slot));
                ranges.push(from.parse().ok()?..=to.parse().ok()?);
            }
        }
        Some(Self {
            id: (*id).to_owned(),
            addr: addr.split('@').next().and_then(|addr| addr.parse().ok()),
            flags: flags.split(',').map(str::to_owned).collect(),
            primary: (*primary != "-").then(|| (*primary).to_owned()),
            epoch: epoch.parse().ok()?,
            slots: ranges,
            leaving,
        })
    }
}

/// Reads the reply of `CLUSTER NODES`.
pub(crate) fn members(reply: &str) -> Vec<Member> {
    reply.lines().filter_map(Member::from_line).collect()
}

/// Returns the node that produced this view.
pub(crate) fn own(view: &[Member]) -> Option<&Member> {
    view.iter().find(|member| member.is("myself"))
}

/// Returns the owners: the first slot of each range, its last, and the id of the primary.
pub(crate) fn owners(view: &[Member]) -> BTreeMap<u16, (u16, &str)> {
    view.iter()
        .flat_map(|member| member.slots.iter().map(|range| (*range.start(), (*range.end(), member.id.as_str()))))
        .collect()
}

/// Checks that a view is that of a settled cluster: it has `nodes` members, a `running` one serves
/// each slot, and no running member is suspected to be down. The error names the missing part.
pub(crate) fn check(view: &[Member], nodes: usize, running: &[SocketAddr]) -> Result<(), String> {
    if view.len() != nodes || view.iter().any(|member| member.is("handshake")) {
        return Err(format!("{} of {nodes} members", view.iter().filter(|member| !member.is("handshake")).count()));
    }
    for member in view {
        let runs = member.addr.is_some_and(|addr| running.contains(&addr));
        if runs && (member.is("fail") || member.is("fail?")) {
            return Err(format!("running {:?} as failed", member.addr));
        }
        if !runs && !member.slots.is_empty() {
            return Err(format!("slots of {:?}, which does not run", member.addr));
        }
    }
    let served: usize = view.iter().flat_map(|member| &member.slots).map(|range| range.len()).sum();
    if served == usize::from(SLOTS) { Ok(()) } else { Err(format!("{served} of {SLOTS} slots served")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLY: &str = "\
aa 127.0.0.1:15001@25001 myself,master - 0 1700000000000 1 connected 0-99 101 [100->-bb] [7-<-bb]
bb 127.0.0.1:15002@25002,host master - 0 1700000000000 2 connected 100 102-16383
cc 127.0.0.1:15003@25003 slave,fail? aa 0 1700000000000 1 connected
dd :0@0 handshake - 0 0 0 disconnected
";

    #[test]
    fn a_view_lists_owners_replicas_and_moving_slots() {
        let view = members(REPLY);
        let own = own(&view).unwrap();
        assert_eq!((own.id.as_str(), own.epoch, own.addr), ("aa", 1, Some("127.0.0.1:15001".parse().unwrap())));
        assert!(own.serves(0) && own.serves(101) && !own.serves(100));
        assert_eq!((own.target_of(100), own.target_of(7)), (Some("bb"), None));
        assert_eq!(view[2].primary.as_deref(), Some("aa"));
        assert_eq!((view[3].addr, view.len()), (None, 4));
        let map = [(0, (99, "aa")), (100, (100, "bb")), (101, (101, "aa")), (102, (16_383, "bb"))];
        assert_eq!(owners(&view), map.into_iter().collect());
    }

    #[test]
    fn a_view_is_settled_when_nothing_is_missing() {
        let running: Vec<SocketAddr> = members(REPLY).iter().filter_map(|member| member.addr).collect();
        let view = members(REPLY);
        assert_eq!(check(&view, 4, &running).unwrap_err(), "3 of 4 members");
        assert!(check(&view[..3], 3, &running).unwrap_err().contains("as failed"));
        assert_eq!(check(&view[..3], 3, &running[..2]), Ok(()));
        assert!(check(&view[..3], 3, &running[..1]).unwrap_err().contains("does not run"));
        assert_eq!(check(&view[..1], 1, &running).unwrap_err(), "101 of 16384 slots served");
    }
}
