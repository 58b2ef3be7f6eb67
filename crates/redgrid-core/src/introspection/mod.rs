//! Reports of a client about its locks and permits: holds, waiting tasks, contention, and the last
//! events.
//!
//! An acquire that does not wait has no extra cost, because a report reads the existing holds and
//! waiters. The durations of waits are summed for each lock and semaphore, under a mutex that a
//! waiting task locks anyway. A report reads the locks of the client in parts of [`PART`], so that
//! other tasks never wait long for the client's table of locks. While a report is collected, its
//! lists never exceed their limits.

mod contention;
mod events;
mod gathered;

pub(crate) use contention::{Contention, Tally};
pub(crate) use events::{EventLog, FORCED, LOST, RENEWAL_FAILED, UNKNOWN};
pub(crate) use gathered::Gathered;

/// Number of locks, semaphores or leases that a report reads before it lets other tasks run: 2,048.
/// Reading them takes some 100 µs.
pub(crate) const PART: usize = 2048;
