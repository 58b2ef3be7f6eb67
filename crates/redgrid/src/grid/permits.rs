//! Semaphores and latches.

use super::Grid;

impl Grid {
    /// Returns the semaphore with this name and number of permits, shared by all processes. Its
    /// permits have leases: the permits of a dead process return within one lease. See
    /// [`Semaphore`](redgrid_semaphore::Semaphore).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let mail = grid.semaphore("mail", 20);
    /// let permit = mail.acquire().await?; // at most 20 senders at a time, over all processes
    /// // … send …
    /// permit.release().await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "semaphore")]
    pub fn semaphore(&self, name: impl AsRef<str>, permits: u64) -> redgrid_semaphore::Semaphore {
        redgrid_semaphore::Semaphore::new(&self.client, name, permits)
    }

    /// Returns the semaphore with this name in the format of Redisson's RSemaphore: permits without
    /// leases. The permits of a process that dies are lost. See
    /// [`PlainSemaphore`](redgrid_semaphore::PlainSemaphore).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let mail = grid.plain_semaphore("mail");
    /// mail.try_set_permits(20).await?; // once, by the first process
    /// let permit = mail.acquire().await?;
    /// permit.release().await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "semaphore")]
    #[doc(alias = "getSemaphore")]
    pub fn plain_semaphore(&self, name: impl AsRef<str>) -> redgrid_semaphore::PlainSemaphore {
        redgrid_semaphore::Semaphore::plain(&self.client, name)
    }

    /// Returns the semaphore with this name. Its permits have ids and leases. See
    /// [`PermitExpirableSemaphore`](redgrid_permit_expirable_semaphore::PermitExpirableSemaphore).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let books = grid.permit_expirable_semaphore("books");
    /// books.try_set_permits(2).await?;
    /// let copy = books.acquire().lease(Duration::from_secs(3600)).await?;
    /// println!("lent as {:?}; another process may return it by this id", copy.ids().next());
    /// copy.release().await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "permit-expirable-semaphore")]
    #[doc(alias = "getPermitExpirableSemaphore")]
    pub fn permit_expirable_semaphore(
        &self,
        name: impl AsRef<str>,
    ) -> redgrid_permit_expirable_semaphore::PermitExpirableSemaphore {
        redgrid_permit_expirable_semaphore::PermitExpirableSemaphore::new(&self.client, name)
    }

    /// Returns the latch with this name: tasks wait until its count is zero. See
    /// [`CountDownLatch`](redgrid_countdown_latch::CountDownLatch).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let done = grid.countdown_latch("import:42");
    /// done.try_set_count(3).await?; // once, by the first process
    /// done.count_down().await?; // by each of three workers
    /// done.wait().await?; // by tasks that need all three
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "countdown-latch")]
    #[doc(alias = "getCountDownLatch")]
    pub fn countdown_latch(&self, name: impl AsRef<str>) -> redgrid_countdown_latch::CountDownLatch {
        redgrid_countdown_latch::CountDownLatch::new(&self.client, name)
    }
}
