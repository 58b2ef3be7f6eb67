//! Permits: so many of a name, for as many as ask. What `hold` is to locks, this is to semaphores.
//!
//! A process has a *pool* of each name in use: who of its tasks waits, what it has on the server, and what is to be given
//! back. One exchange of the pool is under way at a time, and carries everything that waits: what goes back, what is
//! renewed, what is asked for, in the order of asking. It acts once however often it is sent (`once`). While the first of a
//! pool's queue can not be served, those behind it wait too: many small requests do not starve a large one.
//!
//! A permit that is released while others of the process wait passes on to them, within the process's *stretch*; at its end
//! what is released goes back to the server, and if somebody elsewhere listens, they go first (`hold`'s turns).
//!
//! Permits are a plain number, as Redisson's RSemaphore has them, or have leases, as in its RPermitExpirableSemaphore: then
//! each has an id, is renewed while its guard lives, and comes back by itself when its process dies. Both kinds use the same
//! counter, and either returns what leases of the dead have left.
//!
//! | file | what happens there |
//! |---|---|
//! | `stock` | permits that the process has: a number, and leases |
//! | `pool` | one name in this process: entering, giving back |
//! | `queue` | what it knows: who waits, who is next, what is to be said |
//! | `exchange` | what is said to the server, and its answer |
//! | `drive` | the loop of a pool: when it asks, and what an answer changes |
//! | `settle` | what is granted or longer, once it is as durable as asked |
//! | `pools` | all pools of a client: renewals, shutting down |
//! | `acquire` | the options of a request |
//! | `permit` | a request under way, and the guard |
//! | `counter` | how many permits there are, for everybody |

mod acquire;
mod counter;
mod drive;
mod error;
mod exchange;
mod permit;
mod pool;
mod pools;
mod queue;
mod settle;
mod stock;

pub use acquire::{Acquire, TryAcquire};
pub use counter::{Counter, Counts, Returned};
pub use error::{AcquireError, ReleaseError, SemaphoreError};
pub use exchange::Source;
pub use permit::{Permit, Ticket};
pub use pool::Ask;
pub(crate) use pools::Pools;
pub use stock::{InvalidPermitId, PermitId};
