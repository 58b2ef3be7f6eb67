//! Methods that set settings in code. The values are checked when a client is built.

use std::sync::Arc;
use std::time::Duration;

use super::Config;
use super::access::{CredentialProvider, Provider, Secret, Tls};
use super::error::{ConfigError, Origin};
use super::network::{Dialer, Resolver, Socks};
use super::servers::{Address, Sentinel, Servers};
use super::settings::{Durability, Introspection, Protocol, ReadMode, ShardedSubscriptions, SubscriptionMode};
use crate::name::Namespace;

impl Config {
    /// Sets the user and password to log in with.
    pub fn credentials(mut self, username: Option<&str>, password: impl Into<String>) -> Self {
        self.access.username = username.map(str::to_owned);
        self.access.password = Some(Secret::new(password));
        self.access.provider = None;
        self.set_in_code("password").set_in_code("username")
    }

    /// Calls `provider` for user and password before each new connection. While connections are
    /// open, also calls it every [`credentials_interval`](Config::credentials_interval): one call
    /// for all connections together.
    pub fn password_from(mut self, provider: impl CredentialProvider) -> Self {
        self.access.username = None;
        self.access.password = None;
        self.access.provider = Some(Provider::new(provider));
        self
    }

    /// Sets the user and password for the sentinels. The login for the servers is not used at
    /// sentinels.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Relation`] if no sentinels are set.
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

    /// Fetches the user and password for the sentinels from `provider`, as
    /// [`password_from`](Config::password_from) does for the servers.
    ///
    /// ```
    /// # use redgrid_client::config::{CredentialProvider, Credentials};
    /// # struct Mounted(&'static str);
    /// # #[async_trait::async_trait]
    /// # impl CredentialProvider for Mounted {
    /// #     async fn fetch(&self) -> Result<Credentials, Box<dyn std::error::Error + Send + Sync>> {
    /// #         Err(self.0.into())
    /// #     }
    /// # }
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let config = redgrid_client::Config::sentinel("orders", ["10.0.0.1", "10.0.0.2"])?
    ///     .password_from(Mounted("/run/secrets/redis"))
    ///     .sentinel_password_from(Mounted("/run/secrets/sentinel"))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConfigError::Relation`] if no sentinels are set.
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
                rule: "it is the login at sentinels",
            }),
        }
    }

    /// Selects the database: 0 unless set. A cluster has only database 0.
    pub fn database(mut self, database: u8) -> Self {
        self.access.database = database;
        self.set_in_code("database")
    }

    /// Encrypts the connections. This needs the feature `tls`. The files in `tls` are read when a
    /// client starts, and again before each new connection.
    pub fn tls(mut self, tls: Tls) -> Self {
        self.access.tls = Some(tls);
        self.set_in_code("tls")
    }

    /// Sets the namespace. Every key and channel begins with it: `namespace:name`. Default: none.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Namespace`] if the namespace has braces or more than 256 bytes.
    pub fn namespace(mut self, namespace: impl AsRef<str>) -> Result<Self, ConfigError> {
        self.settings.namespace = Namespace::new(namespace).map_err(ConfigError::Namespace)?;
        Ok(self.set_in_code("namespace"))
    }

    /// Sets the hand-over window: how long tasks of this process may pass a lock to each other
    /// without a request, while other processes wait. Default: the time of ten round trips, but at
    /// least 10 ms and at most 500 ms. No window may be longer than 500 ms.
    ///
    /// A window that is longer than the default does not make locks faster. With a shorter window,
    /// a lock passes between processes more often. With a window of zero, every task acquires the
    /// lock by a request of its own.
    ///
    /// A fair lock is granted in the order of the server's queue, whatever the window is. While a
    /// fair lock passes between tasks of a process, the process sends at least one request in
    /// 500 ms. If the window is zero, it sends a request for every task.
    pub fn local_handover_window(mut self, window: Duration) -> Self {
        self.settings.handover_window = Some(window);
        self.set_in_code("local_handover_window")
    }

    /// Sets the name of the connections in `CLIENT LIST`: `redgrid` unless set. It must not contain
    /// spaces.
    pub fn client_name(mut self, name: impl Into<String>) -> Self {
        self.settings.client_name = name.into();
        self.set_in_code("client_name")
    }

    /// Resolves host names with `resolver`, instead of the system's resolver.
    pub fn resolver(mut self, resolver: impl Resolver) -> Self {
        self.network.resolver = Some(Arc::new(resolver));
        self
    }

    /// Opens all connections to servers and sentinels through `dialer`, and not by TCP from this
    /// machine. With a dialer, the client uses neither a resolver nor a SOCKS proxy.
    pub fn dialer(mut self, dialer: impl Dialer) -> Self {
        self.network.dialer = Some(Arc::new(dialer));
        self
    }

    /// Replaces addresses before the client connects to them, for example because of NAT or port
    /// forwarding. The first address of a pair occurs in this configuration, or in a reply of a
    /// server or sentinel. The client connects to the second address instead. Other addresses are
    /// used unchanged.
    pub fn address_map(mut self, map: impl IntoIterator<Item = (Address, Address)>) -> Self {
        self.network.address_map = map.into_iter().collect();
        self.set_in_code("address_map")
    }

    /// Opens all connections through the SOCKS5 proxy at `address`. The proxy also resolves the
    /// host names of servers. `login` is the user and password at the proxy.
    pub fn socks_proxy(mut self, address: Address, login: Option<(&str, &str)>) -> Self {
        let (username, password) = login.unzip();
        self.network.socks =
            Some(Socks { address, username: username.map(str::to_owned), password: password.map(Secret::new) });
        self.set_in_code("socks_proxy")
    }

    /// Sets where a grant or a renewal must be stored before the client relies on it: in the
    /// primary's memory unless set.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.settings.durability = match durability {
            Durability::Replicas { at_least: 0, .. } => Durability::Primary,
            other => other,
        };
        self.notes.origins.remove("durability_at_least");
        self.notes.origins.remove("durability_timeout");
        self.set_in_code("durability")
    }

    fn set_in_code(mut self, key: &'static str) -> Self {
        self.notes.origins.insert(key, Origin::Code { key });
        self
    }
}

/// Defines a method for each setting. The method has the setting's name.
macro_rules! setters {
    ($($(#[$doc:meta])* $setting:ident: $type:ty;)*) => {
        impl Config {$(
            $(#[$doc])*
            pub fn $setting(mut self, $setting: $type) -> Self {
                self.settings.$setting = $setting;
                self.set_in_code(stringify!($setting))
            }
        )*}
    };
}

setters! {
    /// Sets how often the client calls the credential provider for its open connections: every 10 s
    /// unless set. If the user or password has changed, the connections log in again.
    credentials_interval: Duration;

    /// Sets how long the client waits for one reply of a server: 3 s unless set. A shorter time
    /// detects a hung server sooner; a longer one tolerates slow scripts and networks.
    response_timeout: Duration;

    /// Sets how long each step of setting up a connection may take: 2 s unless set. The steps are:
    /// connecting, the TLS handshake, and the login.
    connect_timeout: Duration;

    /// Sets how many times an unanswered idempotent request is retried: 4 unless set. A call
    /// without its own timeout fails after `response_timeout × (retries + 1)` without contact to
    /// the server: 15 s with the default values.
    retries: u32;

    /// Sets the mean delay before a retry: 100 ms unless set. Each delay varies by up to half of
    /// the mean.
    retry_delay: Duration;

    /// Sets the lease of holds that the client renews: 30 s unless set. The client renews these
    /// holds whenever a third of the lease has passed. A shorter lease frees the locks of a dead
    /// process sooner; a longer one survives longer pauses and failovers.
    watchdog_lease: Duration;

    /// Sets how often a waiter polls while its subscription is active: every second unless set.
    /// This interval limits the delay that a lost message causes.
    poll_interval: Duration;

    /// Limits how many names the client polls for all its waiters, per second and node: 500 unless
    /// set.
    poll_budget: u32;

    /// Selects the nodes that answer reads: the primary unless set. Locks and all writes always use
    /// the primary.
    read_mode: ReadMode;

    /// Selects where waiters subscribe: at the primary unless set. Grants and releases always use
    /// the primary. All services that share locks need the same value.
    subscription_mode: SubscriptionMode;

    /// Sets how far a replica may lag behind its primary and still serve reads and subscriptions:
    /// 1 s unless set. A replica in use has all data that its primary had `max_replica_lag` ago.
    /// The client compares replication offsets every [`scan_interval`](Self::scan_interval). With a
    /// longer time, slow replicas are used, too. With a shorter one, the client switches to the
    /// primary sooner.
    max_replica_lag: Duration;

    /// Sets how often the client checks the topology if no change is reported: every second unless
    /// set. The client detects an unreported change within this interval.
    scan_interval: Duration;

    /// Sets whether a cluster's messages use sharded channels. Unless set, sharded channels are
    /// used if the servers have them, as in Redisson.
    sharded_subscriptions: ShardedSubscriptions;

    /// Selects the protocol. Unless set, it is RESP3, or RESP2 if a server rejects RESP3.
    protocol: Protocol;

    /// Sets how often an idle connection is pinged: every 5 s unless set. A dead connection is
    /// detected within this interval plus one `response_timeout`.
    ping_interval: Duration;

    /// Sets the number of connections for requests to each node: one unless set, at most 16. All
    /// requests for one name use the same connection.
    connections_per_node: u32;

    /// Limits the requests in flight at one node: 1,024 unless set, at most 65,536. Further
    /// requests wait in the client. The wait counts towards the call's own timeout, not towards
    /// `response_timeout`. If the call's timeout ends while the request still waits, the call fails
    /// with [`NotSent`](crate::ServerError::NotSent).
    ///
    /// Renewals and releases of single names never wait. A release of several names at once can
    /// wait.
    max_in_flight: u32;

    /// Sets how long Java services keep the position of a dead process in the queue of a fair lock:
    /// 30 s unless set. redgrid keeps such a position for 1 s, or longer if the client waits for
    /// more than 100 fair locks. `fair_wait` must exceed the difference between the clocks of this
    /// host and of hosts with Java services.
    fair_wait: Duration;

    /// Selects what the client reports about itself when another process, such as the command-line
    /// tool, requests a report: everything unless set. See [`report`](crate::report).
    introspection: Introspection;

    /// Limits how many waiters of a process have their own position in the queue of a fair lock: 16
    /// unless set, at most 1,000. Waiters without a position wait inside the process, behind those
    /// with a position.
    fair_depth: u32;
}
