//! Settings: plain structs, all defaults in one literal, checked once when a client is built.

use std::fmt;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use url::Url;

use crate::name::Namespace;

/// The smallest lease: 100 ms. Below it, the safety margin and one round trip leave nothing to work with.
pub const SHORTEST_LEASE: Duration = Duration::from_millis(100);

/// The longest lease: 30 days. Longer ones are renewed leases (leave the lease unset).
pub const LONGEST_LEASE: Duration = Duration::from_secs(30 * 24 * 3600);

/// How a client reaches its servers, and how it behaves.
///
/// ```
/// use std::time::Duration;
/// use redgrid_core::Config;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = Config::from_url("redis://:secret@127.0.0.1:6379/2")?.namespace("prod")?.timeout(Duration::from_secs(1));
/// assert!(!format!("{config:?}").contains("secret"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) servers: Servers,
    pub(crate) access: Access,
    pub(crate) settings: Settings,
}

/// Where the data lives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Servers {
    /// One server.
    Single(Single),
    /// A fixed primary and its replicas.
    MasterSlave(MasterSlave),
    /// A primary that sentinels know.
    Sentinel(Sentinel),
    /// Primaries that share the slots among them.
    Cluster(Cluster),
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Single {
    /// Where it is; a host name is looked up anew for every connection.
    pub address: Address,
}

/// A fixed primary and its replicas. Nobody promotes a replica here; who moves the primary by hand changes this, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MasterSlave {
    /// The primary.
    pub primary: Address,
    /// Its replicas, for reads.
    pub replicas: Vec<Address>,
}

/// A primary and replicas that sentinels watch over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentinel {
    /// The sentinels; one that answers is enough.
    pub sentinels: Vec<Address>,
    /// What the sentinels call the primary.
    pub master_name: String,
    /// The user at the sentinels; none for the default user.
    pub username: Option<String>,
    /// The password at the sentinels; none where none is asked for.
    pub password: Option<Secret>,
}

/// A cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Some of its nodes; one that answers tells of all others.
    pub seeds: Vec<Address>,
}

/// Where one server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    /// Host name or IP address, IPv6 without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl Address {
    /// Host and port.
    pub fn new(host: impl Into<String>, port: u16) -> Self {
        Address { host: host.into(), port }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// How to log in at the servers that hold the data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The ACL user; none for the default user.
    pub username: Option<String>,
    /// The password; none where none is asked for.
    pub password: Option<Secret>,
    /// The database, 0 to 255; a cluster has only 0.
    pub database: u8,
}

/// Which nodes answer reads. What decides (locks and all that is written) always asks the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ReadMode {
    /// The primary.
    #[default]
    Primary,
    /// The replicas in turn; the primary where none is fit.
    Replica,
    /// The primary and the replicas in turn.
    Any,
}

/// Whether a cluster's messages go by sharded channels. Java services that share locks must be set alike: who listens to one
/// kind does not hear the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ShardedSubscriptions {
    /// Where the servers have them (Redis 7.0, Valkey), as Redisson does.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// How durable a grant, and every renewal of it, must be before it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// The primary has it in memory. Nothing more is asked of anybody.
    #[default]
    Primary,
    /// So many replicas have acknowledged it (`WAIT`).
    Replicas {
        /// How many; 0 is the same as [`Durability::Primary`].
        at_least: u32,
        /// How long they may take.
        timeout: Duration,
    },
    /// The primary's append-only file has it, synced to disk (`WAITAOF`: Redis 7.2 or newer, or Valkey).
    ///
    /// The server syncs as its `appendfsync` says: with `always` at once, with `everysec` within some two seconds, with `no`
    /// never on purpose.
    Disk {
        /// How long the disk may take.
        timeout: Duration,
    },
}

impl Durability {
    /// How long is waited for it.
    pub fn timeout(self) -> Duration {
        match self {
            Durability::Primary => Duration::ZERO,
            Durability::Replicas { timeout, .. } | Durability::Disk { timeout } => timeout,
        }
    }

    /// Whether what was granted with `self` is at least as durable as `other` asks for. How long each would have waited
    /// does not matter once it is granted.
    pub fn covers(self, other: Durability) -> bool {
        match (self, other) {
            (_, Durability::Primary | Durability::Replicas { at_least: 0, .. }) => true,
            (Durability::Replicas { at_least: has, .. }, Durability::Replicas { at_least: asked, .. }) => has >= asked,
            (Durability::Disk { .. }, Durability::Disk { .. }) => true,
            // A disk is no second server, and a second server's memory is no disk.
            _ => false,
        }
    }
}

/// A password. Never shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps the secret.
    pub fn new(secret: impl Into<String>) -> Self {
        Secret(secret.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) retries: u32,
    pub(crate) retry_delay: Duration,
    pub(crate) watchdog_lease: Duration,
    pub(crate) poll_interval: Duration,
    pub(crate) poll_budget: u32,
    /// `None`: by the measured round trip.
    pub(crate) stretch: Option<Duration>,
    pub(crate) namespace: Namespace,
    pub(crate) client_name: String,
    pub(crate) read_mode: ReadMode,
    pub(crate) scan_interval: Duration,
    pub(crate) sharded_subscriptions: ShardedSubscriptions,
    pub(crate) durability: Durability,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            timeout: Duration::from_secs(3),
            connect_timeout: Duration::from_secs(2),
            retries: 4,
            retry_delay: Duration::from_millis(100),
            watchdog_lease: Duration::from_secs(30),
            poll_interval: Duration::from_secs(1),
            poll_budget: 500,
            stretch: None,
            namespace: Namespace::default(),
            client_name: "redgrid".into(),
            read_mode: ReadMode::Primary,
            scan_interval: Duration::from_secs(1),
            sharded_subscriptions: ShardedSubscriptions::Auto,
            durability: Durability::Primary,
        }
    }
}

impl Settings {
    /// How long a call may be without contact to the server: `timeout × (retries + 1)`.
    pub(crate) fn patience(&self) -> Duration {
        self.timeout.saturating_mul(self.retries.saturating_add(1))
    }
}

impl Config {
    /// These servers, with all settings as they are by default.
    pub fn of(servers: Servers) -> Self {
        Config { servers, access: Access::default(), settings: Settings::default() }
    }

    /// One server at `host:port` (port 6379 when left out), without a password.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] when the address is empty or the port is no port.
    pub fn single(address: impl AsRef<str>) -> Result<Self, ConfigError> {
        let address = address.as_ref();
        Config::from_url(&format!("redis://{address}"))
    }

    /// Reads `redis://[user[:password]@]host[:port][/database]`; `valkey://` is the same.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] names the part that is wrong and what was expected.
    pub fn from_url(url: &str) -> Result<Self, ConfigError> {
        let bad = |expected: &'static str| ConfigError::Url { expected };
        let parsed = Url::parse(url).map_err(|_| bad("a URL like redis://user:password@host:6379/0"))?;
        if !matches!(parsed.scheme(), "redis" | "valkey") {
            return Err(bad("the scheme `redis` or `valkey`"));
        }
        let host = parsed.host_str().filter(|host| !host.is_empty()).ok_or_else(|| bad("a host after `//`"))?;
        if parsed.query().is_some() || parsed.fragment().is_some() {
            return Err(bad("no `?` and no `#` part"));
        }
        let database = match parsed.path().trim_start_matches('/') {
            "" => 0,
            number => number.parse().map_err(|_| bad("a database number from 0 to 255 as the path"))?,
        };
        let decoded = |text: &str| {
            let utf8 = percent_decode_str(text).decode_utf8();
            utf8.map(String::from).map_err(|_| bad("UTF-8 in user and password"))
        };
        let username = Some(parsed.username()).filter(|user| !user.is_empty()).map(decoded).transpose()?;
        let password = parsed.password().map(decoded).transpose()?.map(Secret::new);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let address = Address { host, port: parsed.port().unwrap_or(6379) };
        let access = Access { username, password, database };
        Ok(Config { servers: Servers::Single(Single { address }), access, settings: Settings::default() })
    }

    /// The servers.
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// The user and password to log in with.
    pub fn credentials(mut self, username: Option<&str>, password: impl Into<String>) -> Self {
        self.access.username = username.map(str::to_owned);
        self.access.password = Some(Secret::new(password));
        self
    }

    /// Put in front of every key and channel: `namespace:name`. Default: nothing.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Namespace`] when it has braces or more than 256 bytes.
    pub fn namespace(mut self, namespace: impl AsRef<str>) -> Result<Self, ConfigError> {
        self.settings.namespace = Namespace::new(namespace).map_err(ConfigError::Namespace)?;
        Ok(self)
    }

    /// How long one answer of a server may take: 3 s unless set. Shorter notices a hung server sooner; longer tolerates
    /// slow scripts and networks.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout;
        self
    }

    /// How long setting up one connection may take: 2 s unless set.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self
    }

    /// How often a request without an answer is tried again where that is safe: 4 unless set. A call without any contact
    /// ends after `timeout × (retries + 1)`: 15 s unless set.
    pub fn retries(mut self, retries: u32) -> Self {
        self.settings.retries = retries;
        self
    }

    /// The mean wait before a request is tried again: 100 ms unless set, spread by half.
    pub fn retry_delay(mut self, delay: Duration) -> Self {
        self.settings.retry_delay = delay;
        self
    }

    /// The lease of holds that are renewed: 30 s unless set, renewed every third of it. Shorter frees the locks of a dead
    /// process sooner; longer survives longer pauses and failovers.
    pub fn watchdog_lease(mut self, lease: Duration) -> Self {
        self.settings.watchdog_lease = lease;
        self
    }

    /// How often a waiter looks by itself although its subscription is in force: every second unless set. It bounds the
    /// wait after a message that never came.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.settings.poll_interval = interval;
        self
    }

    /// Names that waiters look at by themselves per second and node, at most: 500 unless set.
    pub fn poll_budget(mut self, names: u32) -> Self {
        self.settings.poll_budget = names;
        self
    }

    /// How long a lock may pass from task to task of this process without asking the server, while others wait elsewhere:
    /// ten round trips, at least 10 ms, unless set; at most 500 ms. Longer is not faster; shorter makes processes alternate
    /// more often. Zero asks the server for every task.
    pub fn stretch(mut self, stretch: Duration) -> Self {
        self.settings.stretch = Some(stretch);
        self
    }

    /// What the connections are called in `CLIENT LIST`: `redgrid` unless set. No spaces.
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.settings.client_name = name.into();
        self
    }

    /// Which nodes answer reads: the primary unless set. Locks and all writes always ask the primary.
    pub fn read_mode(mut self, mode: ReadMode) -> Self {
        self.settings.read_mode = mode;
        self
    }

    /// How often the topology is looked at although nothing tells of a change: every second unless set. It bounds how long a
    /// change that nobody told of goes unnoticed.
    pub fn scan_interval(mut self, interval: Duration) -> Self {
        self.settings.scan_interval = interval;
        self
    }

    /// Whether a cluster's messages go by sharded channels: as Redisson decides it, unless set.
    pub fn sharded_subscriptions(mut self, sharded: ShardedSubscriptions) -> Self {
        self.settings.sharded_subscriptions = sharded;
        self
    }

    /// How durable a grant and each renewal of it must be before they are believed: on the primary unless set. An acquire may
    /// ask for something else.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.settings.durability = durability;
        self
    }

    /// Checks the relations between the settings.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let s = &self.settings;
        let relation = |ok: bool, broken: &'static str, left, right| {
            if ok { Ok(()) } else { Err(ConfigError::Relation { broken, left, right }) }
        };
        let least = Duration::from_millis(10);
        relation(s.timeout >= least, "timeout must be at least 10 ms", s.timeout, least)?;
        relation(s.connect_timeout >= least, "connect_timeout must be at least 10 ms", s.connect_timeout, least)?;
        relation(s.poll_interval >= least, "poll_interval must be at least 10 ms", s.poll_interval, least)?;
        relation(s.scan_interval >= least, "scan_interval must be at least 10 ms", s.scan_interval, least)?;
        let (stretch, longest) = (s.stretch.unwrap_or_default(), crate::hold::LONGEST_STRETCH);
        relation(stretch <= longest, "stretch must be at most the longest stretch", stretch, longest)?;
        relation(s.poll_budget > 0, "poll_budget must be at least 1 name a second", Duration::ZERO, least)?;
        let (lease, shortest, longest) = (s.watchdog_lease, SHORTEST_LEASE, LONGEST_LEASE);
        relation(lease >= shortest, "watchdog_lease must be at least the shortest lease", lease, shortest)?;
        relation(lease <= longest, "watchdog_lease must be at most the longest lease", lease, longest)?;
        if s.client_name.is_empty() || s.client_name.contains(|c: char| !c.is_ascii_graphic()) {
            return Err(ConfigError::ClientName { name: s.client_name.clone() });
        }
        Ok(())
    }
}

impl TryFrom<&str> for Config {
    type Error = ConfigError;

    fn try_from(url: &str) -> Result<Self, ConfigError> {
        Config::from_url(url)
    }
}

impl TryFrom<&String> for Config {
    type Error = ConfigError;

    fn try_from(url: &String) -> Result<Self, ConfigError> {
        Config::from_url(url)
    }
}

impl TryFrom<String> for Config {
    type Error = ConfigError;

    fn try_from(url: String) -> Result<Self, ConfigError> {
        Config::from_url(&url)
    }
}

/// A configuration that can not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The URL is not understood. (It is not repeated here: it may hold a password.)
    #[error("the URL is not understood: expected {expected}")]
    Url {
        /// What was expected.
        expected: &'static str,
    },
    /// The namespace can not be used.
    #[error("the namespace can not be used")]
    Namespace(#[source] crate::name::InvalidName),
    /// Two values do not fit together.
    #[error("{broken}: {left:?} and {right:?} do not fit")]
    Relation {
        /// The rule.
        broken: &'static str,
        /// The value that was set.
        left: Duration,
        /// The value it was held against.
        right: Duration,
    },
    /// The client's name can not be sent.
    #[error("client_name `{name}` must be printable ASCII without spaces")]
    ClientName {
        /// The name that was set.
        name: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_with_all_its_parts() {
        let address = |config: &Config| match config.servers() {
            Servers::Single(single) => (single.address.host.clone(), single.address.port),
            other => panic!("{other:?}"),
        };
        let config = Config::from_url("redis://alice:p%40ss@db.example:7000/3").unwrap();
        assert_eq!((address(&config), config.access.database), (("db.example".into(), 7000), 3));
        assert_eq!(config.access.username.as_deref(), Some("alice"));
        assert_eq!(config.access.password.as_ref().map(Secret::reveal), Some("p@ss"));
        assert_eq!(address(&Config::single("127.0.0.1").unwrap()), ("127.0.0.1".into(), 6379));
        assert_eq!(address(&Config::from_url("valkey://[::1]:7").unwrap()), ("::1".into(), 7));
    }

    #[test]
    fn a_bad_url_names_what_was_expected_and_hides_the_password() {
        for bad in ["", "http://h", "redis://", "redis://h/x", "redis://h/300", "redis://h?x=1", "redis://h:99999"] {
            let error = Config::from_url(bad).unwrap_err().to_string();
            assert!(error.contains("expected"), "{bad}: {error}");
        }
        let error = Config::from_url("http://u:hunter2@h").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }

    #[test]
    fn a_grant_covers_what_asks_for_no_more_of_the_same_kind() {
        let replicas = |at_least, ms| Durability::Replicas { at_least, timeout: Duration::from_millis(ms) };
        let disk = |ms| Durability::Disk { timeout: Duration::from_millis(ms) };
        let table = [
            (Durability::Primary, Durability::Primary, true),
            (Durability::Primary, replicas(0, 5), true),
            (Durability::Primary, replicas(1, 5), false),
            (Durability::Primary, disk(5), false),
            (replicas(2, 5), Durability::Primary, true),
            (replicas(2, 5), replicas(1, 9), true),
            (replicas(2, 9), replicas(2, 5), true),
            (replicas(1, 5), replicas(2, 5), false),
            (replicas(9, 5), disk(5), false),
            (disk(5), Durability::Primary, true),
            (disk(9), disk(5), true),
            (disk(5), replicas(1, 5), false),
        ];
        for (has, asked, covered) in table {
            assert_eq!(has.covers(asked), covered, "{has:?} for {asked:?}");
        }
    }

    #[test]
    fn relations_between_settings_are_checked_and_both_values_named() {
        let config = Config::single("h").unwrap().watchdog_lease(Duration::from_millis(5));
        let error = config.check().unwrap_err().to_string();
        assert!(error.contains("5ms") && error.contains("100ms"), "{error}");
        assert!(Config::single("h").unwrap().client_name("a b").check().is_err());
        assert!(Config::single("h").unwrap().poll_budget(0).check().is_err());
        assert!(Config::single("h").unwrap().check().is_ok());
    }
}
