//! A schedule: when it is due, and its rules.

use std::iter;
use std::time::{Duration, SystemTime};

use crate::every::LONGEST;
use crate::time::{from_millis, in_millis, to_millis};
use crate::{Missed, Overlap, ScheduleError, When};

/// The longest jitter. It is to spread load, and a day is the longest period with a usual load.
const LONGEST_JITTER: Duration = Duration::from_secs(24 * 60 * 60);

/// The largest number of [`Missed::All`]. It bounds how long a schedule is busy with the past.
const MOST_MISSED: u32 = 1_000;

/// When a schedule is due, and what happens with late runs.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use redgrid_scheduler::{Every, Missed, Overlap, Spec};
///
/// let spec = Spec::new(Every::new(Duration::from_secs(60))?)
///     .missed(Missed::Skip)
///     .overlap(Overlap::Allow)
///     .jitter(Duration::from_secs(5))
///     .until(UNIX_EPOCH + Duration::from_secs(150));
///
/// let first = spec.first(UNIX_EPOCH)?;
/// assert_eq!(first, UNIX_EPOCH + Duration::from_secs(60));
/// assert_eq!(spec.due_times(first).count(), 1); // 120 s; the next one would be after the end
/// # Ok::<(), redgrid_scheduler::ScheduleError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spec {
    /// When the schedule is due.
    pub when: When,
    /// The rule for due times that have passed without a run. Default: [`Missed::Once`].
    pub missed: Missed,
    /// The rule for due times at which an earlier job still runs. Default: [`Overlap::Skip`].
    pub overlap: Overlap,
    /// How much later than its due time a run begins at most, to spread load. Default: zero.
    pub jitter: Duration,
    /// The last possible due time. Default: `None`, the schedule has no end.
    pub until: Option<SystemTime>,
}

impl Spec {
    /// Creates a schedule with the default rules.
    pub fn new(when: impl Into<When>) -> Self {
        let (missed, overlap) = (Missed::default(), Overlap::default());
        Self { when: when.into(), missed, overlap, jitter: Duration::ZERO, until: None }
    }

    /// Sets what happens with due times that have passed without a run.
    pub fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// Sets what happens while an earlier job still runs.
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// Sets how much later than its due time a run begins at most. [`Spec::fires_at`] has the rule.
    ///
    /// A day at most, in whole milliseconds; [`Spec::first`] refuses other values.
    pub fn jitter(mut self, jitter: Duration) -> Self {
        self.jitter = jitter;
        self
    }

    /// Sets the last possible due time.
    pub fn until(mut self, until: SystemTime) -> Self {
        self.until = Some(until);
        self
    }

    /// Checks the schedule, and returns its first due time if it is created now.
    ///
    /// # Errors
    ///
    /// - [`ScheduleError::NeverFires`] for a cron pattern without a due time,
    /// - [`ScheduleError::Past`] for a single time before `now`,
    /// - [`ScheduleError::Ended`] if the first due time is after the end of the schedule,
    /// - [`ScheduleError::Rule`] for a rule with a value that is not valid.
    ///
    /// ```
    /// # #[cfg(feature = "cron")] {
    /// use std::time::SystemTime;
    /// use redgrid_scheduler::{Cron, Spec};
    ///
    /// let spec = Spec::new(Cron::new("0 0 30 2 *")?); // 30 February
    /// let error = spec.first(SystemTime::now()).unwrap_err();
    /// assert!(error.to_string().starts_with("the cron pattern `0 0 30 2 *` has no due time"));
    /// # }
    /// # Ok::<(), redgrid_scheduler::ScheduleError>(())
    /// ```
    pub fn first(&self, now: SystemTime) -> Result<SystemTime, ScheduleError> {
        self.check_rules()?;
        let millis = to_millis(now);
        let first = match &self.when {
            #[cfg(feature = "cron")]
            When::Cron(cron) => cron.after(millis).ok_or_else(|| ScheduleError::NeverFires {
                pattern: cron.pattern().to_owned(),
                zone: cron.zone_name().to_owned(),
                after: now,
            })?,
            When::Every(every) => every.next(millis).ok_or_else(|| far(now))?,
            When::AfterEach(after_each) => after_each.after(millis).ok_or_else(|| far(now))?,
            When::Once(once) if once.millis() < millis => {
                return Err(ScheduleError::Past { at: once.time(), now });
            }
            When::Once(once) => once.millis(),
        };
        match self.until {
            Some(until) if first > to_millis(until) => Err(ScheduleError::Ended { until, first: from_millis(first) }),
            _ => Ok(from_millis(first)),
        }
    }

    /// Returns the due time that follows `due`.
    ///
    /// `due` is the first due time, or one that this method has returned. `None` means that the
    /// schedule has ended. For [`AfterEach`](crate::AfterEach) it means that the end of the job
    /// decides: [`AfterEach::next`](crate::AfterEach::next).
    ///
    /// ```
    /// use std::time::{Duration, UNIX_EPOCH};
    /// use redgrid_scheduler::{Every, Spec};
    ///
    /// let minute = Duration::from_secs(60);
    /// let spec = Spec::new(Every::new(minute)?).until(UNIX_EPOCH + 2 * minute);
    /// assert_eq!(spec.next(UNIX_EPOCH + minute), Some(UNIX_EPOCH + 2 * minute));
    /// assert_eq!(spec.next(UNIX_EPOCH + 2 * minute), None);
    /// # Ok::<(), redgrid_scheduler::ScheduleError>(())
    /// ```
    pub fn next(&self, due: SystemTime) -> Option<SystemTime> {
        self.next_due(to_millis(due)).map(from_millis)
    }

    /// Returns all due times that follow `due`, in their order.
    ///
    /// Most schedules have no end, so take as many as you need.
    ///
    /// ```
    /// # #[cfg(feature = "cron")] {
    /// use std::time::{Duration, UNIX_EPOCH};
    /// use redgrid_scheduler::{Cron, Spec};
    ///
    /// let spec = Spec::new(Cron::new("0 0 29 2 *")?);
    /// let first = spec.first(UNIX_EPOCH)?; // in 1972
    /// let days: Vec<u64> = spec
    ///     .due_times(first)
    ///     .take(3)
    ///     .map(|due| due.duration_since(first).unwrap_or_default().as_secs() / 86_400)
    ///     .collect();
    /// assert_eq!(days, [1_461, 2_922, 4_383]); // every four years
    /// # }
    /// # Ok::<(), redgrid_scheduler::ScheduleError>(())
    /// ```
    pub fn due_times(&self, due: SystemTime) -> impl Iterator<Item = SystemTime> + '_ {
        self.due_from(to_millis(due)).map(from_millis)
    }

    /// Returns the due times after `due` and up to `to`, in their order. So if `due` is the last
    /// due time that has run, these are the ones that were missed.
    ///
    /// ```
    /// use std::time::{Duration, UNIX_EPOCH};
    /// use redgrid_scheduler::{Every, Spec};
    ///
    /// let minute = Duration::from_secs(60);
    /// let spec = Spec::new(Every::new(minute)?);
    /// let missed: Vec<_> = spec.between(UNIX_EPOCH, UNIX_EPOCH + minute * 5 / 2).collect();
    /// assert_eq!(missed, [UNIX_EPOCH + minute, UNIX_EPOCH + 2 * minute]);
    /// # Ok::<(), redgrid_scheduler::ScheduleError>(())
    /// ```
    pub fn between(&self, due: SystemTime, to: SystemTime) -> impl Iterator<Item = SystemTime> + '_ {
        let to = to_millis(to);
        self.due_from(to_millis(due)).take_while(move |due| *due <= to).map(from_millis)
    }

    fn due_from(&self, due: i64) -> impl Iterator<Item = i64> + '_ {
        iter::successors(self.next_due(due), |due| self.next_due(*due))
    }

    /// Returns the due time after `due`, without regard to the end of the schedule.
    pub(crate) fn next_ever(&self, due: i64) -> Option<i64> {
        match &self.when {
            #[cfg(feature = "cron")]
            When::Cron(cron) => cron.after(due),
            When::Every(every) => every.next(due),
            When::AfterEach(_) | When::Once(_) => None,
        }
    }

    pub(crate) fn next_due(&self, due: i64) -> Option<i64> {
        let until = self.until.map(to_millis);
        self.next_ever(due).filter(|next| until.is_none_or(|until| *next <= until))
    }

    pub(crate) fn check_rules(&self) -> Result<(), ScheduleError> {
        let is_whole = |duration: Duration| duration.subsec_nanos().is_multiple_of(1_000_000);
        if self.jitter > LONGEST_JITTER || !is_whole(self.jitter) {
            let got = format!("{:?}", self.jitter);
            return Err(ScheduleError::Rule { rule: "the jitter", got, expected: "whole milliseconds, at most a day" });
        }
        match self.missed {
            Missed::All(most) if !(1..=MOST_MISSED).contains(&most) => Err(ScheduleError::Rule {
                rule: "the number of missed due times",
                got: most.to_string(),
                expected: "1 to 1,000",
            }),
            Missed::IfWithin(late) if late > LONGEST || !is_whole(late) => Err(ScheduleError::Rule {
                rule: "the time within which a missed due time runs",
                got: format!("{late:?}"),
                expected: "whole milliseconds, at most 3,650 days",
            }),
            _ => Ok(()),
        }
    }

    pub(crate) fn jitter_millis(&self) -> i64 {
        in_millis(self.jitter)
    }
}

/// The error of a schedule that begins after the last possible time.
fn far(now: SystemTime) -> ScheduleError {
    ScheduleError::Ended { until: from_millis(crate::time::LATEST), first: now }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AfterEach, Every, Once};

    fn at(millis: i64) -> SystemTime {
        from_millis(millis)
    }

    fn every(millis: u64) -> Every {
        Every::new(Duration::from_millis(millis)).unwrap()
    }

    #[test]
    fn the_first_due_time_is_a_period_after_the_schedule_is_created() {
        let delay = AfterEach::new(Duration::from_millis(700)).unwrap();
        for (spec, first) in [
            (Spec::new(every(500)), 1_500),
            (Spec::new(delay), 1_700),
            (Spec::new(Once::at(at(1_000))), 1_000),
            (Spec::new(Once::at(at(9_000))), 9_000),
            (Spec::new(every(500)).jitter(Duration::from_secs(10)), 1_500),
            (Spec::new(every(500)).until(at(1_500)), 1_500),
        ] {
            assert_eq!(spec.first(at(1_000)), Ok(at(first)), "{spec:?}");
        }
    }

    #[test]
    fn a_schedule_that_is_over_is_refused() {
        let error = Spec::new(Once::at(at(999))).first(at(1_000));
        assert_eq!(error, Err(ScheduleError::Past { at: at(999), now: at(1_000) }));
        let text = "the time 1970-01-01T00:00:00.999Z is before the current time 1970-01-01T00:00:01.000Z";
        assert_eq!(error.unwrap_err().to_string(), text);

        let error = Spec::new(every(500)).until(at(1_499)).first(at(1_000));
        assert_eq!(error, Err(ScheduleError::Ended { until: at(1_499), first: at(1_500) }));
        let text = "the schedule ends at 1970-01-01T00:00:01.499Z, before its first due time 1970-01-01T00:00:01.500Z";
        assert_eq!(error.unwrap_err().to_string(), text);

        let end = at(crate::time::LATEST);
        for spec in [Spec::new(every(500)), Spec::new(AfterEach::new(Duration::from_secs(1)).unwrap())] {
            assert!(matches!(spec.first(end), Err(ScheduleError::Ended { .. })));
            assert_eq!(spec.next(end), None);
        }
    }

    #[test]
    fn rules_with_a_wrong_value_are_refused() {
        let day = LONGEST_JITTER;
        let good = [Missed::All(1), Missed::All(1_000), Missed::IfWithin(Duration::ZERO), Missed::IfWithin(LONGEST)];
        for missed in good {
            assert!(Spec::new(every(500)).missed(missed).jitter(day).first(at(0)).is_ok(), "{missed:?}");
        }
        for (spec, text) in [
            (Spec::new(every(500)).missed(Missed::All(0)), "the number of missed due times is 0, expected 1 to 1,000"),
            (
                Spec::new(every(500)).missed(Missed::All(1_001)),
                "the number of missed due times is 1001, expected 1 to 1,000",
            ),
            (
                Spec::new(every(500)).missed(Missed::IfWithin(LONGEST + Duration::from_millis(1))),
                "the time within which a missed due time runs is 315360000.001s, \
                 expected whole milliseconds, at most 3,650 days",
            ),
            (
                Spec::new(every(500)).missed(Missed::IfWithin(Duration::from_micros(1_500))),
                "the time within which a missed due time runs is 1.5ms, \
                 expected whole milliseconds, at most 3,650 days",
            ),
            (
                Spec::new(every(500)).jitter(day + Duration::from_secs(1)),
                "the jitter is 86401s, expected whole milliseconds, at most a day",
            ),
            (
                Spec::new(every(500)).jitter(Duration::from_micros(1_500)),
                "the jitter is 1.5ms, expected whole milliseconds, at most a day",
            ),
        ] {
            assert_eq!(spec.first(at(0)).unwrap_err().to_string(), text);
        }
    }

    #[test]
    fn due_times_end_with_the_schedule() {
        let spec = Spec::new(every(500)).until(at(2_000));
        assert_eq!(spec.due_times(at(500)).collect::<Vec<_>>(), [at(1_000), at(1_500), at(2_000)]);
        assert_eq!(spec.next(at(2_000)), None);
        assert_eq!(spec.between(at(500), at(1_499)).collect::<Vec<_>>(), [at(1_000)]);
        assert_eq!(spec.between(at(500), at(1_500)).count(), 2);
        for spec in [Spec::new(Once::at(at(5))), Spec::new(AfterEach::new(Duration::from_secs(1)).unwrap())] {
            assert_eq!(spec.due_times(at(5)).count(), 0);
        }
    }
}
