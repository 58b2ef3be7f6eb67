//! Checks what a server's settings mean for the locks on it.

use redgrid_core::config::Durability;

use super::facts::Node;
use super::finding::Finding;
use super::limits::Limits;

/// From this time limit of scripts on, a warning is given: 10 s, twice the default.
const LONG_SCRIPT_MS: u64 = 10_000;

pub(super) fn check(node: &Node, limits: &Limits) -> Vec<Finding> {
    if let Some(why) = &node.unreachable {
        let message = format!("cannot be reached ({why}): if it is promoted, clients cannot use it either; check it");
        return vec![Finding::fail("reach", message).at(&node.address)];
    }
    let mut findings = vec![version(node)];
    findings.extend(node.without_resp3.iter().map(|why| {
        Finding::warn(
            "protocol",
            format!("{why}; set protocol to resp2, so that new connections do not try RESP3 first"),
        )
    }));
    if node.settings.is_some() {
        findings.extend([memory(node), persistence(node, limits), notifications(node), scripts(node)]);
        findings.extend(connections(node, limits));
    } else if !limits.is_for_reader {
        let message = "this user may not run CONFIG GET: persistence, memory, replicas and timeouts were not checked; run this \
                    as an administrator";
        findings.push(Finding::warn("settings", message));
    }
    findings.into_iter().map(|finding| finding.at(&node.address)).collect()
}

fn version(node: &Node) -> Finding {
    let name = if node.info.contains_key("valkey_version") { "Valkey" } else { "Redis" };
    match node.release() {
        None => Finding::warn("version", "is unknown (INFO is denied); 6.2 is the oldest that works"),
        Some((major, minor)) if (major, minor) < (6, 2) => {
            Finding::fail("version", format!("{name} {major}.{minor} is too old; 6.2 is the oldest that works"))
        }
        Some((major, minor)) => Finding::ok("version", format!("{name} {major}.{minor}")),
    }
}

fn memory(node: &Node) -> Finding {
    let policy = node.setting("maxmemory-policy");
    let limit = node.number("maxmemory").unwrap_or(0);
    match (policy, limit) {
        ("noeviction", 0) => {
            Finding::ok("memory", "no key is evicted; without maxmemory, the machine's memory is the limit")
        }
        ("noeviction", _) => {
            Finding::ok("memory", "no key is evicted; a full server refuses new locks, and keeps held ones")
        }
        (policy, 0) => Finding::warn(
            "memory",
            format!("maxmemory-policy {policy} would evict held locks as soon as maxmemory is set; set noeviction"),
        ),
        (policy, _) => Finding::fail(
            "memory",
            format!("maxmemory-policy {policy} evicts held locks when memory is short; set noeviction"),
        ),
    }
}

fn persistence(node: &Node, limits: &Limits) -> Finding {
    const CHECK: &str = "persistence";
    let (append, fsync, save) =
        (node.setting("appendonly") == "yes", node.setting("appendfsync"), node.setting("save"));
    match (append, fsync, limits.durability) {
        (false, _, Durability::Disk { .. }) => Finding::fail(
            CHECK,
            "durability is `disk`, but there is no append-only file: no lock is ever granted; set appendonly yes",
        ),
        (true, "no", Durability::Disk { .. }) => Finding::warn(
            CHECK,
            "durability is `disk`, but appendfsync is no: grants wait for a sync that the server never requests; set everysec or always",
        ),
        (true, "always", _) => Finding::ok(CHECK, "every grant is on disk before the reply: locks survive a restart"),
        (true, "everysec", _) => Finding::ok(
            CHECK,
            "locks survive a restart, except for the last one or two seconds; `durability: disk` waits for these too",
        ),
        (true, other, _) => Finding::warn(
            CHECK,
            format!(
                "appendfsync {other}: a crash of the machine loses the locks of the last half minute; set everysec"
            ),
        ),
        (false, _, _) if save.is_empty() => Finding::warn(
            CHECK,
            "nothing is written to disk: a restart loses every held lock, and a restarted primary \
             empties its replicas; set appendonly yes",
        ),
        (false, _, _) => Finding::warn(
            CHECK,
            "only snapshots are written: a restart loses every lock since the last one; set appendonly yes",
        ),
    }
}

fn notifications(node: &Node) -> Finding {
    match node.setting("notify-keyspace-events") {
        "" => Finding::ok("events", "notify-keyspace-events is off; locks do not need it"),
        set => Finding::ok(
            "events",
            format!("notify-keyspace-events is {set}; locks do not need it, and it costs a message for each change"),
        ),
    }
}

fn scripts(node: &Node) -> Finding {
    match node.number("lua-time-limit") {
        // The server does not have a setting of this name.
        None => Finding::ok("scripts", "the time limit of scripts is unknown"),
        Some(0) => Finding::warn(
            "scripts",
            "a script of another client may run for ever, and the server accepts no command meanwhile, not even SCRIPT KILL; \
             set lua-time-limit 5000",
        ),
        Some(limit) if limit > LONG_SCRIPT_MS => Finding::warn(
            "scripts",
            format!(
                "a script of another client blocks all locks for {limit} ms before SCRIPT KILL is accepted; set 5000"
            ),
        ),
        Some(limit) => Finding::ok("scripts", format!("a script that runs for more than {limit} ms can be killed")),
    }
}

fn connections(node: &Node, limits: &Limits) -> Vec<Finding> {
    let timeout = match node.number("timeout") {
        Some(seconds) if seconds > 0 && seconds <= 2 * limits.ping_interval.as_secs() => Finding::warn(
            "timeout",
            format!(
                "connections that are idle for {seconds} s are closed, and the client pings every {:?}: a delayed ping \
                 loses the connection; set timeout 0, or well above",
                limits.ping_interval
            ),
        ),
        _ => Finding::ok("timeout", "idle connections stay open"),
    };
    let keepalive = match node.number("tcp-keepalive") {
        Some(0) => {
            Finding::warn("keepalive", "connections of dead clients stay for ever; set tcp-keepalive 300 (or less)")
        }
        _ => Finding::ok("keepalive", "connections of dead clients are closed"),
    };
    vec![timeout, keepalive]
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::time::Duration;

    use super::super::finding::Level;
    use super::*;

    const LIMITS: Limits = Limits {
        lease: Duration::from_secs(30),
        ping_interval: Duration::from_secs(10),
        durability: Durability::Primary,
        is_for_reader: false,
    };

    fn with(settings: &[(&str, &str)]) -> Node {
        let settings: HashMap<String, String> = settings.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect();
        Node { settings: Some(settings), ..Node::default() }
    }

    #[test]
    fn whatever_evicts_with_a_limit_fails() {
        let level = |policy, limit| memory(&with(&[("maxmemory-policy", policy), ("maxmemory", limit)])).level;
        assert_eq!(level("noeviction", "0"), Level::Ok);
        assert_eq!(level("noeviction", "1000"), Level::Ok);
        assert_eq!(level("volatile-lru", "0"), Level::Warn);
        assert_eq!((level("volatile-ttl", "1000"), level("allkeys-lru", "1000")), (Level::Fail, Level::Fail));
    }

    #[test]
    fn required_disk_durability_must_be_available() {
        let disk = Limits { durability: Durability::Disk { timeout: Duration::from_secs(1) }, ..LIMITS };
        let node = with(&[("appendonly", "no"), ("save", "")]);
        assert_eq!((persistence(&node, &LIMITS).level, persistence(&node, &disk).level), (Level::Warn, Level::Fail));
        let node = with(&[("appendonly", "yes"), ("appendfsync", "everysec")]);
        assert_eq!(persistence(&node, &disk).level, Level::Ok);
        let node = with(&[("appendonly", "yes"), ("appendfsync", "no")]);
        assert_eq!(persistence(&node, &disk).level, Level::Warn);
    }

    #[test]
    fn a_timeout_shorter_than_our_ping_interval_is_reported() {
        let level = |seconds| connections(&with(&[("timeout", seconds), ("tcp-keepalive", "300")]), &LIMITS)[0].level;
        assert_eq!((level("0"), level("15"), level("600")), (Level::Ok, Level::Warn, Level::Ok));
    }

    #[test]
    fn an_old_server_and_one_that_is_gone_fail() {
        let mut node = with(&[]);
        node.info.insert("redis_version".into(), "6.0.16".into());
        assert_eq!(version(&node).level, Level::Fail);
        node.unreachable = Some("refused".into());
        assert_eq!(check(&node, &LIMITS).iter().map(|found| found.level).collect::<Vec<_>>(), [Level::Fail]);
    }
}
