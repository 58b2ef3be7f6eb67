//! Numbers, ids and rate limiters.

use super::Grid;

impl Grid {
    /// Returns the whole number with this name, an `i64` shared by all processes. See
    /// [`AtomicLong`](redgrid_atomic_long::AtomicLong).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::atomic_long::AtomicError;
    ///
    /// let tickets = grid.atomic_long("tickets");
    /// match tickets.add(1).at_most(100).await {
    ///     Ok(number) => println!("ticket {number}"),
    ///     Err(AtomicError::OutOfBounds { .. }) => println!("sold out"),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "atomic-long")]
    #[doc(alias = "getAtomicLong")]
    pub fn atomic_long(&self, name: impl AsRef<str>) -> redgrid_atomic_long::AtomicLong {
        redgrid_atomic_long::AtomicLong::new(&self.client, name)
    }

    /// Returns the floating-point number with this name, an `f64` shared by all processes. See
    /// [`AtomicDouble`](redgrid_atomic_long::AtomicDouble).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let balance = grid.atomic_double("balance").add(0.25).await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "atomic-long")]
    #[doc(alias = "getAtomicDouble")]
    pub fn atomic_double(&self, name: impl AsRef<str>) -> redgrid_atomic_long::AtomicDouble {
        redgrid_atomic_long::AtomicDouble::new(&self.client, name)
    }

    /// Returns the generator of unique ids with this name: small numbers in blocks, shared with
    /// Redisson. See [`IdGenerator`](redgrid_id_generator::IdGenerator).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let tickets = grid.id_generator("ticket");
    /// tickets.try_init(1_000_000, 100).await?; // the first number, and the size of a block
    /// println!("ticket {}", tickets.next().await?);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "id-generator")]
    #[doc(alias = "getIdGenerator")]
    pub fn id_generator(&self, name: impl AsRef<str>) -> redgrid_id_generator::IdGenerator {
        redgrid_id_generator::IdGenerator::new(&self.client, name)
    }

    /// Returns the generator with this name of unique 63-bit ids that increase with time. See
    /// [`TimeOrderedId`](redgrid_id_generator::TimeOrderedId).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let orders = grid.time_ordered_id("order");
    /// let id = orders.next().await?;
    /// println!("order {id} was created at {:?}", orders.decode(id)?.time);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "id-generator")]
    pub fn time_ordered_id(&self, name: impl AsRef<str>) -> redgrid_id_generator::TimeOrderedId {
        redgrid_id_generator::TimeOrderedId::new(&self.client, name)
    }

    /// Returns the rate limiter with this name that keeps a sliding log of permits, in the format
    /// of Redisson. See [`RateLimiter`](redgrid_rate_limiter::RateLimiter).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use redgrid::rate_limiter::Rate;
    ///
    /// let mails = grid.rate_limiter("mails");
    /// mails.try_set_rate(Rate::overall(100, Duration::from_secs(1))).await?; // over all processes
    /// mails.acquire().await?; // waits for a permit
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "rate-limiter")]
    #[doc(alias = "getRateLimiter")]
    pub fn rate_limiter(&self, name: impl AsRef<str>) -> redgrid_rate_limiter::RateLimiter {
        redgrid_rate_limiter::RateLimiter::new(&self.client, name)
    }

    /// Returns the rate limiter with this name that uses GCRA: one small key on the server,
    /// whatever the rate. See [`GcraLimiter`](redgrid_rate_limiter::GcraLimiter).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use redgrid::rate_limiter::Quota;
    ///
    /// let calls = grid.gcra_limiter("calls", Quota::per_second(1000).burst(50));
    /// if !calls.try_acquire().await? {
    ///     println!("429 Too Many Requests");
    /// }
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "rate-limiter")]
    pub fn gcra_limiter(
        &self,
        name: impl AsRef<str>,
        quota: redgrid_rate_limiter::Quota,
    ) -> redgrid_rate_limiter::GcraLimiter {
        redgrid_rate_limiter::GcraLimiter::new(&self.client, name, quota)
    }

    /// Returns the adder with this name: a sum of whole numbers that each process first adds in its
    /// memory. See [`LongAdder`](redgrid_atomic_long::LongAdder).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// let views = grid.long_adder("page-views").saving(Duration::from_secs(1))?;
    /// views.increment(); // no request
    /// println!("{} views over all processes", views.sum().await?);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "atomic-long")]
    #[doc(alias = "getLongAdder")]
    pub fn long_adder(&self, name: impl AsRef<str>) -> redgrid_atomic_long::LongAdder {
        redgrid_atomic_long::LongAdder::new(&self.client, name)
    }

    /// Returns the adder with this name: a sum of floating-point numbers that each process first
    /// adds in its memory. See [`DoubleAdder`](redgrid_atomic_long::DoubleAdder).
    ///
    /// ```no_run
    /// # async fn example(grid: &redgrid::Grid) -> Result<(), Box<dyn std::error::Error>> {
    /// let paid = grid.double_adder("paid");
    /// paid.add(9.75)?; // no request
    /// println!("{} paid over all processes", paid.sum().await?);
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "atomic-long")]
    #[doc(alias = "getDoubleAdder")]
    pub fn double_adder(&self, name: impl AsRef<str>) -> redgrid_atomic_long::DoubleAdder {
        redgrid_atomic_long::DoubleAdder::new(&self.client, name)
    }
}
