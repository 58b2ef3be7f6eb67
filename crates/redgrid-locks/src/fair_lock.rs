//! The fair lock handle, and a view of a waiter's position in its queue.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::ClientExt;
use redgrid_core::lock::{LockKeys, QueuePositionView};
use redgrid_core::name::companion;
use redgrid_core::object::{Object, layouts};
use redgrid_core::{Client, Name, ServerError, Token};

use crate::AcquireError;
use crate::acquire::{Acquire, TryAcquire};
use crate::fair::{FAIR, more, wake};
use crate::inspect::{self, FairQueue, LockHolder, LockState, LockWaiter, MAX_HOLDERS};
use crate::lock::Lock;
use crate::lock::LockGuard;
use crate::takeover::ForcedRelease;
use crate::with::WithError;

/// A lock that is granted in the order in which requests arrive at the server, over all processes.
///
/// It is Redisson's `RFairLock` on the wire: Java services and redgrid share one queue.
///
/// # Cost of the order
///
/// Each hand-over from process to process needs a request. Inside a process, the lock is handed
/// over only to the positions that the server last reported as next. A [`Lock`], in contrast, stays
/// in a process for a while, even if other processes wait.
///
/// # Queue
///
/// A waiter has a position on the server. Its process renews the position every quarter of a
/// second. The positions of a process that is silent for a second are removed, and the next waiter
/// is granted the lock. The first 16 waiters of a process (`fair_depth`) have positions of their
/// own. The others follow them inside the process.
///
/// Options, guards, leases, tokens and re-entry are those of [`Lock`]. The key is the same hash, so
/// a plain lock of the same name excludes a fair one, and ignores its queue.
///
/// ```no_run
/// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_locks::{Client, FairLock};
///
/// let client = Client::connect("redis://127.0.0.1:6379").await?;
/// let lock = FairLock::new(&client, "tickets");
/// let guard = lock.acquire().await?; // after all earlier requests
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[doc(alias = "RFairLock")]
#[doc(alias = "RedissonFairLock")]
#[doc(alias = "getFairLock")]
#[derive(Clone, Debug)]
pub struct FairLock(Lock);

impl FairLock {
    /// Returns the fair lock with this name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        let target = Name::new(name).map(|name| {
            let key = client.key(&name);
            let channel = companion("redisson_lock__channel", &key);
            let more = more(&key, client.fair_wait());
            Arc::new(LockKeys { name, key, channel, more, family: "" })
        });
        FairLock(Lock::of(client, &FAIR, target))
    }

    /// Returns the same lock with the label `family` in metrics and spans, as [`Lock::family`].
    #[must_use]
    pub fn family(self, family: &'static str) -> Self {
        FairLock(self.0.family(family))
    }

    /// Acquires the lock when this request is next in the queue.
    ///
    /// The wait is unlimited unless [`Acquire::timeout`] is set.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] describes the state of the lock for each error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up its position in the queue. So does a timeout. A grant of the
    /// server is released in the background.
    #[doc(alias = "lock")]
    pub fn acquire(&self) -> Acquire {
        self.0.acquire()
    }

    /// Acquires the lock if it is free and has no waiters, or returns `None`.
    ///
    /// Without a [`timeout`](TryAcquire::timeout) it never enters the queue.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] describes the state of the lock for each error.
    ///
    /// # Cancel safety
    ///
    /// That of [`FairLock::acquire`].
    #[doc(alias = "tryLock")]
    pub fn try_acquire(&self) -> TryAcquire {
        self.0.try_acquire()
    }

    /// Acquires the lock, runs `work` with the fencing token, and releases the lock, as
    /// [`Lock::with`].
    ///
    /// # Errors
    ///
    /// [`WithError`] when the lock was not acquired, or was lost before the work was done.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work. The lock or the queue position is released in the
    /// background.
    pub async fn with<F, Fut>(&self, work: F) -> Result<Fut::Output, WithError>
    where
        F: FnOnce(Token) -> Fut + Send,
        Fut: Future + Send,
    {
        self.0.with(work).await
    }

    /// Returns whether the lock has a holder at this instant.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when the request failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "isLocked")]
    pub async fn is_locked(&self) -> Result<bool, ServerError> {
        self.0.is_locked().await
    }

    /// Returns the holder of the lock and the remaining lease; `None` when it is free.
    ///
    /// [`FairLock::waiting`] returns the waiters.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when the request failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn inspect(&self) -> Result<Option<LockState>, ServerError> {
        self.0.inspect().await
    }

    /// Returns the first waiters in the server's queue, the next one first: those of redgrid and
    /// Redisson. At most 1,000 are returned; [`waiting_count`](FairLock::waiting_count) is the
    /// number of all.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when the request failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn waiting(&self) -> Result<Vec<LockWaiter>, ServerError> {
        Ok(self.queue(MAX_HOLDERS, Bytes::new()).await?.first)
    }

    /// Returns the number of waiters in the server's queue.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when the request failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn waiting_count(&self) -> Result<u64, ServerError> {
        Ok(self.queue(0, Bytes::new()).await?.len)
    }

    async fn queue(&self, most: i64, position: Bytes) -> Result<FairQueue, ServerError> {
        inspect::fair_queue(self.0.client(), self.0.query_target()?, most, position).await
    }

    /// Returns the remaining lease of the current holder, as [`Lock::remaining_lease`].
    ///
    /// # Errors
    ///
    /// [`ServerError`] when the request failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "remainTimeToLive")]
    pub async fn remaining_lease(&self) -> Result<Option<Duration>, ServerError> {
        self.0.remaining_lease().await
    }

    /// Returns the position in the queue of the request with this [`QueuePosition`]; 0 is next.
    ///
    /// `None` means that the request has no position on the server. The request was not sent yet,
    /// waits behind others of its process, holds the lock, or has ended.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when the request failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn position(&self, position: &QueuePosition) -> Result<Option<usize>, ServerError> {
        let Some(field) = position.holder_field() else { return Ok(None) };
        Ok(self.queue(0, field).await?.index)
    }

    /// Returns the operations that every object has, as [`Lock::object`]. They include the queue.
    ///
    /// The waiters of a queue that is deleted or renamed enter a new queue when they poll, in any
    /// order.
    pub fn object(&self) -> Object {
        self.0.object_of(layouts::fair_lock)
    }

    /// Frees the lock, whichever holder has it, as [`Lock::force_release`].
    ///
    /// The next waiter in the queue is granted the lock.
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
        self.0.force_release().await
    }

    /// Frees the lock only while this holder has it, as [`Lock::force_release_if`].
    ///
    /// # Errors
    ///
    /// [`AcquireError`] when the takeover failed.
    ///
    /// # Cancel safety
    ///
    /// That of [`Lock::force_release`].
    pub async fn force_release_if(&self, holder: &LockHolder) -> Result<ForcedRelease, AcquireError> {
        self.0.force_release_if(holder).await
    }

    /// Notifies the first waiter in the queue if the lock is free.
    ///
    /// A release of a fair lock does this by itself. Call it after the lock was freed as a plain
    /// [`Lock`]: that wakes only the waiters outside the queue. The others would notice it at their
    /// next poll, and those of Redisson when they expected the lease to end.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] when the request failed. The lock stays as it is.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the waiter may or may not be notified.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo(client: redgrid_locks::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// redgrid_locks::Lock::new(&client, "tickets").force_release().await?;
    /// redgrid_locks::FairLock::new(&client, "tickets").wake_next().await?;
    /// # Ok(()) }
    /// ```
    pub async fn wake_next(&self) -> Result<NextWaiter, AcquireError> {
        let target = self.0.target()?;
        let woken = self.0.client.run::<i64>(wake(target)).await;
        Ok(match woken.map_err(|error| AcquireError::of_request(&target.name, error))? {
            1 => NextWaiter::Notified,
            0 => NextWaiter::LockHeld,
            _ => NextWaiter::Absent,
        })
    }

    /// Takes the lock over, whichever holder has it, as [`Lock::steal`]. The queue is ignored.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] when the takeover failed.
    ///
    /// # Cancel safety
    ///
    /// That of [`Lock::steal`].
    pub async fn steal(&self) -> Result<LockGuard, AcquireError> {
        self.0.steal().await
    }
}

/// The result of [`FairLock::wake_next`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NextWaiter {
    /// The lock is free, and the first waiter was notified.
    Notified,
    /// The lock is held. Its waiters were not notified.
    LockHeld,
    /// The queue is empty.
    Absent,
}

/// A view of a waiter's position in the queue of a [`FairLock`], which can be read during the wait.
///
/// ```no_run
/// # async fn demo(lock: redgrid_locks::FairLock) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_locks::QueuePosition;
///
/// let position = QueuePosition::new();
/// let waiter = tokio::spawn(lock.acquire().track(&position).into_future());
/// if let Some(before) = lock.position(&position).await? {
///     println!("{before} waiters are before this one");
/// }
/// # drop(waiter); Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct QueuePosition(Arc<Mutex<Option<QueuePositionView>>>);

impl QueuePosition {
    /// Creates a view without a request; [`Acquire::track`] sets the request.
    pub fn new() -> Self {
        QueuePosition::default()
    }

    /// Makes this view follow a request.
    pub(crate) fn follow(&self, view: QueuePositionView) {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(view);
    }

    /// Returns the holder field in the queue; `None` while the request is not queued.
    fn holder_field(&self) -> Option<Bytes> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).as_ref()?.field()
    }
}
