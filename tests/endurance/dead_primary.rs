//! One of three primaries without replicas is dead: the cost for the names of the other two.

use std::time::Duration;

use redgrid_core::config::Durability;
use redgrid_testkit::Cluster;
use redgrid_tests::SOON;
use redgrid_tests::spread::{Spread, median};

use crate::fixture::{THIRDS, by_seeds, connected, hold, names_in};
use crate::pairs::Pairs;
use crate::report::Report;

/// The length of a window, and the number of windows before and during the fault.
const WINDOW: Duration = Duration::from_secs(2);
const BEFORE: usize = 3;
const WHILE: usize = 5;

/// Names with pairs on each shard.
const NAMES: usize = 4;

/// Names held all the time on each living shard, and their lease: renewed every second.
const HELD: usize = 10;
const LEASE: Duration = Duration::from_secs(3);

/// Timeout of a call for the dead shard. After a timeout, the task calls again.
const WAIT: Duration = Duration::from_secs(1);

/// The bound of a pair's 99th percentile is at least this long, however short the pairs were
/// before: two processors with six servers are noisy.
const FLOOR_MS: f64 = 20.0;

/// Limit of every pair on the other shards: none of them waits for a timeout (3 s).
const LONGEST_MS: f64 = 1000.0;

pub(crate) async fn run(report: &mut Report) {
    for fault in ["kill -9", "SIGSTOP"] {
        measure(report, fault).await;
    }
}

async fn measure(report: &mut Report, fault: &str) {
    let cluster = Cluster::builder().replicas_per_primary(0).full_coverage(false).start().await.expect("it starts");
    let client = connected(by_seeds(&cluster)).await;
    // The first seed, to which clients connect first.
    let victim = &cluster.nodes()[0];
    let its = names_in(&cluster, THIRDS[0].clone(), "its", NAMES).await;
    let (mut others, mut kept) = (Vec::new(), Vec::new());
    for third in &THIRDS[1..] {
        others.extend(names_in(&cluster, third.clone(), "others", NAMES).await);
        kept.extend(names_in(&cluster, third.clone(), "kept", HELD).await);
    }
    let held = hold(&client, &kept, LEASE).await;
    let others = Pairs::start(&client, &others, SOON, Durability::Primary);
    let its = Pairs::start(&client, &its, WAIT, Durability::Primary);
    tokio::time::sleep(WINDOW / 2).await;
    let (before, _) = others.windows(BEFORE, WINDOW).await;
    its.take();
    if fault == "SIGSTOP" {
        victim.pause().await.expect("it runs");
    } else {
        victim.kill().await.expect("it runs");
    }
    let (during, results) = others.windows(WHILE, WINDOW).await;
    let lost = held.iter().filter(|guard| !guard.is_held()).count();
    // The tasks of the dead shard are not awaited, because their releases are retried until the
    // lease ends.
    let (its, rest) = (its.take(), others.end().await);
    let p99 = |windows: &[Spread]| median(windows.iter().map(|window| window.p99));
    let (was, is) = (p99(&before), p99(&during));
    report.exactly(format!("{fault}: errors on the other shards"), results.error_count() + rest.error_count(), 0);
    report.at_most(format!("{fault}: p99 of a pair there, ms"), is, (2.0 * was).max(FLOOR_MS));
    report.at_most(format!("{fault}: the longest pair there, ms"), Spread::of(&results.times).max, LONGEST_MS);
    report.exactly(format!("{fault}: holds lost there"), lost, 0);
    report.number(format!("{fault}: windows before"), before);
    report.number(format!("{fault}: windows while it is gone"), during);
    report.number(format!("{fault}: pairs"), results.times.len());
    report.number(format!("{fault}: error messages"), [results.messages, rest.messages]);
    report.number(format!("{fault}: errors on its own shard"), its.errors);
    report.number(format!("{fault}: duration of these errors, ms"), Spread::of(&its.failed));
    let _ = victim.resume().await;
}
