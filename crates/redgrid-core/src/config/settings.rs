//! How a client behaves: its settings, and all their defaults in one literal.

use std::time::Duration;

use crate::name::Namespace;

/// The smallest lease: 100 ms. Below it, the safety margin and one round trip leave nothing to work with.
pub const SHORTEST_LEASE: Duration = Duration::from_millis(100);

/// The longest lease: 30 days. Longer ones are renewed leases (leave the lease unset).
pub const LONGEST_LEASE: Duration = Duration::from_secs(30 * 24 * 3600);

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

/// Where a grant, and every renewal that moves its deadline, must have arrived before it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// In the primary's memory.
    #[default]
    Primary,
    /// In the memory of so many replicas, too (`WAIT`); otherwise it is given back.
    Replicas {
        /// How many. All that may be promoted, for a lock that survives any failover.
        at_least: u32,
        /// How long they may take.
        timeout: Duration,
    },
    /// On the primary's disk (`WAITAOF`, Redis 7.2 or newer with an append-only file); otherwise it is given back.
    Disk {
        /// How long that may take.
        timeout: Duration,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) retries: u32,
    pub(crate) retry_delay: Duration,
    pub(crate) ping_interval: Duration,
    pub(crate) connections_per_node: u32,
    pub(crate) scan_interval: Duration,
    pub(crate) read_mode: ReadMode,
    pub(crate) sharded_subscriptions: ShardedSubscriptions,
    pub(crate) watchdog_lease: Duration,
    pub(crate) durability: Durability,
    pub(crate) fair_wait: Duration,
    /// `None`: by the measured round trip.
    pub(crate) stretch: Option<Duration>,
    pub(crate) poll_interval: Duration,
    pub(crate) poll_budget: u32,
    pub(crate) namespace: Namespace,
    pub(crate) client_name: String,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            timeout: Duration::from_secs(3),
            connect_timeout: Duration::from_secs(2),
            retries: 4,
            retry_delay: Duration::from_millis(100),
            ping_interval: Duration::from_secs(5),
            connections_per_node: 1,
            scan_interval: Duration::from_secs(1),
            read_mode: ReadMode::Primary,
            sharded_subscriptions: ShardedSubscriptions::Auto,
            watchdog_lease: Duration::from_secs(30),
            durability: Durability::Primary,
            fair_wait: Duration::from_secs(30),
            stretch: None,
            poll_interval: Duration::from_secs(1),
            poll_budget: 500,
            namespace: Namespace::default(),
            client_name: "redgrid".into(),
        }
    }
}

impl Settings {
    /// How long a call may be without contact to the server: `timeout × (retries + 1)`.
    pub(crate) fn patience(&self) -> Duration {
        self.timeout.saturating_mul(self.retries.saturating_add(1))
    }
}
