//! Distributed synchronizers on Redis and Valkey that tell you the moment a lock is lost, share their keys with Redisson,
//! and read like `tokio::sync`.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use redgrid::Grid;
//!
//! let grid = Grid::connect("redis://127.0.0.1:6379").await?;
//!
//! let guard = grid.lock("orders:42").acquire().await?;
//! // … the work that only one may do …
//! guard.release().await?;
//!
//! grid.shutdown(std::time::Duration::from_secs(5)).await?;
//! # Ok(()) }
//! ```
//!
//! Each kind of object is a crate of its own (`redgrid-locks`) that can be used alone; this one gathers them behind
//! [`Grid`], one feature each.

mod grid;

pub use grid::Grid;
#[cfg(feature = "atomic-long")]
pub use redgrid_atomic_long::{
    self as atomic_long, AdderError, AtomicDouble, AtomicError, AtomicLong, Comparison, DoubleAdder, LongAdder,
};
#[cfg(feature = "barrier")]
pub use redgrid_barrier as barrier;
#[cfg(feature = "barrier")]
pub use redgrid_barrier::{
    Barrier, BarrierError, BarrierWaitResult, Condition, ConditionError, DoubleBarrier, DoubleBarrierGuard, Notify,
    Party, Phaser, PhaserError, PhaserState, RequestError,
};
#[cfg(feature = "bits")]
pub use redgrid_bits::{self as bits, BitSet, BloomFilter, HyperLogLog};
#[cfg(feature = "bucket")]
pub use redgrid_bucket::{self as bucket, Bucket, Buckets};
#[cfg(feature = "cache")]
pub use redgrid_cache::{self as cache, MapCache, NativeMapCache, SetCache};
#[cfg(any(
    feature = "bits",
    feature = "bucket",
    feature = "cache",
    feature = "geo",
    feature = "list",
    feature = "local-cached-map",
    feature = "map",
    feature = "multimap",
    feature = "reliable-queue",
    feature = "queue",
    feature = "script",
    feature = "set",
    feature = "stream",
    feature = "topic",
    feature = "sharded",
    feature = "transaction",
))]
pub use redgrid_codecs as codecs;
pub use redgrid_core::config;
pub use redgrid_core::object::{self, Object, ObjectError};
pub use redgrid_core::{
    Client, Code, Command, Config, ConfigError, ConnectError, ConnectionEvent, ConnectionEvents, Deployment,
    DeploymentKind, Failure, FromReply, Health, HealthCheck, Holder, InvalidName, Name, NodeHealth, NodeId, NodePart,
    NotClosed, NotReady, Reply, Request, Script, ServerError, Shard, Token, observe,
};
#[cfg(feature = "countdown-latch")]
pub use redgrid_countdown_latch::{self as countdown_latch, CountDownLatch};
#[cfg(feature = "geo")]
pub use redgrid_geo::{self as geo, Distance, Geo, Position};
#[cfg(feature = "id-generator")]
pub use redgrid_id_generator::{self as id_generator, DecodedId, IdError, IdGenerator, TimeOrderedId};
#[cfg(feature = "keys")]
pub use redgrid_keys::{self as keys, FlushScope, Key, Keys, KeysError, Kind};
#[cfg(feature = "list")]
pub use redgrid_list::{self as list, List};
#[cfg(feature = "local-cached-map")]
pub use redgrid_local_cached_map::{self as local_cached_map, LocalCachedMap};
#[cfg(feature = "locks")]
pub use redgrid_locks as locks;
#[cfg(feature = "locks")]
pub use redgrid_locks::{
    Acquirable, Acquire, AcquireError, AcquireMany, AttachError, Campaign, CampaignError, DetachError, Detached,
    Election, ExtendError, FairLock, Fence, FenceError, FencedLock, Follow, HoldWatch, Leader, Leadership, Lock,
    LockChange, LockGuard, LockLost, LostReason, MultiGuard, MultiLock, NotDetached, Observation, QueuePosition,
    Quorum, QuorumGuard, QuorumLock, ReleaseError, SegmentGuard, SegmentIter, SegmentedLock, SpinLock, TryAcquire,
    TryAcquireMany, WithError,
};
#[cfg(feature = "locks")]
pub use redgrid_locks::{DowngradeError, ReadGuard, RwLock, UpgradableGuard, UpgradeError, WriteGuard};
#[cfg(feature = "map")]
pub use redgrid_map::{self as map, Map};
#[cfg(feature = "multimap")]
pub use redgrid_multimap::{
    self as multimap, ListMultimap, ListMultimapCache, NativeListMultimapCache, NativeSetMultimapCache, SetMultimap,
    SetMultimapCache,
};
#[cfg(feature = "permit-expirable-semaphore")]
pub use redgrid_permit_expirable_semaphore::{self as permit_expirable_semaphore, PermitExpirableSemaphore};
#[cfg(feature = "queue")]
pub use redgrid_queue::{self as queue, DelayedQueue, Deque, PriorityQueue, Queue, RingBuffer};
#[cfg(feature = "rate-limiter")]
pub use redgrid_rate_limiter::{self as rate_limiter, GcraLimiter, LimitError, Quota, Rate, RateKind, RateLimiter};
#[cfg(feature = "reliable-queue")]
pub use redgrid_reliable_queue::{self as reliable_queue, QueueError, QueueSettings, ReliableQueue};
#[cfg(feature = "script")]
pub use redgrid_script::{
    self as script, AllNodes, Batch, BatchIndex, Call, CallError, Function, Functions, Library, Results, Scripts,
};
#[cfg(feature = "semaphore")]
pub use redgrid_semaphore::{self as semaphore, Semaphore};
#[cfg(feature = "set")]
pub use redgrid_set::{self as set, LexSortedSet, ScoredSortedSet, Set, SortedSet};
#[cfg(feature = "sharded")]
pub use redgrid_sharded::{self as sharded, ShardedBitSet, ShardedBloomFilter, ShardedMap, ShardedObject, ShardedSet};
#[cfg(feature = "stream")]
pub use redgrid_stream::{self as stream, EntryId, Stream};
#[cfg(feature = "topic")]
pub use redgrid_topic::{self as topic, PatternTopic, ReliableTopic, ShardedTopic, SubscriptionError, Topic};
#[cfg(feature = "transaction")]
pub use redgrid_transaction::{self as transaction, Isolation, Transaction, TransactionError};
