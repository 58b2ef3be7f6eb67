//! A condition variable: waits under a lock for changes that others make under the same lock.

use std::sync::Arc;
use std::time::Duration;

use redgrid_core::author::{ClientExt, FromHoldGuard, LockExt, LockProtocol};
use redgrid_core::lock::{AcquireError, AcquireRequest, HoldGuard, LockKeys, PendingAcquire, ReleaseError};
use redgrid_core::name::InvalidName;
use redgrid_core::object::{Object, layouts};
use redgrid_core::{Client, Failure, Name};

use crate::error::{WaitError, is_passing, shutting_down};
use crate::handle::{SyncHandle, object};
use crate::notify_queue::{self, StorePermit, Waiter};

/// A condition variable between processes, like `std`'s `Condvar`, with a distributed lock in place
/// of a mutex.
///
/// [`wait`](Condition::wait) releases the lock, waits, and acquires it again. A task that changes
/// something does so under the same lock, and notifies. No notification is missed between the check
/// of the state and the wait, because a waiter joins the queue before its lock is released.
/// Spurious wake-ups are possible (after a failover, for example), so check the state in a loop.
///
/// ```no_run
/// # async fn demo(client: &redgrid_barrier::Client) -> Result<(), Box<dyn std::error::Error>> {
/// # async fn is_empty() -> bool { false }
/// use redgrid_barrier::Condition;
/// use redgrid_locks::Lock;
///
/// let (lock, not_empty) = (Lock::new(client, "queue"), Condition::new(client, "queue:not-empty"));
/// let mut guard = lock.acquire().await?;
/// while is_empty().await {
///     guard = not_empty.wait(guard).await?; // others may hold the lock meanwhile
/// }
/// // … take something, under the lock …
/// guard.release().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Condition {
    handle: Result<SyncHandle, InvalidName>,
}

impl Condition {
    /// Returns the condition with this name. No request is sent.
    ///
    /// A condition belongs to one lock: use the same lock with it in all processes.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Condition { handle: SyncHandle::new(client, "condition", name) }
    }

    /// Returns the [`Object`] of this name: existence, lifetime, renaming, events. It covers all
    /// keys of the object.
    ///
    /// Its operations ignore waiters. After a deletion, waiters join the queue again with their
    /// next poll. After a rename, they do the same under the old name.
    pub fn object(&self) -> Object {
        object(&self.handle, layouts::condition)
    }

    /// Releases the lock, waits for a notification, and acquires the lock again.
    ///
    /// The lock is acquired with the options of the first acquire, without its timeout.
    ///
    /// # Errors
    ///
    /// [`ConditionError`]. After an error the lock is not held, and a notification that may have
    /// arrived goes to the next waiter.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the lock is released in the background if it was held, and the
    /// waiter leaves the queue. Its notification goes to the next waiter.
    #[doc(alias = "await")]
    pub async fn wait<G: FromHoldGuard>(&self, guard: G) -> Result<G, ConditionError> {
        let (guard, _) = self.wait_with_timeout(guard, None).await?;
        Ok(guard)
    }

    /// Releases the lock, waits for a notification for at most `within`, and acquires the lock
    /// again.
    ///
    /// Returns true after a notification or a spurious wake-up, and false after a timeout. `within`
    /// does not limit the time to acquire the lock again.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`Condition::wait`].
    pub async fn wait_within<G: FromHoldGuard>(&self, guard: G, within: Duration) -> Result<(G, bool), ConditionError> {
        self.wait_with_timeout(guard, Some(within)).await
    }

    async fn wait_with_timeout<G: FromHoldGuard>(
        &self,
        guard: G,
        timeout: Option<Duration>,
    ) -> Result<(G, bool), ConditionError> {
        let hold = guard.into_hold_guard();
        let handle = self.handle.as_ref().map_err(Clone::clone).map_err(Failure::from)?;
        if !hold.is_last() {
            return Err(ConditionError::Reentered { lock: hold.name().clone() });
        }
        let lock = Lock::of(&hold);
        let mut hold = Some(hold);
        // The first run waits. A later run follows if an earlier one was granted the lock and the
        // caller did not take it in time. The later run only acquires the lock, and counts as a
        // spurious wake-up.
        let driven = handle.client.drive_acquire(None, |_| {
            let (handle, lock, hold) = (handle.clone(), lock.clone(), hold.take());
            async move {
                match hold {
                    Some(hold) => wait(handle, lock, hold, timeout).await,
                    None => Ok(WaitOutcome { hold: lock.acquire().await?, notified: true, waiter: None }),
                }
            }
        });
        let outcome = driven.await.unwrap_or_else(|_| {
            // The drive has no timeout, so only the end of the client ends it.
            Err(ConditionError::Failed(shutting_down(&handle.name)))
        })?;
        outcome.hold.accept_member();
        if let Some(waiter) = outcome.waiter {
            waiter.consume();
        }
        Ok((G::from_hold_guard(outcome.hold), outcome.notified))
    }

    /// Notifies the waiter that has waited longest, and returns whether there was one.
    ///
    /// Without a waiter, nothing is stored for later ones. Call it while the lock is held, if
    /// possible. The call is executed exactly once, even if replies are lost.
    ///
    /// # Errors
    ///
    /// [`Failure`] states whether the notification may have been sent.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the notification may or may not be sent.
    #[doc(alias = "signal")]
    pub async fn notify_one(&self) -> Result<bool, Failure> {
        notify_queue::notify_one(self.handle.as_ref().map_err(Clone::clone)?, StorePermit::No).await
    }

    /// Notifies all waiters, and returns the number of waiters in the queue.
    ///
    /// The call is executed exactly once, even if replies are lost.
    ///
    /// # Errors
    ///
    /// [`Failure`] states whether the notifications may have been sent.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the notifications may or may not be sent.
    #[doc(alias = "signalAll")]
    pub async fn notify_all(&self) -> Result<u64, Failure> {
        notify_queue::notify_all(self.handle.as_ref().map_err(Clone::clone)?).await
    }
}

/// The lock of a condition, with the options of its first acquire.
#[derive(Clone)]
struct Lock {
    client: Client,
    protocol: &'static dyn LockProtocol,
    keys: Arc<LockKeys>,
    request: AcquireRequest,
}

impl Lock {
    fn of(hold: &HoldGuard) -> Lock {
        let request = AcquireRequest { wait: None, once: false, ..hold.request().clone() };
        Lock { client: hold.client().clone(), protocol: hold.protocol(), keys: Arc::clone(hold.keys()), request }
    }

    fn name(&self) -> Name {
        self.keys.name.clone()
    }

    /// Acquires the lock again. The result is reserved for the caller until
    /// [`HoldGuard::accept_member`].
    async fn acquire(self) -> Result<HoldGuard, ConditionError> {
        let lock = self.name();
        let acquire = async {
            let hold = PendingAcquire::start(&self.client, self.protocol, &self.keys, self.request)?.member().await?;
            hold.ok_or_else(|| Failure::ShuttingDown { operation: AcquireError::operation(&lock) }.into())
        };
        acquire.await.map_err(|source| ConditionError::NotAcquired { lock, source })
    }
}

/// The outcome of a wait, with the lock held again.
struct WaitOutcome {
    hold: HoldGuard,
    notified: bool,
    /// Dropping the waiter passes its notification to the next one.
    waiter: Option<Waiter>,
}

/// Releases the lock, waits, and acquires the lock again.
async fn wait(
    handle: SyncHandle,
    lock: Lock,
    hold: HoldGuard,
    timeout: Option<Duration>,
) -> Result<WaitOutcome, ConditionError> {
    let options = handle.wait_options(timeout);
    let waiter = Waiter::new(&handle, StorePermit::No);
    // The lock is released even if the waiter is notified at once, so that others get the lock in
    // each iteration.
    let first_poll = tokio::select! {
        biased;
        notified = waiter.poll_once(false) => Some(notified.map_err(ConditionError::from_wait)?),
        () = handle.client.clock().sleep_until(options.until()) => None,
    };
    match hold.release().await {
        // With an unknown outcome, the lock's lease ends the hold at the latest. The next acquire
        // waits for that.
        Ok(()) | Err(ReleaseError::OutcomeUnknown { .. }) => {}
        Err(source) => return Err(ConditionError::NotReleased { lock: lock.name(), source }),
    }
    let has_timeout = options.has_timeout();
    let result = match first_poll {
        Some(true) => Ok(()),
        Some(false) => waiter.notified(options.had_contact(), false, true).await,
        None => Err(WaitError::TimedOut { name: handle.name.clone(), waited: Duration::ZERO }),
    };
    let waiter = match result {
        Ok(()) => Some(waiter),
        Err(WaitError::TimedOut { .. }) => {
            waiter.leave().await;
            None
        }
        // The timeout has passed. Acquiring the lock shows whether there is contact.
        Err(WaitError::Failed(error)) if has_timeout && is_passing(&error) => None,
        Err(error) => return Err(ConditionError::from_wait(error)),
    };
    let acquire = lock.acquire();
    let Some(waiter) = waiter else {
        return Ok(WaitOutcome { hold: acquire.await?, notified: false, waiter: None });
    };
    let hold = tokio::select! {
        biased;
        hold = acquire => hold?,
        // The waiter keeps its notification while it waits for the lock.
        error = keep_notification(&waiter, &handle) => return Err(ConditionError::from_wait(error)),
    };
    Ok(WaitOutcome { hold, notified: true, waiter: Some(waiter) })
}

/// Renews the lease of a notified waiter until that fails.
async fn keep_notification(waiter: &Waiter, handle: &SyncHandle) -> WaitError {
    let clock = handle.client.clock();
    loop {
        clock.sleep_until(clock.now() + handle.client.watchdog_lease() / 3).await;
        match waiter.poll_once(true).await {
            // Without a reply, another waiter may be notified, too: then both waiters check the
            // state.
            Ok(_) | Err(WaitError::Failed(Failure::Unavailable { .. } | Failure::OutcomeUnknown { .. })) => {}
            Err(error) => return error,
        }
    }
}

/// The error of a wait for a condition. The waiter does not hold the lock then.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ConditionError {
    /// The waiter could not join the queue, or could not stay in it. The lock is released, now or
    /// in the background.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The holder has other guards of the lock, so it would hold the lock during the wait.
    ///
    /// This guard is released; the others still hold the lock.
    #[error("cannot wait: other guards of the same holder hold `{lock}`")]
    Reentered {
        /// The lock.
        lock: Name,
    },
    /// The lock had been lost before, or the server refused to release it. There was no wait.
    #[error("cannot wait: {source}")]
    NotReleased {
        /// The lock.
        lock: Name,
        /// The error of the release.
        #[source]
        source: ReleaseError,
    },
    /// The lock was not acquired again.
    #[error("the wait has ended, but the lock was not acquired again: {source}")]
    NotAcquired {
        /// The lock.
        lock: Name,
        /// The error of the acquire.
        #[source]
        source: AcquireError,
    },
}

impl ConditionError {
    fn from_wait(error: WaitError) -> Self {
        match error {
            WaitError::Failed(error) => ConditionError::Failed(error),
            // The caller has handled a timeout, and a wait without one does not time out.
            WaitError::TimedOut { name, .. } => ConditionError::Failed(shutting_down(&name)),
        }
    }
}
