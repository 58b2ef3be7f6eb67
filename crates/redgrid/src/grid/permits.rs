//! Permits and latches.

use super::Grid;

impl Grid {
    /// A semaphore: so many permits for all processes. See [`Semaphore`](redgrid_semaphore::Semaphore).
    #[cfg(feature = "semaphore")]
    #[doc(alias = "getSemaphore")]
    pub fn semaphore(&self, name: impl AsRef<str>) -> redgrid_semaphore::Semaphore {
        redgrid_semaphore::Semaphore::new(&self.client, name)
    }

    /// A semaphore whose permits have ids and leases. See
    /// [`PermitExpirableSemaphore`](redgrid_permit_expirable_semaphore::PermitExpirableSemaphore).
    #[cfg(feature = "permit-expirable-semaphore")]
    #[doc(alias = "getPermitExpirableSemaphore")]
    pub fn permit_expirable_semaphore(
        &self,
        name: impl AsRef<str>,
    ) -> redgrid_permit_expirable_semaphore::PermitExpirableSemaphore {
        redgrid_permit_expirable_semaphore::PermitExpirableSemaphore::new(&self.client, name)
    }

    /// A latch that many wait for until so many things are done. See [`CountDownLatch`](redgrid_countdown_latch::CountDownLatch).
    #[cfg(feature = "countdown-latch")]
    #[doc(alias = "getCountDownLatch")]
    pub fn countdown_latch(&self, name: impl AsRef<str>) -> redgrid_countdown_latch::CountDownLatch {
        redgrid_countdown_latch::CountDownLatch::new(&self.client, name)
    }
}
