//! The table of all metrics.

use super::{Form, Metric};

/// Builds a table. If a list of values follows the labels, the last label has only these values.
macro_rules! metrics {
    (
        $(#[$doc:meta])* $list:ident of $vis:vis constants;
        $($constant:ident $form:ident $name:literal [$($label:literal),*] $([$($value:literal),*])? $about:literal;)*
    ) => {
        $(
            #[doc = concat!("`", $name, "`: ", $about, ".")]
            $vis const $constant: Metric = Metric {
                name: $name,
                form: Form::$form,
                labels: &[$($label),*],
                values: &[$($($value),*)?],
                about: $about,
            };
        )*

        $(#[$doc])*
        pub const $list: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    /// All metrics of a process, the most important one first.
    METRICS of pub(super) constants;
    ACQUIRE_WAIT Histogram "redgrid_acquire_wait_seconds" ["kind", "family", "outcome"]
        "from the call of an acquire to its end, however it ended";
    HOLD Histogram "redgrid_hold_seconds" ["kind", "family"]
        "from a grant to the release or the loss";
    ACQUIRED Counter "redgrid_acquired_total" ["kind", "family"]
        "acquires that were granted, re-entries included";
    TIMED_OUT Counter "redgrid_timed_out_total" ["kind", "family"]
        "acquires that timed out while others held the lock";
    LOST Counter "redgrid_lost_total" ["kind", "family", "reason"] ["expired", "gone", "forced", "shut_down"]
        "holds that ended without being released";
    RELEASED Counter "redgrid_released_total" ["kind", "family"]
        "holds that their owners released";
    FORCED Counter "redgrid_forced_total" ["kind", "family"]
        "locks that this process took or freed by force";
    RENEWALS_FAILED Counter "redgrid_renewals_failed_total" ["kind", "family"]
        "renewals of a hold that were not confirmed and are tried again";
    RENEWALS_OVERDUE Counter "redgrid_renewals_overdue_total" ["kind", "family"]
        "holds whose renewal was not confirmed in time; counted once until it is confirmed";
    RENEWAL_LAG Histogram "redgrid_renewal_lag_seconds" ["kind", "family"]
        "from the time at which a renewal was due to its confirmation";
    LOCAL_HANDOVERS Counter "redgrid_local_handovers_total" ["kind", "family"]
        "holds that passed from task to task without a request";
    POSITIONS_LOST Counter "redgrid_positions_lost_total" ["kind", "family"]
        "positions in the queue of a fair lock that the server removed before their turn; the waiters queue again";
    HELD Gauge "redgrid_held" ["kind", "family"]
        "holds that are valid by the local clock";
    WAITING Gauge "redgrid_waiting" ["kind", "family"]
        "acquires that are in flight or wait";
    LEADER Gauge "redgrid_leader" ["family"]
        "elections that this process has won and still leads";
    LEADER_CHANGES Counter "redgrid_leader_changes_total" ["family"]
        "how often this process became a leader";
    FENCE_REFUSED Counter "redgrid_fence_refused_total" ["family"]
        "writes that a fence refused because of an old token";
    TRANSACTIONS Counter "redgrid_transactions_total" ["family", "outcome"]
        ["committed", "conflict", "unknown", "failed"]
        "commits of transactions, those of each retry included";
    QUEUE_MESSAGES Counter "redgrid_queue_messages_total" ["family", "what"]
        ["pushed", "duplicate", "refused", "received", "redelivered", "acknowledged", "returned", "rejected", "stale"]
        "messages of reliable queues, by what this process did with them";
    QUEUE_WAIT Histogram "redgrid_queue_wait_seconds" ["family"]
        "from the push of a message to its first delivery, by the clocks of server and client";
    QUEUE_HANDLE Histogram "redgrid_queue_handle_seconds" ["family"]
        "from the delivery of a message until the consumer acknowledged, returned, rejected or dropped it";
    LIMIT_DECISIONS Counter "redgrid_limit_decisions_total" ["family", "decision"]
        ["allowed", "denied", "unavailable"]
        "calls of rate limiters, by their result";
    LIMIT_WAIT Histogram "redgrid_limit_wait_seconds" ["family"]
        "from the call of a rate limiter to its result";
    CACHE_REQUESTS Counter "redgrid_cache_requests_total" ["family", "result"] ["hit", "miss", "bypassed"]
        "reads of keys of a local cached map, by whether the process had the value";
    CACHE_EVICTIONS Counter "redgrid_cache_evictions_total" ["family", "reason"] ["size", "changed", "expired"]
        "entries that a local cached map removed";
    CACHE_ENTRIES Gauge "redgrid_cache_entries" ["family"]
        "entries of local cached maps in this process";
    CACHE_BYTES Gauge "redgrid_cache_bytes" ["family"]
        "bytes of the entries of local cached maps in this process";
    TOPIC_MESSAGES Counter "redgrid_topic_messages_total" ["family", "direction"] ["published", "received", "missed"]
        "messages of topics";
    NODES Gauge "redgrid_nodes" []
        "nodes that are used, connected or not";
    CONNECTIONS_UP Gauge "redgrid_connections_up" []
        "nodes with a connection that is ready for requests";
    RECONNECTS Counter "redgrid_reconnects_total" []
        "connections to a node that had been connected before";
    GAPS Counter "redgrid_gaps_total" []
        "ended interruptions of subscriptions";
    PRIMARY_CHANGES Counter "redgrid_primary_changes_total" []
        "primaries that were replaced";
    TOPOLOGY_CHANGES Counter "redgrid_topology_changes_total" []
        "other changes of the topology; learning it for the first time counts as one";
    REQUESTS Counter "redgrid_requests_total" ["outcome"]
        ["answered", "refused", "unauthorized", "not_sent", "unknown", "shutting_down"]
        "requests that ended; one that was sent several times counts once";
    RETRIES Counter "redgrid_retries_total" ["reason"] ["refused", "unauthorized", "not_sent", "unknown", "too_late"]
        "further transmissions of requests";
    BYTES Counter "redgrid_bytes_total" ["direction"] ["sent", "received"]
        "bytes of all connections, before encryption";
    ROUND_TRIP Histogram "redgrid_round_trip_seconds" ["node"]
        "from passing a request to a connection to its reply; its wait for a batch of requests counts, too";
    CLOCK_OFFSET Gauge "redgrid_clock_offset_seconds" ["node"]
        "how far the clock of a node is ahead of this machine";
    SUBSCRIPTIONS Gauge "redgrid_subscriptions" ["state"] ["wanted", "confirmed"]
        "channels that the client needs, and those that a server has confirmed; equal if all is well";
    STALL Histogram "redgrid_stall_seconds" []
        "how late a timer of the client ran; delays below 10 ms are not recorded";
    BUILD_INFO Gauge "redgrid_build_info" ["version"]
        "1, with the version of redgrid";
}

/// The metrics of the console, one constant for each.
pub mod fleet {
    use super::{Form, Metric};

    metrics! {
        /// The metrics of the console (`redgrid console --metrics`), which it reads from the
        /// servers. The values of the labels `queue` and `semaphore` are names that the operator
        /// lists.
        FLEET_METRICS of pub constants;
        NODE_UP Gauge "redgrid_fleet_node_up" ["node", "role"] ["primary", "replica"]
            "1 if the node answers the console, otherwise 0";
        REPLICA_LAG Gauge "redgrid_fleet_replica_lag_bytes" ["node"]
            "bytes of the replication stream that a replica has not confirmed to its primary";
        CLIENTS Gauge "redgrid_fleet_clients" ["state"] ["alive", "silent"]
            "clients that are connected, by whether they answer the questions of the console";
        LOCKS_HELD Gauge "redgrid_fleet_locks_held" ["kind"] ["lock", "fair lock", "read-write lock", "election"]
            "locks that are held, as found by the last search through all keys";
        HOLDERS_GONE Gauge "redgrid_fleet_holders_gone" []
            "held locks with at least one holder that is gone";
        QUEUE_MESSAGES Gauge "redgrid_fleet_queue_messages" ["queue", "state"]
            ["ready", "delayed", "in_flight", "dead"]
            "messages of a reliable queue";
        QUEUE_DEAD Counter "redgrid_fleet_queue_dead_total" ["queue"]
            "messages of a reliable queue that became dead letters, also those delivered again since";
        QUEUE_OLDEST Gauge "redgrid_fleet_queue_oldest_seconds" ["queue"]
            "how long the oldest ready message of a reliable queue has been ready; 0 if none is";
        SEMAPHORE_PERMITS Gauge "redgrid_fleet_semaphore_permits" ["semaphore", "state"] ["available", "leased"]
            "permits of a semaphore";
        DOCTOR_FINDINGS Gauge "redgrid_fleet_doctor_findings" ["level"] ["warn", "fail"]
            "findings of the hourly checks, which leave out what a reader may not read";
        SWEEP_AGE Gauge "redgrid_fleet_sweep_age_seconds" []
            "time since the last complete search for locks ended; if there was none, since the console started";
        SCRAPE_SECONDS Gauge "redgrid_fleet_scrape_seconds" []
            "how long the console took to read these values";
        COLLECTOR_SECONDS Counter "redgrid_fleet_collector_seconds_total" []
            "time that the console's reads of the servers took, without the rests of its searches";
    }
}
