//! Checks whether the user has the permissions that locks need. Each node is checked, because each
//! has its own users.

use std::collections::BTreeSet;

use redgrid::client::Code;
use redgrid::config::Durability;
use redgrid::{Client, ServerError};
use uuid::Uuid;

use super::facts::{Facts, Node, Requirements, command};
use super::finding::Finding;

const CHECK: &str = "acl";

/// Executes the commands of the lock scripts, and returns those that are denied. The script
/// declares no keys, so that cluster nodes and replicas execute it too. They check permissions
/// before they reject a command for another reason. The script deletes what it writes.
const SCRIPT: &str = "\
local name, denied = ARGV[1], {}
local function may(label, ...)
  local answer = redis.pcall(...)
  local refused = type(answer) == 'table' and answer.err
  -- Before 7.0 the texts differ.
  if refused and (refused:find('NOPERM', 1, true) or refused:find(\"can't run this command\", 1, true)
      or refused:find(\"can't access at least one of the keys\", 1, true) or refused:find('no permission', 1, true)
      or refused:find('ACL failure', 1, true) or refused:find('No permissions', 1, true)) then
    denied[#denied + 1] = label
    return false
  end
  return true
end
may('exists', 'EXISTS', name)
may('hexists', 'HEXISTS', name, 'f')
may('hkeys', 'HKEYS', name)
may('hlen', 'HLEN', name)
may('hget', 'HGET', name, 'f')
may('pttl', 'PTTL', name)
may('time', 'TIME')
may('pexpire', 'PEXPIRE', name, '1000')
if may('hdel', 'HDEL', name, 'f') and may('hset', 'HSET', name, 'f', '1') then
  redis.pcall('HDEL', name, 'f')
end
may('publish', 'PUBLISH', 'redisson_lock__channel:{' .. name .. '}', 'doctor')
local wait = 'redgrid_wait:{' .. name .. '}'
if may('set', 'SET', wait, '1', 'PX', '1') then
  redis.pcall('DEL', wait)
end
may('spublish', 'SPUBLISH', 'redisson_lock__channel:{' .. name .. '}', 'doctor')
return denied";

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
pub(crate) struct Permissions {
    denied: BTreeSet<String>,
}

impl Permissions {
    pub(crate) async fn of(client: &Client) -> Self {
        let mut denied = BTreeSet::new();
        for (label, words) in COMMANDS {
            if command(client, words).query::<()>().await.is_err_and(|error| is_denied(&error)) {
                denied.insert(label.to_owned());
            }
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
        Permissions { denied }
    }
}

fn is_denied(error: &ServerError) -> bool {
    matches!(error, ServerError::Refused { code: Code::NoPermission, .. })
}

pub(crate) fn check(node: &Node, facts: &Facts, requirements: &Requirements) -> Option<Finding> {
    if node.unreachable.is_some() {
        return None;
    }
    let user = facts.user.as_deref().unwrap_or("the user");
    let clustered = facts.topology == "cluster";
    let wanted = |label: &str| match label {
        "wait" => matches!(requirements.durability, Durability::Replicas { .. }),
        "waitaof" => matches!(requirements.durability, Durability::Disk { .. }),
        // These commands do not exist before 7.0; their absence is not a missing permission.
        label if IN_A_CLUSTER.contains(&label) => clustered,
        _ => true,
    };
    let denied: Vec<&str> = node.permissions.denied.iter().map(String::as_str).filter(|label| wanted(label)).collect();
    let fatal =
        |label: &&str| NEEDED.contains(label) || *label == "cluster|slots" || matches!(*label, "wait" | "waitaof");
    let finding = if denied.is_empty() {
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
