//! How to correct what the checks found.

use redgrid_inspect::{Finding, Level};

/// Returns a command or a step that corrects a finding; `None` if there is no single one.
pub(super) fn hint(finding: &Finding) -> Option<String> {
    if finding.level == Level::Ok {
        return None;
    }
    let is_about = |setting: &str| finding.message.contains(setting);
    let set = |setting: &str| Some(config_set(finding.node.as_deref()?, setting));
    match finding.check {
        "memory" => set("maxmemory-policy noeviction"),
        "persistence" if is_about("appendfsync") => set("appendfsync everysec"),
        "persistence" => set("appendonly yes"),
        "scripts" => set("lua-time-limit 5000"),
        "timeout" => set("timeout 0"),
        "keepalive" => set("tcp-keepalive 300"),
        "min-replicas" if finding.level == Level::Warn => set("min-replicas-to-write 1"),
        "min-replicas" => Some("start the missing replicas again".into()),
        "cluster" if is_about("cluster-require-full-coverage") => {
            Some("on each node: redis-cli CONFIG SET cluster-require-full-coverage no, then CONFIG REWRITE".into())
        }
        "replicas" if is_about("add a replica") => Some("start a replica of this node".into()),
        "clocks" => Some("on each host: timedatectl set-ntp true".into()),
        "protocol" => Some("add ?protocol=resp2 to the URL, or `protocol: resp2` to the configuration".into()),
        "settings" => Some("run this as a user with +config|get".into()),
        "acl" => Some("add the lines of docs/operating/acl.md to the user, on every node".into()),
        _ => None,
    }
}

/// Returns the command that changes a setting of a node.
fn config_set(node: &str, setting: &str) -> String {
    let (host, port) = node.rsplit_once(':').unwrap_or((node, "6379"));
    let host = host.trim_start_matches('[').trim_end_matches(']');
    format!("redis-cli -h {host} -p {port} CONFIG SET {setting}, then CONFIG REWRITE")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_changed_at_its_node() {
        let wanted = "redis-cli -h ::1 -p 7000 CONFIG SET timeout 0, then CONFIG REWRITE";
        assert_eq!(config_set("[::1]:7000", "timeout 0"), wanted);
        assert!(
            config_set("cache-1.example.org:6379", "timeout 0")
                .starts_with("redis-cli -h cache-1.example.org -p 6379 ")
        );
    }
}
