//! Checks which servers can become primary, and whether they then have the locks.

use redgrid_core::config::Durability;

use super::facts::{Facts, Node};
use super::finding::Finding;
use super::limits::Limits;

const SLOTS: &str = "16384";

pub(super) fn check(facts: &Facts, limits: &Limits) -> Vec<Finding> {
    let mut findings = Vec::new();
    if facts.primaries().next().is_none() {
        findings
            .push(Finding::fail("primary", "none of the servers is a primary: no lock can be acquired; promote one"));
    }
    let watched = matches!(facts.topology, "sentinel" | "cluster");
    for primary in facts.primaries() {
        findings.push(replicas(primary, watched).at(&primary.address));
        if primary.settings.is_some() {
            findings.push(min_replicas(primary, watched).at(&primary.address));
        }
        findings.extend(durability(primary, limits).map(|found| found.at(&primary.address)));
    }
    for replica in facts.nodes.iter().filter(|node| node.unreachable.is_none() && !node.is_primary()) {
        findings.extend(link(replica).map(|found| found.at(&replica.address)));
    }
    if facts.topology == "cluster" {
        findings.extend(cluster(facts, limits));
    }
    findings
}

fn replicas(primary: &Node, watched: bool) -> Finding {
    match (primary.replicas(), watched) {
        (0, true) => {
            Finding::fail("replicas", "no replica can replace it: if it dies, its locks are unavailable; add a replica")
        }
        (0, false) => Finding::ok("replicas", "a primary without replicas: if it dies, locks are unavailable"),
        (count, _) => Finding::ok("replicas", format!("{count} replicas, which follow a little later than it replies")),
    }
}

/// Checks `min-replicas-to-write`.
fn min_replicas(primary: &Node, watched: bool) -> Finding {
    const CHECK: &str = "min-replicas";
    let wanted = primary.number("min-replicas-to-write").unwrap_or(0);
    let there = u64::from(primary.replicas());
    match wanted {
        0 if watched && there > 0 => Finding::warn(
            CHECK,
            "min-replicas-to-write is 0: a partitioned primary keeps granting locks while another one is promoted; set 1 \
             (and min-replicas-max-lag), or use `durability: replicas`",
        ),
        0 => Finding::ok(CHECK, "writes do not depend on replicas"),
        wanted if wanted > there => Finding::fail(
            CHECK,
            format!(
                "min-replicas-to-write is {wanted} and there are {there}: no lock can be acquired; restore replicas"
            ),
        ),
        wanted => Finding::ok(CHECK, format!("it grants no locks with fewer than {wanted} replicas")),
    }
}

/// Compares the configuration's durability with the servers.
fn durability(primary: &Node, limits: &Limits) -> Option<Finding> {
    const CHECK: &str = "durability";
    let Durability::Replicas { at_least, .. } = limits.durability else { return None };
    let there = primary.replicas();
    Some(if at_least > there {
        Finding::fail(
            CHECK,
            format!("{at_least} replicas must acknowledge each grant and there are {there}: no lock is ever granted"),
        )
    } else if at_least < there {
        Finding::warn(
            CHECK,
            format!(
                "{at_least} of {there} replicas acknowledge a grant: a replica without it may be promoted; require \
                 all replicas that may be promoted"
            ),
        )
    } else {
        Finding::ok(CHECK, "every replica has a lock before it is granted; a missing replica stops grants")
    })
}

fn link(replica: &Node) -> Option<Finding> {
    let up = replica.info.get("master_link_status").is_none_or(|status| status == "up");
    (!up).then(|| {
        Finding::fail("replicas", "has no connection to its primary: if it is promoted, it lacks the recent locks")
    })
}

fn cluster(facts: &Facts, limits: &Limits) -> Vec<Finding> {
    const CHECK: &str = "cluster";
    let mut findings = Vec::new();
    let known: Vec<&Node> = facts.nodes.iter().filter(|node| !node.cluster.is_empty()).collect();
    if known.is_empty() && !limits.is_for_reader {
        return vec![Finding::warn(CHECK, "this user may not run CLUSTER INFO: slot coverage was not checked")];
    }
    for node in &known {
        let of = |name: &str| node.cluster.get(name).map_or("", String::as_str);
        if of("cluster_state") != "ok" || of("cluster_slots_ok") != SLOTS {
            let message = format!(
                "reports cluster_state:{} with {} of {SLOTS} slots served: locks in the other slots cannot be acquired; \
                 restore their nodes, or assign the slots",
                of("cluster_state"),
                of("cluster_slots_ok"),
            );
            findings.push(Finding::fail(CHECK, message).at(&node.address));
        }
    }
    if findings.is_empty() && !known.is_empty() {
        findings.push(Finding::ok(CHECK, format!("all {SLOTS} slots are served")));
    }
    if facts.primaries().count() < 3 {
        let message = "fewer than three primaries: there is no majority to promote a replica of a dead primary";
        findings.push(Finding::warn(CHECK, message));
    }
    if known.iter().any(|node| node.setting("cluster-require-full-coverage") == "yes") {
        let message = "cluster-require-full-coverage is yes: while one primary is missing, no lock can be acquired in any slot; set no \
                    to keep locks in the other slots available";
        findings.push(Finding::warn(CHECK, message));
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::finding::Level;
    use super::*;

    fn primary(replicas: &str, min_replicas: &str) -> Node {
        let mut node = Node::default();
        node.info.insert("connected_slaves".into(), replicas.into());
        node.settings = Some([("min-replicas-to-write".to_owned(), min_replicas.to_owned())].into());
        node
    }

    #[test]
    fn a_monitored_primary_needs_a_replica() {
        assert_eq!(replicas(&primary("0", "0"), true).level, Level::Fail);
        assert_eq!(replicas(&primary("0", "0"), false).level, Level::Ok);
    }

    #[test]
    fn a_primary_that_may_be_cut_off_is_reported_and_a_stopped_one_fails() {
        let level = |there, wanted, watched| min_replicas(&primary(there, wanted), watched).level;
        assert_eq!(level("2", "0", true), Level::Warn);
        assert_eq!(level("2", "1", true), Level::Ok);
        assert_eq!(level("0", "1", false), Level::Fail);
        assert_eq!(level("0", "0", false), Level::Ok);
    }

    #[test]
    fn required_replicas_must_exist_and_all_be_used() {
        let level = |at_least| {
            let durability_asked = Durability::Replicas { at_least, timeout: Duration::from_secs(1) };
            let limits = Limits {
                lease: Duration::ZERO,
                ping_interval: Duration::ZERO,
                durability: durability_asked,
                is_for_reader: false,
            };
            durability(&primary("2", "0"), &limits).map(|found| found.level)
        };
        assert_eq!([1, 2, 3].map(level), [Some(Level::Warn), Some(Level::Ok), Some(Level::Fail)]);
    }
}
