//! What a client can report about its locks and permits: holds, waiting tasks, contention, and the
//! last events.
//!
//! An acquire that does not wait does nothing for this: holds and waiters have what a report needs.
//! Waits are added up by lock and semaphore where a task waits, under locks that are locked there
//! anyway. A report reads the locks of the client in parts of [`PART`], so that other tasks never
//! wait long for the table. Its lists are bounded before they are made.

mod contention;
mod events;
mod gathered;

pub(crate) use contention::{Contention, Tally};
pub(crate) use events::{EventLog, FORCED, LOST, RENEWAL_FAILED, UNKNOWN};
pub(crate) use gathered::Gathered;

/// Number of locks, semaphores or leases that a report reads before it lets other tasks run: 2,048.
/// They take some 100 µs.
pub(crate) const PART: usize = 2048;
