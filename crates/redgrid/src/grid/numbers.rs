//! Numbers, ids and rates.

use super::Grid;

impl Grid {
    /// A whole number that all processes share. See [`AtomicLong`](redgrid_atomic_long::AtomicLong).
    #[cfg(feature = "atomic-long")]
    #[doc(alias = "getAtomicLong")]
    pub fn atomic_long(&self, name: impl AsRef<str>) -> redgrid_atomic_long::AtomicLong {
        redgrid_atomic_long::AtomicLong::new(&self.client, name)
    }

    /// A floating point number that all processes share. See [`AtomicDouble`](redgrid_atomic_long::AtomicDouble).
    #[cfg(feature = "atomic-long")]
    #[doc(alias = "getAtomicDouble")]
    pub fn atomic_double(&self, name: impl AsRef<str>) -> redgrid_atomic_long::AtomicDouble {
        redgrid_atomic_long::AtomicDouble::new(&self.client, name)
    }

    /// Unique ids in blocks. See [`IdGenerator`](redgrid_id_generator::IdGenerator).
    #[cfg(feature = "id-generator")]
    #[doc(alias = "getIdGenerator")]
    pub fn id_generator(&self, name: impl AsRef<str>) -> redgrid_id_generator::IdGenerator {
        redgrid_id_generator::IdGenerator::new(&self.client, name)
    }

    /// Unique ids that rise with time. See [`TimeOrderedId`](redgrid_id_generator::TimeOrderedId).
    #[cfg(feature = "id-generator")]
    pub fn time_ordered_id(&self, name: impl AsRef<str>) -> redgrid_id_generator::TimeOrderedId {
        redgrid_id_generator::TimeOrderedId::new(&self.client, name)
    }

    /// A rate that all processes keep together. See [`RateLimiter`](redgrid_rate_limiter::RateLimiter).
    #[cfg(feature = "rate-limiter")]
    #[doc(alias = "getRateLimiter")]
    pub fn rate_limiter(&self, name: impl AsRef<str>) -> redgrid_rate_limiter::RateLimiter {
        redgrid_rate_limiter::RateLimiter::new(&self.client, name)
    }

    /// The same with one number on the server, whatever the rate. See [`GcraLimiter`](redgrid_rate_limiter::GcraLimiter).
    #[cfg(feature = "rate-limiter")]
    pub fn gcra_limiter(
        &self,
        name: impl AsRef<str>,
        quota: redgrid_rate_limiter::Quota,
    ) -> redgrid_rate_limiter::GcraLimiter {
        redgrid_rate_limiter::GcraLimiter::new(&self.client, name, quota)
    }

    /// A sum of whole numbers that each process counts in its own memory. See [`LongAdder`](redgrid_atomic_long::LongAdder).
    #[cfg(feature = "atomic-long")]
    #[doc(alias = "getLongAdder")]
    pub fn long_adder(&self, name: impl AsRef<str>) -> redgrid_atomic_long::LongAdder {
        redgrid_atomic_long::LongAdder::new(&self.client, name)
    }

    /// A sum of floating point numbers that each process counts in its own memory. See
    /// [`DoubleAdder`](redgrid_atomic_long::DoubleAdder).
    #[cfg(feature = "atomic-long")]
    #[doc(alias = "getDoubleAdder")]
    pub fn double_adder(&self, name: impl AsRef<str>) -> redgrid_atomic_long::DoubleAdder {
        redgrid_atomic_long::DoubleAdder::new(&self.client, name)
    }
}
