//! Settings that are set in code. Bounds and relations are checked when a client is built.

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
    /// Sets the user and password to log in with.
    pub fn credentials(mut self, username: Option<&str>, password: impl Into<String>) -> Self {
        self.access.username = username.map(str::to_owned);
        self.access.password = Some(Secret::new(password));
        self.access.provider = None;
        self.set_in_code("password").set_in_code("username")
    }

    /// Asks `provider` for user and password before each connection, and every
    /// [`credentials_interval`](Config::credentials_interval) for those that live.
    pub fn password_from(mut self, provider: impl CredentialProvider) -> Self {
        self.access.username = None;
        self.access.password = None;
        self.access.provider = Some(Provider::new(provider));
        self
    }

    /// Sets the user and password for the sentinels. Those for the servers are not used there.
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
        Ok(self.set_in_code("sentinel_password").set_in_code("sentinel_username"))
    }

    /// Asks `provider` for the user and password at the sentinels, as
    /// [`password_from`](Config::password_from) does for the servers.
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
        sentinel.username = None;
        sentinel.password = None;
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

    /// Sets how often a provider is asked for the password of open connections: every 10 s unless
    /// set. If the answer has changed, they log in again.
    pub fn credentials_interval(mut self, interval: Duration) -> Self {
        self.settings.credentials_interval = interval;
        self.set_in_code("credentials_interval")
    }

    /// Selects the database: 0 unless set. A cluster has only 0.
    pub fn database(mut self, database: u8) -> Self {
        self.access.database = database;
        self.set_in_code("database")
    }

    /// Encrypts the connections. Needs the feature `tls`. Its files are read when a client starts.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.access.tls = Some(tls);
        self.set_in_code("tls")
    }

    /// Sets the prefix of every key and channel: `namespace:name`. Default: none.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Namespace`] when it has braces or more than 256 bytes.
    pub fn namespace(mut self, namespace: impl AsRef<str>) -> Result<Self, ConfigError> {
        self.settings.namespace = Namespace::new(namespace).map_err(ConfigError::Namespace)?;
        Ok(self.set_in_code("namespace"))
    }

    /// Sets how long one answer of a server may take: 3 s unless set. A shorter time detects a hung
    /// server sooner; a longer one tolerates slow scripts and networks.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.settings.response_timeout = timeout;
        self.set_in_code("response_timeout")
    }

    /// Sets how long setting up one connection may take: 2 s unless set.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.settings.connect_timeout = timeout;
        self.set_in_code("connect_timeout")
    }

    /// Sets how often an unanswered request is retried where that is safe: 4 unless set. A call
    /// without any contact ends after `response_timeout × (retries + 1)`: 15 s unless set.
    pub fn retries(mut self, retries: u32) -> Self {
        self.settings.retries = retries;
        self.set_in_code("retries")
    }

    /// Sets the mean delay before a retry: 100 ms unless set. Each delay varies by up to half of
    /// it.
    pub fn retry_delay(mut self, delay: Duration) -> Self {
        self.settings.retry_delay = delay;
        self.set_in_code("retry_delay")
    }

    /// Sets the lease of holds that are renewed: 30 s unless set, renewed after every third of it.
    /// A shorter lease frees the locks of a dead process sooner; a longer one survives longer
    /// pauses and failovers.
    pub fn watchdog_lease(mut self, lease: Duration) -> Self {
        self.settings.watchdog_lease = lease;
        self.set_in_code("watchdog_lease")
    }

    /// Sets how often a waiter polls although its subscription is active: every second unless set.
    /// It bounds the wait after a lost message.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.settings.poll_interval = interval;
        self.set_in_code("poll_interval")
    }

    /// Limits the names polled per second and node: 500 unless set.
    pub fn poll_budget(mut self, names: u32) -> Self {
        self.settings.poll_budget = names;
        self.set_in_code("poll_budget")
    }

    /// Sets how long tasks of this process may pass a lock to each other without a request, while
    /// other processes wait. Default: ten round trips, between 10 ms and 500 ms; 500 ms is also the
    /// maximum.
    ///
    /// Longer is not faster; shorter makes processes alternate more often. With zero, every task
    /// sends a request. A fair lock follows the server's queue however long this is: it sends a
    /// request at least every 500 ms, and with zero for every task.
    pub fn handover_window(mut self, handover_window: Duration) -> Self {
        self.settings.handover_window = Some(handover_window);
        self.set_in_code("stretch")
    }

    /// Sets the name of the connections in `CLIENT LIST`: `redgrid` unless set. No spaces.
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.settings.client_name = name.into();
        self.set_in_code("client_name")
    }

    /// Selects the nodes that answer reads: the primary unless set. Locks and all writes always use
    /// the primary.
    pub fn read_mode(mut self, mode: ReadMode) -> Self {
        self.settings.read_mode = mode;
        self.set_in_code("read_mode")
    }

    /// Selects where waiters subscribe: at the primary unless set. Grants and releases always use
    /// the primary. All services that share locks need the same value.
    pub fn subscription_mode(mut self, mode: SubscriptionMode) -> Self {
        self.settings.subscription_mode = mode;
        self.set_in_code("subscription_mode")
    }

    /// Sets how far a replica may lag behind its primary and still serve reads and subscriptions: 1
    /// s unless set. A usable replica has everything that the primary had that long ago. Offsets
    /// are compared every [`scan_interval`](Self::scan_interval). A longer time also uses slow
    /// replicas; a shorter one switches to the primary sooner.
    pub fn max_replica_lag(mut self, lag: Duration) -> Self {
        self.settings.max_replica_lag = lag;
        self.set_in_code("max_replica_lag")
    }

    /// Sets how often the topology is refreshed without a reason: every second unless set. It
    /// bounds how long a change without a notification goes unnoticed.
    pub fn scan_interval(mut self, interval: Duration) -> Self {
        self.settings.scan_interval = interval;
        self.set_in_code("scan_interval")
    }

    /// Sets whether a cluster's messages use sharded channels: as Redisson decides it, unless set.
    pub fn sharded_subscriptions(mut self, sharded: ShardedSubscriptions) -> Self {
        self.settings.sharded_subscriptions = sharded;
        self.set_in_code("sharded_subscriptions")
    }

    /// Selects the protocol: RESP3, or RESP2 if a server rejects that, unless set.
    pub fn protocol(mut self, protocol: Protocol) -> Self {
        self.settings.protocol = protocol;
        self.set_in_code("protocol")
    }

    /// Sets how often an idle connection is pinged: every 5 s unless set. A dead one is detected
    /// after this and one `response_timeout`.
    pub fn ping_interval(mut self, interval: Duration) -> Self {
        self.settings.ping_interval = interval;
        self.set_in_code("ping_interval")
    }

    /// Sets the number of connections for requests to each node, 1 to 16: one unless set. All
    /// requests of a name use the same one.
    pub fn connections_per_node(mut self, connections: u32) -> Self {
        self.settings.connections_per_node = connections;
        self.set_in_code("connections_per_node")
    }

    /// Limits the requests in flight at one node, 1 to 65,536: 1,024 unless set. Further requests
    /// wait in the client. The wait counts towards the call's own timeout, not towards
    /// `response_timeout`. A request that is still waiting then fails with
    /// [`NotSent`](crate::ServerError::NotSent).
    ///
    /// Renewals and releases of single names do not wait; a release of several names at once does.
    pub fn max_in_flight(mut self, requests: u32) -> Self {
        self.settings.max_in_flight = requests;
        self.set_in_code("max_in_flight")
    }

    /// Asks `resolver` for the addresses of host names, instead of the system.
    pub fn resolver(mut self, resolver: impl Resolver) -> Self {
        self.network.resolver = Some(Arc::new(resolver));
        self
    }

    /// Opens all connections to servers and sentinels through `dialer`, instead of TCP from this
    /// machine. A resolver and a SOCKS proxy are then not used.
    pub fn dialer(mut self, dialer: impl Dialer) -> Self {
        self.network.dialer = Some(Arc::new(dialer));
        self
    }

    /// Connects to other addresses than servers and sentinels announce, for example behind NAT or
    /// port forwarding. Each pair is the announced address and the address to connect to. Other
    /// addresses are used unchanged.
    pub fn address_map(mut self, map: impl IntoIterator<Item = (Address, Address)>) -> Self {
        self.network.address_map = map.into_iter().collect();
        self.set_in_code("address_map")
    }

    /// Opens all connections through the SOCKS5 proxy at `address`, which also resolves host names.
    /// `login` is the user and password at the proxy.
    pub fn socks_proxy(mut self, address: Address, login: Option<(&str, &str)>) -> Self {
        let (username, password) = login.unzip();
        self.network.socks =
            Some(Socks { address, username: username.map(str::to_owned), password: password.map(Secret::new) });
        self.set_in_code("socks_proxy")
    }

    /// Sets where a grant and its renewals must be stored before they count: in the primary's
    /// memory unless set.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.settings.durability = durability;
        self.notes.origins.remove("durability_at_least");
        self.notes.origins.remove("durability_timeout");
        self.set_in_code("durability")
    }

    /// Sets how long a position in the queue of a fair lock outlives a silent process: 30 s unless
    /// set. It must exceed the clock difference to hosts with Java services.
    pub fn fair_wait(mut self, wait: Duration) -> Self {
        self.settings.fair_wait = wait;
        self.set_in_code("fair_wait")
    }

    /// Limits the waiters of a process with their own position in the queue of a fair lock, 1 to
    /// 1,000: 16 unless set. The others wait behind them inside the process.
    pub fn fair_depth(mut self, places: u32) -> Self {
        self.settings.fair_depth = places;
        self.set_in_code("fair_depth")
    }

    fn set_in_code(mut self, key: &'static str) -> Self {
        self.notes.origins.insert(key, Origin::Code { key });
        self
    }
}
