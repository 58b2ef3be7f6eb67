//! Sums that many threads add to at the same time without waiting for each other: each has a stripe of its own.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread::available_parallelism;

/// So many stripes at most: more threads than that share some.
const MOST: usize = 64;

/// What is added beyond this at once, either way, does not go through a stripe: 2^32.
const LARGE: u64 = 1 << 32;

/// A stripe beyond this is emptied: 2^62. A billion threads that add at this moment do not carry it over its end.
const FULL: u64 = 1 << 62;

/// A stripe, alone on its cache lines.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Stripe<T>(T);

fn stripes<T: Default>() -> Box<[Stripe<T>]> {
    let threads = available_parallelism().map_or(MOST, usize::from);
    (0..threads.next_power_of_two().min(MOST)).map(|_| Stripe::default()).collect()
}

/// The number of this thread.
fn thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    // A thread that is ending has none any more.
    NUMBER.try_with(|number| *number).unwrap_or(0)
}

/// Whole numbers; their sum may be beyond i64 on the way.
#[derive(Debug)]
pub struct Longs {
    stripes: Box<[Stripe<AtomicI64>]>,
    beyond: Mutex<i128>,
}

impl Longs {
    pub(super) fn new() -> Self {
        Longs { stripes: stripes(), beyond: Mutex::default() }
    }

    pub(super) fn add(&self, by: i64) {
        if by.unsigned_abs() > LARGE {
            *self.beyond() += i128::from(by);
            return;
        }
        let stripe = &self.stripes[thread() & (self.stripes.len() - 1)].0;
        if stripe.fetch_add(by, Ordering::Relaxed).unsigned_abs() > FULL {
            let mut beyond = self.beyond();
            *beyond += i128::from(stripe.swap(0, Ordering::Relaxed));
        }
    }

    /// The sum; from here on they are 0. What is added meanwhile is in this one or in the next.
    pub(super) fn take(&self) -> i128 {
        // Nothing goes from a stripe to what is beyond meanwhile.
        let mut beyond = self.beyond();
        let striped: i128 = self.stripes.iter().map(|stripe| i128::from(stripe.0.swap(0, Ordering::Relaxed))).sum();
        std::mem::take(&mut *beyond) + striped
    }

    fn beyond(&self) -> MutexGuard<'_, i128> {
        self.beyond.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Floating point numbers, as their bits.
#[derive(Debug)]
pub struct Doubles(Box<[Stripe<AtomicU64>]>);

impl Doubles {
    pub(super) fn new() -> Self {
        Doubles(stripes())
    }

    /// False where the sum would not be finite: then nothing is added.
    pub(super) fn add(&self, by: f64) -> bool {
        let stripe = &self.0[thread() & (self.0.len() - 1)].0;
        let sum = |bits| Some(f64::from_bits(bits) + by).filter(|sum| sum.is_finite()).map(f64::to_bits);
        stripe.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok()
    }

    /// The sums of the stripes, each finite; from here on they are 0.
    pub(super) fn take(&self) -> f64 {
        self.0.iter().map(|stripe| f64::from_bits(stripe.0.swap(0, Ordering::Relaxed))).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_threads_add_is_there_once() {
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
        // A stripe that is nearly full.
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
