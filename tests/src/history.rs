//! The options of a process in a recorded history, and the events that it records.
//!
//! Every line of a record is one [`Event`]. All processes of a history run on one machine and read
//! the same clock, so that events of different processes can be ordered. The clock is read *before*
//! an event may begin, or *after* it has certainly ended, whichever makes the recorded claim
//! weaker.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A time limit longer than any wait: after it, a history and all its leases have ended.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The recorded outcome of a request that waited for all of [`PATIENCE`].
pub const STARVED: &str = "starved";

/// The options of a process, passed to it as its only argument, as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Orders {
    /// The URL of the server through the fault proxy.
    pub url: String,
    /// The URL of the server without the proxy, for the counters.
    pub direct: String,
    /// The seed of all random decisions.
    pub seed: u64,
    /// Number of concurrent tasks.
    pub tasks: u64,
    /// How long the process begins new critical sections, in milliseconds.
    pub millis: u64,
    /// The lease that is renewed automatically, in milliseconds.
    pub watchdog: u64,
    /// The response timeout, in milliseconds.
    pub timeout: u64,
    /// The local hand-over window, in milliseconds; `None` for the default.
    pub stretch: Option<u64>,
    /// The names of the locks.
    pub names: Vec<String>,
    /// One in this many sections lasts as long as the lease.
    pub sits: u64,
    /// Whether the process also takes locks over by force.
    pub steals: bool,
    /// Whether the locks are read-write locks.
    pub reads: bool,
}

/// One line of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Nanoseconds of the machine's clock.
    pub at: u64,
    /// The number of the task.
    pub task: u64,
    /// The number of the request; unique in its process.
    pub id: u64,
    /// The kind of the event.
    pub kind: Kind,
}

/// The kind of an event of a request for a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// The request is about to be sent.
    Request {
        /// The lock.
        name: String,
        /// Whether it is a forced takeover.
        steal: bool,
        /// For re-entry, the request of the same holder that is already granted.
        again: Option<u64>,
    },
    /// The request was granted.
    Got {
        /// The fencing token.
        token: u64,
    },
    /// The request was granted, for reading.
    Reads,
    /// The next grant converts the guard of another request: from read to write, or from write to
    /// read. No other writer held the lock in between.
    Converted {
        /// The id of that request.
        from: u64,
    },
    /// Another holder had the lock.
    Busy,
    /// The request ended without a grant, in a way that may have affected the lock: cancelled,
    /// timed out, failed, or unknown.
    NoGrant {
        /// The outcome as text, for readers of the record.
        how: String,
    },
    /// `is_held()`, called after this instant, was true.
    Held,
    /// `is_held()` was false before this instant.
    NotHeld,
    /// The task has read the counter, and is about to write it incremented.
    Update {
        /// An instant before the read.
        began: u64,
        /// The value that was read.
        read: u64,
    },
    /// The server confirmed the write of the counter before this instant.
    Updated {
        /// The result of `is_held()` after the confirmation.
        held: bool,
    },
    /// The fenced register rejected the token before this instant.
    Refused {
        /// The result of `is_held()` after the rejection.
        held: bool,
    },
    /// The guard is about to be released.
    Give,
    /// The release of the guard has returned.
    Gave {
        /// Whether it returned without an error.
        ok: bool,
    },
}

/// Reads the machine's monotonic clock. All processes read the same clock, and it continues while a
/// process is stopped.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Unix has a monotonic clock");
    u64::try_from(time.tv_sec()).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec()).unwrap_or(0)
}

/// Returns the key of a counter that only the lock protects.
pub fn counter(name: &str) -> String {
    format!("counter:{name}")
}

/// Returns the key of the highest token that the fenced register has seen.
pub fn fence(name: &str) -> String {
    format!("fence:{name}")
}

/// Returns the key of the values that the fenced register has accepted, in order: `token:value`.
pub fn accepted(name: &str) -> String {
    format!("accepted:{name}")
}

/// The fenced register, executed by the store. It returns -1 if the token is lower than the highest
/// one so far. Otherwise it stores the value, unless that is empty, and returns the last stored
/// value.
pub const REGISTER: &str = "
if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[1]) or '0') then
  return -1
end
redis.call('SET', KEYS[1], ARGV[1])
if ARGV[2] ~= '' then
  redis.call('RPUSH', KEYS[2], ARGV[1] .. ':' .. ARGV[2])
end
local last = redis.call('LINDEX', KEYS[2], -1)
return last and tonumber(string.match(last, ':(%d+)$')) or 0
";
