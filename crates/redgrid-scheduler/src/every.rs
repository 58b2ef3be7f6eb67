//! Schedules without a calendar: a fixed rate, a fixed delay, and a single time.

use std::time::{Duration, SystemTime};

use crate::ScheduleError;
use crate::time::{LATEST, from_millis, in_millis, to_millis};

/// 100 ms. Below, the way to the server and back is a large part of the period.
const SHORTEST: Duration = Duration::from_millis(100);

/// 3,650 days, some ten years.
pub(crate) const LONGEST: Duration = Duration::from_secs(3_650 * 24 * 60 * 60);

/// A fixed rate: a due time in each period, however long the jobs take.
///
/// The first due time is one period after the schedule is created. Each later one is one period
/// after the due time before it, so late runs do not shift the following ones.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use redgrid_scheduler::{Every, Spec};
///
/// let spec = Spec::new(Every::new(Duration::from_secs(30))?);
/// let now = UNIX_EPOCH + Duration::from_secs(1_000);
/// let first = spec.first(now)?;
/// assert_eq!(first, now + Duration::from_secs(30));
/// assert_eq!(spec.next(first), Some(now + Duration::from_secs(60)));
/// # Ok::<(), redgrid_scheduler::ScheduleError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Every {
    millis: i64,
}

impl Every {
    /// Creates a fixed rate.
    ///
    /// # Errors
    ///
    /// [`ScheduleError::Period`] if the period is zero, shorter than 100 ms, longer than 3,650
    /// days, or has a fraction of a millisecond.
    #[doc(alias = "scheduleAtFixedRate")]
    pub fn new(period: Duration) -> Result<Self, ScheduleError> {
        Ok(Self { millis: checked(period)? })
    }

    /// Returns the period.
    pub fn period(self) -> Duration {
        Duration::from_millis(self.millis.unsigned_abs())
    }

    /// Returns the due time after `due`, which must be one.
    pub(crate) fn next(self, due: i64) -> Option<i64> {
        (due <= LATEST - self.millis).then_some(due + self.millis)
    }

    /// Returns the latest due time up to `at`, which must not be before the due time `due`.
    pub(crate) fn latest(self, due: i64, at: i64) -> i64 {
        due + (at - due) / self.millis * self.millis
    }

    /// Returns the number of due times from `due` until before `to`, if both are due times.
    pub(crate) fn count(self, due: i64, to: i64) -> u64 {
        ((to - due) / self.millis).unsigned_abs()
    }
}

/// A fixed delay: a due time after the end of each job.
///
/// The first due time is one delay after the schedule is created.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use redgrid_scheduler::AfterEach;
///
/// let sync = AfterEach::new(Duration::from_secs(60))?;
/// let ended = UNIX_EPOCH + Duration::from_secs(1_000);
/// assert_eq!(sync.next(ended), Some(ended + Duration::from_secs(60)));
/// # Ok::<(), redgrid_scheduler::ScheduleError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AfterEach {
    millis: i64,
}

impl AfterEach {
    /// Creates a fixed delay.
    ///
    /// # Errors
    ///
    /// [`ScheduleError::Period`] if the delay is zero, shorter than 100 ms, longer than 3,650 days,
    /// or has a fraction of a millisecond.
    #[doc(alias = "scheduleWithFixedDelay")]
    pub fn new(delay: Duration) -> Result<Self, ScheduleError> {
        Ok(Self { millis: checked(delay)? })
    }

    /// Returns the delay.
    pub fn delay(self) -> Duration {
        Duration::from_millis(self.millis.unsigned_abs())
    }

    /// Returns the due time after a job that has ended at this time; `None` after the year 9999.
    pub fn next(self, ended: SystemTime) -> Option<SystemTime> {
        self.after(to_millis(ended)).map(from_millis)
    }

    pub(crate) fn after(self, at: i64) -> Option<i64> {
        (at <= LATEST - self.millis).then_some(at + self.millis)
    }
}

/// A single time, to the millisecond.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use redgrid_scheduler::{Once, ScheduleError, Spec};
///
/// let release = UNIX_EPOCH + Duration::from_secs(1_000);
/// let spec = Spec::new(Once::at(release));
/// assert_eq!(spec.first(UNIX_EPOCH), Ok(release));
/// assert_eq!(spec.next(release), None);
///
/// let late = release + Duration::from_secs(1);
/// assert_eq!(spec.first(late), Err(ScheduleError::Past { at: release, now: late }));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Once {
    millis: i64,
}

impl Once {
    /// Creates a schedule with a single due time. [`Spec::first`](crate::Spec::first) refuses a
    /// time that is over.
    pub fn at(time: SystemTime) -> Self {
        Self { millis: to_millis(time) }
    }

    /// Returns the time.
    pub fn time(self) -> SystemTime {
        from_millis(self.millis)
    }

    pub(crate) fn millis(self) -> i64 {
        self.millis
    }
}

/// Returns a period in milliseconds.
fn checked(period: Duration) -> Result<i64, ScheduleError> {
    let is_whole = period.subsec_nanos().is_multiple_of(1_000_000);
    if is_whole && (SHORTEST..=LONGEST).contains(&period) {
        Ok(in_millis(period))
    } else {
        Err(ScheduleError::Period { got: period })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_whole_milliseconds_within_the_limits() {
        let millisecond = Duration::from_millis(1);
        for period in [SHORTEST, SHORTEST + millisecond, Duration::from_secs(30), LONGEST] {
            assert_eq!(Every::new(period).map(Every::period), Ok(period));
            assert_eq!(AfterEach::new(period).map(AfterEach::delay), Ok(period));
        }
        for got in [
            Duration::ZERO,
            SHORTEST - millisecond,
            LONGEST + millisecond,
            Duration::MAX,
            SHORTEST + Duration::from_micros(500),
            SHORTEST + Duration::from_nanos(1),
        ] {
            assert_eq!(Every::new(got), Err(ScheduleError::Period { got }));
            assert_eq!(AfterEach::new(got), Err(ScheduleError::Period { got }));
        }
        let error = Every::new(Duration::ZERO).unwrap_err();
        assert_eq!(error.to_string(), "the period is 0ns, expected whole milliseconds, from 100 ms to 3,650 days");
    }

    #[test]
    fn due_times_of_a_rate_are_multiples_of_its_period() {
        let every = Every::new(Duration::from_millis(300)).unwrap();
        assert_eq!(every.next(1_000), Some(1_300));
        for (at, latest, count) in [(1_000, 1_000, 0), (1_299, 1_000, 0), (1_300, 1_300, 1), (9_999, 9_700, 29)] {
            assert_eq!(every.latest(1_000, at), latest, "{at}");
            assert_eq!(every.count(1_000, latest), count, "{at}");
        }
        assert_eq!(every.next(LATEST - 300), Some(LATEST));
        assert_eq!(every.next(LATEST - 299), None);
        assert_eq!(AfterEach::new(LONGEST).unwrap().next(from_millis(LATEST)), None);
    }
}
