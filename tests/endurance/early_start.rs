//! Clients that start long before their servers: calls wait and then succeed, or end in time with a
//! clear error.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redgrid_core::Client;
use redgrid_locks::{AcquireError, Lock, LockGuard};
use redgrid_testkit::RedisServer;
use redgrid_tests::spread::{Spread, millis};
use tokio::time::{sleep, sleep_until, timeout};

use crate::fixture::{Deployment, Topology};
use crate::pairs::kind;
use crate::report::Report;

/// Number of calls that wait for the servers, each with its own name.
const CALLS: usize = 8;

/// Time by which the timeout of these calls exceeds the absence of the servers.
const BEYOND: Duration = Duration::from_secs(30);

/// Timeout of a call that ends before the servers start.
const SHORT: Duration = Duration::from_secs(2);

/// The limit of a call without a timeout: `response_timeout × (retries + 1)` of the default
/// settings.
const DEFAULT_BOUND: Duration = Duration::from_secs(15);

/// How late a call may end on a busy machine.
const SLACK: Duration = Duration::from_secs(1);

/// Limit from the moment at which the servers can grant until the last grant. It is the longest
/// wait between two connection attempts (2 s), and a second for the connection and the topology
/// check.
const FOUND_WITHIN: Duration = Duration::from_secs(3);

struct Found {
    topology: Topology,
    /// Times from the moment at which the servers could grant; 0 for an earlier grant.
    grants: Vec<Duration>,
    failed: Vec<AcquireError>,
    short: (Duration, Result<LockGuard, AcquireError>),
    unlimited: (Duration, Result<LockGuard, AcquireError>),
    /// Time from the servers' start until they could grant.
    starting: Duration,
}

pub(crate) async fn run(report: &mut Report, late: Duration) {
    // The servers start so late that a call without a timeout ends before that.
    let late = late.max(DEFAULT_BOUND + 2 * SLACK);
    // The topologies run concurrently, because their servers are missing most of the time.
    for found in join_all(Topology::ALL.map(|topology| measure(topology, late))).await {
        let Found { topology, grants, failed, short, unlimited, starting } = found;
        report.exactly(format!("{topology}: calls that waited and were granted"), grants.len(), CALLS);
        let last = Spread::of(&grants).max;
        report.at_most(format!("{topology}: the last of them after the servers, ms"), last, millis(FOUND_WITHIN));
        for (call, (took, outcome), bound) in
            [("a call of 2 s", short, SHORT), ("a call without a timeout", unlimited, DEFAULT_BOUND)]
        {
            let error = outcome.err().map(|error| kind(&error));
            let matches = usize::from(error.as_deref() == Some("Unavailable"));
            report.exactly(format!("{topology}: {call} ends `Unavailable`"), matches, 1);
            report.at_most(format!("{topology}: {call} ends within, ms"), millis(took), millis(bound + SLACK));
            report.number(format!("{topology}: {call} ended"), error);
        }
        report.number(format!("{topology}: grants after the servers, ms"), Spread::of(&grants));
        report.number(format!("{topology}: servers took, ms"), millis(starting));
        report
            .number(format!("{topology}: failed"), failed.iter().map(|error| format!("{error:?}")).collect::<Vec<_>>());
    }
}

async fn measure(topology: Topology, late: Duration) -> Found {
    // The servers run once before, to get their addresses and to learn of each other.
    let deployment = Deployment::start(topology).await;
    let all = || deployment.sentinels().iter().chain(deployment.servers());
    for server in all() {
        server.kill().await.expect("it runs");
    }
    let client = Client::connect(deployment.config()).await.expect("a valid configuration");
    let began = tokio::time::Instant::now();
    let ended = |name: &str, wait: Option<Duration>| {
        let acquire = Lock::new(&client, name).acquire();
        let acquire = if let Some(wait) = wait { acquire.timeout(wait) } else { acquire };
        tokio::spawn(async move {
            let began = Instant::now();
            let outcome = acquire.await;
            (began.elapsed(), outcome)
        })
    };
    let (short, unlimited) = (ended("short", Some(SHORT)), ended("boundless", None));
    let waiting: Vec<_> = (0..CALLS)
        .map(|call| {
            let lock = Lock::new(&client, format!("early:{call}"));
            tokio::spawn(async move { (lock.acquire().timeout(late + BEYOND).await, Instant::now()) })
        })
        .collect();
    sleep_until(began + late).await;
    let started = Instant::now();
    // Servers with data start first: a sentinel without its primary would promote another one.
    for servers in [deployment.servers(), deployment.sentinels()] {
        join_all(servers.iter().map(RedisServer::restart_empty))
            .await
            .into_iter()
            .for_each(|it| it.expect("it starts"));
    }
    timeout(BEYOND, until_ready(&deployment)).await.expect("the servers become ready");
    let ready = Instant::now();
    let (mut grants, mut failed) = (Vec::new(), Vec::new());
    for call in waiting {
        match call.await.expect("no task panics") {
            (Ok(guard), at) => {
                grants.push(at.saturating_duration_since(ready));
                if let Err(error) = guard.release().await {
                    eprintln!("{topology}: {error}");
                }
            }
            (Err(error), _) => failed.push(error),
        }
    }
    let (short, unlimited) = (short.await.expect("no task panics"), unlimited.await.expect("no task panics"));
    Found { topology, grants, failed, short, unlimited, starting: ready - started }
}

/// Waits until every primary accepts writes, and a sentinel names the primary.
async fn until_ready(deployment: &Deployment) {
    for sentinel in deployment.sentinels().iter().take(1) {
        let names = async || {
            sentinel.observer().await?.query::<Vec<String>>(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"]).await
        };
        while names().await.is_err() {
            sleep(Duration::from_millis(5)).await;
        }
    }
    let ok = async |server: &RedisServer| {
        let observer = server.observer().await.ok()?;
        match deployment {
            Deployment::Cluster(_) => {
                let info = observer.query::<String>(&["CLUSTER", "INFO"]).await.ok()?;
                info.contains("cluster_state:ok").then_some(())
            }
            _ => observer.cmd(&["SET", "able", "1"]).await.ok().map(drop),
        }
    };
    for primary in deployment.primaries() {
        while ok(primary).await.is_none() {
            sleep(Duration::from_millis(5)).await;
        }
    }
}
