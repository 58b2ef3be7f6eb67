//! Counting semaphores that every process at one Redis or Valkey shares, Java services with Redisson among them.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_semaphore::{Client, Semaphore};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let mail = Semaphore::new(&client, "mail").capacity(20);
//!
//! let permit = mail.acquire().await?; // as many senders from here on as there are permits, 20 over all processes
//! // … send …
//! permit.release().await?;
//! # Ok(()) }
//! ```
//!
//! # What it promises
//!
//! With a [`capacity`](Semaphore::capacity), permits have leases: a process that dies gives its permits back within one
//! lease, and there are never more than the capacity. Without one, or [`without_leases`](Semaphore::without_leases), it is
//! Redisson's RSemaphore: a plain number, which a process that dies takes its permits from for ever.
//!
//! Permits are taken and given back exactly once, although answers are lost. Those who wait in one process are served in
//! their order, and a large request is not starved by small ones; with [`fair`](Semaphore::fair) that holds over all processes.
//! Processes take turns: while others wait, a process gives back what its tasks release after a stretch of 10 ms.
//!
//! # Keys
//!
//! | key or channel | type | lifetime |
//! |---|---|---|
//! | `name` | string: how many permits are left | none, unless set |
//! | `{name}:timeout` | sorted set: each permit with a lease, by its end | that of `name` |
//! | `redisson_sc:{name}` | channel; how many permits are left, when some came back | |
//! | `redgrid_once:{name}:<client id>…` | string: the last answer to a client | 30 s and twice the timeout |
//! | `redgrid_semaphore_line:{name}` | sorted set: who waits at a fair one | 60 s |
//! | `redgrid_semaphore_living:{name}` | sorted set: who of them lives | 60 s |
//!
//! A namespace goes in front of the name, inside the braces too.

mod semaphore;

pub use redgrid_core::config::Durability;
pub use redgrid_core::lock::{ExtendError, LostReason};
pub use redgrid_core::permits::{
    Acquire, AcquireError, Counts, Permit, PermitId, ReleaseError, SemaphoreError, TryAcquire,
};
pub use redgrid_core::{Client, Config, ServerError};
pub use semaphore::{Semaphore, SetPermits};
