//! What a process of a recorded history is told to do, and what it writes down.
//!
//! Every line of a record is one [`Event`]. All processes of a history run on one machine and read the same clock, so
//! that events of different processes can be ordered: an instant is read *before* what it stands for may begin, or
//! *after* it has certainly ended, whichever makes the claim weaker.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Nobody waits so long: by then a history is long over, and all leases with it.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// How a request ends that waited that long.
pub const STARVED: &str = "starved";

/// What a process is to do: its only argument, as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Orders {
    /// The server, through whatever disturbs the way there.
    pub url: String,
    /// The server itself, for the counters.
    pub direct: String,
    /// From which everything random follows.
    pub seed: u64,
    /// Tasks that work at the same time.
    pub tasks: u64,
    /// For how long new sections are begun.
    pub millis: u64,
    /// The lease that is renewed, in milliseconds.
    pub watchdog: u64,
    /// How long an answer is waited for, in milliseconds.
    pub timeout: u64,
    /// How long a process may hand a lock on by itself, in milliseconds; as measured where it is `None`.
    pub stretch: Option<u64>,
    /// The locks.
    pub names: Vec<String>,
    /// One in so many sections lasts as long as the lease does.
    pub sits: u64,
    /// Whether locks are also taken by force.
    pub steals: bool,
    /// Whether they are read-write locks.
    pub reads: bool,
}

/// One line of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Nanoseconds of the machine's clock.
    pub at: u64,
    /// The task.
    pub task: u64,
    /// The request this is about; unique in its process.
    pub id: u64,
    /// What happened.
    pub what: What,
}

/// What happened to a request for a lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// It is about to be made.
    Ask {
        /// The lock.
        name: String,
        /// It is to be taken by force.
        steal: bool,
        /// The request of the same holder that is in already.
        again: Option<u64>,
    },
    /// It was granted.
    Got {
        /// The fencing token.
        token: u64,
    },
    /// It was granted, to read.
    Reads,
    /// What is granted with the next event goes on from the guard of another request: a read that is to write, or a write that
    /// is to read. Nobody else wrote in between.
    Converted {
        /// That request.
        from: u64,
    },
    /// Others had the lock.
    Busy,
    /// It ended without a grant, in a way that may have touched the lock: cancelled, timed out, failed, unknown.
    Nothing {
        /// The end, for whoever reads the record.
        how: String,
    },
    /// `is_held()`, asked after this instant, was true.
    Held,
    /// `is_held()` was false before this instant.
    NotHeld,
    /// The counter was read, and is about to be written, one higher.
    Update {
        /// An instant before it was read.
        began: u64,
        /// What was read.
        read: u64,
    },
    /// The write of the counter was answered before this instant.
    Updated {
        /// What `is_held()` said after that.
        held: bool,
    },
    /// The fenced register refused the token before this instant.
    Refused {
        /// What `is_held()` said after that.
        held: bool,
    },
    /// The guard is about to be given back.
    Give,
    /// Its release returned.
    Gave {
        /// Without an error.
        ok: bool,
    },
}

/// The machine's clock: the same for all its processes, and not stopped with any of them.
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("every Unix has a monotonic clock");
    u64::try_from(time.tv_sec()).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec()).unwrap_or(0)
}

/// The counter of a lock that only the holder changes, with nothing but the lock to protect it.
pub fn counter(name: &str) -> String {
    format!("counter:{name}")
}

/// The highest token that the fenced register of a lock has seen.
pub fn fence(name: &str) -> String {
    format!("fence:{name}")
}

/// What the fenced register of a lock has accepted, in that order: `token:value`.
pub fn accepted(name: &str) -> String {
    format!("accepted:{name}")
}

/// The fenced register, on the side of the store. It refuses a token that is lower than one it has seen (-1), else takes
/// a value, unless that is empty, and answers the last one it took.
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
