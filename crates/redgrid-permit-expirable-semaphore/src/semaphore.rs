//! The semaphore as a value: cheap to clone, holding nothing until permits are acquired.

use std::time::Duration;

use redgrid_core::Client;
use redgrid_core::Failure;
use redgrid_core::object::{Lifetime, Object, layouts};
use redgrid_core::permits::{Acquire, PermitId, Returned, SemaphoreHandle, TryAcquire};
use tokio::sync::watch;

/// A semaphore of all processes that use the same server, whose permits have ids and leases.
/// Redisson's `RPermitExpirableSemaphore` on the wire.
///
/// It is cheap to clone; clones are the same semaphore. Creating one sends no request: an invalid
/// name is reported by the first call.
///
/// Leases are renewed while guards live, unless [`Acquire::lease`] limits how long a permit is
/// held. Redisson renews none.
#[doc(alias = "RPermitExpirableSemaphore")]
#[doc(alias = "RedissonPermitExpirableSemaphore")]
#[derive(Clone)]
pub struct PermitExpirableSemaphore {
    handle: SemaphoreHandle,
    never_closed: watch::Receiver<bool>,
}

impl PermitExpirableSemaphore {
    /// Returns the semaphore with this name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        // The sender is dropped, so the semaphore is never closed.
        PermitExpirableSemaphore {
            handle: SemaphoreHandle::new(client, name, true),
            never_closed: watch::channel(false).1,
        }
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

    /// Acquires `permits` permits at once, up to 1,000: all of them or none.
    ///
    /// 0 permits are granted without a request.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`PermitExpirableSemaphore::acquire`].
    #[doc(alias = "acquire")]
    pub fn acquire_many(&self, permits: u64) -> Acquire {
        Acquire::new(&self.handle, permits, self.never_closed.clone())
    }

    /// Acquires one permit if one is available.
    ///
    /// Returns `None` if none is, or if other requests of this process wait.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`PermitExpirableSemaphore::acquire`].
    #[doc(alias = "tryAcquire")]
    pub fn try_acquire(&self) -> TryAcquire {
        self.try_acquire_many(1)
    }

    /// Acquires `permits` permits at once if they are available.
    ///
    /// Returns `None` if there are too few, or if other requests of this process wait.
    ///
    /// # Errors and cancel safety
    ///
    /// As for [`PermitExpirableSemaphore::acquire`].
    #[doc(alias = "tryAcquire")]
    pub fn try_acquire_many(&self, permits: u64) -> TryAcquire {
        TryAcquire::new(&self.handle, permits, self.never_closed.clone())
    }

    /// Returns a permit to the semaphore by its id, regardless of its holder.
    ///
    /// If the permit has a guard, the guard notices it at its next renewal. A guard with a fixed
    /// lease notices it when its connection is re-established, or when it is released.
    ///
    /// # Errors
    ///
    /// [`Failure`] says whether the permit may have been returned.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed even if the future is dropped.
    #[doc(alias = "tryRelease")]
    #[doc(alias = "release")]
    pub async fn try_release(&self, id: PermitId) -> Result<Returned, Failure> {
        self.handle.give_back(id).await
    }

    /// Sets the lease of a permit from now on, regardless of its holder.
    ///
    /// Returns `false` if the id is unknown or its lease has ended. A guard of the permit does not
    /// notice the change: to shorten its lease, use [`Permit::extend`](crate::Permit::extend).
    ///
    /// # Errors
    ///
    /// [`Failure`] says whether the lease may have been set.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed even if the future is dropped.
    #[doc(alias = "updateLeaseTime")]
    pub async fn update_lease(&self, id: PermitId, lease: Duration) -> Result<bool, Failure> {
        self.handle.extend(id, lease).await
    }

    /// Returns the remaining lease of a permit, regardless of its holder.
    ///
    /// It is [`Lifetime::Absent`] if the id is unknown or its lease has ended. It is
    /// [`Lifetime::Endless`] for a permit that Redisson granted without a lease.
    ///
    /// # Errors
    ///
    /// [`Failure`] if there was no reply.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "getLeaseTime")]
    pub async fn remaining_lease(&self, id: PermitId) -> Result<Lifetime, Failure> {
        self.handle.lease(id).await
    }

    /// Sets the number of permits if none were set yet. Returns whether that was the case.
    ///
    /// # Errors
    ///
    /// [`Failure`] says whether the number may have been set.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed even if the future is dropped.
    #[doc(alias = "trySetPermits")]
    pub async fn try_set_permits(&self, permits: u64) -> Result<bool, Failure> {
        self.handle.set(permits, false, None).await
    }

    /// Sets the number of permits.
    ///
    /// Held permits stay held. If the number is below theirs, none are available until enough have
    /// been returned.
    ///
    /// # Errors
    ///
    /// [`Failure`] says whether the number may have been set.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed even if the future is dropped.
    #[doc(alias = "setPermits")]
    pub async fn set_permits(&self, permits: u64) -> Result<(), Failure> {
        self.handle.set(permits, true, None).await.map(drop)
    }

    /// Adds permits to the semaphore, or takes some away if `permits` is negative.
    ///
    /// The lifetime of the semaphore stays.
    ///
    /// # Errors
    ///
    /// [`Failure`] says whether the permits may have been added.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed even if the future is dropped.
    #[doc(alias = "addPermits")]
    pub async fn add_permits(&self, permits: i64) -> Result<(), Failure> {
        self.handle.add(permits, false).await.map(drop)
    }

    /// Returns the number of permits that are available at this instant.
    ///
    /// It writes nothing: permits with an expired lease count as available.
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
        let left = self.handle.count().await?.available.unwrap_or(0);
        Ok(u64::try_from(left).unwrap_or(0))
    }

    /// Returns the number of permits that are held at this instant.
    ///
    /// # Errors
    ///
    /// [`Failure`] if there was no reply.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "acquiredPermits")]
    pub async fn acquired_permits(&self) -> Result<u64, Failure> {
        Ok(self.handle.count().await?.leased)
    }

    /// Returns the number of all permits, available and held ones.
    ///
    /// # Errors
    ///
    /// [`Failure`] if there was no reply.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    #[doc(alias = "getPermits")]
    pub async fn permits(&self) -> Result<u64, Failure> {
        let counts = self.handle.count().await?;
        let all = counts.available.unwrap_or(0).saturating_add_unsigned(counts.leased);
        Ok(u64::try_from(all).unwrap_or(0))
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
}

impl std::fmt::Debug for PermitExpirableSemaphore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.handle.keys.as_ref().map(|keys| &keys.name);
        f.debug_struct("PermitExpirableSemaphore").field("name", &name).finish_non_exhaustive()
    }
}
