//! The lock handle and the guard of a held lock. The handle is cheap to clone; it holds nothing
//! until the lock is acquired.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_core::author::{Backoff, FromHoldGuard, LockProtocol};
use redgrid_core::lock::{ExtendError, HoldGuard, HoldWatch, LockKeys, LostReason, ReleaseError};
use redgrid_core::name::{InvalidName, with_companions};
use redgrid_core::object::{Layout, Object, layouts};
use redgrid_core::{Client, Name, Token};

use crate::AcquireError;
use crate::acquire::{Acquire, AcquireBuilder, TryAcquire};
use crate::scripts::PLAIN;
use crate::with::LockLost;

/// A lock with one holder at a time, over all processes that use the same server. On the wire it is
/// Redisson's `RLock`.
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
    pub(crate) client: Client,
    pub(crate) kind: &'static dyn LockProtocol,
    pub(crate) target: Result<Arc<LockKeys>, InvalidName>,
    pub(crate) reenters: bool,
    pub(crate) backoff: Option<Backoff>,
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
            let (key, [channel]) = with_companions(&client.key(&name), ["redisson_lock__channel"]);
            let more = more(&key);
            Arc::new(LockKeys { name, key, channel, more, family: "" })
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

    /// Returns the same lock with the label `family` in metrics and spans.
    ///
    /// It groups names that belong together. Give a constant: each value is a time series of its
    /// own. The default is the empty text. If handles of one name have different families, a hold
    /// counts for the first of them.
    ///
    /// ```no_run
    /// # fn demo(client: &redgrid_locks::Client, id: u64) {
    /// let lock = redgrid_locks::Lock::new(client, format!("order:{id}")).family("orders");
    /// # }
    /// ```
    #[must_use]
    pub fn family(mut self, family: &'static str) -> Self {
        set_family(&mut self.target, family);
        self
    }

    /// Returns the same lock, whose waiters retry after pauses instead of waiting for messages.
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

    /// Acquires the lock. The wait is unlimited unless [`Acquire::timeout`] is set.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn demo(lock: redgrid_locks::Lock) -> Result<(), Box<dyn std::error::Error>> {
    /// let guard = lock.acquire().await?;
    /// drop(guard);
    /// let acquire = lock.acquire().timeout(Duration::from_secs(2));
    /// let guard = acquire.lease(Duration::from_secs(10)).await?;
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
    /// process and in others. A grant that the future does not take goes to the next waiter. When
    /// the future is polled again, it requests the lock again.
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
    /// To take a lock away, use [`force_release`](Lock::force_release): it notifies redgrid holders
    /// and wakes the waiters. After `delete` the waiters find the lock free within
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
}

/// Sets the family of the keys of a lock.
pub(crate) fn set_family(target: &mut Result<Arc<LockKeys>, InvalidName>, family: &'static str) {
    if let Ok(keys) = target {
        Arc::make_mut(keys).family = family;
    }
}

impl std::fmt::Debug for Lock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lock").field("kind", &self.kind.name()).field("target", &self.target).finish_non_exhaustive()
    }
}

/// A held lock. Dropping it releases the lock in the background; [`LockGuard::release`] waits for
/// the result.
///
/// The guard is owned, `Send` and `Sync`: it can move to other tasks and be stored in a struct. The
/// lease is renewed while the guard lives, unless [`lease`](crate::Acquire::lease) set a fixed one.
#[must_use = "dropping the guard releases the lock"]
pub struct LockGuard(HoldGuard);

impl LockGuard {
    pub(crate) fn new(grant: HoldGuard) -> Self {
        LockGuard(grant)
    }

    pub(crate) fn grant(&self) -> &HoldGuard {
        &self.0
    }

    pub(crate) fn into_grant(self) -> HoldGuard {
        self.0
    }

    /// Returns the name of the lock.
    #[doc(alias = "getName")]
    pub fn name(&self) -> &Name {
        self.0.name()
    }

    /// Returns the fencing token, which is higher than that of every earlier holder of this name.
    ///
    /// Send it with each write, and let the store refuse lower tokens.
    #[doc(alias = "lockAndGetToken")]
    #[doc(alias = "tryLockAndGetToken")]
    pub fn token(&self) -> Token {
        self.0.token()
    }

    /// Returns whether the hold is valid at this instant, by the local clock and with a margin.
    ///
    /// It sends no request.
    #[doc(alias = "isHeldByCurrentThread")]
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// Returns how long the hold is valid without a further renewal; zero when it is lost.
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Completes when the hold is no longer certain.
    ///
    /// The reasons are those of [`LostReason`]: the lease was not confirmed in time, the lock is
    /// gone from the server, it was taken by force, or the client was shut down. In the first case,
    /// the server has not granted the lock to another holder before this completes.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    pub async fn lost(&self) -> LostReason {
        self.0.lost().await
    }

    /// Returns a view of the hold for other tasks: `lost`, `is_held`, `token`.
    ///
    /// The view does not keep the lock.
    pub fn watch(&self) -> HoldWatch {
        self.0.watch()
    }

    /// Makes a fixed lease end `lease` from now, even if that is earlier than before.
    ///
    /// A renewed lease is only extended: a shorter `lease` changes nothing.
    ///
    /// # Errors
    ///
    /// [`ExtendError`] states which lease is valid then.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the new lease may or may not be in force. The hold is then
    /// valid until the earlier end of the two leases.
    #[doc(alias = "expire")]
    pub async fn extend(&self, lease: Duration) -> Result<(), ExtendError> {
        self.0.extend(lease).await
    }

    /// Returns another guard of the same hold, without a request.
    ///
    /// The lock is released with the last guard.
    ///
    /// # Errors
    ///
    /// [`LockLost`] when the lock is no longer held.
    pub fn reenter(&self) -> Result<LockGuard, LockLost> {
        self.0.clone_guard().map(LockGuard).ok_or_else(|| {
            let reason = self.0.lost_reason().unwrap_or(LostReason::Expired);
            LockLost { name: self.name().clone(), reason }
        })
    }

    /// Releases the lock and waits for the reply of the server.
    ///
    /// If other tasks of this process wait, the lock is handed over to them, and there is nothing
    /// to wait for.
    ///
    /// The wait for the reply takes at most `response_timeout`. After that, or if the future is
    /// dropped, the release goes on in the background, until every lease of the hold has ended on
    /// the server. One of them may come from an [`extend`](LockGuard::extend) whose reply was lost.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] when the hold had ended before: another holder may have had the lock.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the release goes on in the background.
    #[doc(alias = "unlock")]
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.0.release().await
    }

    /// Stops the renewal and leaves the lock to its lease.
    ///
    /// No other holder can acquire the lock before the lease has ended. Other guards of the same
    /// hold ([`LockGuard::reenter`]) keep the lock: it is renewed, and the last of them releases
    /// it.
    pub fn forget(self) {
        self.0.forget();
    }
}

/// Lets a `Condition` release the lock and acquire it again.
impl FromHoldGuard for LockGuard {
    fn into_hold_guard(self) -> HoldGuard {
        self.0
    }

    fn from_hold_guard(grant: HoldGuard) -> Self {
        LockGuard(grant)
    }
}

impl std::fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockGuard")
            .field("name", self.name())
            .field("token", &self.token())
            .field("is_held", &self.is_held())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_can_move_between_tasks() {
        fn assert_movable<T: Send + Sync + 'static>() {}
        assert_movable::<LockGuard>();
        assert_movable::<HoldWatch>();
        assert_movable::<crate::Lock>();
        assert_movable::<crate::Acquire>();
    }
}
