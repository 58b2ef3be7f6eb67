//! Semaphores with ids and leases of permits. All processes of a Redis or Valkey server share them,
//! including Java services with Redisson.
//!
//! Use one when a process acquires a permit, and another one extends or returns it.
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
//! permit.release().await?;            // an error if it had been lost
//! # Ok(()) }
//! ```
//!
//! # Guarantees
//!
//! The permits of a process that dies are available again within one lease, and there are never
//! more permits than were set. A guard reports at once when one of its permits is no longer valid
//! locally. All times are the server's. The `Semaphore` of `redgrid-semaphore` promises the same.
//! This crate is for permits that are identified by their ids: another process can return or extend
//! them. Its handles give no number of permits: the number may change while they are used, and Java
//! services may take plain permits of the same name with an RSemaphore.
//!
//! # Keys
//!
//! | key or channel | type | lifetime |
//! |---|---|---|
//! | `name` | string: the number of available permits | none, unless set |
//! | `{name}:timeout` | sorted set: the 16 bytes of each permit's id, by the end of its lease in milliseconds | that of `name` |
//! | `redisson_sc:{name}` | channel: the number of available permits after a release | |
//! | `redgrid_once:{name}:<client id>…` | string: the last reply to a client | 30 s and twice the timeout |
//! | `redgrid_semaphore_line:{name}` | sorted set: the waiters of a fair semaphore | 60 s |
//! | `redgrid_semaphore_living:{name}` | sorted set: the live clients among them | 60 s |
//!
//! A namespace precedes the name, also inside the braces.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod semaphore;

pub use redgrid_core::config::Durability;
pub use redgrid_core::lock::{ExtendError, LostReason};
pub use redgrid_core::object::Lifetime;
pub use redgrid_core::permits::{
    Acquire, AcquireError, InvalidPermitId, Permit, PermitId, ReleaseError, Returned, TryAcquire,
};
pub use redgrid_core::{Client, Config, Failure, ServerError};
pub use semaphore::PermitExpirableSemaphore;
