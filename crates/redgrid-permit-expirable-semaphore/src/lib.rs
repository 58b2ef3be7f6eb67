//! Semaphores whose permits have ids and leases, shared by every process at one Redis or Valkey, Java services with
//! Redisson among them.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_permit_expirable_semaphore::{Client, PermitExpirableSemaphore};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let seats = PermitExpirableSemaphore::new(&client, "seats");
//! seats.try_set_permits(100).await?;
//!
//! let permit = seats.acquire().await?; // its lease is renewed while it lives
//! // … take a seat …
//! permit.release().await?;            // tells if it had been lost
//! # Ok(()) }
//! ```
//!
//! # What it promises
//!
//! A process that dies gives its permits back within one lease, and there are never more than were set. A guard tells the
//! moment one of its permits is no longer certain. All times are the server's. `redgrid-semaphore` with a capacity promises
//! the same; this one is for permits that are known by their ids: given back, or kept longer, from elsewhere.
//!
//! # Keys
//!
//! | key or channel | type | lifetime |
//! |---|---|---|
//! | `name` | string: how many permits are left | none, unless set |
//! | `{name}:timeout` | sorted set: the 16 bytes of each permit's id, by the millisecond of its end | that of `name` |
//! | `redisson_sc:{name}` | channel; how many permits are left, when some came back | |
//! | `redgrid_once:{name}:<client id>…` | string: the last answer to a client | 30 s and twice the timeout |
//! | `redgrid_semaphore_line:{name}` | sorted set: who waits at a fair one | 60 s |
//! | `redgrid_semaphore_living:{name}` | sorted set: who of them lives | 60 s |
//!
//! A namespace goes in front of the name, inside the braces too.

mod semaphore;

pub use redgrid_core::config::Durability;
pub use redgrid_core::lock::{ExtendError, LostReason};
pub use redgrid_core::object::Lifetime;
pub use redgrid_core::permits::{
    Acquire, AcquireError, InvalidPermitId, Permit, PermitId, ReleaseError, Returned, SemaphoreError, TryAcquire,
};
pub use redgrid_core::{Client, Config, ServerError};
pub use semaphore::PermitExpirableSemaphore;
