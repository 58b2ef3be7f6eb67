//! Distributed locks on Redis and Valkey, shared with Java services that use Redisson.
//!
//! Use a [`Lock`] when only one of several processes may do something at a time. Variants are fair,
//! for readers and writers, over several names, or over several servers.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid_locks::{Client, Lock};
//!
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let lock = Lock::new(&client, "lock:orders:42");
//!
//! let guard = lock.acquire().await?; // renewed in the background while the guard lives
//! // … the work that only one holder may do …
//! guard.release().await?;            // an error if the lock had been lost
//! # Ok(()) }
//! ```
//!
//! # Guarantees
//!
//! On one server that keeps its memory and clock, at most one hold is *valid* at a time. A holder
//! is notified of a loss before the server grants the lock to another one.
//!
//! A lease cannot stop a paused process from *writing*. Guards other than those of readers
//! therefore carry a [`Token`] for the store that they write to, which can refuse a stale one.
//! `docs/objects/locks.md` has the table of promises.
//!
//! # Keys
//!
//! | key or channel | type | lifetime |
//! |---|---|---|
//! | `name` | hash: `<client id>:<number>` → `1` | the lease |
//! | `redisson_lock__channel:{name}` | channel; a release publishes `0` | |
//! | `redisson_lock_token:{name}` | string: the last token of a [`FencedLock`] | none |
//! | `redisson_rwlock:{name}` | channel of a read-write lock; its keys: see [`RwLock`] | |
//! | `redgrid_client:{<client id>}` | channel; notices of holds that were taken by force, and questions | |
//! | `redgrid_console:<uuid>` | channel; [reports](redgrid_core::report) of clients that were asked | |
//! | `redgrid_leader:{name}` | hash: the leader of an [`Election`] | the lease |
//! | `redgrid_leader__channel:{name}` | channel; the term of a new leader, or `0` when one resigns | |
//! | `redgrid_fence:{name}` | string: the highest token that passed a [`Fence`] | 30 days after it, unless set |
//! | `redgrid_fence:{name}:<client id>:<number>` | string: the reply of a fenced write | twice `response_timeout × (retries + 1)` and 1 s |
//!
//! A namespace precedes the name, inside the braces too.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod acquire;
mod change_listener;
mod detached;
mod drive;
mod election;
mod fair;
mod fair_lock;
mod follow;
mod inspect;
mod lock;
mod many;
mod multi;
mod multi_guard;
mod options;
mod quorum;
mod quorum_guard;
mod quorum_servers;
mod rw;
mod scripts;
mod segmented;
mod takeover;
mod variants;
mod with;

pub use acquire::{Acquire, TryAcquire};
pub use detached::{Detached, NotDetached};
pub use election::{Campaign, CampaignError, Election, Leader, Leadership, Observation};
pub use fair_lock::{FairLock, NextWaiter, QueuePosition};
pub use follow::{Follow, LockChange};
pub use inspect::{LockHolder, LockState, LockWaiter};
pub use lock::{Lock, LockGuard};
pub use many::{Acquirable, AcquireMany, TryAcquireMany};
pub use multi::MultiLock;
pub use multi_guard::MultiGuard;
pub use quorum::QuorumLock;
pub use quorum_guard::QuorumGuard;
pub use quorum_servers::{InvalidQuorum, Quorum};
pub use redgrid_core::config::Durability;
pub use redgrid_core::fence::{Fence, FenceError};
pub use redgrid_core::lock::{
    AcquireError, AttachError, DetachError, ExtendError, HoldWatch, LostReason, ReleaseError,
};
pub use redgrid_core::{Client, CommitError, Config, Failure, Holder, ServerError, Token};
pub use rw::{
    DowngradeError, Read, ReadGuard, RwLock, RwState, TryRead, TryWrite, UpgradableGuard, UpgradableRead, UpgradeError,
    Write, WriteGuard,
};
pub use segmented::{SegmentGuard, SegmentIter, SegmentedLock};
pub use takeover::ForcedRelease;
pub use variants::{FencedLock, SpinLock};
pub use with::{LockLost, WithError};
