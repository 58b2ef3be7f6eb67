//! Locks, fences and elections.

use super::Grid;

impl Grid {
    /// Returns the lock with this name, which has one holder at a time. See
    /// [`Lock`](redgrid_locks::Lock).
    ///
    /// The lock needs a separate name, which differs from the name of the data that it guards.
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let guard = grid.lock("lock:orders:42").acquire().timeout(Duration::from_secs(2)).await?;
    /// // … the work that only one holder may do …
    /// guard.release().await?; // an error if the lock had been lost
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "locks")]
    #[doc(alias = "getLock")]
    pub fn lock(&self, name: impl AsRef<str>) -> redgrid_locks::Lock {
        redgrid_locks::Lock::new(&self.client, name)
    }

    /// Returns the lock with this name that counts its fencing tokens in a key, in the format of
    /// Redisson. See [`FencedLock`](redgrid_locks::FencedLock).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let guard = grid.fenced_lock("lock:ledger").acquire().await?;
    /// println!("write with token {}", guard.token()); // higher than that of each holder before
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "locks")]
    #[doc(alias = "getFencedLock")]
    pub fn fenced_lock(&self, name: impl AsRef<str>) -> redgrid_locks::FencedLock {
        redgrid_locks::FencedLock::new(&self.client, name)
    }

    /// Returns several locks as one: it holds all of them or none. See
    /// [`MultiLock`](redgrid_locks::MultiLock).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let guard = grid.multi_lock(["lock:account:1", "lock:account:2"]).acquire().await?;
    /// // … move money from one account to the other …
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "locks")]
    #[doc(alias = "getMultiLock")]
    pub fn multi_lock<N: AsRef<str>>(&self, names: impl IntoIterator<Item = N>) -> redgrid_locks::MultiLock {
        redgrid_locks::MultiLock::new(&self.client, names)
    }

    /// Returns the lock with this name that uses no messages: waiters retry after increasing
    /// pauses. See [`SpinLock`](redgrid_locks::SpinLock).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let lock = grid.spin_lock("lock:shelf");
    /// let lock = lock.backoff(Duration::from_millis(2), Duration::from_millis(40));
    /// lock.acquire().await?.release().await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "locks")]
    #[doc(alias = "getSpinLock")]
    pub fn spin_lock(&self, name: impl AsRef<str>) -> redgrid_locks::SpinLock {
        redgrid_locks::SpinLock::new(&self.client, name)
    }

    /// Returns the lock with this name that serves waiters in the order of their arrival, over all
    /// processes. See [`FairLock`](redgrid_locks::FairLock).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let counter = grid.fair_lock("lock:tickets");
    /// let guard = counter.acquire().await?;
    /// println!("{} buyers wait", counter.waiting_count().await?);
    /// guard.release().await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "locks")]
    #[doc(alias = "getFairLock")]
    pub fn fair_lock(&self, name: impl AsRef<str>) -> redgrid_locks::FairLock {
        redgrid_locks::FairLock::new(&self.client, name)
    }

    /// Returns the lock with this name that many readers or one writer can hold. See
    /// [`RwLock`](redgrid_locks::RwLock).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let prices = grid.rw_lock("lock:prices");
    /// prices.read().await?.release().await?; // beside other readers
    ///
    /// let write = prices.write().await?; // alone
    /// let read = write.downgrade().await?; // no writer comes in between
    /// read.release().await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "locks")]
    #[doc(alias = "getReadWriteLock")]
    pub fn rw_lock(&self, name: impl AsRef<str>) -> redgrid_locks::RwLock {
        redgrid_locks::RwLock::new(&self.client, name)
    }

    /// Returns the election with this name, which elects one leader among processes. See
    /// [`Election`](redgrid_locks::Election).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let leadership = grid.election("scheduler").campaign().proclaim("node 1").await?;
    /// leadership.run(async { println!("leading") }).await?; // dropped if leadership is lost
    /// leadership.resign().await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "locks")]
    #[doc(alias = "LeaderLatch")]
    pub fn election(&self, name: impl AsRef<str>) -> redgrid_locks::Election {
        redgrid_locks::Election::new(&self.client, name)
    }

    /// Returns the lock with this name that has `segments` parts, for contended data that can be
    /// divided. See [`SegmentedLock`](redgrid_locks::SegmentedLock).
    ///
    /// All users of the name must pass the same number, at least 1.
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let hot = grid.segmented_lock("lock:stock:7", 8);
    /// let mut segments = hot.segments_for("user 42"); // begins at the segment of this user
    /// if let Some(segment) = segments.next().await? {
    ///     println!("sell from part {}", segment.index());
    ///     segment.release().await?;
    /// }
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "locks")]
    pub fn segmented_lock(&self, name: impl AsRef<str>, segments: usize) -> redgrid_locks::SegmentedLock {
        redgrid_locks::SegmentedLock::new(&self.client, name, segments)
    }

    /// Returns the fence with this name, which rejects writes with a stale token. See
    /// [`Fence`](redgrid_locks::Fence).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::locks::FenceError;
    ///
    /// let guard = grid.lock("lock:account").acquire().await?;
    /// let fence = grid.fence("{account}"); // guards the keys with its hash tag
    /// match fence.set("{account}:cents", "500", guard.token()).await {
    ///     Err(FenceError::Stale { highest, .. }) => println!("rejected: {highest} wrote later"),
    ///     written => written?,
    /// }
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "locks")]
    pub fn fence(&self, name: impl AsRef<str>) -> redgrid_locks::Fence {
        redgrid_locks::Fence::new(&self.client, name)
    }
}
