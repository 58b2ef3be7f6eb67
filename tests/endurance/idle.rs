//! The open connections and the requests of an idle client after its releases.

use std::time::Duration;

use futures_util::future::join_all;
use redgrid_core::Client;
use redgrid_testkit::RedisServer;

use crate::counters::{Calls, Counter, connections};
use crate::fixture::{Deployment, Topology, connected, hold};
use crate::report::Report;

/// How long commands are counted.
const LONG: Duration = Duration::from_secs(20);

/// After this time no effect of the releases is left: names stay subscribed for half a second.
const SETTLED: Duration = Duration::from_secs(2);

const LOCKS: usize = 10;
const LEASE: Duration = Duration::from_secs(30);

/// Limit for a check of a server every second (`scan_interval`) in 20 s, plus two for the first and
/// the last moment.
const CHECKS: f64 = 22.0;

/// Limit for one ping every five seconds (`ping_interval`) on each of two connections in 20 s, plus
/// one more of each.
const PINGS: f64 = 10.0;

struct Found {
    topology: Topology,
    /// For each server, primaries first: connections for requests and for subscriptions, and the
    /// calls.
    servers: Vec<((usize, usize), Calls)>,
    sentinels: Vec<(usize, usize)>,
    primaries: usize,
}

pub(crate) async fn run(report: &mut Report) {
    // The topologies run concurrently, because no duration is measured.
    for found in join_all(Topology::ALL.map(measure)).await {
        add(report, &found);
    }
}

async fn measure(topology: Topology) -> Found {
    let deployment = Deployment::start(topology).await;
    // The calls of replicas and sentinels among themselves, without a client.
    let others = counted(deployment.servers()).await;
    let client: Client = connected(deployment.config()).await;
    let names: Vec<String> = (0..LOCKS).map(|n| format!("idle:{n}")).collect();
    for guard in hold(&client, &names, LEASE).await {
        guard.release().await.expect("it is held");
    }
    tokio::time::sleep(SETTLED).await;
    let calls = counted(deployment.servers()).await;
    let mut servers = Vec::new();
    for ((server, mut calls), others) in deployment.servers().iter().zip(calls).zip(others) {
        for (name, count) in &mut calls {
            *count = count.saturating_sub(others.get(name).copied().unwrap_or_default());
        }
        // The counter itself sends INFO.
        calls.retain(|name, count| *count > 0 && name != "info");
        servers.push((connections(server).await, calls));
    }
    let mut sentinels = Vec::new();
    for sentinel in deployment.sentinels() {
        sentinels.push(connections(sentinel).await);
    }
    Found { topology, servers, sentinels, primaries: deployment.primaries().len() }
}

async fn counted(servers: &[RedisServer]) -> Vec<Calls> {
    let counter = Counter::begin(servers).await;
    tokio::time::sleep(LONG).await;
    counter.so_far().await
}

fn add(report: &mut Report, found: &Found) {
    let Found { topology, servers, sentinels, primaries } = found;
    let (at_primaries, at_replicas) = servers.split_at(*primaries);
    let most = |servers: &[((usize, usize), Calls)], which: fn(&(usize, usize)) -> usize| {
        servers.iter().map(|(connections, _)| which(connections)).max().unwrap_or_default()
    };
    // A client has one connection for requests and one for subscriptions. While there is no
    // subscription, the server reports both in the same way.
    let all = most(at_primaries, |it| it.0 + it.1);
    report.at_most(format!("{topology}: connections to a primary"), all as f64, 2.0);
    if !at_replicas.is_empty() {
        let all = most(at_replicas, |it| it.0 + it.1);
        report.at_most(format!("{topology}: connections to a replica"), all as f64, 1.0);
    }
    if !sentinels.is_empty() {
        let all = sentinels.iter().map(|it| it.0 + it.1).max().unwrap_or_default();
        report.at_most(format!("{topology}: connections to a sentinel"), all as f64, 2.0);
    }
    let is_check = |name: &str| matches!(name, "role" | "cluster|slots");
    // Sentinels also reconnect to a server that was slow.
    let by_sentinels = |name: &str| !sentinels.is_empty() && matches!(name, "publish" | "subscribe" | "client|setname");
    let is_internal = |name: &str| name == "replconf" || by_sentinels(name);
    let mut checks = Calls::new();
    let (mut pings, mut others) = (0, 0);
    for (_, calls) in servers {
        for (name, count) in calls {
            match &**name {
                "ping" | "time" => pings = pings.max(*count),
                name if is_check(name) => *checks.entry(name.to_owned()).or_default() += count,
                // Calls of replicas and sentinels among themselves, a few more than without a
                // client.
                name if is_internal(name) => {}
                _ => others += count,
            }
        }
    }
    let checks = checks.values().sum::<u64>() as f64;
    report.at_most(format!("{topology}: topology checks in 20 s"), checks, CHECKS * servers.len() as f64);
    if sentinels.is_empty() {
        report.at_most(format!("{topology}: pings to a server in 20 s"), pings as f64, PINGS);
    } else {
        // The sentinels' own pings are too many to separate ours from them.
        report.number(format!("{topology}: pings to a server in 20 s"), pings);
    }
    report.exactly(format!("{topology}: other commands in 20 s"), usize::try_from(others).unwrap_or(usize::MAX), 0);
    report.number(format!("{topology}: commands of each server"), servers.iter().map(|it| &it.1).collect::<Vec<_>>());
    report.number(format!("{topology}: connections of each"), servers.iter().map(|it| it.0).collect::<Vec<_>>());
    report.number(format!("{topology}: connections to each sentinel"), sentinels);
}
