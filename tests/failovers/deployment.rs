//! The servers of a run: the primary, its faults, and the promotion of another one.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use redgrid_core::Config;
use redgrid_testkit::redis::{RedisError, Value};
use redgrid_testkit::{Cluster, RedisServer, Sentinels};
use redgrid_tests::SOON;
use tokio::time::{sleep, timeout};

/// How often a replica's role is read: the precision of the measurement.
const POLL: Duration = Duration::from_millis(5);

/// How long a resumed primary may still process earlier requests; then it notices that its
/// connections were cut.
const DRAINED: Duration = Duration::from_millis(200);

/// How a primary fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// By `kill -9`.
    Kill,
    /// By SIGSTOP; it is resumed later, and still considers itself a primary.
    Stop,
    /// By a planned failover: the server is healthy and continues.
    Plan,
}

impl Fault {
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        [Fault::Kill, Fault::Stop, Fault::Plan].into_iter().find(|fault| fault.word() == word)
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Fault::Kill => "kill",
            Fault::Stop => "stop",
            Fault::Plan => "plan",
        }
    }
}

pub(crate) enum Deployment {
    Sentinel(Sentinels),
    Cluster(Cluster),
}

impl Deployment {
    pub(crate) async fn sentinel() -> Self {
        Deployment::Sentinel(Sentinels::start().await.expect("it starts"))
    }

    pub(crate) async fn cluster() -> Self {
        Deployment::Cluster(Cluster::start(3, 1).await.expect("it starts"))
    }

    pub(crate) fn config(&self) -> Config {
        let config = match self {
            Deployment::Sentinel(sentinels) => Config::sentinel(sentinels.master_name(), words(&sentinels.addrs())),
            Deployment::Cluster(cluster) => Config::cluster(words(&cluster.addrs()[..2])),
        };
        config.expect("addresses")
    }

    /// Returns how many replicas of one primary may be promoted.
    pub(crate) fn promotable(&self) -> u32 {
        match self {
            Deployment::Sentinel(_) => 2,
            Deployment::Cluster(_) => 1,
        }
    }

    /// Returns the primary of a name.
    pub(crate) async fn primary_of(&self, name: &str) -> Result<&RedisServer, String> {
        let found = match self {
            Deployment::Sentinel(sentinels) => sentinels.current_primary().await,
            Deployment::Cluster(cluster) => match cluster.slot_of(name).await {
                Ok(slot) => cluster.primary_of(slot).await,
                Err(error) => Err(error),
            },
        };
        found.map_err(|error| error.to_string())
    }

    /// Returns the replicas that may replace a primary.
    pub(crate) async fn replicas_of(&self, primary: &RedisServer) -> Result<Vec<&RedisServer>, String> {
        match self {
            Deployment::Sentinel(sentinels) => {
                Ok(sentinels.servers().iter().filter(|server| server.addr() != primary.addr()).collect())
            }
            Deployment::Cluster(cluster) => cluster.replicas_of(primary).await.map_err(|error| error.to_string()),
        }
    }

    /// Returns when a sentinel first names another primary than `former`, by
    /// `GET-MASTER-ADDR-BY-NAME` and by `SENTINEL MASTER`. The first follows the promotion, the
    /// second the end of the failover. Returns `None` in a cluster, where the promoted server
    /// announces itself.
    pub(crate) async fn when_replaced(&self, former: SocketAddr) -> Option<(Instant, Instant)> {
        let Deployment::Sentinel(sentinels) = self else { return None };
        let port = former.port().to_string();
        let first = async |command: &[&str], at: usize| {
            loop {
                for sentinel in sentinels.sentinels() {
                    let Ok(observer) = sentinel.observer().await else { continue };
                    let fields = observer.query::<Vec<String>>(command).await;
                    if fields.is_ok_and(|fields| fields.get(at).is_some_and(|field| *field != port)) {
                        return Instant::now();
                    }
                }
                sleep(POLL).await;
            }
        };
        let name = sentinels.master_name();
        let by_name = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name];
        let whole = ["SENTINEL", "MASTER", name];
        // The second reply has name, ip and port, each after its label.
        timeout(3 * SOON, async { tokio::join!(first(&by_name, 1), first(&whole, 5)) }).await.ok()
    }

    /// Begins a planned failover: `SENTINEL FAILOVER`, or `CLUSTER FAILOVER` at a replica.
    pub(crate) async fn replace(&self, primary: &RedisServer) -> Result<(), String> {
        let text = |error: RedisError| error.to_string();
        let begun = match self {
            Deployment::Sentinel(sentinels) => {
                let observer = sentinels.sentinels()[0].observer().await.map_err(text)?;
                observer.cmd(&["SENTINEL", "FAILOVER", sentinels.master_name()]).await
            }
            Deployment::Cluster(_) => {
                let replicas = self.replicas_of(primary).await?;
                let successor = replicas.first().ok_or("a primary without a replica")?;
                successor.observer().await.map_err(text)?.cmd(&["CLUSTER", "FAILOVER"]).await
            }
        };
        begun.map(drop).map_err(text)
    }

    pub(crate) async fn settled(&self) -> Result<(), String> {
        let settled = match self {
            Deployment::Sentinel(sentinels) => sentinels.wait_until_ok().await,
            Deployment::Cluster(cluster) => cluster.wait_until_ok().await,
        };
        settled.map_err(|error| error.to_string())
    }
}

fn words(addrs: &[SocketAddr]) -> Vec<String> {
    addrs.iter().map(SocketAddr::to_string).collect()
}

/// Waits until one of the replicas reports that it is a primary, and returns the time.
pub(crate) async fn promotion(replicas: &[&RedisServer]) -> Result<Instant, String> {
    let watch = async |replica: &RedisServer| {
        loop {
            let Ok(observer) = replica.observer().await else { continue };
            // A sentinel cuts all connections of the server that it promotes.
            while let Ok(role) = observer.query::<Value>(&["ROLE"]).await {
                if format!("{role:?}").contains("master") {
                    return Instant::now();
                }
                sleep(POLL).await;
            }
        }
    };
    let first = futures_util::future::select_all(replicas.iter().map(|replica| Box::pin(watch(replica))));
    Ok(timeout(3 * SOON, first).await.map_err(|_| "no replica was promoted".to_owned())?.0)
}

/// The number of scripts that clients have run on a server, without those from its primary's
/// replication stream.
pub(crate) struct Scripts<'a>(&'a RedisServer);

impl<'a> Scripts<'a> {
    /// Starts the count; a resumed server first processes earlier requests.
    pub(crate) async fn of(server: &'a RedisServer, fault: Fault) -> Result<(Self, u64), String> {
        let scripts = Scripts(server);
        if fault == Fault::Stop {
            sleep(DRAINED).await;
        }
        let before = scripts.count().await?;
        Ok((scripts, before))
    }

    pub(crate) async fn count(&self) -> Result<u64, String> {
        let until = Instant::now() + SOON;
        loop {
            // A sentinel cuts all connections of the server that it demotes.
            match self.read().await {
                Err(error) if Instant::now() > until => return Err(error.to_string()),
                Err(_) => sleep(POLL).await,
                Ok(count) => return Ok(count),
            }
        }
    }

    async fn read(&self) -> Result<u64, RedisError> {
        let stats: String = self.0.observer().await?.query(&["INFO", "commandstats"]).await?;
        let calls = |line: &str| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            let calls = rest.split(',').next()?.parse::<u64>().ok()?;
            matches!(name, "eval" | "evalsha").then_some(calls)
        };
        Ok(stats.lines().filter_map(calls).sum())
    }
}
