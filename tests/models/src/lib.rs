//! The protocols of redgrid as models, explored exhaustively.
//!
//! A test with a real server shows that the code works on the schedules it met. A model is the same
//! protocol reduced to what decides safety, small enough that *every* schedule can be tried: each
//! loss, each delay, each late copy, each tick of the clock. What a model proves, it proves for its
//! bounds; each says what they are.
//!
//! * [`one_level`]: one lock, several clients, each hold on its own: acquire, renew, extend,
//!   release.
//! * [`two_level`]: the tasks of a process share one hold: hand-over, leases of their own,
//!   re-entry, cancellation, adoption, tokens, taking by force.
//! * [`read_write`]: readers that share, writers that wait, and how one becomes the other.
//! * [`detach`]: a hold that is detached in one process and attached in another.
//! * [`turns`]: which process is next when a hand-over window ends, and by how many others it may be passed
//!   over.
//! * [`fair`]: the queue of a fair lock, with clients of Redisson in it: order, deaths, late
//!   copies, clocks that are ahead.

pub mod detach;
pub mod fair;
pub mod one_level;
pub mod read_write;
pub mod turns;
pub mod two_level;
