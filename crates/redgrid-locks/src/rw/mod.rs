//! A read-write lock. On the wire it is Redisson's `RReadWriteLock`.

mod acquire;
mod force;
mod guards;
mod kinds;
mod upgrade;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::lock::{LockKeys, TakeoverFrom};
use redgrid_core::name::{InvalidName, companion};
use redgrid_core::object::{Object, layouts};
use redgrid_core::{Client, Name, ServerError};

pub use acquire::{Read, TryRead, TryWrite, UpgradableRead, Write};
pub use guards::{DowngradeError, ReadGuard, WriteGuard};
pub use upgrade::{UpgradableGuard, UpgradeError};

use crate::AcquireError;
use crate::fair;
use crate::inspect::{self, LockHolder};
use crate::lock::set_family;
use crate::takeover::{ForcedRelease, default_request, take_over_and_release};
use kinds::WRITING;

/// Prefix of the channel on which releases are published.
pub(crate) const RW_CHANNEL: &str = "redisson_rwlock";

/// Prefix of the key of a fair lock's entry gate.
const ENTRY_GATE: &str = "redgrid_rw_line";

/// Prefix of the key of the upgrade lock.
const UPGRADE_LOCK: &str = "redgrid_rw_upgrade";

/// A lock with many readers or one writer, over all processes that use the same server. On the wire
/// it is Redisson's `RReadWriteLock`.
///
/// ```no_run
/// # async fn demo(client: redgrid_locks::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let lock = redgrid_locks::RwLock::new(&client, "prices");
///
/// let read = lock.read().await?;      // with any number of other readers
/// read.release().await?;
///
/// let write = lock.write().await?;    // exclusive
/// let token = write.token();          // send it with each write
/// write.release().await?;
/// # Ok(()) }
/// ```
///
/// # Order of readers and writers
///
/// Readers of one process share a grant of the server for a hand-over window (10 ms, or ten round
/// trips). New redgrid readers wait behind a waiting writer. So the writer is granted the lock
/// within the longest read and one hand-over window, however the readers overlap. Readers that
/// waited before the writer arrived are granted the lock before it. Redisson's readers ignore
/// waiting writers: they enter as long as others read.
///
/// # Re-entry
///
/// A [`Holder`](crate::Holder) that reads may read again, and one that writes may write and read.
/// Re-entry does not wait behind other requests. A holder that reads and waits for the write lock
/// would wait for itself: it gets [`WouldDeadlock`](crate::AcquireError::WouldDeadlock). To become
/// a writer, a reader uses [`ReadGuard::try_upgrade`] or [`RwLock::upgradable_read`].
///
/// # Keys
///
/// | key or channel | type | lifetime |
/// |---|---|---|
/// | `name` | hash: `mode`; readers `<client id>:<number>` → `1`, the writer `<client id>:<number>:write` → `1` | the longest lease |
/// | `{name}:<client id>:<number>:rwlock_timeout:1` | string, for each reader | its lease |
/// | `redgrid_rw_wait:{name}` | hash: `<client id>`, or a reader that upgrades → start of the wait, end of the announcement, and its number | 1 s |
/// | `redgrid_rw_line:{name}` | entry gate of a [`fair`](RwLock::fair) lock: a fair lock, with the keys of its queue | 5 s |
/// | `redgrid_rw_upgrade:{name}` | a lock: its holder may upgrade | its lease |
/// | `redisson_rwlock:{name}` | channel; readers publish `0`, writers `1` | |
///
/// # Leases
///
/// Each reader has its own lease. The key of the lock lasts as long as the longest lease of its
/// current holders, because the leases of other readers are in keys that a script cannot enumerate.
///
/// A reader with a long lease may leave early, and another one may crash after that. A waiting
/// redgrid writer checks the lease keys once a second, and evicts the crashed reader. Redisson's
/// writers wait until the end of the long lease, unless a read unlock of Redisson checks the keys
/// earlier.
///
/// If Redisson has readers too, each of its renewals shortens the lock to the lease of its
/// watchdog. Redgrid readers check three times within
/// [`watchdog_lease`](redgrid_core::Config::watchdog_lease) and restore their lease. Do not
/// configure a shorter watchdog lease for Redisson.
#[doc(alias = "RReadWriteLock")]
#[doc(alias = "RedissonReadWriteLock")]
#[derive(Clone, Debug)]
pub struct RwLock {
    client: Client,
    target: Result<Arc<LockKeys>, InvalidName>,
    /// The entry gate, if the lock is fair.
    entry_gate: Option<Arc<LockKeys>>,
}

impl RwLock {
    /// Returns the read-write lock with this name.
    ///
    /// Do not use the name for a [`Lock`](crate::Lock), too.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        let target = Name::new(name).map(|name| {
            let key = client.key(&name);
            let channel = companion(RW_CHANNEL, &key);
            let announcements = companion("redgrid_rw_wait", &key);
            Arc::new(LockKeys { name, key, channel, more: Box::new([announcements]), family: "" })
        });
        RwLock { client: client.clone(), target, entry_gate: None }
    }

    /// Returns the same lock, granted in the order of the requests, over all processes that use it
    /// this way.
    ///
    /// Readers and writers first wait in the queue of a [`FairLock`](crate::FairLock), the entry
    /// gate. The holder of the gate then requests the read-write lock. Redisson's free edition has
    /// no such lock. Its clients, and redgrid clients that do not use the gate, are excluded as
    /// usual, and have no position in the queue.
    ///
    /// A reader behind a writer waits for it, even while others read. Consecutive readers hold the
    /// lock together. A holder re-enters without the gate. `try_read` and `try_write` return `None`
    /// while requests wait at the gate or pass it.
    ///
    /// The gate costs two more scripts for each acquire. If a waiting process dies, the next
    /// request follows a second later. If that process held the gate, the next request follows 5 s
    /// later.
    ///
    /// ```no_run
    /// # async fn demo(client: redgrid_locks::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let prices = redgrid_locks::RwLock::new(&client, "prices").fair();
    /// let write = prices.write().await?; // after all earlier requests, before all later ones
    /// write.release().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn fair(self) -> Self {
        let gate_keys = |target: &Arc<LockKeys>| {
            let (name, key) = (target.name.clone(), companion(ENTRY_GATE, &target.key));
            let channel = companion("redisson_lock__channel", &key);
            let more = fair::more(&key, self.client.fair_wait());
            Arc::new(LockKeys { name, key, channel, more, family: target.family })
        };
        let entry_gate = self.target.as_ref().ok().map(gate_keys);
        RwLock { entry_gate, ..self }
    }

    /// Returns the same lock with the label `family` in metrics and spans, as
    /// [`Lock::family`](crate::Lock::family).
    #[must_use]
    pub fn family(mut self, family: &'static str) -> Self {
        set_family(&mut self.target, family);
        if let Some(gate) = &mut self.entry_gate {
            Arc::make_mut(gate).family = family;
        }
        self
    }

    /// Acquires the lock for reading, together with other readers.
    ///
    /// It waits for writers. The wait is unlimited unless [`Read::timeout`] is set.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] describes the state of the lock for each error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up its position in the queue. A grant of the server is released in
    /// the background.
    #[doc(alias = "readLock")]
    pub fn read(&self) -> Read {
        Read::new(self)
    }

    /// Acquires the lock for reading, or returns `None` if it has a writer or a waiting writer.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] describes the state of the lock for each error.
    ///
    /// # Cancel safety
    ///
    /// That of [`RwLock::read`].
    pub fn try_read(&self) -> TryRead {
        TryRead::new(self)
    }

    /// Acquires the lock for writing, exclusively.
    ///
    /// It waits for all other holders. The wait is unlimited unless [`Write::timeout`] is set. New
    /// redgrid readers wait meanwhile.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] describes the state of the lock for each error.
    /// [`WouldDeadlock`](AcquireError::WouldDeadlock) when its own holder reads.
    ///
    /// # Cancel safety
    ///
    /// That of [`RwLock::read`]. Readers that waited behind this writer are notified.
    #[doc(alias = "writeLock")]
    pub fn write(&self) -> Write {
        Write::new(self)
    }

    /// Acquires the lock for writing if it is free, or returns `None`.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] describes the state of the lock for each error.
    ///
    /// # Cancel safety
    ///
    /// That of [`RwLock::read`].
    pub fn try_write(&self) -> TryWrite {
        TryWrite::new(self)
    }

    /// Acquires the lock for reading, with the right to [`upgrade`](UpgradableGuard::upgrade)
    /// later.
    ///
    /// There is one upgradable reader at a time, together with other readers. The options apply to
    /// the read. The right to upgrade is renewed until the guard is dropped.
    ///
    /// ```no_run
    /// # async fn demo(lock: redgrid_locks::RwLock) -> Result<(), Box<dyn std::error::Error>> {
    /// let seen = lock.upgradable_read().await?;
    /// // … something must change …
    /// let write = seen.upgrade().await?;
    /// write.release().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`AcquireError`] describes the state of the lock for each error.
    ///
    /// # Cancel safety
    ///
    /// That of [`RwLock::read`].
    pub fn upgradable_read(&self) -> UpgradableRead {
        let upgrade_lock = self.target.clone().map(|target| {
            let (name, key) = (target.name.clone(), companion(UPGRADE_LOCK, &target.key));
            let channel = companion("redisson_lock__channel", &key);
            Arc::new(LockKeys { name, key, channel, more: Box::default(), family: target.family })
        });
        UpgradableRead::new(self, upgrade_lock)
    }

    /// Returns the operations that every object has: existence (read or written), lifetime,
    /// renaming, events.
    ///
    /// The object includes the announcements of waiting writers, the upgrade lock, and the entry
    /// gate of a [`fair`](RwLock::fair) lock. It does not include the leases of readers, whose keys
    /// cannot be enumerated. They remain, and expire by themselves.
    ///
    /// As with [`Lock::object`](crate::Lock::object), the operations disregard the holders. A lock
    /// that is deleted or renamed is lost to them, and they notice it at the next renewal.
    pub fn object(&self) -> Object {
        let name = self.target.as_ref().map(|target| target.name.clone()).map_err(Clone::clone);
        Object::with_layout(&self.client, name, layouts::rw_lock)
    }

    /// Returns the holders and the remaining lease; `None` when the lock is free.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when the request failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "isLocked")]
    #[doc(alias = "getHoldCount")]
    pub async fn inspect(&self) -> Result<Option<RwState>, ServerError> {
        let refused = |invalid: &InvalidName| ServerError::NotSent { reason: invalid.to_string().into() };
        let Some(state) = inspect::state(&self.client, self.target.as_ref().map_err(refused)?).await? else {
            return Ok(None);
        };
        // A reader's field ends with its number. Other fields are Redisson's, or that of the
        // writer, which ends with `:write`.
        let (readers, others): (Vec<_>, Vec<_>) = state.holders.into_iter().partition(|holder| holder.number.is_some());
        let writers =
            others.iter().filter_map(|other| Some((other.client.strip_suffix(kinds::WRITER)?, other.entries)));
        let writer = writers.map(|(field, entries)| LockHolder::of(field, entries)).next();
        Ok(Some(RwState { writer, readers, holder_count: state.holder_count, remaining: state.remaining }))
    }

    /// Frees the lock, whichever readers or writer hold it. Returns whether there was a holder.
    ///
    /// Redgrid holders are notified a round trip later. A Redisson holder notices the loss only
    /// when it unlocks.
    ///
    /// The lock is free half a second later. If it were free at once, a writer that was not
    /// notified yet could give its own tasks tokens that are higher than those of the next writer.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] when the takeover failed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the lock may or may not be freed.
    #[doc(alias = "forceUnlock")]
    pub async fn force_release(&self) -> Result<bool, AcquireError> {
        Ok(self.take_over_and_release(TakeoverFrom::Holders).await?.is_done())
    }

    /// Removes the hold of one holder, a writer or a reader. All other holds remain.
    ///
    /// Returns what became of it. Comparison and removal are one step on the server: a
    /// holder that acquired the lock meanwhile keeps it.
    ///
    /// The holder is one that [`RwLock::inspect`] returned. It is notified as by
    /// [`RwLock::force_release`]. After the removal of a writer the lock is free half a second
    /// later. A holder that reads and writes loses both; [`RwLock::force_release_field`] separates
    /// them.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] when the takeover failed.
    /// [`OutcomeUnknown`](crate::Failure::OutcomeUnknown) when the reply was lost.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the hold may or may not be removed.
    pub async fn force_release_if(&self, holder: &LockHolder) -> Result<ForcedRelease, AcquireError> {
        let field = holder.field();
        // With this suffix, a tool shows the field of a writer, which is no reader.
        let (field, is_reader) = field.strip_suffix(kinds::WRITER).map_or((&field[..], true), |field| (field, false));
        let field = Bytes::copy_from_slice(field.as_bytes());
        let written = self.take_over_and_release(TakeoverFrom::Holder(field.clone())).await?;
        if !is_reader {
            return Ok(written);
        }
        match self.evict_reader(&field).await {
            // The write is gone, and the read may be.
            Err(error) if written.is_done() => {
                let name = &self.valid_target()?.name;
                Err(AcquireError::of_request(name, ServerError::unknown(error.to_string())))
            }
            read if !written.is_done() => read,
            _ => Ok(written),
        }
    }

    async fn take_over_and_release(&self, from: TakeoverFrom) -> Result<ForcedRelease, AcquireError> {
        take_over_and_release(&self.client, &WRITING, self.valid_target()?, default_request(&self.client), from).await
    }

    fn valid_target(&self) -> Result<&Arc<LockKeys>, AcquireError> {
        self.target.as_ref().map_err(|invalid| AcquireError::from(invalid.clone()))
    }
}

/// A read-write lock as the server sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RwState {
    /// The writer.
    pub writer: Option<LockHolder>,
    /// The readers. Tasks of one redgrid process share a read, and are one reader.
    ///
    /// At most 1,000 are listed. If there are more, it is a random selection.
    pub readers: Vec<LockHolder>,
    /// Number of holders, including the writer.
    pub holder_count: u64,
    /// The remaining time of the longest lease.
    ///
    /// `None` for a key without a lifetime, which neither redgrid nor Redisson creates.
    pub remaining: Option<Duration>,
}
