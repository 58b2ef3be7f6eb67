//! The protocols of redgrid as models that are explored exhaustively.
//!
//! A test with a real server shows that the code works on the schedules that occurred. A model is
//! the same protocol reduced to what decides safety. It is small enough to try *every* schedule:
//! each loss, each delay, each late copy, each tick of the clock. A proof holds for the bounds of
//! its model, and each model states its bounds.
//!
//! * [`one_level`]: one lock, several clients, no sharing of holds: acquire, renew, extend,
//!   release.
//! * [`two_level`]: the tasks of a process share one server lease: hand-over, leases of their own,
//!   re-entry, cancellation, adoption, tokens, forced takeover.
//! * [`read_write`]: shared readers, waiting writers, and conversion between the two.
//! * [`detach`]: a hold that is detached in one process and attached in another.
//! * [`turns`]: which process is next when a hand-over window ends, and how many hand-over windows
//!   of other processes a waiting process sees first.
//! * [`fair`]: the queue of a fair lock that is shared with clients of Redisson: order, crashes,
//!   late copies, clocks that are ahead.

pub mod detach;
pub mod fair;
pub mod one_level;
pub mod read_write;
pub mod turns;
pub mod two_level;

/// An exploration copies millions of states, each with some lists. With the allocator of the system
/// it takes twice the CPU time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
