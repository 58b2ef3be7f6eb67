//! The step at a due time: which due time runs, and which one follows.

use std::time::{Duration, SystemTime};

use sha1_smol::Sha1;

use crate::time::{from_millis, in_millis, to_millis};
use crate::{Missed, Spec, When};

/// A due time is late after a minute. Workers notice due times within seconds.
const ON_TIME: i64 = 60_000;

/// Counting due times of a pattern takes about a microsecond each.
const MOST_COUNTED: usize = 10_000;

/// The step of a schedule that is due: the result of [`Spec::step`].
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use redgrid_scheduler::{Missed, Next, Once, Spec};
///
/// // A single time, and nothing ran for the ten minutes after it.
/// let due = UNIX_EPOCH + Duration::from_secs(60);
/// let spec = Spec::new(Once::at(due)).missed(Missed::Skip);
/// if let Some(step) = spec.step("release", due, due + Duration::from_secs(600)) {
///     assert_eq!((step.runs, step.next, step.skipped), (None, Next::Never, 1));
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// The due time that runs now; `None` if all that have passed are skipped.
    pub runs: Option<SystemTime>,
    /// The next due time, or the end of the schedule.
    pub next: Next,
    /// The number of due times that are skipped. At most 10,000 of a cron pattern are counted.
    pub skipped: u64,
}

/// The part of a schedule that follows after a [`Step`].
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use redgrid_scheduler::{AfterEach, Next, Spec};
///
/// let minute = Duration::from_secs(60);
/// let spec = Spec::new(AfterEach::new(minute)?);
/// let step = spec.step("sync", UNIX_EPOCH, UNIX_EPOCH);
/// assert_eq!(step.map(|step| step.next), Some(Next::AfterEnd(minute)));
/// # Ok::<(), redgrid_scheduler::ScheduleError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Next {
    /// This is the next due time. It may have passed, too.
    Due(SystemTime),
    /// The next due time is so long after the end of the job.
    AfterEnd(Duration),
    /// The schedule has ended.
    Never,
}

impl Spec {
    /// Returns when a due time runs: at the due time, or later by a jitter.
    ///
    /// The jitter is smaller than [`Spec::jitter`], and smaller than the distance to the following
    /// due time, so runs are in the order of their due times. It depends on the id of the schedule
    /// and on the due time only: all processes compute the same.
    ///
    /// ```
    /// use std::time::{Duration, UNIX_EPOCH};
    /// use redgrid_scheduler::{Every, Spec};
    ///
    /// let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3_600));
    /// let spec = Spec::new(Every::new(hour)?).jitter(minute);
    /// let due = UNIX_EPOCH + 2 * hour;
    /// assert!(spec.fires_at("report", due) < due + minute);
    /// # Ok::<(), redgrid_scheduler::ScheduleError>(())
    /// ```
    pub fn fires_at(&self, id: &str, due: SystemTime) -> SystemTime {
        from_millis(self.fires_at_millis(id, to_millis(due)))
    }

    fn fires_at_millis(&self, id: &str, due: i64) -> i64 {
        let jitter = self.jitter_millis();
        if jitter == 0 {
            return due;
        }
        let distance = self.next_ever(due).map_or(jitter, |next| jitter.min(next - due));
        due + draw(id, due, distance)
    }

    /// Decides what is to be done with the due time `due` of the schedule `id`. `None` means that
    /// it is not yet due, by the clock of `now`.
    ///
    /// The decision follows the rule for [missed](Missed) due times. Of those that have passed, at
    /// most one runs in a step. After it, [`Next::Due`] has the due time of the next step.
    ///
    /// The function has no state and no clock. So all processes that see the same due time decide
    /// the same, apart from their clocks.
    ///
    /// ```
    /// # #[cfg(feature = "cron")] {
    /// use std::time::{Duration, UNIX_EPOCH};
    /// use redgrid_scheduler::{Cron, Next, Spec};
    ///
    /// let hour = Duration::from_secs(3_600);
    /// let spec = Spec::new(Cron::new("@hourly")?);
    /// let due = UNIX_EPOCH + hour;
    ///
    /// assert_eq!(spec.step("report", due, UNIX_EPOCH), None);
    ///
    /// // All workers were away until 4:30: one run makes up for 1:00 to 4:00, and 5:00 follows.
    /// let now = UNIX_EPOCH + hour * 9 / 2;
    /// if let Some(step) = spec.step("report", due, now) {
    ///     assert_eq!(step.runs, Some(UNIX_EPOCH + 4 * hour));
    ///     assert_eq!(step.next, Next::Due(UNIX_EPOCH + 5 * hour));
    ///     assert_eq!(step.skipped, 3);
    /// }
    /// # }
    /// # Ok::<(), redgrid_scheduler::ScheduleError>(())
    /// ```
    pub fn step(&self, id: &str, due: SystemTime, now: SystemTime) -> Option<Step> {
        let (due, now) = (to_millis(due), to_millis(now));
        if self.fires_at_millis(id, due) > now {
            return None;
        }
        // The jitter of the latest due time may not be over. That of the one before is, because it
        // is shorter than the distance between both.
        let mut latest = self.latest(due, now);
        if self.fires_at_millis(id, latest) > now {
            latest = self.previous(due, latest);
        }
        let (last, runs) = match self.missed {
            Missed::All(most) => {
                let mut oldest = latest;
                for _ in 1..most {
                    oldest = self.previous(due, oldest);
                }
                (oldest, true)
            }
            Missed::Skip => (latest, now - self.fires_at_millis(id, latest) <= ON_TIME),
            Missed::Once => (latest, true),
            Missed::IfWithin(limit) => (latest, now - self.fires_at_millis(id, latest) <= in_millis(limit)),
        };
        let next = match self.when {
            When::AfterEach(after_each) if runs => Next::AfterEnd(after_each.delay()),
            When::AfterEach(after_each) => self.due_or_never(after_each.after(now)),
            _ => self.due_or_never(self.next_due(last)),
        };
        let skipped = self.count(due, last) + u64::from(!runs);
        Some(Step { runs: runs.then(|| from_millis(last)), next, skipped })
    }

    fn due_or_never(&self, due: Option<i64>) -> Next {
        let until = self.until.map(to_millis);
        match due {
            Some(due) if until.is_none_or(|until| due <= until) => Next::Due(from_millis(due)),
            _ => Next::Never,
        }
    }

    /// Returns the latest due time from `due` up to `at`. `due` counts as one even if the pattern,
    /// or the data of the zone, is no longer that by which it was computed.
    fn latest(&self, due: i64, at: i64) -> i64 {
        let at = self.until.map_or(at, |until| at.min(to_millis(until)));
        match &self.when {
            _ if at <= due => due,
            #[cfg(feature = "cron")]
            When::Cron(cron) => cron.up_to(at).map_or(due, |latest| latest.max(due)),
            When::Every(every) => every.latest(due, at),
            When::AfterEach(_) | When::Once(_) => due,
        }
    }

    /// Returns the due time before `at`, but not one before `due`.
    fn previous(&self, due: i64, at: i64) -> i64 {
        self.latest(due, at - 1)
    }

    /// Returns the number of due times from `due` on and before `to`.
    fn count(&self, due: i64, to: i64) -> u64 {
        match &self.when {
            When::Every(every) => every.count(due, to),
            _ if due == to => 0,
            _ => {
                let following = std::iter::successors(self.next_due(due), |due| self.next_due(*due));
                1 + following.take_while(|due| *due < to).take(MOST_COUNTED - 1).count() as u64
            }
        }
    }
}

/// Returns a number from 0 to before `limit`. It depends on its arguments only, so that all
/// processes and all versions of this crate draw the same.
fn draw(id: &str, due: i64, limit: i64) -> i64 {
    let mut hash = Sha1::from(id);
    hash.update(&due.to_be_bytes());
    let first = hash.digest().bytes()[..8].iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    (first % limit.unsigned_abs().max(1)).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AfterEach, Every, Once};

    /// The effect of a step, in seconds: which due time runs, what follows, how many are skipped.
    type Outcome = (Option<i64>, Option<i64>, u64);

    const MINUTE: i64 = 60;

    fn at(seconds: i64) -> SystemTime {
        from_millis(seconds * 1_000)
    }

    fn seconds(time: SystemTime) -> i64 {
        to_millis(time) / 1_000
    }

    fn outcome(spec: &Spec, due: i64, now: i64) -> Option<Outcome> {
        let step = spec.step("id", at(due), at(now))?;
        let next = match step.next {
            Next::Due(next) => Some(seconds(next)),
            Next::AfterEnd(_) | Next::Never => None,
        };
        Some((step.runs.map(seconds), next, step.skipped))
    }

    fn every(seconds: i64) -> Spec {
        Spec::new(Every::new(Duration::from_secs(seconds.unsigned_abs())).unwrap())
    }

    /// Schedules that are due at each full minute.
    fn minutely() -> Vec<Spec> {
        vec![
            every(MINUTE),
            #[cfg(feature = "cron")]
            Spec::new(crate::Cron::new("* * * * *").unwrap()),
        ]
    }

    #[test]
    fn a_due_time_in_time_runs_under_each_rule() {
        let rules = [Missed::Skip, Missed::Once, Missed::All(3), Missed::IfWithin(Duration::from_secs(30))];
        for (spec, missed) in minutely().iter().flat_map(|spec| rules.map(|rule| (spec.clone().missed(rule), rule))) {
            assert_eq!(outcome(&spec, 60, 59), None, "{missed:?}");
            for now in [60, 75, 90] {
                assert_eq!(outcome(&spec, 60, now), Some((Some(60), Some(120), 0)), "{missed:?} at {now}");
            }
        }
    }

    #[test]
    fn missed_due_times_follow_the_rule() {
        // 60, 120, …, 600 have passed, the last of them for 30 s.
        for (missed, expected) in [
            (Missed::Skip, (Some(600), Some(660), 9)),
            (Missed::Once, (Some(600), Some(660), 9)),
            (Missed::IfWithin(Duration::from_secs(29)), (None, Some(660), 10)),
            (Missed::IfWithin(Duration::from_secs(30)), (Some(600), Some(660), 9)),
            (Missed::All(1), (Some(600), Some(660), 9)),
            (Missed::All(3), (Some(480), Some(540), 7)),
            (Missed::All(10), (Some(60), Some(120), 0)),
            (Missed::All(1_000), (Some(60), Some(120), 0)),
        ] {
            for spec in minutely() {
                assert_eq!(
                    outcome(&spec.clone().missed(missed), 60, 630),
                    Some(expected),
                    "{missed:?} {:?}",
                    spec.when
                );
            }
        }
    }

    #[test]
    fn a_due_time_is_late_after_a_minute() {
        let hour = 60 * MINUTE;
        for (now, skip) in [(hour + 60, (Some(hour), Some(2 * hour), 0)), (hour + 61, (None, Some(2 * hour), 1))] {
            assert_eq!(outcome(&every(hour).missed(Missed::Skip), hour, now), Some(skip), "{now}");
            assert_eq!(outcome(&every(hour), hour, now), Some((Some(hour), Some(2 * hour), 0)), "{now}");
        }
        // A fast schedule is not skipped altogether if each of its steps is late by a few periods.
        let fast = Spec::new(Every::new(Duration::from_millis(100)).unwrap()).missed(Missed::Skip);
        let step = fast.step("id", from_millis(100), from_millis(350)).unwrap();
        assert_eq!((step.runs, step.next, step.skipped), (Some(from_millis(300)), Next::Due(from_millis(400)), 2));
    }

    #[test]
    fn steps_catch_up_with_all_missed_due_times_in_their_order() {
        for spec in minutely() {
            let spec = spec.missed(Missed::All(4));
            let (mut due, mut ran, mut skipped) = (60, Vec::new(), 0);
            while let Some((runs, next, over)) = outcome(&spec, due, 630) {
                ran.extend(runs);
                skipped += over;
                due = next.unwrap();
            }
            assert_eq!((ran, skipped, due), (vec![420, 480, 540, 600], 6, 660));
        }
    }

    #[test]
    fn a_single_time_and_a_delay_have_no_following_due_time() {
        let once = Spec::new(Once::at(at(60)));
        assert_eq!(outcome(&once, 60, 59), None);
        assert_eq!(outcome(&once, 60, 60), Some((Some(60), None, 0)));
        assert_eq!(outcome(&once, 60, 9_999), Some((Some(60), None, 0)));
        assert_eq!(outcome(&once.missed(Missed::Skip), 60, 9_999), Some((None, None, 1)));

        let delay = Duration::from_secs(300);
        let delayed = Spec::new(AfterEach::new(delay).unwrap());
        assert_eq!(delayed.step("id", at(60), at(9_999)).unwrap().next, Next::AfterEnd(delay));
        // No job ends if none has run, so the delay begins now.
        let skips = delayed.missed(Missed::Skip);
        assert_eq!(outcome(&skips, 60, 9_999), Some((None, Some(10_299), 1)));
        assert_eq!(outcome(&skips.until(at(10_000)), 60, 9_999), Some((None, None, 1)));
    }

    #[test]
    fn no_due_time_after_the_end_runs() {
        for spec in minutely() {
            let spec = spec.until(at(300));
            assert_eq!(outcome(&spec, 240, 240), Some((Some(240), Some(300), 0)));
            assert_eq!(outcome(&spec, 300, 300), Some((Some(300), None, 0)));
            assert_eq!(outcome(&spec, 60, 9_999), Some((Some(300), None, 4)));
        }
    }

    #[test]
    fn a_stored_due_time_counts_even_if_the_schedule_has_another_pattern() {
        for spec in minutely() {
            // 61 s is no full minute.
            assert_eq!(outcome(&spec, 61, 62).unwrap().0, Some(61));
            let all = outcome(&spec.missed(Missed::All(1_000)), 61, 200).unwrap();
            assert_eq!((all.0, all.2), (Some(61), 0));
        }
    }

    #[test]
    fn a_long_absence_is_counted_up_to_a_limit() {
        let day = 24 * 60 * MINUTE;
        assert_eq!(outcome(&every(1), 1, 365 * day).unwrap().2, 365 * day.unsigned_abs() - 1);
        #[cfg(feature = "cron")]
        {
            let secondly = Spec::new(crate::Cron::new("* * * * * *").unwrap());
            assert_eq!(outcome(&secondly, 1, 10_000), Some((Some(10_000), Some(10_001), 9_999)));
            assert_eq!(outcome(&secondly, 1, 10_001), Some((Some(10_001), Some(10_002), 10_000)));
            assert_eq!(outcome(&secondly, 1, 365 * day), Some((Some(365 * day), Some(365 * day + 1), 10_000)));
        }
    }

    #[test]
    fn jitter_is_the_same_everywhere_and_keeps_the_order() {
        // These numbers must never change: other versions of the program compute them, too.
        for (id, due, number) in
            [("report", 0, 40_430), ("report", 60_000, 10_772), ("", -1, 53_848), ("é", i64::MAX, 20_891)]
        {
            assert_eq!(draw(id, due, 60_000), number, "{id} {due}");
        }
        for spec in minutely() {
            let spec = spec.jitter(Duration::from_secs(24 * 60 * 60));
            let mut spread = Vec::new();
            for due in (60..6_000).step_by(60) {
                let late = to_millis(spec.fires_at("id", at(due))) - due * 1_000;
                assert!((0..60_000).contains(&late), "{due}: {late}");
                spread.push(late);
            }
            assert!(spread.iter().any(|late| *late < 6_000) && spread.iter().any(|late| *late > 54_000), "{spread:?}");
        }
        let single = Spec::new(Once::at(at(60))).jitter(Duration::from_secs(10));
        assert!(seconds(single.fires_at("id", at(60))) < 70);
        assert_eq!(every(60).fires_at("id", at(60)), at(60));
    }

    #[test]
    fn a_due_time_is_in_time_until_its_jitter_is_over() {
        let hour = 60 * MINUTE;
        let spec = every(hour).missed(Missed::Skip).jitter(Duration::from_secs(3_600));
        for due in [hour, 2 * hour, 3 * hour] {
            let fires = to_millis(spec.fires_at("id", at(due)));
            let step = |millis: i64| spec.step("id", at(due), from_millis(millis));
            assert_eq!(step(fires - 1), None);
            assert_eq!(step(fires).unwrap().runs, Some(at(due)));
            // If the following due time passes without being fired, this one is still the latest.
            let next = to_millis(spec.fires_at("id", at(due + hour)));
            let late = step(next - 1).unwrap();
            assert_eq!((late.next, late.skipped), (Next::Due(at(due + hour)), u64::from(late.runs.is_none())));
            assert_eq!(step(next).unwrap().runs, Some(at(due + hour)));
        }
    }
}
