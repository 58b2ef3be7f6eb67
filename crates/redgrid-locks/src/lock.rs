//! The lock as a value: cheap to clone, holding nothing until it is acquired.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::config::Durability;
use redgrid_core::lock::{AcquireRequest, Backoff, LeaseMode, LockKeys, LockProtocol, TakeoverFrom};
use redgrid_core::name::{InvalidName, with_companions};
use redgrid_core::object::{Layout, Object, layouts};
use redgrid_core::{Client, Name, ServerError, Token};

use crate::AcquireError;
use crate::acquire::{Acquire, Options, TryAcquire, WithError};
use crate::guard::LockGuard;
use crate::inspect::{self, LockHolder, LockState};
use crate::scripts::PLAIN;

/// Lifetime of the field with which a lock is taken away by force before it is freed: 5 s. It matters only if the client
/// that forces dies in between.
pub(crate) const FORCED_LEASE: Duration = Duration::from_secs(5);

/// A lock that one holder has at a time, over all processes that reach the same server. Redisson's `RLock` on the wire.
///
/// Cheap to clone; clones are the same lock. Making one asks nobody: an invalid name is told by the first call.
///
/// Acquiring is exclusive without regard to who asks: two branches of a `join!` exclude each other. Entering again is for
/// those who say who they are, with [`Acquire::holder`] or [`Holder::scope`](crate::Holder::scope).
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
    /// The lock with this name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        Lock::of_kind(client, name, &PLAIN, |_| Box::default())
    }

    /// The lock with this name, whose kind has further keys.
    pub(crate) fn of_kind(
        client: &Client,
        name: impl AsRef<str>,
        kind: &'static dyn LockProtocol,
        more: impl FnOnce(&[u8]) -> Box<[Bytes]>,
    ) -> Self {
        let target = Name::new(name).map(|name| {
            let companions = ["redisson_lock__channel", "redgrid_wait"];
            let (key, [channel, mark]) = with_companions(&client.key(&name), companions);
            let more = more(&key);
            Arc::new(LockKeys { name, key, channel, poll_waiter_flag: mark, more })
        });
        Lock::of(client, kind, target)
    }

    /// The same lock, which nobody enters twice: an acquire by a holder that holds it ends
    /// [`AlreadyHeld`](AcquireError::AlreadyHeld) instead of getting in again.
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

    /// The same lock, waited for with pauses instead of messages.
    pub(crate) fn backing_off(self, backoff: Backoff) -> Self {
        Lock { backoff: Some(backoff), ..self }
    }

    /// The lock of a kind, whose options and guards are the same.
    pub(crate) fn of(
        client: &Client,
        kind: &'static dyn LockProtocol,
        target: Result<Arc<LockKeys>, InvalidName>,
    ) -> Self {
        Lock { client: client.clone(), kind, target, reenters: true, backoff: None }
    }

    /// Acquires the lock, waiting for it as long as it takes or as [`Acquire::timeout`] says.
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
    /// [`AcquireError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue of this process. What the server had granted goes back in the
    /// background. A future that is kept and not polled delays other waiters, of this process and of others, by two
    /// seconds at most: a grant that it does not take goes to the next, and it asks again when it is polled.
    #[doc(alias = "lock")]
    #[doc(alias = "lockInterruptibly")]
    pub fn acquire(&self) -> Acquire {
        Acquire::new(self)
    }

    /// Acquires the lock if it is free: `None` when others hold it. Being busy is an answer, not an error.
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
    /// [`AcquireError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`].
    #[doc(alias = "tryLock")]
    pub fn try_acquire(&self) -> TryAcquire {
        TryAcquire::new(self)
    }

    /// Acquires the lock, runs `work` with its fencing token, and releases. The work is dropped when the lock is lost.
    ///
    /// ```no_run
    /// # async fn demo(lock: redgrid_locks::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// let written = lock.with(|token| async move { token.get() }).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`WithError`]: not acquired, or lost before the work was done.
    ///
    /// # Cancel safety
    ///
    /// Dropping it drops the work and gives the lock back in the background.
    pub async fn with<F, Fut>(&self, work: F) -> Result<Fut::Output, WithError>
    where
        F: FnOnce(Token) -> Fut + Send,
        Fut: Future + Send,
    {
        self.acquire().with(work).await
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
        Ok(self.inspect().await?.is_some())
    }

    /// How long the present holder's lease still lasts on the server; `None` when the lock is free, or has no lifetime.
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
        Ok(self.inspect().await?.and_then(|state| state.remaining))
    }

    /// Who holds the lock, and for how long; `None` when it is free.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when it could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "getHoldCount")]
    #[doc(alias = "isHeldByThread")]
    pub async fn inspect(&self) -> Result<Option<LockState>, ServerError> {
        inspect::state(&self.client, self.reachable()?).await
    }

    /// Waits until nobody holds the lock, without taking it: true when it was seen free, false when `within` is over.
    /// It may be taken again by the time this returns.
    ///
    /// # Errors
    ///
    /// [`ServerError`] when it could not be asked for `response_timeout × (retries + 1)`.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves nothing behind.
    pub async fn wait_until_free(&self, within: Option<Duration>) -> Result<bool, ServerError> {
        inspect::until_free(&self.client, self.reachable()?, within).await
    }

    /// Frees the lock whoever holds it; true if anybody did. Holders of this toolkit are told at once that they lost it,
    /// those of Redisson when they renew or release. They may be at work still: use the fencing token where that matters.
    ///
    /// It is free half a second later: until then a holder that was not told could give tokens to its own tasks that are
    /// above those of the next holder.
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

    /// Frees the lock only while this holder has it; true if it was freed. The comparison and the taking are one step on the
    /// server: a holder that came since [`Lock::inspect`] keeps the lock.
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
    /// The holder is notified, and the lock is free half a second later, as by [`Lock::force_release`].
    /// A lock that was released and is only kept for its `hold_at_least` has no holder: the answer is false.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] when it could not be done.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, it may or may not be done.
    pub async fn force_release_if(&self, holder: &LockHolder) -> Result<bool, AcquireError> {
        self.seize_and_release(TakeoverFrom::Holder(holder.field().into())).await
    }

    async fn seize_and_release(&self, from: TakeoverFrom) -> Result<bool, AcquireError> {
        let request =
            AcquireRequest { lease: LeaseMode::Fixed(FORCED_LEASE), durability: Durability::Primary, ..self.request() };
        match self.client.take_over(self.kind, self.target()?, request, from).await? {
            None => Ok(false),
            Some(grant) => {
                // Our own lease of it ends it in any case.
                let _ = grant.release().await;
                Ok(true)
            }
        }
    }

    /// Takes the lock whoever holds it. Its former holders are told as by [`Lock::force_release`]; the new token is higher
    /// than theirs, which takes half a second where somebody held it. Where another client took it in turn meanwhile, the
    /// guard is lost already.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] when it could not be done.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the former holder may have lost it, and what was taken is given back in the background.
    pub async fn steal(&self) -> Result<LockGuard, AcquireError> {
        let target = self.target()?;
        match self.client.take_over(self.kind, target, self.request(), TakeoverFrom::Anybody).await? {
            Some(grant) => Ok(LockGuard::new(grant)),
            None => Err(AcquireError::ShuttingDown { name: target.name.clone() }),
        }
    }

    /// What every object has: whether it is there (held), its lifetime, other names, its events. The counter of a
    /// [`FencedLock`](crate::FencedLock)'s tokens goes along to another name and outlives a deletion.
    ///
    /// Whoever holds the lock is not asked: what is deleted, or renamed, is lost to its holder, who is told by the next renewal and is
    /// not protected until then; a copy is held by the same holder, who does not renew it; a lifetime is that of the lease, and the
    /// next renewal sets it anew. To take a lock away, [`force_release`](Lock::force_release) tells the holder at once and wakes
    /// those who wait; behind `delete` they find it free within `poll_interval`.
    pub fn object(&self) -> Object {
        self.object_of(layouts::alone)
    }

    pub(crate) fn object_of(&self, layout: Layout) -> Object {
        let name = self.target.as_ref().map(|target| target.name.clone()).map_err(Clone::clone);
        Object::with_layout(&self.client, name, layout).and_along(layouts::fenced_lock_token)
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// What it is asked for with, unless said otherwise.
    pub(crate) fn options(&self) -> Options {
        let mut options = Options::new(&self.client, &self.target, self.kind);
        (options.reenters, options.backoff) = (self.reenters, self.backoff);
        options
    }

    pub(crate) fn kind(&self) -> &'static dyn LockProtocol {
        self.kind
    }

    pub(crate) fn reenters(&self) -> bool {
        self.reenters
    }

    pub(crate) fn sure_target(&self) -> Result<&Arc<LockKeys>, InvalidName> {
        self.target.as_ref().map_err(Clone::clone)
    }

    pub(crate) fn target(&self) -> Result<&Arc<LockKeys>, AcquireError> {
        Ok(self.sure_target()?)
    }

    pub(crate) fn reachable(&self) -> Result<&Arc<LockKeys>, ServerError> {
        let refused = |invalid: &InvalidName| ServerError::NotSent { reason: invalid.to_string().into() };
        self.target.as_ref().map_err(refused)
    }

    /// What is asked for unless something else is said.
    fn request(&self) -> AcquireRequest {
        AcquireRequest { reenters: self.reenters, backoff: self.backoff, ..request(&self.client) }
    }
}

impl std::fmt::Debug for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lock").field("kind", &self.kind.name()).field("target", &self.target).finish_non_exhaustive()
    }
}

pub(crate) fn request(client: &Client) -> AcquireRequest {
    let (lease, durability) = (LeaseMode::Renewed(client.watchdog_lease()), client.durability());
    let (holder, at_least, max_hold, once, wait) = (None, Duration::ZERO, None, false, None);
    AcquireRequest { lease, holder, at_least, max_hold, once, wait, durability, reenters: true, backoff: None }
}
