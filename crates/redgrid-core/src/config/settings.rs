//! How a client behaves: its settings, and all their defaults in one literal.

use std::time::Duration;

use crate::name::Namespace;

/// The smallest lease: 100 ms. Below it, the safety margin and one round trip leave nothing to work with.
pub const SHORTEST_LEASE: Duration = Duration::from_millis(100);

/// The longest lease: 30 days. Longer ones are renewed leases (leave the lease unset).
pub const LONGEST_LEASE: Duration = Duration::from_secs(30 * 24 * 3600);

/// Which nodes answer reads. What decides (locks and all that is written) always asks the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ReadMode {
    /// The primary.
    #[default]
    Primary,
    /// The replicas in turn; the primary where none is fit: in touch with it, and not behind by more than `max_replica_lag`.
    Replica,
    /// The primary and the replicas in turn.
    Any,
}

/// Where waiters listen for what is published when a lock is given back. All services that share locks must be set alike, for the
/// sake of turns: who listens at a replica is not counted by the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SubscriptionMode {
    /// At the primary.
    #[default]
    Primary,
    /// At a replica of it, the same one for all waiters of a name; at the primary where none is fit.
    Replica,
}

/// Whether a cluster's messages go by sharded channels. Java services that share locks must be set alike: who listens to one
/// kind does not hear the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ShardedSubscriptions {
    /// Where the servers have them (Redis 7.0, Valkey), as Redisson does.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never.
    Off,
}

/// Which version of its protocol a server is spoken to by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Protocol {
    /// RESP3, and RESP2 at servers and proxies that refuse `HELLO 3`.
    #[default]
    Auto,
    /// RESP3 only: a server that refuses it is not used.
    Resp3,
    /// RESP2 only; `HELLO` is never sent. For proxies that end the connection on commands that they do not know.
    Resp2,
}

/// How durable a grant, and every renewal of it, must be before it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) response_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) retries: u32,
    pub(crate) retry_delay: Duration,
    pub(crate) ping_interval: Duration,
    pub(crate) credentials_interval: Duration,
    pub(crate) connections_per_node: u32,
    pub(crate) max_in_flight: u32,
    pub(crate) scan_interval: Duration,
    pub(crate) read_mode: ReadMode,
    pub(crate) subscription_mode: SubscriptionMode,
    pub(crate) max_replica_lag: Duration,
    pub(crate) sharded_subscriptions: ShardedSubscriptions,
    pub(crate) protocol: Protocol,
    pub(crate) watchdog_lease: Duration,
    pub(crate) durability: Durability,
    pub(crate) fair_wait: Duration,
    pub(crate) fair_depth: u32,
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
            response_timeout: Duration::from_secs(3),
            connect_timeout: Duration::from_secs(2),
            retries: 4,
            retry_delay: Duration::from_millis(100),
            ping_interval: Duration::from_secs(5),
            credentials_interval: Duration::from_secs(10),
            connections_per_node: 1,
            max_in_flight: 1024,
            scan_interval: Duration::from_secs(1),
            read_mode: ReadMode::Primary,
            subscription_mode: SubscriptionMode::Primary,
            max_replica_lag: Duration::from_secs(1),
            sharded_subscriptions: ShardedSubscriptions::Auto,
            protocol: Protocol::Auto,
            watchdog_lease: Duration::from_secs(30),
            durability: Durability::Primary,
            fair_wait: Duration::from_secs(30),
            fair_depth: 16,
            stretch: None,
            poll_interval: Duration::from_secs(1),
            poll_budget: 500,
            namespace: Namespace::default(),
            client_name: "redgrid".into(),
        }
    }
}

impl Settings {
    /// How long a call without a bound of its own may be without contact to the server: `response_timeout × (retries + 1)`.
    pub(crate) fn patience(&self) -> Duration {
        self.response_timeout.saturating_mul(self.retries.saturating_add(1))
    }

    /// Whether replicas are asked anything, or listened to.
    pub(crate) fn uses_replicas(&self) -> bool {
        self.read_mode != ReadMode::Primary || self.subscription_mode != SubscriptionMode::Primary
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
