//! Permits and latches.

use super::Grid;

impl Grid {
    /// Returns the semaphore with this name and number of permits, shared by all processes. Its
    /// permits have leases. See [`Semaphore`](redgrid_semaphore::Semaphore).
    #[cfg(feature = "semaphore")]
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u64) -> redgrid_semaphore::Semaphore {
        redgrid_semaphore::Semaphore::new(&self.client, name, permits)
    }

    /// Returns Redisson's RSemaphore with this name: a number of permits without leases. See
    /// [`PlainSemaphore`](redgrid_semaphore::PlainSemaphore).
    #[cfg(feature = "semaphore")]
    #[doc(alias = "getSemaphore")]
    pub fn plain_semaphore(&self, name: impl AsRef<str>) -> redgrid_semaphore::PlainSemaphore {
        redgrid_semaphore::Semaphore::plain(&self.client, name)
    }

    /// Returns the semaphore with this name whose permits have ids and leases. See
    /// [`PermitExpirableSemaphore`](redgrid_permit_expirable_semaphore::PermitExpirableSemaphore).
    #[cfg(feature = "permit-expirable-semaphore")]
    #[doc(alias = "getPermitExpirableSemaphore")]
    pub fn permit_expirable_semaphore(
        &self,
        name: impl AsRef<str>,
    ) -> redgrid_permit_expirable_semaphore::PermitExpirableSemaphore {
        redgrid_permit_expirable_semaphore::PermitExpirableSemaphore::new(&self.client, name)
    }

    /// Returns the latch with this name: waiters wait until its count is zero. See
    /// [`CountDownLatch`](redgrid_countdown_latch::CountDownLatch).
    #[cfg(feature = "countdown-latch")]
    #[doc(alias = "getCountDownLatch")]
    pub fn countdown_latch(&self, name: impl AsRef<str>) -> redgrid_countdown_latch::CountDownLatch {
        redgrid_countdown_latch::CountDownLatch::new(&self.client, name)
    }
}
