//! Counters for concurrent additions by many threads without contention: each thread has its own
//! stripe.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread::available_parallelism;

/// The maximum number of stripes. With more threads, some share a stripe.
const MAX_STRIPES: usize = 64;

/// The maximum absolute value of a summand that is added to a stripe: 2^32.
const LARGE: u64 = 1 << 32;

/// The absolute value beyond which a stripe is emptied: 2^62. Concurrent additions of a billion
/// threads do not overflow it before that.
const FULL: u64 = 1 << 62;

/// A stripe, alone on its cache lines.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Stripe<T>(T);

fn stripes<T: Default>() -> Box<[Stripe<T>]> {
    let threads = available_parallelism().map_or(MAX_STRIPES, usize::from);
    (0..threads.next_power_of_two().min(MAX_STRIPES)).map(|_| Stripe::default()).collect()
}

/// Returns the index of this thread.
fn thread_index() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static INDEX: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    // A terminating thread has lost its thread-local value.
    INDEX.try_with(|index| *index).unwrap_or(0)
}

/// A counter of whole numbers. Its sum may be beyond i64.
#[derive(Debug)]
#[expect(unnameable_types, reason = "only the sealed `AdderNumber` uses it")]
pub struct Longs {
    stripes: Box<[Stripe<AtomicI64>]>,
    /// The sum of large summands and of emptied stripes.
    overflow: Mutex<i128>,
}

impl Longs {
    pub(super) fn new() -> Self {
        Longs { stripes: stripes(), overflow: Mutex::default() }
    }

    pub(super) fn add(&self, by: i64) {
        if by.unsigned_abs() > LARGE {
            *self.overflow() += i128::from(by);
            return;
        }
        let stripe = &self.stripes[thread_index() & (self.stripes.len() - 1)].0;
        if stripe.fetch_add(by, Ordering::Relaxed).unsigned_abs() > FULL {
            let mut overflow = self.overflow();
            *overflow += i128::from(stripe.swap(0, Ordering::Relaxed));
        }
    }

    /// Returns the sum and sets it to 0. A concurrent addition is in this sum or in the next one.
    pub(super) fn take(&self) -> i128 {
        // While this is locked, no stripe is emptied into it.
        let mut overflow = self.overflow();
        let striped: i128 = self.stripes.iter().map(|stripe| i128::from(stripe.0.swap(0, Ordering::Relaxed))).sum();
        std::mem::take(&mut *overflow) + striped
    }

    fn overflow(&self) -> MutexGuard<'_, i128> {
        self.overflow.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A counter of floating point numbers, stored as their bits.
#[derive(Debug)]
#[expect(unnameable_types, reason = "only the sealed `AdderNumber` uses it")]
pub struct Doubles(Box<[Stripe<AtomicU64>]>);

impl Doubles {
    pub(super) fn new() -> Self {
        Doubles(stripes())
    }

    /// Adds a number to the stripe of this thread. Returns false, and adds nothing, if the sum of
    /// the stripe would not be finite.
    pub(super) fn add(&self, by: f64) -> bool {
        let stripe = &self.0[thread_index() & (self.0.len() - 1)].0;
        let sum = |bits| Some(f64::from_bits(bits) + by).filter(|sum| sum.is_finite()).map(f64::to_bits);
        stripe.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok()
    }

    /// Returns the sum of the stripes, each of which is finite, and sets them to 0.
    pub(super) fn take(&self) -> f64 {
        self.0.iter().map(|stripe| f64::from_bits(stripe.0.swap(0, Ordering::Relaxed))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_additions_of_many_threads_count_once() {
        let (longs, doubles) = (Longs::new(), Doubles::new());
        let taken = std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for n in 0..10_000 {
                        longs.add(n % 7 - 2);
                        assert!(doubles.add(0.5));
                    }
                });
            }
            (0..100).map(|_| longs.take()).sum::<i128>()
        });
        let each: i64 = (0..10_000).map(|n| n % 7 - 2).sum();
        assert_eq!(taken + longs.take(), 8 * i128::from(each));
        assert_eq!((doubles.take(), doubles.take()), (40_000.0, 0.0));
    }

    #[test]
    fn nothing_wraps() {
        let longs = Longs::new();
        for by in [i64::MAX, i64::MAX, i64::MIN, 1 << 32, 1] {
            longs.add(by);
        }
        assert_eq!(longs.take(), i128::from(i64::MAX) + (1 << 32));
        // The stripes are nearly full.
        let full = i64::MAX - (1 << 33);
        longs.stripes.iter().for_each(|stripe| stripe.0.store(full, Ordering::Relaxed));
        (0..8).for_each(|_| longs.add(1 << 32));
        assert_eq!(longs.take(), i128::from(full) * longs.stripes.len() as i128 + (8 << 32));
    }

    #[test]
    fn a_double_stays_finite() {
        let doubles = Doubles::new();
        assert!(doubles.add(f64::MAX) && !doubles.add(f64::MAX) && !doubles.add(f64::NAN));
        assert_eq!(doubles.take(), f64::MAX);
    }
}
