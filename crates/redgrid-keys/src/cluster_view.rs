//! A view of the nodes that have the keys of each slot, as reported by the nodes themselves.
//!
//! It includes slots that are being migrated.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use redgrid_core::author::ClientExt;
use redgrid_core::{Client, Code, DeploymentKind, Primary, Request, ServerError};

/// The number of slots of a cluster.
const SLOTS: u16 = 16_384;

/// The id of a node in the cluster.
pub(crate) type MemberId = Arc<str>;

/// The state of a deployment at one moment.
pub(crate) struct ClusterView {
    pub(crate) primaries: Vec<(MemberId, Primary)>,
    /// The nodes that may have the keys of each slot: its owner and, during a migration, the
    /// target. Empty outside a cluster.
    members: BTreeMap<u16, BTreeSet<MemberId>>,
    /// Slots that no node reports although they had an owner, and slots with an unknown migration
    /// target.
    unclaimed: BTreeSet<u16>,
    migrations: Vec<Migration>,
}

/// A slot that is imported or migrated, as reported by one of the two nodes.
///
/// A node continues to report a migration after the other node has failed.
struct Migration {
    slot: u16,
    peer: MemberId,
    /// Whether the peer is a primary, as far as the node knows.
    peer_is_primary: bool,
}

/// The role that a node reports for itself.
#[derive(Debug, PartialEq)]
enum NodeRole {
    Primary(MemberId),
    Replica,
}

impl ClusterView {
    fn new() -> ClusterView {
        ClusterView {
            primaries: Vec::new(),
            members: BTreeMap::new(),
            unclaimed: BTreeSet::new(),
            migrations: Vec::new(),
        }
    }

    /// Reads the slots of every primary.
    pub(crate) async fn fetch(client: &Client) -> Result<ClusterView, ServerError> {
        let primaries = client.primaries().await?;
        if client.topology().kind != DeploymentKind::Cluster {
            let with_id = |primary: Primary| (primary.id().0.clone(), primary);
            return Ok(ClusterView { primaries: primaries.into_iter().map(with_id).collect(), ..ClusterView::new() });
        }
        let reports = futures_util::future::join_all(primaries.iter().map(async |primary| {
            client.run_on::<String>(primary, Request::command("CLUSTER").arg("NODES").idempotent()).await
        }));
        let mut view = ClusterView::new();
        for (primary, report) in primaries.iter().zip(reports.await) {
            let member = match report {
                Ok(report) => match view.add_report(&report).ok_or_else(|| invalid_report(&report))? {
                    NodeRole::Primary(member) => member,
                    NodeRole::Replica => {
                        client.doubt(primary);
                        continue;
                    }
                },
                // Use the slots that the client knows. Migrations are unknown in this case.
                Err(error) if error.code() == Some(Code::NoPermission) => view.add_known_slots(primary),
                // The node is no longer a primary; the client will soon find its replacement.
                Err(_) if !client.is_primary(primary) => continue,
                Err(error) => return Err(error),
            };
            view.primaries.push((member, primary.clone()));
        }
        let is_complete = view.primaries.len() == primaries.len();
        view.resolve_migrations(primaries.iter().flat_map(Primary::slots).cloned().flatten(), is_complete);
        Ok(view)
    }

    /// Adds the migrations with an existing peer, after all nodes were asked for their reports.
    ///
    /// `known` contains the slots that have an owner in the client's topology. `is_complete` means
    /// that every primary has sent its report.
    fn resolve_migrations(&mut self, known: impl Iterator<Item = u16>, is_complete: bool) {
        for Migration { slot, peer, peer_is_primary } in std::mem::take(&mut self.migrations) {
            if peer_is_primary || self.primaries.iter().any(|(member, _)| *member == peer) {
                self.add_member(slot, &peer);
            } else if !is_complete {
                self.unclaimed.insert(slot);
            }
        }
        let members = &self.members;
        self.unclaimed.extend(known.filter(|slot| !members.contains_key(slot)));
    }

    /// Returns whether the nodes that have a slot are unknown.
    pub(crate) fn is_unclaimed(&self, slot: u16) -> bool {
        self.unclaimed.contains(&slot)
    }

    /// Returns the nodes that may have the keys of a slot.
    pub(crate) fn members_of(&self, slot: u16) -> BTreeSet<MemberId> {
        self.members.get(&slot).cloned().unwrap_or_default()
    }

    /// Returns whether there are slots, which means that this is a cluster.
    pub(crate) fn has_slots(&self) -> bool {
        !self.members.is_empty() || !self.unclaimed.is_empty()
    }

    pub(crate) fn all_slots() -> std::ops::Range<u16> {
        0..SLOTS
    }

    fn add_member(&mut self, slot: u16, member: &MemberId) {
        self.members.entry(slot).or_default().insert(Arc::clone(member));
    }

    fn add_known_slots(&mut self, primary: &Primary) -> MemberId {
        let member: MemberId = primary.id().0.clone();
        primary.slots().iter().cloned().flatten().for_each(|slot| self.add_member(slot, &member));
        member
    }

    /// Adds the report of a node about itself in CLUSTER NODES: its id, its slots and their
    /// migrations.
    fn add_report(&mut self, report: &str) -> Option<NodeRole> {
        let nodes = || report.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let has =
            |node: &[&str], flag: &str| node.get(2).is_some_and(|flags| flags.split(',').any(|other| other == flag));
        let myself = nodes().find(|node| has(node, "myself"))?;
        if has(&myself, "slave") {
            return Some(NodeRole::Replica);
        }
        let member: MemberId = (*myself.first()?).into();
        for part in myself.into_iter().skip(8) {
            let migration = part.strip_prefix('[').and_then(|part| part.strip_suffix(']'));
            if let Some(migration) = migration {
                let (slot, peer) = migration.split_once("->-").or_else(|| migration.split_once("-<-"))?;
                let slot = slot.parse().ok()?;
                let peer_node = nodes().find(|node| node.first() == Some(&peer));
                let peer_is_primary =
                    peer_node.is_some_and(|node| has(&node, "master") && !has(&node, "fail") && !has(&node, "noaddr"));
                self.add_member(slot, &member);
                self.migrations.push(Migration { slot, peer: peer.into(), peer_is_primary });
                continue;
            }
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            for slot in first.parse::<u16>().ok()?..=last.parse::<u16>().ok().filter(|last| *last < SLOTS)? {
                self.add_member(slot, &member);
            }
        }
        Some(NodeRole::Primary(member))
    }
}

fn invalid_report(report: &str) -> ServerError {
    ServerError::Decode { expected: "a node's line about itself", got: report.chars().take(120).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_the_slots_of_a_node_and_their_migrations() {
        let mut view = ClusterView::new();
        let report = "aa 127.0.0.1:1@2,host myself,master - 0 0 3 connected 0-2 7 [2->-bb] [9-<-cc]\n\
                      bb 127.0.0.1:3@4 master - 0 0 2 connected 8-10\n\
                      cc 127.0.0.1:5@6 master - 0 0 2 connected 11\n";
        assert_eq!(view.add_report(report), Some(NodeRole::Primary("aa".into())));
        view.resolve_migrations(std::iter::empty(), true);
        assert_eq!(
            (members(&view, 0), members(&view, 2), members(&view, 7)),
            ("aa".into(), "aa bb".into(), "aa".into())
        );
        assert_eq!((members(&view, 8), members(&view, 9)), (String::new(), "aa cc".into()));
        for bad in ["", "aa b c", "aa b myself - 0 0 1 connected x", "aa b myself - 0 0 1 connected 1-70000"] {
            assert!(view.add_report(bad).is_none(), "{bad}");
        }
    }

    fn members(view: &ClusterView, slot: u16) -> String {
        view.members_of(slot).iter().map(|member| member.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_migration_is_ignored_if_the_peer_is_no_longer_a_primary() {
        let report = "aa h:1@2 myself,master - 0 0 3 connected 0-9 [1->-bb] [2->-cc] [3->-dd] [4->-ee]\n\
                      bb h:3@4 slave ff 0 0 2 connected\n\
                      cc h:5@6 master,fail - 0 0 2 connected\n\
                      ee h:7@8 master,fail? - 0 0 2 connected\n";
        let mut view = ClusterView::new();
        view.add_report(report);
        view.resolve_migrations(0..10, true);
        let found: Vec<_> = (1..=4).map(|slot| members(&view, slot)).collect();
        assert_eq!(found, ["aa", "aa", "aa", "aa ee"]);
        assert!((0..10).all(|slot| !view.is_unclaimed(slot)));
        // The peer may be a node that has not sent its report.
        view.add_report(report);
        view.resolve_migrations(0..10, false);
        let unclaimed: Vec<_> = (0..10).filter(|slot| view.is_unclaimed(*slot)).collect();
        assert_eq!(unclaimed, [1, 2, 3]);
    }

    #[test]
    fn a_replica_claims_no_slots() {
        let mut view = ClusterView::new();
        let report = "aa h:1@2 myself,slave bb 0 0 3 connected\nbb h:3@4 master - 0 0 2 connected 0-9\n";
        assert_eq!(view.add_report(report), Some(NodeRole::Replica));
        view.resolve_migrations(0..10, false);
        assert!(view.has_slots() && (0..10).all(|slot| view.is_unclaimed(slot) && view.members_of(slot).is_empty()));
    }
}
