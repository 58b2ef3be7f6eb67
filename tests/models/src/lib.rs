//! The protocols of redgrid as models that are explored exhaustively.
//!
//! A test with a real server shows that the code works in the schedules that occurred. A model is
//! the same protocol, reduced to the parts that decide its safety. It is small enough to explore
//! *every* schedule: each loss, each delay, each late copy, each tick of the clock. A proof is
//! valid within the bounds of its model, and each model states its bounds.
//!
//! * [`one_level`]: one lock and several clients that do not share holds: acquire, renew, extend,
//!   release.
//! * [`two_level`]: the tasks of a process share one server lease: hand-over, leases of single
//!   tasks, re-entry, cancellation, adoption, tokens, forced takeover.
//! * [`read_write`]: shared readers, waiting writers, and conversion between the two.
//! * [`detach`]: a hold that is detached in one process and attached in another.
//! * [`turns`]: which process is next when a hand-over window ends, and how many hand-over windows
//!   of other processes begin while a process waits.
//! * [`fair`]: the queue of a fair lock that is shared with clients of Redisson: order, crashes,
//!   late copies, clocks that are ahead.

pub mod detach;
pub mod fair;
pub mod one_level;
pub mod read_write;
pub mod turns;
pub mod two_level;

/// This allocator halves the CPU time: an exploration copies millions of states, each with several
/// lists.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
