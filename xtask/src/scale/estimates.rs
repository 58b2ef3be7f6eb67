//! Estimates for larger deployments, derived from the measurements. Each figure has its formula,
//! and the resource that limits it.

use std::fmt::Write;

use serde_json::Value;

use crate::bench::figure;

/// The estimated cluster: its nodes, and its primaries with one replica each.
const NODES: f64 = 100.0;
const PRIMARIES: f64 = 50.0;

/// Releases per second in the whole cluster, for the load of the bus.
const RELEASES: f64 = 10_000.0;

/// The share of a core that is used for renewals: a tenth, so that requests have the rest.
const FOR_RENEWALS: f64 = 0.1;

const GIB: f64 = (1_u64 << 30) as f64;

/// Formats the section. A missing measurement is a dash.
pub(super) fn text(lines: &[Value]) -> String {
    let line =
        |measure: &str| lines.iter().find(|line| line.pointer("/measure").and_then(Value::as_str) == Some(measure));
    let of = |measure: &str, name: &str| {
        line(measure)?.pointer("/numbers")?.get(name)?.as_f64().filter(|number| *number > 0.0)
    };
    let count = |measure: &str| line(measure)?.pointer("/count")?.as_f64();
    let a_second = |micros: Option<f64>| micros.map(|micros| 1e6 / micros);
    let fitting = |bytes: Option<f64>| bytes.map(|bytes| GIB / bytes);
    // The number of renewals that fit into this share of a minute, at the measured cost.
    let renewed = |name: &str| Some(FOR_RENEWALS * 60.0 / of("held", name)? * count("held")?);
    // Each row has a quantity, its formula, and its maximum for one process and for one server.
    let rows = [
        (
            "locks a second that nobody else wants, a core",
            "10⁶ / µs a pair: processor time",
            [a_second(of("names", "client, µs a pair")), a_second(of("names", "server, µs a pair"))],
        ),
        (
            "turns a second of names that two processes want, a core",
            "10⁶ / µs a turn: processor time",
            [a_second(of("waiters", "holder and waiter, µs a turn")), a_second(of("waiters", "server, µs a turn"))],
        ),
        (
            "locks held, a tenth of a core for their renewals",
            "6 s / (CPU s a minute and lock): processor time",
            [renewed("client, CPU s a minute"), renewed("server, CPU s a minute")],
        ),
        (
            "locks held, a GiB",
            "2³⁰ / B a lock: memory",
            [fitting(of("held", "client's heap, B a lock")), fitting(of("held", "server's memory, B a lock"))],
        ),
        (
            "tasks that wait for one name, a GiB",
            "2³⁰ / B a waiter; the server has one channel for all",
            [fitting(of("queue", "client's heap, B a waiter and task")), None],
        ),
        (
            "tasks that wait for a name each, a GiB",
            "2³⁰ / B a waiter: memory",
            [
                fitting(of("waiters", "client's heap, B a waiter and task")),
                fitting(of("waiters", "server's memory, B a waiter")),
            ],
        ),
    ];
    let mut text = format!(
        "#### On paper\n\nA cluster is {NODES} nodes: {PRIMARIES} primaries, a replica each; names spread evenly, so it carries \
         {PRIMARIES} times what a server does.\n\n| how many | one process | one server | a cluster | reckoned by, limited by |\n\
         |---|---|---|---|---|\n"
    );
    for (what, how, [process, server]) in rows {
        let cluster = server.map(|server| server * PRIMARIES);
        let [process, server, cluster] = [process, server, cluster].map(figure);
        let _ = writeln!(text, "| {what} | {process} | {server} | {cluster} | {how} |");
    }
    text + &bus(&of)
}

/// Estimates the bus traffic of releases. A message takes `m` bytes for each node that receives it,
/// independent of the cluster's size.
fn bus(of: &impl Fn(&str, &str) -> Option<f64>) -> String {
    let each = |mode: &str| of("bus", &format!("6 nodes, {mode}: bytes on the bus, a release and node told"));
    let mut text = format!(
        "\n| the bus of {NODES} nodes | B for a node told, m | nodes told | B a release | MB/s at {RELEASES} releases a second | \
         MB/s of a node |\n|---|---|---|---|---|---|\n"
    );
    // With SPUBLISH, only the replicas of the shard receive the message; all nodes together send
    // the same share.
    for (mode, told, formula) in [("PUBLISH", NODES - 1.0, "N − 1"), ("SPUBLISH", NODES / PRIMARIES - 1.0, "replicas")]
    {
        let release = each(mode).map(|bytes| bytes * told);
        let second = release.map(|bytes| bytes * RELEASES / 1e6);
        let cells = [each(mode), release, second, second.map(|bytes| bytes / PRIMARIES)].map(figure);
        let [each, release, second, node] = cells;
        let _ = writeln!(text, "| {mode} | {each} | {told} = {formula} | {release} | {second} | {node} |");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn estimates_follow_from_the_measurements() {
        let text = text(&[
            json!({ "measure": "names", "numbers": { "client, µs a pair": 10.0, "server, µs a pair": 20.0 } }),
            json!({ "measure": "held", "count": 1000, "numbers": {
                "client's heap, B a lock": 1024.0, "server's memory, B a lock": 256.0, "client, CPU s a minute": 0.6,
            } }),
            json!({ "measure": "bus", "numbers": {
                "6 nodes, PUBLISH: bytes on the bus, a release and node told": 2000.0,
                "6 nodes, SPUBLISH: bytes on the bus, a release and node told": 2000.0,
            } }),
        ]);
        for line in [
            "| locks a second that nobody else wants, a core | 100.0 k | 50.0 k | 2.50 M | 10⁶ / µs a pair: processor time |",
            "| locks held, a tenth of a core for their renewals | 10.0 k | – | – | 6 s / (CPU s a minute and lock): processor time |",
            "| locks held, a GiB | 1.05 M | 4.19 M | 209.72 M | 2³⁰ / B a lock: memory |",
            "| PUBLISH | 2000 | 99 = N − 1 | 198.0 k | 1980 | 39.6 |",
            "| SPUBLISH | 2000 | 1 = replicas | 2000 | 20.0 | 0.40 |",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is not in\n{text}");
        }
    }
}
