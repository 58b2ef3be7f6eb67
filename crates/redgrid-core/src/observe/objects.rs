//! Metrics of queues, limiters, caches, topics and transactions. Without the feature `metrics`,
//! these functions do nothing.
//!
//! `family` is the label of the object's handle.

use std::time::Duration;

#[cfg(not(feature = "metrics"))]
use super::disabled::{add_many, begin, gauge, record};
#[cfg(feature = "metrics")]
use super::series::{add_many, begin, gauge, record};
use super::table;

/// Whether metrics are compiled in. If not, an object need not measure anything for its metrics.
pub const IS_ENABLED: bool = cfg!(feature = "metrics");

/// Declares an enum with a label for each variant.
macro_rules! labelled {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident $label:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        // Not `#[non_exhaustive]`: only implementations of object types use it.
        pub enum $name {
            $($(#[$of])* $variant,)*
        }

        impl $name {
            #[cfg(test)]
            pub(super) const ALL: [$name; [$($label),*].len()] = [$($name::$variant),*];

            pub(super) fn label(self) -> &'static str {
                match self {
                    $($name::$variant => $label,)*
                }
            }
        }
    };
}

labelled! {
    /// What a process did with messages of a reliable queue.
    QueueEvent {
        /// The queue has accepted the message.
        Pushed "pushed",
        /// The deduplication id was used before.
        Duplicate "duplicate",
        /// The queue was full, or the message was too large.
        Refused "refused",
        /// The first delivery of the message.
        Received "received",
        /// A further delivery of the message.
        Redelivered "redelivered",
        /// A consumer has finished the message.
        Acknowledged "acknowledged",
        /// The message went back to the queue.
        Returned "returned",
        /// The message became a dead letter by a call of `reject`.
        Rejected "rejected",
        /// A settlement failed, because the message no longer belonged to the delivery.
        Stale "stale",
    }
}

labelled! {
    /// The result of a call of a rate limiter.
    Decision {
        /// The permits were taken.
        Allowed "allowed",
        /// There were too few permits, even at the end of the timeout if one was set.
        Denied "denied",
        /// The limiter could not be asked, or its reply was lost.
        Unavailable "unavailable",
    }
}

labelled! {
    /// The result of a read of a key of a local cached map.
    CacheResult {
        /// The process had the value.
        Hit "hit",
        /// The process did not have the value, or it had expired.
        Miss "miss",
        /// The cache was not used, because changes may have been missed.
        Bypassed "bypassed",
    }
}

labelled! {
    /// The reason why a local cached map removed entries.
    Removal {
        /// The cache was full.
        Size "size",
        /// The keys of the entries were changed, or the cache was cleared.
        Changed "changed",
        /// The lifetime or idle time of the entries was over.
        Expired "expired",
    }
}

labelled! {
    /// Whether a process has published, received or missed a topic's message.
    Direction {
        /// This process has published the message.
        Published "published",
        /// A subscription has returned the message to its caller.
        Received "received",
        /// A subscription was too slow, and has missed the message.
        Missed "missed",
    }
}

labelled! {
    /// The outcome of a commit.
    CommitOutcome {
        /// All writes are done.
        Committed "committed",
        /// Others have changed what the transaction has read. Nothing is written.
        Conflict "conflict",
        /// No reply has arrived. The writes may be done.
        Unknown "unknown",
        /// Nothing is written, for another reason.
        Failed "failed",
    }
}

/// Reports the counters of queues of a family as 0. Call it when a handle gets its family, so that
/// the first event is an increase from 0.
pub fn queue_family(family: &'static str) {
    begin(&table::QUEUE_MESSAGES, family);
}

/// Reports the counters of rate limiters of a family as 0, as [`queue_family`] does.
pub fn limiter_family(family: &'static str) {
    begin(&table::LIMIT_DECISIONS, family);
}

/// Reports the counters of topics of a family as 0, as [`queue_family`] does.
pub fn topic_family(family: &'static str) {
    begin(&table::TOPIC_MESSAGES, family);
}

/// Reports the counters of transactions of a family as 0, as [`queue_family`] does.
pub fn transaction_family(family: &'static str) {
    begin(&table::TRANSACTIONS, family);
}

/// Records what was done with `count` messages of a queue.
pub fn queue_messages(family: &'static str, event: QueueEvent, count: u64) {
    if count > 0 {
        add_many(&table::QUEUE_MESSAGES, [family, event.label()], count);
    }
}

/// Records how long a message waited between its push and its first delivery.
pub fn queue_waited(family: &'static str, waited: Duration) {
    record(&table::QUEUE_WAIT, [family], waited);
}

/// Records how long a consumer had a message: from the delivery to the settlement or the drop.
pub fn queue_handled(family: &'static str, took: Duration) {
    record(&table::QUEUE_HANDLE, [family], took);
}

/// Records the result of a call of a rate limiter, and its duration.
pub fn limit_decided(family: &'static str, decision: Decision, waited: Duration) {
    add_many(&table::LIMIT_DECISIONS, [family, decision.label()], 1);
    record(&table::LIMIT_WAIT, [family], waited);
}

/// Records `count` reads of keys of a local cached map.
pub fn cache_read_many(family: &'static str, result: CacheResult, count: u64) {
    if count > 0 {
        add_many(&table::CACHE_REQUESTS, [family, result.label()], count);
    }
}

/// Records that a local cached map has removed `count` entries.
pub fn cache_removed(family: &'static str, reason: Removal, count: u64) {
    if count > 0 {
        add_many(&table::CACHE_EVICTIONS, [family, reason.label()], count);
    }
}

/// Records that the size of a local cached map has changed by these numbers.
pub fn cache_resized(family: &'static str, entries: i64, bytes: i64) {
    if (entries, bytes) != (0, 0) {
        gauge(&table::CACHE_ENTRIES, [family], entries as f64);
        gauge(&table::CACHE_BYTES, [family], bytes as f64);
    }
}

/// Records `count` messages of a topic.
pub fn topic_messages(family: &'static str, direction: Direction, count: u64) {
    add_many(&table::TOPIC_MESSAGES, [family, direction.label()], count);
}

/// Records a commit of a transaction.
pub fn committed(family: &'static str, outcome: CommitOutcome) {
    add_many(&table::TRANSACTIONS, [family, outcome.label()], 1);
}
