//! Distributed locks on Redis and Valkey, shared with Java services that use Redisson.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_locks::{Client, Lock};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let lock = Lock::new(&client, "orders:42");
//!
//! let guard = lock.acquire().await?; // renewed in the background while the guard lives
//! // … the work that only one may do …
//! guard.release().await?;            // tells if the lock had been lost
//! # Ok(()) }
//! ```
//!
//! # What it promises
//!
//! On one server whose memory and clock are kept: at most one holder at a time *believes*, and a holder is told before the
//! server gives the lock to somebody else. A lease can not stop a paused process from *writing*: every guard carries a
//! [`Token`] for the store that is written to, which can refuse a stale one. The table of promises is in `docs/locks.md`.
//!
//! # Keys
//!
//! | key or channel | type | lifetime |
//! |---|---|---|
//! | `name` | hash: `<client id>:<number>` → `1` | the lease |
//! | `redisson_lock__channel:{name}` | channel; a release publishes `0` | |
//! | `redisson_lock_token:{name}` | string: the last token of a [`FencedLock`] | none |
//! | `redgrid_client:{<client id>}` | channel; a hold that was taken by force | |
//!
//! A namespace goes in front of the name, inside the braces too.

mod acquire;
mod guard;
mod inspect;
mod lock;
mod multi;
mod multi_guard;
mod quorum;
mod quorum_guard;
mod scripts;
mod variants;

pub use acquire::{Acquirable, Acquire, TryAcquire, WithError};
pub use guard::{LockGuard, LockLost};
pub use inspect::{LockHolder, LockState};
pub use lock::Lock;
pub use multi::MultiLock;
pub use multi_guard::MultiGuard;
pub use quorum::{InvalidQuorum, Quorum, QuorumLock};
pub use quorum_guard::QuorumGuard;
pub use redgrid_core::config::Durability;
pub use redgrid_core::hold::{AcquireError, ExtendError, HoldWatch, LostReason, ReleaseError};
pub use redgrid_core::{Client, CommitError, Config, Holder, ServerError, Token};
pub use variants::{FencedLock, SpinLock};
