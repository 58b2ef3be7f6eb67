//! The semaphore as a value: cheap to clone, holding nothing until permits are acquired.

use std::time::Duration;

use redgrid_core::Client;
use redgrid_core::object::{Lifetime, Object, layouts};
use redgrid_core::permits::{Acquire, Counter, PermitId, Returned, SemaphoreError, TryAcquire};
use tokio::sync::watch;

/// A semaphore over all processes that reach the same server, whose permits have ids and leases. Redisson's
/// `RPermitExpirableSemaphore` on the wire.
///
/// Cheap to clone; clones are the same semaphore. Making one asks nobody: an invalid name is told by the first call.
///
/// Leases are renewed while guards live, unless [`Acquire::lease`] says how long a permit is held (Redisson renews none).
#[doc(alias = "RPermitExpirableSemaphore")]
#[doc(alias = "RedissonPermitExpirableSemaphore")]
#[derive(Clone)]
pub struct PermitExpirableSemaphore {
    counter: Counter,
    never: watch::Receiver<bool>,
}

impl PermitExpirableSemaphore {
    /// The semaphore with this name.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        // Who sends is gone: it is never closed.
        PermitExpirableSemaphore { counter: Counter::new(client, name, true), never: watch::channel(false).1 }
    }

    /// The same semaphore, where those who wait are served in the order of asking over all processes that say so: a large
    /// request is not starved by small ones elsewhere. Each permit that passes on then costs a request.
    #[must_use]
    pub fn fair(mut self) -> Self {
        self.counter = self.counter.fair();
        self
    }

    /// Acquires one permit, waiting for it as long as it takes or as [`Acquire::timeout`] says.
    ///
    /// # Errors
    ///
    /// [`AcquireError`](crate::AcquireError) says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future gives up the place in the queue. What the server had granted goes back in the background.
    pub fn acquire(&self) -> Acquire {
        self.acquire_many(1)
    }

    /// Acquires `permits` at once, up to 1,000: all of them or none. 0 permits are granted without a request.
    ///
    /// # Errors
    ///
    /// As [`PermitExpirableSemaphore::acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`PermitExpirableSemaphore::acquire`].
    #[doc(alias = "acquire")]
    pub fn acquire_many(&self, permits: u64) -> Acquire {
        Acquire::new(&self.counter, permits, None, self.never.clone())
    }

    /// Acquires one permit if there is one: `None` when there is none, or others of this process wait.
    ///
    /// # Errors
    ///
    /// As [`PermitExpirableSemaphore::acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`PermitExpirableSemaphore::acquire`].
    #[doc(alias = "tryAcquire")]
    pub fn try_acquire(&self) -> TryAcquire {
        self.try_acquire_many(1)
    }

    /// The same for `permits` at once.
    ///
    /// # Errors
    ///
    /// As [`PermitExpirableSemaphore::acquire`].
    ///
    /// # Cancel safety
    ///
    /// As [`PermitExpirableSemaphore::acquire`].
    #[doc(alias = "tryAcquire")]
    pub fn try_acquire_many(&self, permits: u64) -> TryAcquire {
        TryAcquire::new(&self.counter, permits, None, self.never.clone())
    }

    /// Gives a permit back by its id, whoever has it. Its guard, where there is one, learns of it when it is
    /// renewed; one with a fixed lease when its connection is made anew, or when it gives back.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "tryRelease")]
    #[doc(alias = "release")]
    pub async fn try_release(&self, id: PermitId) -> Result<Returned, SemaphoreError> {
        self.counter.give_back(id).await
    }

    /// Sets the lease of a permit from now on, whoever has it; `false` where it is not known, or its lease is over. A guard
    /// of the permit does not hear of it: shorten those by their own `extend`.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "updateLeaseTime")]
    pub async fn update_lease(&self, id: PermitId, lease: Duration) -> Result<bool, SemaphoreError> {
        self.counter.extend(id, lease).await
    }

    /// How long a permit is still leased, whoever has it. One that is not known, or whose lease is over, is [`Lifetime::Absent`]; one of
    /// Redisson's without a lease [`Lifetime::Endless`].
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] when it could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "getLeaseTime")]
    pub async fn remaining_lease(&self, id: PermitId) -> Result<Lifetime, SemaphoreError> {
        self.counter.lease(id).await
    }

    /// Sets how many permits there are, where none were set yet; tells whether that was so.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "trySetPermits")]
    pub async fn try_set_permits(&self, permits: u64) -> Result<bool, SemaphoreError> {
        self.counter.set(permits, false, None).await
    }

    /// Sets how many permits there are; those that are held stay held. With fewer than them, none are left until enough have
    /// come back.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "setPermits")]
    pub async fn set_permits(&self, permits: u64) -> Result<(), SemaphoreError> {
        self.counter.set(permits, true, None).await.map(drop)
    }

    /// Adds permits for everybody, or takes some away where negative. Its lifetime stays.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    #[doc(alias = "addPermits")]
    pub async fn add_permits(&self, permits: i64) -> Result<(), SemaphoreError> {
        self.counter.add(permits, false).await.map(drop)
    }

    /// How many permits are left at this instant. Writes nothing: leases that ended count as left.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] when it could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "availablePermits")]
    pub async fn available_permits(&self) -> Result<u64, SemaphoreError> {
        let left = self.counter.count().await?.available.unwrap_or(0);
        Ok(u64::try_from(left).unwrap_or(0))
    }

    /// How many permits are held at this instant.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] when it could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "acquiredPermits")]
    pub async fn acquired_permits(&self) -> Result<u64, SemaphoreError> {
        Ok(self.counter.count().await?.leased)
    }

    /// How many permits there are: those that are left and those that are held.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] when it could not be asked.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    #[doc(alias = "getPermits")]
    pub async fn permits(&self) -> Result<u64, SemaphoreError> {
        let counts = self.counter.count().await?;
        let all = counts.available.unwrap_or(0).saturating_add_unsigned(counts.leased);
        Ok(u64::try_from(all).unwrap_or(0))
    }

    /// What every object has: whether it is there, its lifetime, other names, its events; with the leases of its permits and the line of those who wait in
    /// order.
    ///
    /// Nobody is asked who holds permits: behind a deletion or a rename those that are out are forgotten. Who waits looks again within
    /// `poll_interval`; nobody is woken.
    pub fn object(&self) -> Object {
        self.counter.object(layouts::permit_expirable_semaphore)
    }

    /// Deletes the semaphore, whoever holds permits of it; tells whether there was one.
    ///
    /// # Errors
    ///
    /// [`SemaphoreError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn delete(&self) -> Result<bool, SemaphoreError> {
        self.counter.delete().await
    }
}

impl std::fmt::Debug for PermitExpirableSemaphore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.counter.source.as_ref().map(|source| &source.name);
        f.debug_struct("PermitExpirableSemaphore").field("name", &name).finish_non_exhaustive()
    }
}
