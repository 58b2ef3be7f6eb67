//! The semaphore as a value: cheap to clone, holding nothing until permits are acquired.

use std::future::IntoFuture;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use redgrid_core::Client;
use redgrid_core::Failure;
use redgrid_core::object::{Object, layouts};
use redgrid_core::permits::{Acquire, SemaphoreHandle, TryAcquire};
use tokio::sync::watch;

/// A counting semaphore of all processes that use the same server. Redisson's `RSemaphore` on the
/// wire.
///
/// It is cheap to clone; clones are the same semaphore. Creating one sends no request: an invalid
/// name is reported by the first call.
///
/// Use [`Semaphore::capacity`], unless Java services with RSemaphore set the number of permits. For
/// permits that are handed over by their ids, or extended by another process, see the crate
/// `redgrid-permit-expirable-semaphore`.
#[doc(alias = "RSemaphore")]
#[doc(alias = "RedissonSemaphore")]
#[derive(Clone)]
pub struct Semaphore {
    handle: SemaphoreHandle,
    capacity: Option<u64>,
    closing: Arc<watch::Sender<bool>>,
}

impl Semaphore {
    /// Returns the semaphore with this name: a plain number of permits that was set elsewhere,
    /// without leases.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        let (closing, _) = watch::channel(false);
        Semaphore { handle: SemaphoreHandle::new(client, name, false), capacity: None, closing: Arc::new(closing) }
    }

    /// Returns the same semaphore with this number of permits: 1 to 2,147,483,647.
    ///
    /// The number is set on first use if the semaphore has none yet. Permits have leases, which are
    /// renewed while their guards live. The permits of a process that dies are therefore available
    /// again within one lease.
    ///
    /// A semaphore that exists keeps its number: `capacity(5)` does not change one that was created
    /// with `capacity(1)`. That is no error, because processes of an old and a new version may run
    /// side by side. [`Semaphore::set_permits`] changes the number:
    ///
    /// ```no_run
    /// # use redgrid_semaphore::Semaphore;
    /// # async fn example(client: &redgrid_semaphore::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mail = Semaphore::new(client, "mail").capacity(5);
    /// mail.set_permits(5).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn capacity(mut self, permits: u64) -> Self {
        self.capacity = Some(permits);
        self.handle = self.handle.leased(true);
        self
    }

    /// Returns the same semaphore without leases: a process that dies keeps its permits forever.
    ///
    /// Use it for a semaphore that Java services share as an RSemaphore.
    #[must_use]
    pub fn without_leases(mut self) -> Self {
        self.handle = self.handle.leased(false);
        self
    }

    /// Returns the same semaphore, where waiters are served in the order of their requests.
    ///
    /// The order holds over all processes that use `fair`: small requests elsewhere do not starve a
    /// large one. Each permit that passes on to another waiter then costs a request.
    #[must_use]
    pub fn fair(mut self) -> Self {
        self.handle = self.handle.fair();
        self
    }

    /// Acquires one permit. Waits for it without limit, or as long as [`Acquire::timeout`] says.
    ///
    /// # Errors
    ///
    /// [`AcquireError`](crate::AcquireError) says what is true on the server then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the position in the queue. A permit that the server had granted
    /// is returned in the background.
    pub fn acquire(&self) -> Acquire {
        self.acquire_many(1)
    }

    /// Acquires `permits` permits at once: all of them or none.
    ///
    /// 0 permits are granted without a request, as by Redisson. That guard can take over the
    /// permits of others with [`Permit::merge`](crate::Permit::merge).
    ///
    /// # Errors
    ///
    /// As [`Semaphore::acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`Semaphore::acquire`].
    #[doc(alias = "acquire")]
    pub fn acquire_many(&self, permits: u64) -> Acquire {
        Acquire::new(&self.handle, permits, self.capacity, self.closing.subscribe())
    }

    /// Acquires one permit if one is available.
    ///
    /// Returns `None` if none is, or if other requests of this process wait.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`Semaphore::acquire`].
    #[doc(alias = "tryAcquire")]
    pub fn try_acquire(&self) -> TryAcquire {
        self.try_acquire_many(1)
    }

    /// Acquires `permits` permits at once if they are available.
    ///
    /// Returns `None` if there are too few, or if other requests of this process wait.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`Semaphore::acquire`].
    #[doc(alias = "tryAcquire")]
    pub fn try_acquire_many(&self, permits: u64) -> TryAcquire {
        TryAcquire::new(&self.handle, permits, self.capacity, self.closing.subscribe())
    }

    /// Sets the number of permits if none were set yet. Returns whether that was the case.
    ///
    /// [`SetPermits::expires_in`] adds a lifetime.
    #[doc(alias = "trySetPermits")]
    pub fn try_set_permits(&self, permits: u64) -> SetPermits {
        SetPermits { handle: self.handle.clone(), permits, overwrite: false, lifetime: None }
    }

    /// Sets the number of permits.
    ///
    /// Permits that are held with a lease stay held. If the number is below theirs, none are
    /// available until enough have been returned. Permits that are held without a lease are
    /// unknown, and count as returned.
    pub fn set_permits(&self, permits: u64) -> SetPermits {
        SetPermits { handle: self.handle.clone(), permits, overwrite: true, lifetime: None }
    }

    /// Adds permits to the semaphore, or takes some away if `permits` is negative.
    ///
    /// Returns the number of available permits. If permits are taken away, it may be negative until
    /// enough have been returned. The lifetime of the semaphore stays.
    ///
    /// # Errors
    ///
    /// [`Failure`] says whether the permits may have been added.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed even if the future is dropped.
    #[doc(alias = "addPermits")]
    pub async fn add_permits(&self, permits: i64) -> Result<i64, Failure> {
        Ok(self.handle.add(permits, false).await?.unwrap_or(0))
    }

    /// Returns permits that no guard holds: forgotten ones, or those of another process.
    ///
    /// The call does not check that they were taken, and does nothing for 0 permits. For the
    /// permits of a guard, use [`Permit::release`](crate::Permit::release).
    ///
    /// # Errors
    ///
    /// [`Failure`] says whether the permits may have been returned.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed even if the future is dropped.
    pub async fn release(&self, permits: u32) -> Result<(), Failure> {
        self.handle.release(permits).await
    }

    /// Returns permits that no guard holds, if the semaphore exists. Returns `false` if it does
    /// not.
    ///
    /// # Errors
    ///
    /// As [`Semaphore::release`].
    ///
    /// # Cancel safety
    ///
    /// As [`Semaphore::release`].
    #[doc(alias = "releaseIfExists")]
    pub async fn release_if_exists(&self, permits: u32) -> Result<bool, Failure> {
        Ok(self.handle.add(permits.into(), true).await?.is_some())
    }

    /// Takes all available permits for good. Returns their number.
    ///
    /// # Errors
    ///
    /// [`Failure`] says whether the permits may have been taken.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed even if the future is dropped.
    #[doc(alias = "drainPermits")]
    pub async fn drain(&self) -> Result<u64, Failure> {
        self.handle.drain().await
    }

    /// Returns the number of permits that are available at this instant.
    ///
    /// If no permits were set, it is the capacity of this handle, or 0 without one.
    ///
    /// # Errors
    ///
    /// [`Failure`] if there was no reply.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "availablePermits")]
    pub async fn available_permits(&self) -> Result<u64, Failure> {
        let counts = self.handle.count().await?;
        let unset = || self.capacity.unwrap_or(0).saturating_sub(counts.leased);
        Ok(counts.available.map_or_else(unset, |left| u64::try_from(left).unwrap_or(0)))
    }

    /// Returns the operations that every object has: existence, lifetime, rename, events.
    ///
    /// They include the leases of its permits, and the queue of a fair semaphore. They do not
    /// consider held permits: after a deletion or a rename those are forgotten. Waiters are not
    /// woken, but poll within `poll_interval`.
    pub fn object(&self) -> Object {
        self.handle.object(layouts::permit_expirable_semaphore)
    }

    /// Deletes the semaphore, even while permits are held. Returns whether it existed.
    ///
    /// # Errors
    ///
    /// [`Failure`] says whether the semaphore may have been deleted.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed even if the future is dropped.
    pub async fn delete(&self) -> Result<bool, Failure> {
        self.handle.delete().await
    }

    /// Closes this handle and its clones.
    ///
    /// Their pending requests and all later ones end with [`Closed`](crate::AcquireError::Closed).
    /// Held permits stay held. Other handles and processes are not affected.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Returns whether this handle was closed.
    pub fn is_closed(&self) -> bool {
        *self.closing.borrow()
    }
}

impl std::fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.handle.keys.as_ref().map(|keys| &keys.name);
        f.debug_struct("Semaphore").field("name", &name).field("capacity", &self.capacity).finish_non_exhaustive()
    }
}

/// A request to set permits, sent when awaited.
///
/// Created by [`Semaphore::try_set_permits`] and [`Semaphore::set_permits`].
#[must_use = "does nothing until awaited"]
#[derive(Clone)]
pub struct SetPermits {
    handle: SemaphoreHandle,
    permits: u64,
    overwrite: bool,
    lifetime: Option<Duration>,
}

impl SetPermits {
    /// Makes the server delete the semaphore after this time. Without it, the semaphore has no
    /// lifetime.
    pub fn expires_in(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }
}

impl IntoFuture for SetPermits {
    type Output = Result<bool, Failure>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.handle.set(self.permits, self.overwrite, self.lifetime).await })
    }
}
