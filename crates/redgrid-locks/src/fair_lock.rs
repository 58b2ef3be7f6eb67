//! The fair lock as a value, and a waiter's place in its queue.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use redgrid_core::lock::{LockKeys, QueuePositionView};
use redgrid_core::name::companion;
use redgrid_core::object::{Object, layouts};
use redgrid_core::{Client, Name, ServerError, Token};

use crate::AcquireError;
use crate::acquire::{Acquire, TryAcquire, WithError};
use crate::fair::{FAIR, more};
use crate::guard::LockGuard;
use crate::inspect::{self, LockHolder, LockState, LockWaiter};
use crate::lock::Lock;

/// A lock that is given in the order in which requests arrive at the server, over all processes that reach it. Redisson's
/// `RFairLock` on the wire: Java services and ours stand in one queue.
///
/// Order has its price: each hand-over from process to process asks the server, and one inside a process goes no further than the
/// places that the server last told to be next, where a [`Lock`] stays in a process for a while whoever waits elsewhere. Who waits has a place on the server that its process keeps every quarter of a second; the places of a process that is
/// silent for a second are given up, and the next one gets in. The first 16 waiters of a process (`fair_depth`) have places of
/// their own, the others follow them inside the process.
///
/// Options, guards, leases, tokens and re-entry are those of [`Lock`]. The name is the same hash, so a plain lock of the
/// same name excludes a fair one, past its queue.
///
/// ```no_run
/// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_locks::{Client, FairLock};
///
/// let client = Client::connect("redis://127.0.0.1:6379").await?;
/// let lock = FairLock::new(&client, "tickets");
/// let guard = lock.acquire().await?; // after everybody who had asked before
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[doc(alias = "RFairLock")]
#[doc(alias = "RedissonFairLock")]
#[doc(alias = "getFairLock")]
#[derive(Clone, Debug)]
pub struct FairLock(Lock);

impl FairLock {
    /// The fair lock with this name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        let target = Name::new(name).map(|name| {
            let key = client.key(&name);
            let channel = companion("redisson_lock__channel", &key);
            let mark = companion("redgrid_wait", &key);
            let more = more(&key, client.fair_wait());
            Arc::new(LockKeys { name, key, channel, poll_waiter_flag: mark, more })
        });
        FairLock(Lock::of(client, &FAIR, target))
    }

    /// Acquires the lock when it is this request's turn, waiting as long as it takes or as [`Acquire::timeout`] says.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future, or the end of its wait, gives up its place in the queue; what the server had granted goes back in
    /// the background.
    #[doc(alias = "lock")]
    pub fn acquire(&self) -> Acquire {
        self.0.acquire()
    }

    /// Acquires the lock if it is free and nobody waits for it: `None` otherwise. Without a
    /// [`timeout`](TryAcquire::timeout) it never lines up.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// As [`FairLock::acquire`].
    #[doc(alias = "tryLock")]
    pub fn try_acquire(&self) -> TryAcquire {
        self.0.try_acquire()
    }

    /// Acquires the lock, runs `work` with its fencing token, and releases; as [`Lock::with`].
    ///
    /// # Errors
    ///
    /// [`WithError`]: not acquired, or lost before the work was done.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the work and gives the lock, or the place, back in the background.
    pub async fn with<F, Fut>(&self, work: F) -> Result<Fut::Output, WithError>
    where
        F: FnOnce(Token) -> Fut + Send,
        Fut: Future + Send,
    {
        self.0.with(work).await
    }

    /// Whether anybody holds the lock at this instant.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when it could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "isLocked")]
    pub async fn is_locked(&self) -> Result<bool, ServerError> {
        self.0.is_locked().await
    }

    /// Who holds the lock, and for how long; `None` when it is free. [`FairLock::waiting`] tells who waits.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when it could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn inspect(&self) -> Result<Option<LockState>, ServerError> {
        self.0.inspect().await
    }

    /// Who waits for the lock on the server, the next one in front: ours and Redisson's.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when it could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn waiting(&self) -> Result<Vec<LockWaiter>, ServerError> {
        inspect::waiting(self.0.client(), self.0.reachable()?).await
    }

    /// How long the present holder's lease still lasts; as [`Lock::remaining_lease`].
    ///
    /// # Errors
    ///
    /// [`ServerError`] when it could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "remainTimeToLive")]
    pub async fn remaining_lease(&self) -> Result<Option<Duration>, ServerError> {
        self.0.remaining_lease().await
    }

    /// Where the request with this [`Place`] stands in the queue: 0 is next. `None` while it has no place on the server: it is
    /// not asked for yet, waits behind others of its process, holds, or has ended.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when it could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn position(&self, place: &Place) -> Result<Option<usize>, ServerError> {
        let Some(field) = place.field() else { return Ok(None) };
        let waiting = self.waiting().await?;
        let is_it = |waiter: &LockWaiter| {
            waiter.number.is_some_and(|number| format!("{}:{number}", waiter.client).as_bytes() == field)
        };
        Ok(waiting.iter().position(is_it))
    }

    /// What every object has, with its queue: as [`Lock::object`]. Those who wait in a queue that is deleted or renamed line up anew
    /// when they look, in whatever order.
    pub fn object(&self) -> Object {
        self.0.object_of(layouts::fair_lock)
    }

    /// Frees the lock whoever holds it, and lets the next of the queue in; as [`Lock::force_release`].
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
        self.0.force_release().await
    }

    /// Frees the lock only while this holder has it. As [`Lock::force_release_if`].
    ///
    /// # Errors
    ///
    /// [`AcquireError`] when it could not be done.
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::force_release`].
    pub async fn force_release_if(&self, holder: &LockHolder) -> Result<bool, AcquireError> {
        self.0.force_release_if(holder).await
    }

    /// Takes the lock whoever holds it, past the queue; as [`Lock::steal`].
    ///
    /// # Errors
    ///
    /// [`AcquireError`] when it could not be done.
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::steal`].
    pub async fn steal(&self) -> Result<LockGuard, AcquireError> {
        self.0.steal().await
    }
}

/// A waiter's place in the queue of a [`FairLock`], to be looked at while it waits.
///
/// ```no_run
/// # async fn demo(lock: redgrid_locks::FairLock) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_locks::Place;
///
/// let place = Place::new();
/// let waiter = tokio::spawn(lock.acquire().at(&place).into_future());
/// if let Some(before) = lock.position(&place).await? {
///     println!("{before} are before us");
/// }
/// # drop(waiter); Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
pub struct Place(Arc<Mutex<Option<QueuePositionView>>>);

impl Place {
    /// A place that no request has yet; [`Acquire::at`] gives it to one.
    pub fn new() -> Self {
        Place::default()
    }

    pub(crate) fn taken(&self, view: QueuePositionView) {
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(view);
    }

    fn field(&self) -> Option<bytes::Bytes> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).as_ref()?.field()
    }
}
