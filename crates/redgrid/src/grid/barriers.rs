//! Objects at which processes wait for each other.

use super::Grid;

impl Grid {
    /// Returns the barrier with this name, at which `parties` tasks wait for each other. See
    /// [`Barrier`](redgrid_barrier::Barrier).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let result = grid.barrier("import:start", 3).wait().await?; // three workers are here
    /// if result.is_leader() {
    ///     println!("one of the three prints this, in each round");
    /// }
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "barrier")]
    pub fn barrier(&self, name: impl AsRef<str>, parties: u32) -> redgrid_barrier::Barrier {
        redgrid_barrier::Barrier::new(&self.client, name, parties)
    }

    /// Returns the double barrier with this name: a section that `parties` tasks enter together and
    /// leave together. See [`DoubleBarrier`](redgrid_barrier::DoubleBarrier).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let section = grid.double_barrier("import:write", 3).enter().await?; // all three enter
    /// // … write this worker's part …
    /// section.leave().await?; // all three parts are written
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "barrier")]
    pub fn double_barrier(&self, name: impl AsRef<str>, parties: u32) -> redgrid_barrier::DoubleBarrier {
        redgrid_barrier::DoubleBarrier::new(&self.client, name, parties)
    }

    /// Returns the phaser with this name: parties, which may register and leave at any time, work
    /// in phases. See [`Phaser`](redgrid_barrier::Phaser).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let party = grid.phaser("build:42").register().await?;
    /// // … fetch …
    /// party.arrive_and_wait().await?; // all parties have fetched
    /// // … compile …
    /// party.arrive_and_deregister().await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "barrier")]
    pub fn phaser(&self, name: impl AsRef<str>) -> redgrid_barrier::Phaser {
        redgrid_barrier::Phaser::new(&self.client, name)
    }

    /// Returns the condition variable with this name, to wait for a change of data that a lock
    /// guards. See [`Condition`](redgrid_barrier::Condition).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let (lock, changed) = (grid.lock("lock:stock"), grid.condition("stock:changed"));
    /// let mut guard = lock.acquire().await?;
    /// while grid.command("GET").key("stock")?.query::<Option<i64>>().await? < Some(1) {
    ///     guard = changed.wait(guard).await?; // the lock is released meanwhile
    /// }
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "barrier")]
    #[doc(alias = "newCondition")]
    pub fn condition(&self, name: impl AsRef<str>) -> redgrid_barrier::Condition {
        redgrid_barrier::Condition::new(&self.client, name)
    }

    /// Returns the event with this name: tasks wait until it is set, and continue at once while it
    /// is set. See [`Event`](redgrid_barrier::Event).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let open = grid.event("shop:open");
    /// open.set().await?; // in one process
    /// open.wait().await?; // in another one
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "barrier")]
    pub fn event(&self, name: impl AsRef<str>) -> redgrid_barrier::Event {
        redgrid_barrier::Event::new(&self.client, name)
    }

    /// Returns the notification with this name, which wakes one waiting task or all of them. See
    /// [`Notify`](redgrid_barrier::Notify).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let work = grid.notify("mail:work");
    /// work.notify_one().await?; // in one process
    /// work.notified().await?; // in another one
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "barrier")]
    pub fn notify(&self, name: impl AsRef<str>) -> redgrid_barrier::Notify {
        redgrid_barrier::Notify::new(&self.client, name)
    }
}
