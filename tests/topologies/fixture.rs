//! Fixtures of scenarios: a deployment for each topology, and names for each scenario.

use std::pin::Pin;

use redgrid_core::{Client, Config};
use redgrid_testkit::redis::{RedisError, Value};
use redgrid_testkit::{Cluster, Observer, RedisServer, Replicated, Sentinels, ServerBinary, ServerBuilder, wait_until};
pub(crate) use redgrid_tests::topology::{Topology, by_list, by_seeds, by_sentinels, connected};
use redgrid_tests::{SOON, published_rules};
use tokio::sync::OnceCell;

/// A scenario of the contract.
#[derive(Clone)]
pub(crate) struct Clause {
    pub(crate) name: &'static str,
    pub(crate) run: fn(Fixture) -> Pin<Box<dyn Future<Output = ()>>>,
}

/// A scenario with its own deployment.
#[derive(Clone)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) run: fn() -> Pin<Box<dyn Future<Output = ()>>>,
}

/// Lists functions of the file as scenarios.
macro_rules! scenarios {
    ($($name:ident),* $(,)?) => {
        pub(crate) fn scenarios() -> Vec<$crate::fixture::Scenario> {
            let file = module_path!().rsplit("::").next().unwrap_or_default();
            vec![$($crate::fixture::Scenario {
                name: format!("{file}::{}", stringify!($name)),
                run: || Box::pin($name()),
            }),*]
        }
    };
}
pub(crate) use scenarios;

/// Running servers.
pub(crate) enum Deployment {
    Single(RedisServer),
    MasterSlave(Replicated),
    Sentinel(Sentinels),
    Cluster(Cluster),
}

impl Deployment {
    /// Starts a deployment. With `newest`, it uses that server, and the user also has the page's
    /// permissions for newer servers.
    pub(crate) async fn start(topology: Topology, newest: Option<ServerBinary>) -> Deployment {
        let newer = if newest.is_some() { format!(" {}", newer_rules().join(" ")) } else { String::new() };
        let options = RedisServer::builder().user(APP, published(topology) + &newer);
        let options = newest.into_iter().fold(options, ServerBuilder::binary);
        match topology {
            Topology::Single => Deployment::Single(options.start().await.expect("it starts")),
            Topology::MasterSlave => {
                Deployment::MasterSlave(Replicated::start_with(1, options).await.expect("it starts"))
            }
            Topology::Sentinel => {
                Deployment::Sentinel(Sentinels::builder().server_options(options).start().await.expect("it starts"))
            }
            Topology::Cluster => {
                let cluster = Cluster::builder().replicas_per_primary(1).server_options(options);
                Deployment::Cluster(cluster.start().await.expect("it starts"))
            }
        }
    }

    pub(crate) fn config(&self) -> Config {
        match self {
            Deployment::Single(server) => Config::single(server.addr().to_string()).expect("an address"),
            Deployment::MasterSlave(replicated) => by_list(replicated),
            Deployment::Sentinel(sentinels) => by_sentinels(sentinels),
            Deployment::Cluster(cluster) => by_seeds(cluster),
        }
    }

    /// Returns the primary of a key.
    pub(crate) async fn primary_of(&self, key: &str) -> &RedisServer {
        match self {
            Deployment::Single(server) => server,
            Deployment::MasterSlave(replicated) => replicated.primary(),
            Deployment::Sentinel(sentinels) => sentinels.current_primary().await.expect("there is one"),
            Deployment::Cluster(cluster) => {
                cluster.primary_of(cluster.slot_of(key).await.expect("a slot")).await.expect("there is one")
            }
        }
    }
}

/// The user on the page about permissions, and its password in tests.
pub(crate) const APP: &str = "app";
pub(crate) const SECRET: &str = "secret";

/// Returns the rules for commands of newer servers only.
fn newer_rules() -> Vec<String> {
    published_rules("+hpexpire")
}

/// Returns the page's rules for a topology.
pub(crate) fn published(topology: Topology) -> String {
    let mut all = published_rules("on ");
    all.extend(match topology {
        Topology::Single => Vec::new(),
        Topology::MasterSlave | Topology::Sentinel => published_rules("+role"),
        Topology::Cluster => published_rules("+cluster|slots"),
    });
    all.extend(
        [
            "+get +del",
            "+hget +hmget",
            "+decrby",
            "+zcount",
            "+get +hincrby",
            "+incrby",
            "+pttl",
            "+hmget",
            "+hincrbyfloat",
            "+object",
            "+get +getdel",
            "+hget +hstrlen",
            "&__key*__:*",
            "+scan",
            "+lset",
            "+multi",
            "+sadd",
            "+hlen +hkeys",
            "+zadd +zincrby",
            "+getbit",
            "+hgetall +hset",
            "+geoadd",
            "+psubscribe",
            "+xadd +xrange",
            "+xadd +xlen",
            "+hincrby +hmget",
            "+hget +hset +hdel +hincrby",
            "+zrangebyscore",
            "+type",
            "+lmove",
        ]
        .into_iter()
        .flat_map(published_rules),
    );
    // Tests besides locking use these commands: they read, also from replicas, and list
    // connections.
    all.extend(["+get", "+client|list", "+readonly", "+role"].map(str::to_owned));
    // Before 7.0 there are no sharded channels and no functions, and a server does not start with
    // unknown commands in its rules.
    if is_before_7() {
        let newer = [
            "+ssubscribe",
            "+sunsubscribe",
            "+spublish",
            "+eval_ro",
            "+evalsha_ro",
            "+fcall",
            "+function|",
            "+sintercard",
            "+zintercard",
        ];
        all.retain(|rule| !newer.iter().any(|newer| rule.starts_with(newer)));
    }
    all.join(" ")
}

/// Returns whether the servers are older than Redis 7.0, where the scenario is impossible; if so,
/// prints that.
pub(crate) fn is_skipped_before_7(scenario: &str, why: &str) -> bool {
    let old = is_before_7();
    if old {
        eprintln!("SKIPPED {scenario}: {why}");
    }
    old
}

fn is_before_7() -> bool {
    ServerBinary::find().is_ok_and(|found| found.version().major < 7)
}

/// Returns the configuration of a client with a response timeout beyond any step of a migration. A
/// request that needs keys of both sides waits for the end of the migration.
pub(crate) fn patient(cluster: &Cluster) -> Config {
    by_seeds(cluster).response_timeout(SOON).retries(5)
}

/// Waits until this number of replicas has all earlier writes of their primary.
pub(crate) async fn replicated(primary: &RedisServer, replicas: usize) {
    let observer = primary.observer().await.expect("the server answers");
    // A replica that has just copied everything acknowledges writes from a second later on.
    let all = async || is_replicated(&observer, replicas).await.expect("the server answers");
    wait_until(SOON, all).await;
}

/// Waits until this number of replicas has all earlier writes of their primary, or for 10 s.
/// Returns whether they have.
pub(crate) async fn is_replicated(primary: &Observer, replicas: usize) -> Result<bool, RedisError> {
    // WAIT concerns the writes of its own connection only. In a cluster, the primary refuses keys
    // of other slots.
    let mut number = 0;
    while let Err(refused) = primary.cmd(&["SET", &format!("replicated:{number}"), ""]).await {
        number += 1;
        if number == 100 {
            return Err(refused);
        }
    }
    let acknowledged: usize = primary.query(&["WAIT", &replicas.to_string(), "10000"]).await?;
    Ok(acknowledged >= replicas)
}

/// The user of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// The default user, with all permissions.
    Default,
    /// The user on the page about permissions.
    Published,
}

/// The deployment shared by all clauses of one topology. The first clause starts it.
pub(crate) struct Shared {
    topology: Topology,
    /// The newest server, if it must be used.
    newest: Option<ServerBinary>,
    running: OnceCell<Deployment>,
}

impl Shared {
    pub(crate) fn new(topology: Topology, newest: Option<ServerBinary>) -> Self {
        Shared { topology, newest, running: OnceCell::new() }
    }

    pub(crate) fn topology(&self) -> Topology {
        self.topology
    }
}

/// The fixture of a clause.
pub(crate) struct Fixture {
    pub(crate) topology: Topology,
    /// Whether the servers are the newest, and the user has the permissions for them.
    pub(crate) is_newest: bool,
    config: Config,
    /// A unique name.
    pub(crate) name: String,
    /// Connected to the primary of the name's key.
    pub(crate) observer: Observer,
}

impl Fixture {
    pub(crate) async fn of(shared: &Shared, clause: &str, user: User) -> Fixture {
        let deployment =
            shared.running.get_or_init(async || Deployment::start(shared.topology, shared.newest.clone()).await).await;
        let (name, config) = match user {
            User::Default => (clause.to_owned(), deployment.config()),
            User::Published => (format!("app:{clause}"), deployment.config().credentials(Some(APP), SECRET)),
        };
        let observer = deployment.primary_of(&name).await.observer().await.expect("the server answers");
        Fixture { topology: shared.topology, is_newest: shared.newest.is_some(), config, name, observer }
    }

    pub(crate) fn topology(&self) -> Topology {
        self.topology
    }

    /// Returns the commands that the server has denied to the page's user.
    pub(crate) async fn denied(observer: &Observer) -> Vec<String> {
        let log: Vec<Value> = observer.query(&["ACL", "LOG"]).await.expect("the server answers");
        let entries = log.iter().map(|entry| format!("{entry:?}"));
        entries.filter(|entry| entry.contains(&format!("bulk-string('\"{APP}\"')"))).collect()
    }

    pub(crate) async fn client(&self) -> Client {
        self.client_with(|config| config).await
    }

    pub(crate) async fn client_with(&self, settings: impl FnOnce(Config) -> Config) -> Client {
        connected(settings(self.config.clone())).await
    }
}
