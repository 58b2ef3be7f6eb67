//! Semaphores: the permits that a process holds, its local waiters, and their exchanges with the
//! server.
//!
//! A process has a `LocalSemaphore` for each semaphore in use. This struct keeps the local waiters,
//! the permits that the process has on the server, and the permits to be returned. One
//! *exchange* with the server is in flight at a time. An exchange carries all pending returns,
//! renewals and requests. The requests are in the order in which they were made. An exchange is
//! executed exactly once, however often it is sent. While the first waiter cannot be served, all
//! waiters behind it wait, too. Otherwise small requests could starve a large one.
//!
//! During the *hand-over window* of the process, a released permit goes to a waiting local task, if
//! there is one. After the window, released permits return to the server. Other processes that have
//! subscribed to the semaphore then go first, as with locks.
//!
//! Permits are a plain number, as in Redisson's RSemaphore, or have leases, as in its
//! RPermitExpirableSemaphore. A leased permit has an id, and is renewed while its guard lives. If
//! its process dies, the permit is available again when its lease ends. Semaphores of both kinds
//! use the same counter, and both add the permits of expired leases to it.
//!
//! A handle can be created with a *capacity*: the number of all permits, available ones and those
//! with a lease. A request of such a handle sets this number if none is set, and fails if the
//! semaphore has another number. A held plain permit is neither available nor leased, so it is
//! missing from the number. Requests of such a handle therefore also fail while plain permits are
//! held. Handles with different capacities have a `LocalSemaphore` each, as if they were in
//! different processes.
//!
//! | file | contents |
//! |---|---|
//! | `permit_set` | permits that the process has: a number, and leases |
//! | `local_semaphore` | a semaphore in this process: enqueueing, releasing |
//! | `semaphore_state` | the state of such a semaphore: waiters, permits, and the next exchange |
//! | `waiter` | a waiting request, and its status |
//! | `exchange` | the request of an exchange, and its reply |
//! | `permit_loop` | the loop: when it sends an exchange, and how it applies a reply |
//! | `durability` | grants and extensions that wait until they are as durable as requested |
//! | `registry` | all semaphores of a client: renewals, shutdown |
//! | `held` | the counting of held permits for metrics |
//! | `report` | reports about the semaphores of a client |
//! | `acquire` | the options of a request |
//! | `pending_permit` | a pending request |
//! | `permit` | the guard |
//! | `semaphore_handle` | the handle, which sets, changes and reads the number of permits |
//! | `semaphore_methods` | the methods of all kinds of semaphores |

mod acquire;
mod durability;
mod error;
mod exchange;
mod held;
mod local_semaphore;
mod pending_permit;
mod permit;
mod permit_loop;
mod permit_set;
mod registry;
mod report;
mod semaphore_handle;
mod semaphore_methods;
mod semaphore_state;
mod waiter;

pub use acquire::{Acquire, TryAcquire};
pub use error::{AcquireError, ReleaseError};
pub use exchange::SemaphoreKeys;
pub use local_semaphore::PermitRequest;
pub use pending_permit::PendingPermit;
pub use permit::Permit;
pub use permit_set::{InvalidPermitId, PermitId};
pub(crate) use registry::SemaphoreRegistry;
pub use semaphore_handle::{Counts, Returned, SemaphoreHandle};
