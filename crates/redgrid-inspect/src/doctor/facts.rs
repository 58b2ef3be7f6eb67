//! Collects the state of the servers.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::join_all;
use redgrid_core::config::{Address, Servers};
use redgrid_core::{Client, Command, Config, Reply, ServerError};

use super::Requirements;
use super::permissions::Permissions;
use super::sentinels::Sentinels;
use crate::error::InspectError;

/// How long one node may take to answer at first: 3 s. The deployment as a whole has already
/// answered.
pub(super) const READY_TIMEOUT: Duration = Duration::from_secs(3);

/// Server settings that are read.
const SETTINGS: [&str; 15] = [
    "appendonly",
    "appendfsync",
    "save",
    "maxmemory",
    "maxmemory-policy",
    "min-replicas-to-write",
    "min-replicas-max-lag",
    "notify-keyspace-events",
    "timeout",
    "tcp-keepalive",
    "lua-time-limit",
    "cluster-require-full-coverage",
    "cluster-allow-replica-migration",
    "replica-read-only",
    "stop-writes-on-bgsave-error",
];

/// The state of the deployment.
pub(super) struct Facts {
    pub(super) topology: &'static str,
    pub(super) nodes: Vec<Node>,
    /// `None` without sentinels.
    pub(super) sentinels: Option<Sentinels>,
}

/// A server with data.
#[derive(Default)]
pub(super) struct Node {
    pub(super) address: NodeAddress,
    /// Why it could not be reached.
    pub(super) unreachable: Option<String>,
    /// The fields of `INFO`; empty without permission.
    pub(super) info: HashMap<String, String>,
    /// `None` without permission.
    pub(super) settings: Option<HashMap<String, String>>,
    /// Why RESP2 is used, if the server or a proxy rejects RESP3.
    pub(super) without_resp3: Option<String>,
    pub(super) clock: Option<Clock>,
    /// The user of the connection to this node, which has the permissions below; `None` if the
    /// server does not report it.
    pub(super) user: Option<String>,
    /// `None` if they were not checked.
    pub(super) permissions: Option<Permissions>,
    /// The fields of `CLUSTER INFO`; empty outside a cluster.
    pub(super) cluster: HashMap<String, String>,
}

/// The address of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeAddress(pub(super) String);

impl std::fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// How far a server's clock is ahead of this host's clock, in microseconds, as an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    pub(super) at_least: i64,
    pub(super) at_most: i64,
}

impl Node {
    pub(super) fn is_primary(&self) -> bool {
        self.info.get("role").is_none_or(|role| role == "master")
    }

    /// Returns the number of its replicas.
    pub(super) fn replicas(&self) -> u32 {
        self.info.get("connected_slaves").and_then(|count| count.parse().ok()).unwrap_or(0)
    }

    /// Returns the addresses of this node's replicas, from `slave0:ip=127.0.0.1,port=6380,…`.
    fn known_replicas(&self) -> Vec<Address> {
        let address = |(name, value): (&String, &String)| {
            name.strip_prefix("slave")?.parse::<u32>().ok()?;
            let part = |name: &str| value.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
            Some(Address::new(part("ip")?, part("port")?.parse().ok()?))
        };
        self.info.iter().filter_map(address).collect()
    }

    /// Returns a setting as text; empty if it is unknown.
    pub(super) fn setting(&self, name: &str) -> &str {
        self.settings.as_ref().and_then(|settings| settings.get(name)).map_or("", String::as_str)
    }

    /// Returns a numeric setting.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.setting(name).parse().ok()
    }

    /// Returns the major and minor version; Valkey's own if it is one.
    pub(super) fn release(&self) -> Option<(u32, u32)> {
        let version = self.info.get("valkey_version").or_else(|| self.info.get("redis_version"))?;
        let mut parts = version.split('.').map(str::parse);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    }

    async fn query(address: &Address, requirements: &Requirements) -> Node {
        let mut node = Node { address: NodeAddress(address.to_string()), ..Node::default() };
        match connect(address, &requirements.config).await {
            Ok(client) => {
                node.look(&client, requirements).await;
                // This client holds no lock, so a failed shutdown has no effect.
                let _ = client.shutdown(READY_TIMEOUT).await;
            }
            Err(why) => node.unreachable = Some(why),
        }
        node
    }

    async fn look(&mut self, client: &Client, requirements: &Requirements) {
        self.info = fields(&text(client, &["INFO"]).await.unwrap_or_default());
        self.without_resp3 = client.health().await.nodes.into_iter().find_map(|node| node.without_resp3);
        self.clock = clock(client).await;
        if requirements.is_for_reader {
            return;
        }
        let settings_replies = join_all(SETTINGS.map(async |name| {
            let answer: HashMap<String, String> = command(client, &["CONFIG", "GET", name]).query().await?;
            Ok::<_, ServerError>(answer)
        }));
        let answers: Result<Vec<_>, _> = settings_replies.await.into_iter().collect();
        self.settings = answers.ok().map(|answers| answers.into_iter().flatten().collect());
        self.user = text(client, &["ACL", "WHOAMI"]).await;
        self.permissions = Some(Permissions::of(client, requirements.is_read_only).await);
        if self.info.get("cluster_enabled").is_some_and(|on| on == "1") {
            self.cluster = fields(&text(client, &["CLUSTER", "INFO"]).await.unwrap_or_default());
        }
    }
}

impl Facts {
    /// Finds the nodes, and queries each of them.
    pub(super) async fn gather(client: &Client, requirements: &Requirements) -> Result<Self, InspectError> {
        let config = &requirements.config;
        let mut sentinels = None;
        let addresses = match config.servers() {
            Servers::Single(address) => vec![address.clone()],
            Servers::MasterSlave(servers) => [vec![servers.primary.clone()], servers.replicas.clone()].concat(),
            Servers::Replicated(nodes) => nodes.clone(),
            Servers::Sentinel(configured) => {
                let report = Sentinels::query(client, configured, requirements.is_for_reader).await;
                let known = report.nodes.clone();
                sentinels = Some(report);
                if known.is_empty() && !requirements.is_for_reader {
                    own_address(client).await.into_iter().collect()
                } else {
                    known
                }
            }
            Servers::Cluster(seeds) => slots(client).await.unwrap_or_else(|_| seeds.clone()),
            _ => return Err(InspectError::NoAddresses),
        };
        let query = async |addresses: &[Address]| {
            join_all(addresses.iter().map(|address| Node::query(address, requirements))).await
        };
        let mut nodes = query(&addresses).await;
        // Replicas that are not configured are checked too: they may be promoted manually.
        let unnamed: Vec<Address> = nodes.iter().flat_map(Node::known_replicas).collect();
        let unnamed: Vec<Address> = unnamed.into_iter().filter(|address| !addresses.contains(address)).collect();
        nodes.extend(query(&unnamed).await);
        Ok(Facts { topology: config.topology(), nodes, sentinels })
    }

    /// Returns the nodes that grant locks.
    pub(super) fn primaries(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.unreachable.is_none() && node.is_primary())
    }
}

/// Connects to one node, with the settings of the deployment.
async fn connect(address: &Address, config: &Config) -> Result<Client, String> {
    let config = config.clone().for_server(address.clone()).client_name("redgrid-doctor");
    let client = Client::connect(config).await.map_err(|error| error.to_string())?;
    client.wait_ready(READY_TIMEOUT).await.map_err(|error| error.to_string())?;
    Ok(client)
}

/// Creates a read-only command.
pub(super) fn command(client: &Client, words: &[&str]) -> Command {
    let (name, args) = words.split_first().map_or(("PING", &[][..]), |(name, args)| (*name, args));
    let command = client.command(name.to_owned()).idempotent();
    args.iter().fold(command, |command, arg| command.arg((*arg).to_owned()))
}

async fn text(client: &Client, words: &[&str]) -> Option<String> {
    command(client, words).query().await.ok()
}

/// Parses lines of `name:value`.
fn fields(text: &str) -> HashMap<String, String> {
    let field = |line: &str| line.split_once(':').map(|(name, value)| (name.to_owned(), value.trim().to_owned()));
    text.lines().filter_map(field).collect()
}

/// Measures the server's clock against this host's. Of three requests, the one with the shortest
/// round trip counts.
async fn clock(client: &Client) -> Option<Clock> {
    let mut best: Option<Clock> = None;
    for _ in 0..3 {
        let wall = SystemTime::now();
        let began = Instant::now();
        let (seconds, micros): (i64, i64) = command(client, &["TIME"]).query().await.ok()?;
        let took = i64::try_from(began.elapsed().as_micros()).ok()?;
        let ours = i64::try_from(wall.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_micros()).ok()?;
        let theirs = seconds * 1_000_000 + micros;
        let clock = Clock { at_least: theirs - ours - took, at_most: theirs - ours };
        if best.is_none_or(|best| clock.at_most - clock.at_least < best.at_most - best.at_least) {
            best = Some(clock);
        }
    }
    best
}

/// Returns the server's own address of a connection.
async fn own_address(client: &Client) -> Option<Address> {
    let info = text(client, &["CLIENT", "INFO"]).await?;
    let local = info.split(' ').find_map(|field| field.strip_prefix("laddr="))?;
    let (host, port) = local.rsplit_once(':')?;
    Some(Address::new(host.trim_matches(['[', ']']), port.parse().ok()?))
}

/// Returns all nodes in `CLUSTER SLOTS`, primaries first.
async fn slots(client: &Client) -> Result<Vec<Address>, ServerError> {
    let ranges: Vec<Reply> = command(client, &["CLUSTER", "SLOTS"]).query().await?;
    let mut primaries = Vec::new();
    let mut replicas = Vec::new();
    for range in &ranges {
        let Reply::Array(parts) = range else { continue };
        for (place, node) in parts.iter().skip(2).enumerate() {
            let Reply::Array(node) = node else { continue };
            let (Some(Reply::Bytes(host)), Some(Reply::Int(port))) = (node.first(), node.get(1)) else { continue };
            let Ok(port) = u16::try_from(*port) else { continue };
            let address = Address::new(String::from_utf8_lossy(host), port);
            let group = if place == 0 { &mut primaries } else { &mut replicas };
            if !group.contains(&address) {
                group.push(address);
            }
        }
    }
    primaries.append(&mut replicas);
    Ok(primaries)
}
