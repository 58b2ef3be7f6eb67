//! Settings set in code, one by one. Bounds and relations are checked when a client is built.

use std::sync::Arc;
use std::time::Duration;

use super::Config;
use super::access::{CredentialProvider, Provider, Secret, Tls};
use super::error::{ConfigError, Origin};
use super::network::{Dialer, Resolver, Socks};
use super::servers::{Address, Sentinel, Servers};
use super::settings::{Durability, Protocol, ReadMode, ShardedSubscriptions, SubscriptionMode};
use crate::name::Namespace;

impl Config {
    /// The user and password to log in with.
    pub fn credentials(mut self, username: Option<&str>, password: impl Into<String>) -> Self {
        self.access.username = username.map(str::to_owned);
        self.access.password = Some(Secret::new(password));
        self.access.provider = None;
        self.by_code("password").by_code("username")
    }

    /// Asks `provider` for user and password before each connection, and every
    /// [`credentials_interval`](Config::credentials_interval) for those that live.
    pub fn password_from(mut self, provider: impl CredentialProvider) -> Self {
        self.access.username = None;
        self.access.password = None;
        self.access.provider = Some(Provider::new(provider));
        self
    }

    /// The user and password at the sentinels. Those of the servers are not tried there.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Relation`] where no sentinels are set.
    pub fn sentinel_credentials(
        mut self,
        username: Option<&str>,
        password: impl Into<String>,
    ) -> Result<Self, ConfigError> {
        let sentinel = self.sentinel_for("sentinel_password")?;
        sentinel.username = username.map(str::to_owned);
        sentinel.password = Some(Secret::new(password));
        sentinel.provider = None;
        Ok(self.by_code("sentinel_password").by_code("sentinel_username"))
    }

    /// Asks `provider` for user and password at the sentinels, as [`password_from`](Config::password_from) does for those at the
    /// servers.
    ///
    /// ```
    /// # use redgrid_core::config::{CredentialProvider, Credentials};
    /// # struct Mounted(&'static str);
    /// # #[async_trait::async_trait]
    /// # impl CredentialProvider for Mounted {
    /// #     async fn fetch(&self) -> Result<Credentials, Box<dyn std::error::Error + Send + Sync>> { Err(self.0.into()) }
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let config = redgrid_core::Config::sentinel("orders", ["10.0.0.1", "10.0.0.2"])?
    ///     .password_from(Mounted("/run/secrets/redis"))
    ///     .sentinel_password_from(Mounted("/run/secrets/sentinel"))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConfigError::Relation`] where no sentinels are set.
    pub fn sentinel_password_from(mut self, provider: impl CredentialProvider) -> Result<Self, ConfigError> {
        let sentinel = self.sentinel_for("sentinel_password")?;
        (sentinel.username, sentinel.password) = (None, None);
        sentinel.provider = Some(Provider::new(provider));
        Ok(self)
    }

    fn sentinel_for(&mut self, key: &'static str) -> Result<&mut Sentinel, ConfigError> {
        match &mut self.servers {
            Servers::Sentinel(sentinel) => Ok(sentinel),
            _ => Err(ConfigError::Relation {
                left: Origin::Code { key }.to_string(),
                right: "no `sentinels`".into(),
                rule: "it logs in at sentinels",
            }),
        }
    }

    /// How often a provider is asked for the password of the connections that live: every 10 s unless set. Where the answer is
    /// another one, they log in anew.
    pub fn credentials_interval(mut self, interval: Duration) -> Self {
        self.settings.credentials_interval = interval;
        self.by_code("credentials_interval")
    }

    /// The database of the connections: 0 unless set. A cluster has only 0.
    pub fn database(mut self, database: u8) -> Self {
        self.access.database = database;
        self.by_code("database")
    }

    /// Encrypts the connections. Needs the feature `tls`; its files are read when a client starts.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.access.tls = Some(tls);
        self.by_code("tls")
    }

    /// Put in front of every key and channel: `namespace:name`. Default: nothing.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Namespace`] when it has braces or more than 256 bytes.
    pub fn namespace(mut self, namespace: impl AsRef<str>) -> Result<Self, ConfigError> {
        self.settings.namespace = Namespace::new(namespace).map_err(ConfigError::Namespace)?;
        Ok(self.by_code("namespace"))
    }

    /// How long one answer of a server may take: 3 s unless set. Shorter notices a hung server sooner; longer tolerates
    /// slow scripts and networks.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.settings.response_timeout = timeout;
        self.by_code("response_timeout")
    }

    /// How long setting up one connection may take: 2 s unless set.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self.by_code("connect_timeout")
    }

    /// How often a request without an answer is tried again where that is safe: 4 unless set. A call without any contact
    /// ends after `response_timeout × (retries + 1)`: 15 s unless set.
    pub fn retries(mut self, retries: u32) -> Self {
        self.settings.retries = retries;
        self.by_code("retries")
    }

    /// The mean wait before a request is tried again: 100 ms unless set, spread by half.
    pub fn retry_delay(mut self, delay: Duration) -> Self {
        self.settings.retry_delay = delay;
        self.by_code("retry_delay")
    }

    /// The lease of holds that are renewed: 30 s unless set, renewed every third of it. Shorter frees the locks of a dead
    /// process sooner; longer survives longer pauses and failovers.
    pub fn watchdog_lease(mut self, lease: Duration) -> Self {
        self.settings.watchdog_lease = lease;
        self.by_code("watchdog_lease")
    }

    /// How often a waiter looks by itself although its subscription is in force: every second unless set. It bounds the
    /// wait after a message that never came.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.settings.poll_interval = interval;
        self.by_code("poll_interval")
    }

    /// Names that waiters look at by themselves per second and node, at most: 500 unless set.
    pub fn poll_budget(mut self, names: u32) -> Self {
        self.settings.poll_budget = names;
        self.by_code("poll_budget")
    }

    /// How long a lock may pass from task to task of this process without asking the server, while others wait elsewhere:
    /// ten round trips, at least 10 ms, unless set; at most 500 ms. Longer is not faster; shorter makes processes alternate
    /// more often. Zero asks the server for every task. A fair lock goes on along the server's queue however long this is, and asks the
    /// server at least every 500 ms; not with zero.
    pub fn stretch(mut self, stretch: Duration) -> Self {
        self.settings.stretch = Some(stretch);
        self.by_code("stretch")
    }

    /// What the connections are called in `CLIENT LIST`: `redgrid` unless set. No spaces.
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.settings.client_name = name.into();
        self.by_code("client_name")
    }

    /// Which nodes answer reads: the primary unless set. Locks and all writes always ask the primary.
    pub fn read_mode(mut self, mode: ReadMode) -> Self {
        self.settings.read_mode = mode;
        self.by_code("read_mode")
    }

    /// Where waiters listen: at the primary unless set. What decides stays there in any case. All services that share locks must be
    /// set alike.
    pub fn subscription_mode(mut self, mode: SubscriptionMode) -> Self {
        self.settings.subscription_mode = mode;
        self.by_code("subscription_mode")
    }

    /// How far a replica may be behind its primary and still be read from, or listened to: 1 s unless set. It is to have by now all that the
    /// primary had that long ago; compared every [`scan_interval`](Self::scan_interval). Longer reads from slow ones, too; shorter
    /// turns to the primary sooner.
    pub fn max_replica_lag(mut self, lag: Duration) -> Self {
        self.settings.max_replica_lag = lag;
        self.by_code("max_replica_lag")
    }

    /// How often the topology is looked at although nothing tells of a change: every second unless set. It bounds how long a
    /// change that nobody told of goes unnoticed.
    pub fn scan_interval(mut self, interval: Duration) -> Self {
        self.settings.scan_interval = interval;
        self.by_code("scan_interval")
    }

    /// Whether a cluster's messages go by sharded channels: as Redisson decides it, unless set.
    pub fn sharded_subscriptions(mut self, sharded: ShardedSubscriptions) -> Self {
        self.settings.sharded_subscriptions = sharded;
        self.by_code("sharded_subscriptions")
    }

    /// Which protocol is spoken: RESP3, and RESP2 where a server refuses it, unless set.
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.settings.protocol = protocol;
        self.by_code("protocol")
    }

    /// How often an idle connection is asked whether it lives: every 5 s unless set. A dead one is noticed after this and one
    /// timeout.
    pub fn ping_interval(mut self, interval: Duration) -> Self {
        self.settings.ping_interval = interval;
        self.by_code("ping_interval")
    }

    /// Connections for requests to each node, 1 to 16: one unless set. All requests of a name use the same one.
    pub fn connections_per_node(mut self, connections: u32) -> Self {
        self.settings.connections_per_node = connections;
        self.by_code("connections_per_node")
    }

    /// How many requests may be under way at one node, 1 to 65,536: 1,024 unless set. Further requests
    /// wait in the client. The wait is not part of their `response_timeout`, only of the call's own bound; a
    /// request that does not get out of it ends as [`NotSent`](crate::ServerError::NotSent).
    ///
    /// Renewals and releases of single names do not wait; a release of several names at once does.
    pub fn max_in_flight(mut self, requests: u32) -> Self {
        self.settings.max_in_flight = requests;
        self.by_code("max_in_flight")
    }

    /// Asks `resolver` for the addresses of host names, instead of the system.
    pub fn resolver(mut self, resolver: impl Resolver) -> Self {
        self.network.resolver = Some(Arc::new(resolver));
        self
    }

    /// Has `dialer` open all connections to servers and sentinels, instead of TCP from this machine. A
    /// resolver and a SOCKS proxy are not used then.
    pub fn dialer(mut self, dialer: impl Dialer) -> Self {
        self.network.dialer = Some(Arc::new(dialer));
        self
    }

    /// Connects to other addresses than servers and sentinels name, as behind NAT or port forwarding:
    /// pairs of the address that is named and what it is from here. Others stay as they are.
    pub fn address_map(mut self, map: impl IntoIterator<Item = (Address, Address)>) -> Self {
        self.network.address_map = map.into_iter().collect();
        self.by_code("address_map")
    }

    /// Opens all connections through the SOCKS5 proxy at `address`, which also resolves host names;
    /// with a user and a password where it asks for them.
    pub fn socks_proxy(mut self, address: Address, login: Option<(&str, &str)>) -> Self {
        let (username, password) = login.unzip();
        self.network.socks =
            Some(Socks { address, username: username.map(str::to_owned), password: password.map(Secret::new) });
        self.by_code("socks_proxy")
    }

    /// Where a grant and its renewals must have arrived before they count: the primary's memory unless set.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.settings.durability = durability;
        self.notes.origins.remove("durability_at_least");
        self.notes.origins.remove("durability_timeout");
        self.by_code("durability")
    }

    /// How long a place in the queue of a fair lock outlives a silent process: 30 s unless set. It must exceed the difference
    /// between the clocks of hosts with Java services.
    pub fn fair_wait(mut self, wait: Duration) -> Self {
        self.settings.fair_wait = wait;
        self.by_code("fair_wait")
    }

    /// How many waiters of a process have places of their own in the queue of a fair lock, 1 to 1,000: 16 unless set. The rest
    /// wait behind them inside the process.
    pub fn fair_depth(mut self, places: u32) -> Self {
        self.settings.fair_depth = places;
        self.by_code("fair_depth")
    }

    fn by_code(mut self, key: &'static str) -> Self {
        self.notes.origins.insert(key, Origin::Code { key });
        self
    }
}
