//! Where scenarios play: a deployment for each topology, and names of the scenario's own.

use std::pin::Pin;

use redgrid_core::{Client, Config};
use redgrid_testkit::redis::Value;
use redgrid_testkit::{Cluster, Observer, RedisServer, Replicated, Sentinels, ServerBinary, ServerBuilder};
pub(crate) use redgrid_tests::topology::{Topology, by_list, by_seeds, by_sentinels, connected};
use tokio::sync::OnceCell;

/// A scenario of the contract.
#[derive(Clone)]
pub(crate) struct Clause {
    pub(crate) name: &'static str,
    pub(crate) run: fn(Fixture) -> Pin<Box<dyn Future<Output = ()>>>,
}

/// A scenario with a deployment of its own.
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

/// Servers that are running.
pub(crate) enum Deployment {
    Single(RedisServer),
    MasterSlave(Replicated),
    Sentinel(Sentinels),
    Cluster(Cluster),
}

impl Deployment {
    /// Of these servers, which know all that the page about permissions names; else of whatever servers there are.
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

    /// The server that decides for a key.
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

/// The user of the page about permissions, and its password in tests.
pub(crate) const APP: &str = "app";
pub(crate) const SECRET: &str = "secret";

/// The line of the page with rules that begin so.
fn rules(begins: &str) -> Vec<String> {
    let mut lines = include_str!("../../docs/acl.md").lines();
    let line = lines.find(|line| line.starts_with(&format!("ACL SETUSER app {begins}")));
    let rules = line.unwrap_or_else(|| panic!("the page has a line that begins with {begins}")).split(' ').skip(3);
    rules.map(|rule| rule.replace("SECRET", SECRET)).collect()
}

/// Those for what only newer servers know.
fn newer_rules() -> Vec<String> {
    rules("+hpexpire")
}

/// The rules that the page gives for a topology.
pub(crate) fn published(topology: Topology) -> String {
    let mut all = rules("on ");
    all.extend(match topology {
        Topology::Single => Vec::new(),
        Topology::MasterSlave | Topology::Sentinel => rules("+role"),
        Topology::Cluster => rules("+cluster|slots"),
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
        .flat_map(rules),
    );
    // What tests do besides locking: they read, from replicas too, and list connections.
    all.extend(["+get", "+client|list", "+readonly", "+role"].map(str::to_owned));
    // Before 7.0 there are no sharded channels and no functions, and a server does not start with commands it does not know.
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

/// Whether the servers are older than Redis 7.0, where this can not be shown; says so.
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

/// Who clients are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// The default one, who may do everything.
    Anybody,
    /// The one of the page about permissions.
    Published,
}

/// The deployment that all clauses of one topology share. Started by the first.
pub(crate) struct Shared {
    topology: Topology,
    /// The newest servers, where it is to be of these.
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

/// A clause's place.
pub(crate) struct Fixture {
    pub(crate) topology: Topology,
    /// Whether its servers are the newest, and its user may do what these know.
    pub(crate) is_newest: bool,
    config: Config,
    /// A name of the clause's own.
    pub(crate) name: String,
    /// Looks at the server that decides for the name.
    pub(crate) observer: Observer,
}

impl Fixture {
    pub(crate) async fn of(shared: &Shared, clause: &str, user: User) -> Fixture {
        let deployment =
            shared.running.get_or_init(async || Deployment::start(shared.topology, shared.newest.clone()).await).await;
        let (name, config) = match user {
            User::Anybody => (clause.to_owned(), deployment.config()),
            User::Published => (format!("app:{clause}"), deployment.config().credentials(Some(APP), SECRET)),
        };
        let observer = deployment.primary_of(&name).await.observer().await.expect("the server answers");
        Fixture { topology: shared.topology, is_newest: shared.newest.is_some(), config, name, observer }
    }

    pub(crate) fn topology(&self) -> Topology {
        self.topology
    }

    /// What the server has refused to the user of the page.
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
