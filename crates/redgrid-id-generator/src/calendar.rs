//! Days, their seconds, and the ids of a second. All functions are pure.

use std::ops::Range;

const SECONDS_OF_A_DAY: i64 = 24 * 60 * 60;

/// The number of low bits of an id that contain the number. The bits above contain the seconds.
const NUMBER_BITS: u32 = 32;

/// The number of seconds that ids can represent: 2^31.
const SECONDS: i64 = 1 << 31;

/// The parameters that map a second and a number to an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Calendar {
    /// The first second, in seconds since 1970.
    pub(crate) epoch: i64,
    /// The number of seconds by which a day begins earlier than in UTC.
    pub(crate) day_offset: i64,
}

/// The number of a day, counted from 1970-01-01, with the calendar's offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Day(i64);

impl Calendar {
    /// Returns the seconds that ids can represent, since 1970.
    pub(crate) fn seconds(self) -> Range<i64> {
        self.epoch..self.epoch + SECONDS
    }

    /// Returns the day of a second.
    pub(crate) fn day(self, second: i64) -> Day {
        Day(second.saturating_add(self.day_offset).div_euclid(SECONDS_OF_A_DAY))
    }

    /// Returns the seconds of a day, since 1970.
    pub(crate) fn seconds_of(self, day: Day) -> Range<i64> {
        let begin = day.0 * SECONDS_OF_A_DAY - self.day_offset;
        begin..begin + SECONDS_OF_A_DAY
    }

    /// Returns the id of a number and a second. The second must be one of `seconds`.
    pub(crate) fn id(self, second: i64, number: u32) -> i64 {
        (second - self.epoch) << NUMBER_BITS | i64::from(number)
    }

    /// Returns the second and the number of an id, which must not be negative.
    pub(crate) fn parts(self, id: i64) -> (i64, u32) {
        ((id >> NUMBER_BITS) + self.epoch, (id & i64::from(u32::MAX)) as u32)
    }
}

impl Day {
    /// Returns the date as in the key of the day, for example `2026:11:21`.
    pub(crate) fn key_part(self) -> String {
        let (year, month, day) = self.date();
        format!("{year:04}:{month:02}:{day:02}")
    }

    /// Returns year, month and day of the Gregorian calendar.
    ///
    /// This is `civil_from_days` of Howard Hinnant's "chrono-compatible low-level date algorithms"
    /// (https://howardhinnant.github.io/date_algorithms.html).
    fn date(self) -> (i64, i64, i64) {
        let shifted = self.0 + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        (year_of_era + era * 400 + i64::from(month <= 2), month, day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2022-01-01T00:00:00Z.
    const UTC: Calendar = Calendar { epoch: 1_640_995_200, day_offset: 0 };

    #[test]
    fn days_match_the_gregorian_calendar() {
        for (second, date) in [
            (0, "1970:01:01"),
            (951_782_400, "2000:02:29"),
            (951_868_799, "2000:02:29"),
            (951_868_800, "2000:03:01"),
            (1_640_995_199, "2021:12:31"),
            (1_640_995_200, "2022:01:01"),
            (1_795_219_200, "2026:11:21"),
            (4_107_542_400, "2100:03:01"),
            (253_402_300_799, "9999:12:31"),
        ] {
            assert_eq!(UTC.day(second).key_part(), date, "{second}");
            assert!(UTC.seconds_of(UTC.day(second)).contains(&second));
        }
    }

    #[test]
    fn an_offset_moves_the_beginning_of_a_day() {
        let east = Calendar { day_offset: 8 * 3600, ..UTC };
        let west = Calendar { day_offset: -5 * 3600, ..UTC };
        let evening = 1_795_219_200 + 20 * 3600;
        assert_eq!(
            (east.day(evening).key_part(), west.day(evening).key_part()),
            ("2026:11:22".into(), "2026:11:21".into())
        );
        let morning = 1_795_219_200 + 3600;
        assert_eq!(west.day(morning).key_part(), "2026:11:20");
        for calendar in [UTC, east, west] {
            for second in [evening, morning, 0, -1] {
                let seconds = calendar.seconds_of(calendar.day(second));
                assert!(seconds.contains(&second) && calendar.day(seconds.end) > calendar.day(second));
            }
        }
    }

    #[test]
    fn an_id_has_31_bits_of_seconds_above_32_of_the_number() {
        let seconds = UTC.seconds();
        assert_eq!(UTC.id(seconds.start, 1), 1);
        assert_eq!(UTC.id(seconds.end - 1, u32::MAX), i64::MAX);
        for (second, number) in [(seconds.start, 0), (1_795_219_200, 7), (seconds.end - 1, u32::MAX)] {
            assert_eq!(UTC.parts(UTC.id(second, number)), (second, number));
        }
        assert!(UTC.id(1_795_219_200, u32::MAX) < UTC.id(1_795_219_201, 1));
    }
}
