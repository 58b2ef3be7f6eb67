//! Counting semaphores that all processes of a Redis or Valkey server share, including Java
//! services with Redisson.
//!
//! Use one to allow a number of operations at the same time, over all processes.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_semaphore::{Client, Semaphore};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let mail = Semaphore::new(&client, "mail", 20);
//!
//! let permit = mail.acquire().await?; // at most 20 senders at a time, over all processes
//! // … send …
//! permit.release().await?;
//! # Ok(()) }
//! ```
//!
//! # Guarantees
//!
//! The permits of a [`Semaphore`] have leases. The permits of a process that dies are available
//! again within one lease, and there are never more permits than the number that all processes
//! give. A process that gives another number gets an error that names both. A process that finds
//! held plain permits gets this error, too.
//!
//! A [`PlainSemaphore`], from [`Semaphore::plain`], is Redisson's RSemaphore: a plain number. The
//! permits of a process that dies are lost.
//!
//! Permits are taken and returned exactly once, even if replies are lost. Waiters of one process
//! are served in their order, and small requests do not starve a large one. With
//! [`fair`](Semaphore::fair) both hold over all processes. Processes take turns: a process passes
//! released permits to its own tasks for a hand-over window of 10 ms, and then returns them.
//!
//! # Keys
//!
//! | key or channel | type | lifetime |
//! |---|---|---|
//! | `name` | string: the number of available permits | none, unless set |
//! | `{name}:timeout` | sorted set: each leased permit by the end of its lease | that of `name` |
//! | `redisson_sc:{name}` | channel: the number of available permits after a release | |
//! | `redgrid_once:{name}:<client id>…` | string: the last reply to a client | 30 s and twice the timeout |
//! | `redgrid_semaphore_line:{name}` | sorted set: the waiters of a fair semaphore | 60 s |
//! | `redgrid_semaphore_living:{name}` | sorted set: the live clients among them | 60 s |
//!
//! A namespace precedes the name, also inside the braces.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod plain;
mod semaphore;

pub use plain::{PlainSemaphore, SetPermits};
pub use redgrid_core::config::Durability;
pub use redgrid_core::lock::{ExtendError, LostReason};
pub use redgrid_core::permits::{Acquire, AcquireError, Counts, Permit, PermitId, ReleaseError, TryAcquire};
pub use redgrid_core::{Client, Config, Failure, ServerError};
pub use semaphore::Semaphore;
