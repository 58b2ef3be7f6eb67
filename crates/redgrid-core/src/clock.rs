//! The one clock that decides: monotonic, and it goes on while the machine is suspended.
//!
//! A lease runs out on the server whether or not this process ran meanwhile, so `std::time::Instant`, which stands
//! still during a suspend on Linux, is the wrong clock for a deadline. `CLOCK_BOOTTIME` (crate `boot-time`) is the right
//! one. Tests use tokio's clock, which can be paused.

use std::fmt;
use std::ops::{Add, Sub};
#[cfg(any(test, feature = "testing"))]
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

/// How long one sleep of [`Clock::sleep_until`] lasts at most before the clock is read again: 1 s. Timers of the
/// runtime stand still during a suspend; the shorter this is, the sooner a resumed process notices.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// The same of [`Clock::wait_until`], 30 s: a hundred thousand who wait for minutes, each looking at the clock each second, keep a
/// processor busy with nothing else.
const LONGEST_COARSE_SLEEP: Duration = Duration::from_secs(30);

/// A point in time of a [`Clock`], in nanoseconds. Those of the machine's clock count from an hour before the first one of the process was
/// made, and can be compared with each other; those of a clock that tests make, only with its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// Later than every instant a clock will show.
    pub const MAX: Instant = Instant(u64::MAX);
    /// Earlier than every instant a clock will show.
    pub const MIN: Instant = Instant(0);

    /// The nanoseconds that it counts; the inverse of [`Instant::from_nanos`].
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The instant that counts so many nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub const fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    /// Saturates at [`Instant::MAX`].
    fn add(self, d: Duration) -> Instant {
        Instant(self.0.saturating_add(nanos(d)))
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    /// Saturates at [`Instant::MIN`].
    fn sub(self, d: Duration) -> Instant {
        Instant(self.0.saturating_sub(nanos(d)))
    }
}

/// The nanoseconds of a duration, as many as can be counted. A clock is read several times an operation: not by 128 bits.
pub(crate) const fn nanos(d: Duration) -> u64 {
    d.as_secs().saturating_mul(1_000_000_000).saturating_add(d.subsec_nanos() as u64)
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Instant::MAX { f.write_str("never") } else { write!(f, "+{:?}", Duration::from_nanos(self.0)) }
    }
}

/// The source of every [`Instant`]. Cheap to clone; clones show the same time.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    Boot,
    #[cfg(any(test, feature = "testing"))]
    Runtime(Arc<tokio::time::Instant>),
}

/// When the first clock of the machine was made. One for all of them: whatever has a clock need not have its beginning, too, and each
/// hold has one.
static ORIGIN: OnceLock<boot_time::Instant> = OnceLock::new();

impl Clock {
    /// The clock of the machine, suspends included.
    pub fn boot() -> Self {
        ORIGIN.get_or_init(boot_time::Instant::now);
        Clock(Source::Boot)
    }

    /// Tokio's clock, which stands still while it is paused.
    #[cfg(any(test, feature = "testing"))]
    pub fn runtime() -> Self {
        Clock(Source::Runtime(Arc::new(tokio::time::Instant::now())))
    }

    /// The present instant.
    pub fn now(&self) -> Instant {
        // One hour ahead of zero, so that "a lease ago" is always representable.
        Instant::MIN + Duration::from_secs(3600) + self.elapsed()
    }

    /// Completes at `instant`, and at once if it has passed. Never, for [`Instant::MAX`].
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves nothing behind.
    pub async fn sleep_until(&self, instant: Instant) {
        self.sleep_in_parts(instant, |_| LONGEST_SLEEP).await;
    }

    /// The same for those of whom there may be very many, and of whom none is late for anything: one who waits for a lock. After a
    /// suspend it may end late, by an eighth of what was left and by 30 s at most.
    ///
    /// # Cancel safety
    ///
    /// Dropping it leaves nothing behind.
    pub async fn wait_until(&self, instant: Instant) {
        self.sleep_in_parts(instant, |left| (left / 8).clamp(LONGEST_SLEEP, LONGEST_COARSE_SLEEP)).await;
    }

    async fn sleep_in_parts(&self, instant: Instant, longest: impl Fn(Duration) -> Duration) {
        if instant == Instant::MAX {
            return std::future::pending().await;
        }
        loop {
            let left = instant.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(longest(left))).await;
        }
    }

    fn elapsed(&self) -> Duration {
        match &self.0 {
            Source::Boot => ORIGIN.get_or_init(boot_time::Instant::now).elapsed(),
            #[cfg(any(test, feature = "testing"))]
            Source::Runtime(origin) => origin.elapsed(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_sleep_ends_at_its_instant_and_not_before() {
        let clock = Clock::runtime();
        let goal = clock.now() + Duration::from_millis(2500);
        clock.sleep_until(goal).await;
        assert!(clock.now() >= goal && clock.now() < goal + Duration::from_millis(10));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_long_looks_at_the_clock_rarely_and_ends_in_time() {
        let clock = Clock::runtime();
        let (goal, readings) = (clock.now() + Duration::from_secs(1200), std::cell::Cell::new(0));
        let longest = |left: Duration| {
            readings.set(readings.get() + 1);
            (left / 8).clamp(LONGEST_SLEEP, LONGEST_COARSE_SLEEP)
        };
        clock.sleep_in_parts(goal, longest).await;
        assert!(readings.get() < 80, "{}", readings.get());
        let goal = goal + Duration::from_secs(1200);
        clock.wait_until(goal).await;
        assert!(clock.now() >= goal && clock.now() < goal + Duration::from_millis(10));
    }

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        assert_eq!(Instant::MAX + Duration::from_secs(1), Instant::MAX);
        assert_eq!(Instant::MIN - Duration::from_secs(1), Instant::MIN);
        assert_eq!(Instant::MIN.since(Instant::MAX), Duration::ZERO);
        assert_eq!(Instant::MIN + Duration::MAX, Instant::MAX);
        let most = Duration::from_nanos(u64::MAX);
        assert_eq!((nanos(most), nanos(most + Duration::from_nanos(1))), (u64::MAX, u64::MAX));
        assert_eq!(nanos(Duration::new(3, 7)), 3_000_000_007);
    }
}
