//! The cost of a release on the bus of a cluster. PUBLISH sends its message to every node, SPUBLISH
//! only to the nodes of the channel's slot.
//!
//! Servers do not report the bytes that they write to each other. Their traffic on the bus is
//! therefore calculated. The operating system reports the bytes that each process writes, and each
//! server the bytes that it writes to clients and replicas. The difference, less the traffic of an
//! idle cluster, is the bus traffic.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use redgrid_core::config::ShardedSubscriptions;
use redgrid_core::{Client, Config};
use redgrid_locks::Lock;
use redgrid_testkit::{Cluster, Observer, RedisServer, wait_until};
use tokio::task::JoinSet;

use crate::look::{Counted, written};
use crate::report::Report;
use crate::{AT_A_TIME, SOON, Trouble, connected};

/// How long the traffic of the idle cluster is measured.
const AT_REST: Duration = Duration::from_secs(5);

/// The clusters: number of primaries, and number of replicas of each primary.
const CLUSTERS: [(usize, usize); 2] = [(3, 0), (3, 1)];

const MODES: [(&str, ShardedSubscriptions); 2] =
    [("PUBLISH", ShardedSubscriptions::Off), ("SPUBLISH", ShardedSubscriptions::On)];

pub(crate) async fn play(report: &mut Report, wakes: usize) -> Result<(), Trouble> {
    for (primaries, replicas) in CLUSTERS {
        let cluster = Cluster::start(primaries, replicas).await?;
        cluster.wait_until_ok().await?;
        let nodes = cluster.nodes().len();
        for (mode, sharded) in MODES {
            let cost = cost(&cluster, sharded, wakes).await?;
            // Number of nodes that receive a message from the node where it was published.
            let others = if mode == "PUBLISH" { nodes - 1 } else { replicas };
            let name = |what: &str| format!("{nodes} nodes, {mode}: {what}");
            report.number(name("bytes on the bus, a release"), cost.bus);
            if others > 0 {
                report.number(name("bytes on the bus, a release and node told"), cost.bus / others as f64);
            }
            report.number(name("nodes told"), others as f64);
            report.number(name("published, a wake-up"), cost.published);
            report.number(name("server, µs a wake-up"), cost.cpu);
            report.number(name("bytes on the bus at rest, a second and node"), cost.at_rest / nodes as f64);
            report.say(&name(&format!("{:.0} B a release", cost.bus)));
        }
    }
    Ok(())
}

struct Cost {
    /// Bytes on the bus for each published message.
    bus: f64,
    published: f64,
    /// Microseconds of processor time of all servers, for each wake-up.
    cpu: f64,
    /// Bytes per second on the bus of the idle cluster, of all nodes.
    at_rest: f64,
}

async fn cost(cluster: &Cluster, sharded: ShardedSubscriptions, wakes: usize) -> Result<Cost, Trouble> {
    let seeds = || cluster.nodes().iter().take(2).map(|node| node.addr().to_string()).collect::<Vec<_>>();
    let config = || Ok::<_, Trouble>(Config::cluster(seeds())?.sharded_subscriptions(sharded));
    let (holder, waiter) = (connected(config()?).await?, connected(config()?).await?);
    let mut observers = Vec::new();
    for node in cluster.nodes() {
        observers.push(node.observer().await?);
    }
    // Each client subscribes to the channel for its own notifications when it starts.
    let notices = async || Counted::at_all(&observers).await.is_ok_and(|now| now.channels >= 2.0);
    wait_until(SOON, notices).await;
    wake([&holder, &waiter], &observers, 0..AT_A_TIME).await?;

    let (before, began) = (bus(cluster.nodes(), &observers).await?, Instant::now());
    // This sleep is the measured time, not a wait for a condition.
    tokio::time::sleep(AT_REST).await;
    let at_rest = (bus(cluster.nodes(), &observers).await? - before) / began.elapsed().as_secs_f64();

    let counted = Counted::at_all(&observers).await?;
    let (before, began) = (bus(cluster.nodes(), &observers).await?, Instant::now());
    wake([&holder, &waiter], &observers, AT_A_TIME..AT_A_TIME + wakes).await?;
    let spent = bus(cluster.nodes(), &observers).await? - before - at_rest * began.elapsed().as_secs_f64();
    let counted = Counted::at_all(&observers).await?.since(counted);
    for client in [&holder, &waiter] {
        client.shutdown(SOON).await?;
    }
    let each = wakes as f64;
    Ok(Cost {
        bus: spent / counted.published.max(1.0),
        published: counted.published / each,
        cpu: counted.cpu * 1e6 / each,
        at_rest,
    })
}

/// For each name, one client waits until the other client releases it.
async fn wake(
    [holder, waiter]: [&Client; 2],
    observers: &[Observer],
    names: std::ops::Range<usize>,
) -> Result<(), Trouble> {
    let own = Counted::at_all(observers).await?.channels;
    let channels = async |is_enough: &dyn Fn(f64) -> bool| {
        let enough = async || Counted::at_all(observers).await.is_ok_and(|now| is_enough(now.channels - own));
        wait_until(SOON, enough).await;
    };
    for first in names.clone().step_by(AT_A_TIME) {
        let some = (first..names.end.min(first + AT_A_TIME)).map(|number| format!("bus:{number}"));
        let some: Vec<String> = some.collect();
        let held = some.iter().map(|name| Lock::new(holder, name).acquire().into_future());
        let held = try_join_all(held).await?;
        let mut waiting = JoinSet::new();
        for name in &some {
            let lock = Lock::new(waiter, name);
            waiting.spawn(async move { Ok::<_, Trouble>(lock.acquire().timeout(SOON).await?.release().await?) });
        }
        channels(&|more| more >= some.len() as f64).await;
        try_join_all(held.into_iter().map(|guard| guard.release())).await?;
        while let Some(ended) = waiting.join_next().await {
            ended??;
        }
        channels(&|more| more <= 0.0).await;
    }
    Ok(())
}

/// Returns the bytes that the nodes have sent each other so far.
async fn bus(nodes: &[RedisServer], observers: &[Observer]) -> Result<f64, Trouble> {
    let counted = Counted::at_all(observers).await?;
    Ok(written(nodes)? - counted.written - counted.replicated)
}
