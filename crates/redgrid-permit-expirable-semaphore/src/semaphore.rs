//! The semaphore as a value: cheap to clone, holding nothing until permits are acquired.

use std::time::Duration;

use redgrid_core::object::Lifetime;
use redgrid_core::permits::{PermitId, Returned, SemaphoreHandle};
use redgrid_core::{Client, Failure};

/// A semaphore with ids and leases for its permits, shared by all processes that use the same
/// server. On the wire it is Redisson's `RPermitExpirableSemaphore`.
///
/// It is cheap to clone; clones are the same semaphore. Creating one sends no request: an invalid
/// name is reported by the first call.
///
/// Leases are renewed while guards live, unless [`Acquire::lease`](crate::Acquire::lease) limits
/// how long a permit is held. Redisson renews none.
#[doc(alias = "RPermitExpirableSemaphore")]
#[doc(alias = "RedissonPermitExpirableSemaphore")]
#[derive(Clone)]
pub struct PermitExpirableSemaphore {
    handle: SemaphoreHandle,
}

redgrid_core::semaphore_methods!(PermitExpirableSemaphore);

impl PermitExpirableSemaphore {
    /// Returns the semaphore with this name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        PermitExpirableSemaphore { handle: SemaphoreHandle::new(client, name, true) }
    }

    /// Returns a permit to the semaphore by its id, regardless of its holder.
    ///
    /// If the permit has a guard, the guard notices it at its next renewal. A guard with a fixed
    /// lease notices it when its connection is re-established, or when it is released.
    ///
    /// # Errors
    ///
    /// [`Failure`] states whether the permit may have been returned.
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
    /// [`Failure`] states whether the lease may have been set.
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
    /// [`Failure`] if the request fails.
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
    /// [`Failure`] states whether the number may have been set.
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
    /// Held permits stay held. If more are held than the new number, none are available until
    /// enough have been returned.
    ///
    /// # Errors
    ///
    /// [`Failure`] states whether the number may have been set.
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
    /// [`Failure`] states whether the permits may have been added.
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
    /// [`Failure`] if the request fails.
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
    /// [`Failure`] if the request fails.
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
    /// [`Failure`] if the request fails.
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
}
