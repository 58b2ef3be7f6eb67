//! Checks whether the user has the permissions that locks need. Each node is checked, because each
//! has its own users.

use std::collections::BTreeSet;

use redgrid_core::config::Durability;
use redgrid_core::{Client, Code, ServerError};
use uuid::Uuid;

use super::facts::{Facts, Node, command};
use super::finding::Finding;
use super::limits::Limits;

const CHECK: &str = "acl";

/// Executes the commands of the scripts of locks, and returns what is denied.
const SCRIPT: &str = include_str!("../scripts/permissions.lua");

/// Commands outside of scripts, each in a form that changes nothing.
const COMMANDS: [(&str, &[&str]); 12] = [
    ("ping", &["PING"]),
    ("time", &["TIME"]),
    ("info", &["INFO", "server"]),
    ("client|info", &["CLIENT", "INFO"]),
    ("client|id", &["CLIENT", "ID"]),
    ("role", &["ROLE"]),
    ("evalsha", &["EVALSHA", "0000000000000000000000000000000000000000", "0"]),
    ("wait", &["WAIT", "0", "1"]),
    ("waitaof", &["WAITAOF", "0", "0", "1"]),
    ("cluster|slots", &["CLUSTER", "SLOTS"]),
    ("asking", &["ASKING"]),
    ("pubsub|shardnumsub", &["PUBSUB", "SHARDNUMSUB", "0"]),
];

/// The commands without which locks do not work.
const NEEDED: [&str; 9] = ["time", "eval", "evalsha", "exists", "hexists", "hset", "hdel", "pexpire", "pttl"];

/// The commands needed for sharded channels in a cluster.
const IN_A_CLUSTER: [&str; 4] = ["cluster|slots", "asking", "spublish", "pubsub|shardnumsub"];

/// The permissions that one node denies to the user.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Permissions {
    denied: BTreeSet<String>,
    /// Whether the permissions inside scripts were left out.
    is_without_scripts: bool,
}

impl Permissions {
    pub(super) async fn of(client: &Client, is_read_only: bool) -> Self {
        let mut denied = BTreeSet::new();
        for (label, words) in COMMANDS {
            if command(client, words).query::<()>().await.is_err_and(|error| is_denied(&error)) {
                denied.insert(label.to_owned());
            }
        }
        if is_read_only {
            return Permissions { denied, is_without_scripts: true };
        }
        let name = format!("redgrid-doctor:{}", Uuid::new_v4().simple());
        match command(client, &["EVAL", SCRIPT, "0", &name]).query::<Vec<String>>().await {
            Ok(more) => denied.extend(more),
            Err(error) if is_denied(&error) => {
                denied.insert("eval".to_owned());
            }
            // A replica may reject every script; then the permissions inside scripts are unknown.
            Err(_) => {}
        }
        Permissions { denied, is_without_scripts: false }
    }
}

fn is_denied(error: &ServerError) -> bool {
    matches!(error, ServerError::Refused { code: Code::NoPermission, .. })
}

pub(super) fn check(node: &Node, facts: &Facts, limits: &Limits) -> Option<Finding> {
    if node.unreachable.is_some() {
        return None;
    }
    let permissions = node.permissions.as_ref()?;
    let user = node.user.as_deref().unwrap_or("the user");
    let clustered = facts.topology == "cluster";
    let wanted = |label: &str| match label {
        "wait" => matches!(limits.durability, Durability::Replicas { .. }),
        "waitaof" => matches!(limits.durability, Durability::Disk { .. }),
        // They do not exist before 7.0, which is not a matter of permissions.
        label if IN_A_CLUSTER.contains(&label) => clustered,
        _ => true,
    };
    let denied: Vec<&str> = permissions.denied.iter().map(String::as_str).filter(|label| wanted(label)).collect();
    let fatal =
        |label: &&str| NEEDED.contains(label) || *label == "cluster|slots" || matches!(*label, "wait" | "waitaof");
    let finding = if denied.is_empty() && permissions.is_without_scripts {
        let rest = "those of commands in scripts are not checked, because that would write; use `redgrid doctor` without \
                    --read-only";
        Finding::ok(CHECK, format!("{user} has the permissions that locks need outside of scripts; {rest}"))
    } else if denied.is_empty() {
        Finding::ok(CHECK, format!("{user} has all permissions that locks need"))
    } else if denied.iter().any(fatal) {
        let list = denied.join(" +");
        Finding::fail(
            CHECK,
            format!("{user} is denied +{list}: locks do not work here; docs/operating/acl.md has the complete rules"),
        )
    } else {
        let list = denied.join(" +");
        Finding::warn(
            CHECK,
            format!("{user} is denied +{list}: locks work without some wake-ups or checks; see docs/operating/acl.md"),
        )
    };
    Some(finding.at(&node.address))
}
