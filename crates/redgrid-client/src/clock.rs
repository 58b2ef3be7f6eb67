//! The clock for all deadlines. It is monotonic, and continues while the machine is suspended.
//!
//! A lease expires on the server even while this process is suspended. On Linux,
//! `std::time::Instant` stands still during a suspend, so it is unsuitable for deadlines.
//! `CLOCK_BOOTTIME` (crate `boot-time`) continues during a suspend. Tests use tokio's clock, which
//! can be paused.

use std::fmt;
use std::ops::{Add, Sub};
#[cfg(any(test, feature = "testing"))]
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;

/// The longest time that [`Clock::sleep_until`] sleeps before it reads the clock again: 1 s.
///
/// Timers of the runtime stand still during a suspend. The shorter this time is, the sooner a
/// resumed process detects that an instant has passed.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

/// The longest time that [`Clock::wait_until`] sleeps before it reads the clock again: 30 s.
///
/// The time is long, because a hundred thousand waiters that read the clock every second would keep
/// a processor busy.
const LONGEST_COARSE_SLEEP: Duration = Duration::from_secs(30);

/// A point in time of a [`Clock`], in nanoseconds.
///
/// Instants of the machine's clock can be compared with each other. Their zero is one hour before
/// the process created its first clock. An instant of a test clock can be compared only with other
/// instants of the same clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// An instant later than every instant that a clock returns.
    pub const MAX: Instant = Instant(u64::MAX);
    /// An instant earlier than every instant that a clock returns.
    pub const MIN: Instant = Instant(0);

    /// Returns the nanoseconds of this instant; the inverse of [`Instant::from_nanos`].
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Creates an instant from its nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// Returns the time from `earlier` to this instant; zero if `earlier` is the later one.
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

/// Returns the nanoseconds of a duration, at most `u64::MAX`.
///
/// [`Duration::as_nanos`] uses 128-bit arithmetic. This function avoids it, because a clock is read
/// several times in each operation.
pub const fn nanos(d: Duration) -> u64 {
    d.as_secs().saturating_mul(1_000_000_000).saturating_add(d.subsec_nanos() as u64)
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Instant::MAX { f.write_str("never") } else { write!(f, "+{:?}", Duration::from_nanos(self.0)) }
    }
}

/// The source of every [`Instant`]. A clock is cheap to clone, and its clones return the same time.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    Boot,
    #[cfg(any(test, feature = "testing"))]
    Runtime(Arc<tokio::time::Instant>),
}

/// The time at which the process created its first clock.
///
/// All clocks that [`Clock::boot`] returns share this origin, so none of them stores it. This saves
/// memory in every value that contains a clock, such as a hold.
static ORIGIN: OnceLock<boot_time::Instant> = OnceLock::new();

impl Clock {
    /// Returns the clock of the machine, which continues during a suspend.
    pub fn boot() -> Self {
        ORIGIN.get_or_init(boot_time::Instant::now);
        Clock(Source::Boot)
    }

    /// Returns tokio's clock, which stands still while it is paused.
    #[cfg(any(test, feature = "testing"))]
    pub fn runtime() -> Self {
        Clock(Source::Runtime(Arc::new(tokio::time::Instant::now())))
    }

    /// Returns the current instant.
    pub fn now(&self) -> Instant {
        // The clock starts one hour after `Instant::MIN`. So an instant before the start, such as
        // `now` minus a lease, can be represented, too.
        Instant::MIN + Duration::from_secs(3600) + self.elapsed()
    }

    /// Waits until `instant`. Completes at once if `instant` has passed, and never if it is
    /// [`Instant::MAX`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future only ends the wait.
    pub async fn sleep_until(&self, instant: Instant) {
        self.sleep_in_steps(instant, |_| LONGEST_SLEEP).await;
    }

    /// Waits like [`Clock::sleep_until`], but may complete later after a suspend.
    ///
    /// Use this method if many waits need no precision, such as the waits for locks. After a
    /// suspend, a wait can end late, by at most an eighth of the time that was left before the
    /// suspend. This limit is never less than 1 s or more than 30 s.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future only ends the wait.
    pub async fn wait_until(&self, instant: Instant) {
        self.sleep_in_steps(instant, |left| (left / 8).clamp(LONGEST_SLEEP, LONGEST_COARSE_SLEEP)).await;
    }

    async fn sleep_in_steps(&self, instant: Instant, longest: impl Fn(Duration) -> Duration) {
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
    async fn a_long_coarse_sleep_reads_the_clock_rarely_and_ends_in_time() {
        let clock = Clock::runtime();
        let (goal, readings) = (clock.now() + Duration::from_secs(1200), std::cell::Cell::new(0));
        let longest = |left: Duration| {
            readings.set(readings.get() + 1);
            (left / 8).clamp(LONGEST_SLEEP, LONGEST_COARSE_SLEEP)
        };
        clock.sleep_in_steps(goal, longest).await;
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
