//! The open connections and the requests of an idle client after its releases.

use std::time::Duration;

use futures_util::future::join_all;
use redgrid_core::Client;
use redgrid_testkit::RedisServer;

use crate::fixture::{Deployment, Topology, connected, hold};
use crate::look::{Calls, Counter, connections};
use crate::report::Report;

/// How long commands are counted.
const LONG: Duration = Duration::from_secs(20);

/// What is left of the releases when they are answered: names stay subscribed for half a second.
const SETTLED: Duration = Duration::from_secs(2);

const LOCKS: usize = 10;
const LEASE: Duration = Duration::from_secs(30);

/// What may be asked of a server once a second: `scan_interval`, and twice that for a look that
/// falls into the first and the last moment.
const A_LOOK_A_SECOND: f64 = 22.0;

/// One every five seconds for each of two connections (`ping_interval`), and one more of each.
const PINGS: f64 = 10.0;

struct Found {
    topology: Topology,
    /// By server, primaries first: connections for requests and for subscriptions, and what was
    /// asked.
    servers: Vec<((usize, usize), Calls)>,
    sentinels: Vec<(usize, usize)>,
    primaries: usize,
}

pub(crate) async fn play(report: &mut Report) {
    // Side by side: nothing is timed.
    for found in join_all(Topology::ALL.map(look)).await {
        tell(report, &found);
    }
}

async fn look(topology: Topology) -> Found {
    let deployment = Deployment::start(topology).await;
    // What replicas and sentinels say to each other, whoever else is there.
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
        // The look itself.
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

fn tell(report: &mut Report, found: &Found) {
    let Found { topology, servers, sentinels, primaries } = found;
    let (deciding, copying) = servers.split_at(*primaries);
    let most = |servers: &[((usize, usize), Calls)], which: fn(&(usize, usize)) -> usize| {
        servers.iter().map(|(connections, _)| which(connections)).max().unwrap_or_default()
    };
    // One for requests, and one that subscribes (where there is nothing to subscribe, it looks like
    // the other).
    let all = most(deciding, |it| it.0 + it.1);
    report.at_most(format!("{topology}: connections to a primary"), all as f64, 2.0);
    if !copying.is_empty() {
        let all = most(copying, |it| it.0 + it.1);
        report.at_most(format!("{topology}: connections to a replica"), all as f64, 1.0);
    }
    if !sentinels.is_empty() {
        let all = sentinels.iter().map(|it| it.0 + it.1).max().unwrap_or_default();
        report.at_most(format!("{topology}: connections to a sentinel"), all as f64, 2.0);
    }
    let looking = |name: &str| matches!(name, "role" | "cluster|slots");
    // Sentinels connect anew to a server that was slow, too.
    let by_sentinels = |name: &str| !sentinels.is_empty() && matches!(name, "publish" | "subscribe" | "client|setname");
    let between = |name: &str| name == "replconf" || by_sentinels(name);
    let mut looks = Calls::new();
    let (mut pings, mut others) = (0, 0);
    for (_, calls) in servers {
        for (name, count) in calls {
            match &**name {
                "ping" | "time" => pings = pings.max(*count),
                name if looking(name) => *looks.entry(name.to_owned()).or_default() += count,
                // Replicas and sentinels to each other, a little more than when nobody else was
                // there.
                name if between(name) => {}
                _ => others += count,
            }
        }
    }
    let looks = looks.values().sum::<u64>() as f64;
    report.at_most(format!("{topology}: looks at the topology in 20 s"), looks, A_LOOK_A_SECOND * servers.len() as f64);
    if sentinels.is_empty() {
        report.at_most(format!("{topology}: pings to a server in 20 s"), pings as f64, PINGS);
    } else {
        // Those of the sentinels are too many to be told from ours.
        report.number(format!("{topology}: pings to a server in 20 s"), pings);
    }
    report.exactly(format!("{topology}: other commands in 20 s"), usize::try_from(others).unwrap_or(usize::MAX), 0);
    report.number(format!("{topology}: commands of each server"), servers.iter().map(|it| &it.1).collect::<Vec<_>>());
    report.number(format!("{topology}: connections of each"), servers.iter().map(|it| it.0).collect::<Vec<_>>());
    report.number(format!("{topology}: connections to each sentinel"), sentinels);
}
