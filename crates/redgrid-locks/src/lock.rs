//! The lock handle: cheap to clone; it holds nothing until the lock is acquired.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::{Backoff, ClientExt, LockExt, LockProtocol};
use redgrid_core::config::Durability;
use redgrid_core::lock::{AcquireRequest, LeaseMode, LockKeys, TakeoverFrom};
use redgrid_core::name::{InvalidName, with_companions};
use redgrid_core::object::{Layout, Object, layouts};
use redgrid_core::{Client, Failure, Name, ServerError, Token};

use crate::AcquireError;
use crate::acquire::{Acquire, AcquireBuilder, TryAcquire, WithError};
use crate::guard::LockGuard;
use crate::inspect::{self, LockHolder, LockState};
use crate::scripts::PLAIN;

/// Lifetime of the holder field of a takeover that is released afterwards: 5 s.
///
/// It matters only if the client that forces the release dies in between.
pub(crate) const FORCED_LEASE: Duration = Duration::from_secs(5);

/// A lock with one holder at a time, over all processes that use the same server. Redisson's
/// `RLock` on the wire.
///
/// It is cheap to clone, and clones are the same lock. Creating one sends no request: an invalid
/// name is reported by the first call.
///
/// Each acquire excludes all others: two branches of a `join!` exclude each other. Only an acquire
/// with a holder re-enters: see [`Acquire::holder`] and [`Holder::scope`](crate::Holder::scope).
#[doc(alias = "RLock")]
#[doc(alias = "RedissonLock")]
#[derive(Clone)]
pub struct Lock {
    client: Client,
    kind: &'static dyn LockProtocol,
    target: Result<Arc<LockKeys>, InvalidName>,
    reenters: bool,
    backoff: Option<Backoff>,
}

impl Lock {
    /// Returns the lock with this name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Lock::of_kind(client, name, &PLAIN, |_| Box::default())
    }

    /// Returns the lock of a kind with this name; `more` returns its further keys.
    pub(crate) fn of_kind(
        client: &Client,
        name: impl AsRef<str>,
        kind: &'static dyn LockProtocol,
        more: impl FnOnce(&[u8]) -> Box<[Bytes]>,
    ) -> Self {
        let target = Name::new(name).map(|name| {
            let companions = ["redisson_lock__channel", "redgrid_wait"];
            let (key, [channel, poll_waiter_flag]) = with_companions(&client.key(&name), companions);
            let more = more(&key);
            Arc::new(LockKeys { name, key, channel, poll_waiter_flag, more })
        });
        Lock::of(client, kind, target)
    }

    /// Returns the same lock without re-entry.
    ///
    /// An acquire by a holder that holds the lock returns
    /// [`AlreadyHeld`](AcquireError::AlreadyHeld).
    ///
    /// ```no_run
    /// # async fn demo(lock: redgrid_locks::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid_locks::{AcquireError, Holder};
    ///
    /// let (lock, me) = (lock.non_reentrant(), Holder::new());
    /// let guard = lock.acquire().holder(&me).await?;
    /// assert!(matches!(lock.acquire().holder(&me).await, Err(AcquireError::AlreadyHeld { .. })));
    /// # Ok(()) }
    /// ```
    #[doc(alias = "getNonReentrantLock")]
    #[must_use]
    pub fn non_reentrant(self) -> Self {
        Lock { reenters: false, ..self }
    }

    /// Returns the same lock with pauses between tries, instead of messages.
    pub(crate) fn with_backoff(self, backoff: Backoff) -> Self {
        Lock { backoff: Some(backoff), ..self }
    }

    /// Returns the lock of a kind with these keys.
    pub(crate) fn of(
        client: &Client,
        kind: &'static dyn LockProtocol,
        target: Result<Arc<LockKeys>, InvalidName>,
    ) -> Self {
        Lock { client: client.clone(), kind, target, reenters: true, backoff: None }
    }

    /// Acquires the lock, and waits as long as it takes or as [`Acquire::timeout`] says.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn demo(lock: redgrid_locks::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// let guard = lock.acquire().await?;
    /// drop(guard);
    /// let guard = lock.acquire().timeout(Duration::from_secs(2)).lease(Duration::from_secs(10)).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`AcquireError`] describes the state of the lock for each error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up its position in the queue of this process. A grant of the
    /// server is released in the background.
    ///
    /// A future that is kept and not polled delays other waiters by at most two seconds, in this
    /// process and in others. A grant that it does not take goes to the next waiter. It requests
    /// the lock again when it is polled.
    #[doc(alias = "lock")]
    #[doc(alias = "lockInterruptibly")]
    pub fn acquire(&self) -> Acquire {
        Acquire::new(self)
    }

    /// Acquires the lock if it is free, or returns `None`. A lock that is taken is no error.
    ///
    /// ```no_run
    /// # async fn demo(lock: redgrid_locks::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// if let Some(guard) = lock.try_acquire().await? {
    ///     guard.release().await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`AcquireError`] describes the state of the lock for each error.
    ///
    /// # Cancel safety
    ///
    /// That of [`Lock::acquire`].
    #[doc(alias = "tryLock")]
    pub fn try_acquire(&self) -> TryAcquire {
        TryAcquire::new(self)
    }

    /// Acquires the lock, runs `work` with the fencing token, and releases the lock.
    ///
    /// The work is dropped when the lock is lost.
    ///
    /// ```no_run
    /// # async fn demo(lock: redgrid_locks::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// let written = lock.with(|token| async move { token.get() }).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`WithError`] when the lock was not acquired, or was lost before the work was done.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work and releases the lock in the background.
    pub async fn with<F, Fut>(&self, work: F) -> Result<Fut::Output, WithError>
    where
        F: FnOnce(Token) -> Fut + Send,
        Fut: Future + Send,
    {
        self.acquire().with(work).await
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
        Ok(self.inspect().await?.is_some())
    }

    /// Returns the remaining lease of the current holder on the server.
    ///
    /// `None` means that the lock is free or has no lifetime.
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
        Ok(self.inspect().await?.and_then(|state| state.remaining))
    }

    /// Returns the holders of the lock and the remaining lease; `None` when it is free.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when the request failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "getHoldCount")]
    #[doc(alias = "isHeldByThread")]
    pub async fn inspect(&self) -> Result<Option<LockState>, ServerError> {
        inspect::state(&self.client, self.query_target()?).await
    }

    /// Waits until the lock is free, without acquiring it.
    ///
    /// Returns true when the lock was found free, and false when `within` has passed. The lock may
    /// be taken again by the time this returns.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when the server could not be reached for `response_timeout × (retries + 1)`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn wait_until_free(&self, within: Option<Duration>) -> Result<bool, ServerError> {
        inspect::until_free(&self.client, self.query_target()?, within).await
    }

    /// Frees the lock, whichever holder has it. Returns whether there was one.
    ///
    /// Redgrid holders are notified of the loss at once; Redisson's notice it when they renew or
    /// release. They may still be working: use the fencing token where that matters.
    ///
    /// The lock is free half a second later. Until then a holder that was not notified could hand
    /// out tokens to its own tasks that are higher than those of the next holder.
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
        self.take_over_and_release(TakeoverFrom::Holders).await
    }

    /// Frees the lock only while this holder has it. Returns whether it was freed.
    ///
    /// Comparison and takeover are one step on the server: a holder that acquired the lock after
    /// [`Lock::inspect`] keeps it.
    ///
    /// ```no_run
    /// # async fn demo(lock: redgrid_locks::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// if let Some(state) = lock.inspect().await? {
    ///     // … it is the holder that is known to be dead …
    ///     let freed = lock.force_release_if(&state.holders[0]).await?;
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// The holder is notified, and the lock is free half a second later, as by
    /// [`Lock::force_release`]. A lock that was released and is only retained for its
    /// `hold_at_least` has no holder: the result is false.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] when the takeover failed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the lock may or may not be freed.
    pub async fn force_release_if(&self, holder: &LockHolder) -> Result<bool, AcquireError> {
        self.take_over_and_release(TakeoverFrom::Holder(holder.field().into())).await
    }

    async fn take_over_and_release(&self, from: TakeoverFrom) -> Result<bool, AcquireError> {
        let request =
            AcquireRequest { lease: LeaseMode::Fixed(FORCED_LEASE), durability: Durability::Primary, ..self.request() };
        match self.client.take_over(self.kind, self.target()?, request, from).await? {
            None => Ok(false),
            Some(grant) => {
                // If the release fails, the takeover ends with its own lease.
                let _ = grant.release().await;
                Ok(true)
            }
        }
    }

    /// Takes the lock over, whichever holder has it.
    ///
    /// The former holders are notified as by [`Lock::force_release`]. The new token is higher than
    /// theirs, which takes half a second if the lock was held. If another client took the lock over
    /// meanwhile, the guard is already lost.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] when the takeover failed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the former holder may have lost the lock. The takeover is
    /// then released in the background.
    pub async fn steal(&self) -> Result<LockGuard, AcquireError> {
        let target = self.target()?;
        match self.client.take_over(self.kind, target, self.request(), TakeoverFrom::Anybody).await? {
            Some(grant) => Ok(LockGuard::new(grant)),
            None => Err(Failure::ShuttingDown { operation: AcquireError::operation(&target.name) }.into()),
        }
    }

    /// Returns the operations that every object has: existence (held), lifetime, renaming, events.
    ///
    /// The token counter of a [`FencedLock`](crate::FencedLock) is renamed and copied with the
    /// lock, and outlives a deletion.
    ///
    /// The operations disregard the holder of the lock:
    ///
    /// - A lock that is deleted or renamed is lost to its holder. The holder notices it at the next
    ///   renewal, and is not protected until then.
    /// - A copy is held by the same holder, which does not renew it.
    /// - The lifetime is that of the lease, and the next renewal sets it anew.
    ///
    /// To take a lock away, use [`force_release`](Lock::force_release): it notifies the holder at
    /// once and wakes the waiters. After `delete` the waiters find the lock free within
    /// `poll_interval`.
    pub fn object(&self) -> Object {
        self.object_of(layouts::alone)
    }

    pub(crate) fn object_of(&self, layout: Layout) -> Object {
        let name = self.target.as_ref().map(|target| target.name.clone()).map_err(Clone::clone);
        Object::with_layout(&self.client, name, layout).also_renames(layouts::fenced_lock_token)
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns a builder of an acquire with default options.
    pub(crate) fn acquire_builder(&self) -> AcquireBuilder {
        let mut builder = AcquireBuilder::new(&self.client, &self.target, self.kind);
        builder.reenters = self.reenters;
        builder.backoff = self.backoff;
        builder
    }

    pub(crate) fn kind(&self) -> &'static dyn LockProtocol {
        self.kind
    }

    pub(crate) fn reenters(&self) -> bool {
        self.reenters
    }

    pub(crate) fn checked_target(&self) -> Result<&Arc<LockKeys>, InvalidName> {
        self.target.as_ref().map_err(Clone::clone)
    }

    pub(crate) fn target(&self) -> Result<&Arc<LockKeys>, AcquireError> {
        Ok(self.checked_target()?)
    }

    pub(crate) fn query_target(&self) -> Result<&Arc<LockKeys>, ServerError> {
        let refused = |invalid: &InvalidName| ServerError::NotSent { reason: invalid.to_string().into() };
        self.target.as_ref().map_err(refused)
    }

    /// Returns a request with default options.
    fn request(&self) -> AcquireRequest {
        AcquireRequest { reenters: self.reenters, backoff: self.backoff, ..default_request(&self.client) }
    }
}

impl std::fmt::Debug for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lock").field("kind", &self.kind.name()).field("target", &self.target).finish_non_exhaustive()
    }
}

/// Returns a request with the default options of the client.
pub(crate) fn default_request(client: &Client) -> AcquireRequest {
    AcquireRequest {
        lease: LeaseMode::Renewed(client.watchdog_lease()),
        holder: None,
        at_least: Duration::ZERO,
        max_hold: None,
        once: false,
        wait: None,
        durability: client.durability(),
        reenters: true,
        backoff: None,
    }
}
