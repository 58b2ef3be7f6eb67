//! The settings of a client's behaviour.

use std::time::Duration;

use crate::name::Namespace;

/// The shortest lease: 100 ms. A shorter lease would be used up by the safety margin and one round
/// trip.
pub const SHORTEST_LEASE: Duration = Duration::from_millis(100);

/// The longest lease: 30 days. To hold something for longer, leave the lease unset: the client then
/// renews the hold.
pub const LONGEST_LEASE: Duration = Duration::from_secs(30 * 24 * 3600);

/// The longest hand-over window: 500 ms.
///
/// In a hand-over window, the tasks of a process can hand a lock to each other while other
/// processes wait. A forced takeover waits until this time has passed, because the former holder's
/// process can issue fencing tokens until the end of its window.
pub const LONGEST_WINDOW: Duration = Duration::from_millis(500);

/// The nodes that answer reads. Locks and all writes always use the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ReadMode {
    /// The primary.
    #[default]
    Primary,
    /// The replicas in turn, or the primary if no replica is usable. A usable replica is connected
    /// to the primary, and lags by at most `max_replica_lag`.
    Replica,
    /// The primary and the replicas in turn.
    Any,
}

/// Where waiters subscribe to release messages.
///
/// All services that share locks need the same value. A process detects waiters of other processes
/// by the number of subscribers, and lets these waiters go first. A primary does not count the
/// subscribers at its replicas. So a process can overlook waiters whose setting differs from its
/// own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SubscriptionMode {
    /// At the primary.
    #[default]
    Primary,
    /// At one replica, the same one for all waiters of a name; at the primary if no replica is
    /// usable.
    Replica,
}

/// Whether a cluster's messages use sharded channels.
///
/// Java services that share locks need the same value. A subscriber of a plain channel does not
/// receive the messages of a sharded channel, and vice versa.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ShardedSubscriptions {
    /// Sharded channels are used if the servers have them (Redis 7.0 or newer, Valkey), as in
    /// Redisson.
    #[default]
    Auto,
    /// Sharded channels are always used.
    On,
    /// Sharded channels are never used.
    Off,
}

/// The version of the Redis protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Protocol {
    /// RESP3, or RESP2 if the server or proxy rejects `HELLO 3`.
    #[default]
    Auto,
    /// RESP3 only. A server that rejects RESP3 is not used.
    Resp3,
    /// RESP2 only; `HELLO` is never sent. Use this for proxies that close the connection on unknown
    /// commands.
    Resp2,
}

/// How much a client reports about itself to other processes. A report never contains values of
/// objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Introspection {
    /// The process, the holds, the names that tasks wait for, and the latest losses and failures.
    #[default]
    Full,
    /// The process, and the numbers of holds and of waiting tasks.
    Counts,
    /// Nothing: the client ignores requests for a report.
    Off,
}

/// Where a grant or a renewal must be stored before the client relies on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// In the primary's memory. No further confirmation is requested.
    #[default]
    Primary,
    /// In the memory of replicas, which acknowledge the grant (`WAIT`).
    Replicas {
        /// The number of replicas; 0 is the same as [`Durability::Primary`].
        at_least: u32,
        /// How long the acknowledgements may take.
        timeout: Duration,
    },
    /// In the primary's append-only file, synced to disk (`WAITAOF`: Redis 7.2 or newer, or
    /// Valkey).
    ///
    /// The server's `appendfsync` decides when the file is synced: `always` at once, `everysec`
    /// within about two seconds, `no` at a time that the operating system chooses.
    Disk {
        /// How long the sync may take.
        timeout: Duration,
    },
}

impl Durability {
    /// Returns how long the confirmation may take.
    pub fn timeout(self) -> Duration {
        match self {
            Durability::Primary => Duration::ZERO,
            Durability::Replicas { timeout, .. } | Durability::Disk { timeout } => timeout,
        }
    }

    /// Returns whether a grant with the durability `self` meets the requirement `other`. The
    /// timeouts are not compared.
    pub fn covers(self, other: Durability) -> bool {
        match (self, other) {
            (_, Durability::Primary | Durability::Replicas { at_least: 0, .. }) => true,
            (Durability::Replicas { at_least: has, .. }, Durability::Replicas { at_least: requested, .. }) => {
                has >= requested
            }
            (Durability::Disk { .. }, Durability::Disk { .. }) => true,
            // A copy on a disk does not replace a copy on a second server, and vice versa.
            _ => false,
        }
    }
}

/// The settings of a client. The table of settings has their default values; all fields of
/// `Settings::default()` are empty or 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// How long a transmission waits for its reply.
    pub response_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) retries: u32,
    /// The mean pause before a request is sent again.
    pub retry_delay: Duration,
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
    /// The lease of holds that the client renews.
    pub watchdog_lease: Duration,
    /// The durability of grants.
    pub durability: Durability,
    /// How long Java services keep the position of a dead process in the queue of a fair lock.
    pub fair_wait: Duration,
    /// How many waiters of a process can have their own position in a queue on the server.
    pub fair_depth: u32,
    /// How long the tasks of this process may hand a lock over to each other while other processes
    /// wait. `None` means that the time is derived from the measured round trip.
    pub handover_window: Option<Duration>,
    /// The interval at which waiters poll.
    pub poll_interval: Duration,
    pub(crate) poll_budget: u32,
    /// The prefix of all keys and channels.
    pub namespace: Namespace,
    pub(crate) client_name: String,
    /// The contents of the client's reports about itself.
    pub introspection: Introspection,
}

impl Settings {
    /// Returns how long a call without its own timeout waits while there is no contact to the
    /// server: `response_timeout × (retries + 1)`.
    pub fn patience(&self) -> Duration {
        self.response_timeout.saturating_mul(self.retries.saturating_add(1))
    }

    /// Returns whether replicas serve reads or subscriptions.
    pub(crate) fn uses_replicas(&self) -> bool {
        self.read_mode != ReadMode::Primary || self.subscription_mode != SubscriptionMode::Primary
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_covers_weaker_requirements_of_the_same_kind() {
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
        for (has, requested, covered) in table {
            assert_eq!(has.covers(requested), covered, "{has:?} for {requested:?}");
        }
    }
}
