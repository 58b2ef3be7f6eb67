//! Distributed locks, semaphores, queues, maps and rate limiters on Redis and Valkey.
//!
//! Use it when several copies of a service must coordinate, for example so that they do not sell
//! the same item, run the same job, or call a paid API too often. The API follows `tokio::sync`,
//! and most objects can be shared with Java services that use Redisson.
//!
//! ```no_run
//! use std::time::Duration;
//! use redgrid::Grid;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let grid = Grid::connect("redis://127.0.0.1:6379").await?;
//!     let lock = grid.lock("lock:orders:42"); // a name of its own: not the key of the order
//!
//!     let guard = lock.acquire().timeout(Duration::from_secs(2)).await?;
//!     println!("no other process works on order 42 now");
//!     guard.release().await?; // an error if the lock had been lost
//!
//!     grid.shutdown(Duration::from_secs(5)).await?; // releases what is still held
//!     Ok(())
//! }
//! ```
//!
//! # Guarantees
//!
//! - **Loss is reported.** If a lease cannot be renewed in time, `guard.lost()` completes before
//!   the lease ends on the server.
//! - **Locks have fencing tokens**, so a store can reject a writer that was paused and continued
//!   too late.
//! - **Waiting is safe to cancel.** A dropped `acquire()` leaves nothing locked.
//! - **One server, replicas, Sentinel or Cluster**: the code is the same, only the configuration
//!   differs.
//!
//! # What to know first
//!
//! - A guard that is dropped releases its lock in the background. If the process ends before that,
//!   the lock is held until its lease ends, by default for at most 30 s. To avoid this, call
//!   [`Grid::shutdown`] before the end of `main`.
//! - `let _ = lock.acquire().await?;` drops the guard at once. Write `let _guard = …`.
//! - One [`Grid`] per process is enough. It is cheap to clone, and belongs to the Tokio runtime in
//!   which it was created.
//!
//! Each kind of object is a separate crate (such as `redgrid-locks`) that can be used alone. This
//! crate combines them in [`Grid`]. The main types are at the root. Builders, guards and errors of
//! an object are in its module: [`locks::AcquireError`].
//!
//! # Modules and features
//!
//! The feature of a module has the name of the module. `locks` is the only default feature. `full`
//! enables all objects, `json`, `config-files` and `tls`.
//!
//! | module | feature | contents |
//! |---|---|---|
//! | [`client`] | | the client, its commands, events and health; names and errors |
//! | [`config`] | | settings; `Config::from_file` needs `config-files` |
//! | [`object`] | | what all objects have: lifetimes, renaming, events |
//! | [`observe`] | | the names of metrics and spans (features `metrics`, `tracing`) |
//! | [`locks`] | `locks` | `Lock`, `FairLock`, `RwLock`, `FencedLock`, `SpinLock`, `MultiLock`, `QuorumLock`, `SegmentedLock`, `Election`, `Fence` |
//! | [`semaphore`] | `semaphore` | `Semaphore` |
//! | [`permit_expirable_semaphore`] | `permit-expirable-semaphore` | `PermitExpirableSemaphore`: permits with ids and leases |
//! | [`countdown_latch`] | `countdown-latch` | `CountDownLatch` |
//! | [`barrier`] | `barrier` | `Barrier`, `DoubleBarrier`, `Phaser`, `Condition`, `Event`, `Notify` |
//! | [`rate_limiter`] | `rate-limiter` | `RateLimiter`, `GcraLimiter` |
//! | [`atomic_long`] | `atomic-long` | `AtomicLong`, `AtomicDouble`, `LongAdder`, `DoubleAdder` |
//! | [`id_generator`] | `id-generator` | `IdGenerator`, `TimeOrderedId` |
//! | [`bucket`] | `bucket` | `Bucket`, `Buckets` |
//! | [`map`] | `map` | `Map`, `BackedMap`; with `map-locks` locks for each key |
//! | [`local_cached_map`] | `local-cached-map` | `LocalCachedMap` |
//! | [`cache`] | `cache` | `MapCache`, `NativeMapCache`, `SetCache` |
//! | [`multimap`] | `multimap` | `SetMultimap`, `ListMultimap`, and those with lifetimes |
//! | [`list`] | `list` | `List` |
//! | [`set`] | `set` | `Set`, `SortedSet`, `ScoredSortedSet`, `LexSortedSet` |
//! | [`queue`] | `queue` | `Queue`, `Deque`, `DelayedQueue`, `PriorityQueue`, `RingBuffer` |
//! | [`reliable_queue`] | `reliable-queue` | `ReliableQueue` |
//! | [`stream`] | `stream` | `Stream`, `Group`, `Consumer` |
//! | [`topic`] | `topic` | `Topic`, `PatternTopic`, `ShardedTopic`, `ReliableTopic` |
//! | [`bits`] | `bits` | `BitSet`, `BloomFilter`, `HyperLogLog` |
//! | [`geo`] | `geo` | `Geo` |
//! | [`sharded`] | `sharded` | `ShardedMap`, `ShardedSet`, `ShardedBitSet`, `ShardedBloomFilter` |
//! | [`transaction`] | `transaction` | `Transaction` |
//! | [`script`] | `script` | `Scripts`, `Functions`, `Batch` |
//! | [`keys`] | `keys` | `Keys`: all keys of the servers |
//! | [`codecs`] | | values to bytes and back; `Json` and other formats by features of their names |

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod client;
mod grid;

pub use grid::Grid;
#[cfg(feature = "atomic-long")]
pub use redgrid_atomic_long::{self as atomic_long, AtomicLong, LongAdder};
#[cfg(feature = "barrier")]
pub use redgrid_barrier::{self as barrier, Barrier, Phaser};
#[cfg(feature = "bits")]
pub use redgrid_bits::{self as bits, BitSet, BloomFilter};
#[cfg(feature = "bucket")]
pub use redgrid_bucket::{self as bucket, Bucket};
#[cfg(feature = "cache")]
pub use redgrid_cache::{self as cache, MapCache};
pub use redgrid_codecs as codecs;
pub use redgrid_core::object::{self, ObjectError};
pub use redgrid_core::{Client, Config, ConnectError, Failure, Holder, Name, ServerError, Token, config, observe};
#[cfg(feature = "countdown-latch")]
pub use redgrid_countdown_latch::{self as countdown_latch, CountDownLatch};
#[cfg(feature = "geo")]
pub use redgrid_geo::{self as geo, Geo};
#[cfg(feature = "id-generator")]
pub use redgrid_id_generator::{self as id_generator, IdGenerator};
#[cfg(feature = "keys")]
pub use redgrid_keys as keys;
#[cfg(feature = "list")]
pub use redgrid_list::{self as list, List};
#[cfg(feature = "local-cached-map")]
pub use redgrid_local_cached_map::{self as local_cached_map, LocalCachedMap};
#[cfg(feature = "locks")]
pub use redgrid_locks::{
    self as locks, Election, FairLock, FencedLock, Lock, LockGuard, MultiLock, QuorumLock, ReadGuard, RwLock,
    WriteGuard,
};
#[cfg(feature = "map")]
pub use redgrid_map::{self as map, Map};
#[cfg(feature = "multimap")]
pub use redgrid_multimap as multimap;
#[cfg(feature = "permit-expirable-semaphore")]
pub use redgrid_permit_expirable_semaphore::{self as permit_expirable_semaphore, PermitExpirableSemaphore};
#[cfg(feature = "queue")]
pub use redgrid_queue::{self as queue, Queue};
#[cfg(feature = "rate-limiter")]
pub use redgrid_rate_limiter::{self as rate_limiter, RateLimiter};
#[cfg(feature = "reliable-queue")]
pub use redgrid_reliable_queue::{self as reliable_queue, ReliableQueue};
#[cfg(feature = "script")]
pub use redgrid_script as script;
#[cfg(feature = "semaphore")]
pub use redgrid_semaphore::{self as semaphore, Semaphore};
#[cfg(feature = "set")]
pub use redgrid_set::{self as set, Set};
#[cfg(feature = "sharded")]
pub use redgrid_sharded as sharded;
#[cfg(feature = "stream")]
pub use redgrid_stream::{self as stream, Stream};
#[cfg(feature = "topic")]
pub use redgrid_topic::{self as topic, Topic};
#[cfg(feature = "transaction")]
pub use redgrid_transaction::{self as transaction, Transaction};
