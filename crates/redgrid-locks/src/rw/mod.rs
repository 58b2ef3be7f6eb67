//! A lock that many read or one writes: Redisson's `RReadWriteLock` on the wire.

mod ask;
mod guards;
mod kinds;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::config::Durability;
use redgrid_core::lock::{AcquireRequest, LeaseMode, LockKeys, TakeoverFrom};
use redgrid_core::name::{InvalidName, companion};
use redgrid_core::object::{Object, layouts};
use redgrid_core::{Client, Name, ServerError};

pub use ask::{Read, TryRead, TryWrite, UpgradableRead, Write};
pub use guards::{DowngradeError, ReadGuard, UpgradableGuard, UpgradeError, WriteGuard};

use crate::AcquireError;
use crate::fair;
use crate::inspect::{self, LockHolder};
use crate::lock::{self, FORCED_LEASE};
use kinds::WRITING;

/// The first part of the channel on which a release is told.
pub(crate) const RW_CHANNEL: &str = "redisson_rwlock";

/// Beside a fair one: who is next.
const LINE: &str = "redgrid_rw_line";

/// Beside the lock: who may come to write.
const UPGRADING: &str = "redgrid_rw_upgrade";

/// A lock that many hold for reading or one for writing, over all processes that reach the same server. Redisson's
/// `RReadWriteLock` on the wire.
///
/// ```no_run
/// # async fn demo(client: redgrid_locks::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let lock = redgrid_locks::RwLock::new(&client, "prices");
///
/// let read = lock.read().await?;      // with any number of others
/// read.release().await?;
///
/// let write = lock.write().await?;    // alone
/// let token = write.token();          // for the store that is written to
/// write.release().await?;
/// # Ok(()) }
/// ```
///
/// # Who goes first
///
/// Readers of one process share a read on the server for a stretch (10 ms, or ten round trips). A writer that waits has new
/// readers of this toolkit wait behind it, so it enters within the longest read and one stretch, however they overlap. Readers
/// that waited before it came go before it. Redisson's readers know nothing of that: they enter as long as others read.
///
/// # Entering again
///
/// A [`Holder`](crate::Holder) that reads may read again, and one that writes may write and read, past everybody who waits. One
/// that reads and asks to wait for the write would wait for itself:
/// [`WouldDeadlock`](crate::AcquireError::WouldDeadlock). [`ReadGuard::try_upgrade`] and [`RwLock::upgradable_read`] are the
/// ways from a read to a write.
///
/// # Keys
///
/// | key or channel | type | lifetime |
/// |---|---|---|
/// | `name` | hash: `mode`; readers `<client id>:<number>` → `1`, the writer `<client id>:<number>:write` → `1` | the longest lease |
/// | `{name}:<client id>:<number>:rwlock_timeout:1` | string, for each reader | its lease |
/// | `redgrid_rw_wait:{name}` | hash: `<client id>`, or a reader that upgrades → since when it waits, how long it is believed, and the number of the word | 1 s |
/// | `redgrid_rw_line:{name}` | of a [`fair`](RwLock::fair) one: a fair lock, with the keys of its queue | 5 s |
/// | `redgrid_rw_upgrade:{name}` | a lock: who may upgrade | its lease |
/// | `redisson_rwlock:{name}` | channel; readers publish `0`, writers `1` | |
///
/// # Leases
///
/// Each reader has its own. The lock lasts as long as the longest that was ever given to those who are in, as the leases of others
/// are in keys that only their names tell. Where one with a long lease leaves early and another then dies, a writer that waits
/// looks at those keys once a second, and takes the dead one out; Redisson's writers wait until the end of the long one, unless a
/// read unlock of Redisson's looks before.
///
/// Beside readers of Redisson the lock is shortened to the lease of its watchdog, each time it renews. Ours look three times
/// within [`watchdog_lease`](redgrid_core::Config::watchdog_lease) and put back what was theirs: do not give Redisson a shorter one.
#[doc(alias = "RReadWriteLock")]
#[doc(alias = "RedissonReadWriteLock")]
#[derive(Clone, Debug)]
pub struct RwLock {
    client: Client,
    target: Result<Arc<LockKeys>, InvalidName>,
    /// Where all line up, if they do.
    line: Option<Arc<LockKeys>>,
}

impl RwLock {
    /// The read-write lock with this name. It is not the [`Lock`](crate::Lock) of the same name: one name is for one of them.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        let target = Name::new(name).map(|name| {
            let key = client.key(&name);
            let channel = companion(RW_CHANNEL, &key);
            let (mark, waiting) = (companion("redgrid_wait", &key), companion("redgrid_rw_wait", &key));
            Arc::new(LockKeys { name, key, channel, poll_waiter_flag: mark, more: Box::new([waiting]) })
        });
        RwLock { client: client.clone(), target, line: None }
    }

    /// The same lock, entered in the order of asking, over all processes that ask for it so: readers and writers line up in the
    /// queue of a [`FairLock`](crate::FairLock) beside it, and the first of them asks for the lock itself. Redisson has nothing
    /// like it in its free edition; its clients, and ours that do not line up, are excluded as ever, and stand in no line.
    ///
    /// A reader that is behind a writer waits for it, also while others read. Readers that follow one another are in together.
    /// Who is in already enters again past the line. `try_read` and `try_write` find nothing while somebody stands in the line, or
    /// enters at that moment.
    ///
    /// It costs two scripts more for each acquire, and keeps no place for a process that dies: the next of the line follows a
    /// second later, or 5 s if the one that died was at the front.
    ///
    /// ```no_run
    /// # async fn demo(client: redgrid_locks::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let prices = redgrid_locks::RwLock::new(&client, "prices").fair();
    /// let write = prices.write().await?; // after all who asked before, before all who ask later
    /// write.release().await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn fair(self) -> Self {
        let line = |target: &Arc<LockKeys>| {
            let (name, key) = (target.name.clone(), companion(LINE, &target.key));
            let (channel, mark) = (companion("redisson_lock__channel", &key), companion("redgrid_wait", &key));
            let more = fair::more(&key, self.client.fair_wait());
            Arc::new(LockKeys { name, key, channel, poll_waiter_flag: mark, more })
        };
        let line = self.target.as_ref().ok().map(line);
        RwLock { line, ..self }
    }

    /// Reads, together with other readers, waiting for writers as long as it takes or as [`Read::timeout`] says.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue; what the server had granted goes back in the background.
    #[doc(alias = "readLock")]
    pub fn read(&self) -> Read {
        Read::new(self)
    }

    /// Reads if that is possible now: `None` when somebody writes, or waits to.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// As [`RwLock::read`].
    pub fn try_read(&self) -> TryRead {
        TryRead::new(self)
    }

    /// Writes, alone, waiting for all others as long as it takes or as [`Write::timeout`] says. New readers of this toolkit wait
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] says what is true then; [`WouldDeadlock`](AcquireError::WouldDeadlock) where its own holder reads.
    ///
    /// # Cancel safety
    ///
    /// As [`RwLock::read`]; readers that stepped back are told.
    #[doc(alias = "writeLock")]
    pub fn write(&self) -> Write {
        Write::new(self)
    }

    /// Writes if nobody reads or writes: `None` otherwise.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// As [`RwLock::read`].
    pub fn try_write(&self) -> TryWrite {
        TryWrite::new(self)
    }

    /// Reads, and may [`upgrade`](UpgradableGuard::upgrade) later: of those only one is in at a time, beside other readers. The
    /// options are for the read; the right to upgrade is renewed until the guard is dropped.
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
    /// [`AcquireError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// As [`RwLock::read`].
    pub fn upgradable_read(&self) -> UpgradableRead {
        let gate = self.target.clone().map(|target| {
            let (name, key) = (target.name.clone(), companion(UPGRADING, &target.key));
            let (channel, mark) = (companion("redisson_lock__channel", &key), companion("redgrid_wait", &key));
            Arc::new(LockKeys { name, key, channel, poll_waiter_flag: mark, more: Box::default() })
        });
        UpgradableRead::new(self, gate)
    }

    /// What every object has: whether it is there (read or written), its lifetime, other names, its events; with who waits to write, who
    /// may upgrade, and the line of a [`fair`](RwLock::fair) one. Readers' leases are in keys that only their names tell: they
    /// stay behind and end by themselves. As with [`Lock::object`](crate::Lock::object) nobody who is in is asked: a lock that is
    /// deleted or renamed is lost to them, which the next renewal tells.
    pub fn object(&self) -> Object {
        let name = self.target.as_ref().map(|target| target.name.clone()).map_err(Clone::clone);
        Object::with_layout(&self.client, name, layouts::rw_lock)
    }

    /// Who is in, and for how long; `None` when it is free.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when it could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "isLocked")]
    #[doc(alias = "getHoldCount")]
    pub async fn inspect(&self) -> Result<Option<RwState>, ServerError> {
        let refused = |invalid: &InvalidName| ServerError::NotSent { reason: invalid.to_string().into() };
        let Some(state) = inspect::state(&self.client, self.target.as_ref().map_err(refused)?).await? else {
            return Ok(None);
        };
        // What is no reader's is a field of Redisson's, or the writer's, whose number is not its last word.
        let (readers, others): (Vec<_>, Vec<_>) = state.holders.into_iter().partition(|holder| holder.number.is_some());
        let writers = others.iter().filter_map(|other| Some((other.client.strip_suffix(":write")?, other.entries)));
        let writer = writers.map(|(field, entries)| LockHolder::of(field, entries)).next();
        Ok(Some(RwState { writer, readers, holder_count: state.holder_count, remaining: state.remaining }))
    }

    /// Frees it whoever is in, readers and writer; true if anybody was. Holders of this toolkit are told at once, those of
    /// Redisson when they renew or release.
    ///
    /// It is free half a second later: until then a writer that was not told could give tokens to its own tasks that are above
    /// those of the next one.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] when it could not be done.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, it may or may not be done.
    #[doc(alias = "forceUnlock")]
    pub async fn force_release(&self) -> Result<bool, AcquireError> {
        self.seize_and_release(TakeoverFrom::Holders).await
    }

    /// Takes the hold of one holder away, and leaves all others alone: a writer's write, or a reader's read. True if it was
    /// there. The comparison and the taking are one step on the server, so a holder that came meanwhile keeps its hold.
    ///
    /// The holder is one that [`RwLock::inspect`] returned. It is notified as by [`RwLock::force_release`]. After a writer
    /// the lock is free half a second later.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] when it could not be done; [`OutcomeUnknown`](AcquireError::OutcomeUnknown) where the reply was lost.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, it may or may not be done.
    pub async fn force_release_if(&self, holder: &LockHolder) -> Result<bool, AcquireError> {
        let field = holder.field();
        let field = Bytes::copy_from_slice(field.strip_suffix(":write").unwrap_or(&field).as_bytes());
        if self.seize_and_release(TakeoverFrom::Holder(field.clone())).await? {
            return Ok(true);
        }
        let target = self.seizable()?;
        let evicted = self.client.run::<i64>(kinds::evict(target, &field, &self.client.notice_prefix())).await;
        Ok(evicted.map_err(|error| AcquireError::of_request(target.name.clone(), error))? == 1)
    }

    async fn seize_and_release(&self, from: TakeoverFrom) -> Result<bool, AcquireError> {
        let wanted = AcquireRequest {
            lease: LeaseMode::Fixed(FORCED_LEASE),
            durability: Durability::Primary,
            ..lock::request(&self.client)
        };
        match self.client.take_over(&WRITING, self.seizable()?, wanted, from).await? {
            None => Ok(false),
            Some(grant) => {
                // Our own lease of it ends it in any case.
                let _ = grant.release().await;
                Ok(true)
            }
        }
    }

    fn seizable(&self) -> Result<&Arc<LockKeys>, AcquireError> {
        self.target.as_ref().map_err(|invalid| AcquireError::InvalidName(invalid.clone()))
    }
}

/// A read-write lock as the server sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RwState {
    /// Who writes.
    pub writer: Option<LockHolder>,
    /// Who reads: one for each process of this toolkit, as its tasks share a read. At most 1,000; where there are more, a random
    /// choice of them.
    pub readers: Vec<LockHolder>,
    /// How many hold it, the writer included.
    pub holder_count: u64,
    /// How long the longest lease still lasts; `None` for a key without a lifetime, which no client of ours or Redisson's makes.
    pub remaining: Option<Duration>,
}
