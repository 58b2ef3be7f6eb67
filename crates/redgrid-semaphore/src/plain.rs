//! Plain permits: a number on the server, as in Redisson's RSemaphore.

use std::time::Duration;

use redgrid_core::into_future;
use redgrid_core::permits::SemaphoreHandle;
use redgrid_core::{Client, Failure};

/// A counting semaphore without leases: Redisson's `RSemaphore`. The permits of a process that dies
/// are lost until another process returns them.
///
/// Use it to share permits with Java services that use an RSemaphore. Everywhere else, use
/// [`Semaphore`](crate::Semaphore): its permits are available again when their process dies.
///
/// It is cheap to clone; clones are the same semaphore. Creating one sends no request: an invalid
/// name is reported by the first call.
///
/// ```no_run
/// # use redgrid_semaphore::Semaphore;
/// # async fn example(client: &redgrid_semaphore::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mail = Semaphore::plain(client, "mail");
/// mail.try_set_permits(20).await?; // unless Java, or another process, has set them
/// let permit = mail.acquire().await?;
/// # drop(permit);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "RSemaphore")]
#[doc(alias = "RedissonSemaphore")]
#[derive(Clone)]
pub struct PlainSemaphore {
    handle: SemaphoreHandle,
}

redgrid_core::semaphore_methods!(PlainSemaphore);

impl PlainSemaphore {
    /// Returns the semaphore with this name, as [`Semaphore::plain`](crate::Semaphore::plain) does.
    pub fn new(client: &Client, name: impl AsRef<str>) -> Self {
        PlainSemaphore { handle: SemaphoreHandle::new(client, name, false) }
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
    /// Held permits are unknown, and count as returned. Permits that are held with a lease, by a
    /// semaphore of another kind, stay held.
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
    /// [`Failure`] states whether the permits may have been added.
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
    /// [`Failure`] states whether the permits may have been returned.
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
    /// # Errors and cancel safety
    ///
    /// As for [`PlainSemaphore::release`].
    #[doc(alias = "releaseIfExists")]
    pub async fn release_if_exists(&self, permits: u32) -> Result<bool, Failure> {
        Ok(self.handle.add(permits.into(), true).await?.is_some())
    }

    /// Takes all available permits for good. Returns their number.
    ///
    /// # Errors
    ///
    /// [`Failure`] states whether the permits may have been taken.
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
    /// It is 0 if no permits were set.
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
}

/// A request to set permits, sent when awaited.
///
/// Created by [`PlainSemaphore::try_set_permits`] and [`PlainSemaphore::set_permits`].
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

into_future!(
    SetPermits => Result<bool, Failure>,
    |this| async move { this.handle.set(this.permits, this.overwrite, this.lifetime).await }
);
