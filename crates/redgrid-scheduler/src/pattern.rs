//! Cron patterns and the wall-clock times that match them. This file knows no time zone.
//!
//! croner reads and matches a field. This module adds which field is wrong, and refuses what croner
//! reads as something else, such as the name of a weekday in the place of the month.

use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::DateTime;
use jiff::{Timestamp, tz::Offset};

use crate::ScheduleError;
use crate::error::cut;

/// The longest pattern. It is stored, and shown in lists.
const LONGEST: usize = 256;

/// A cron pattern.
pub(crate) struct Pattern {
    text: String,
    dialect: Dialect,
    matcher: croner::Cron,
    is_fixed: bool,
    has_times: bool,
}

/// How a pattern is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Dialect {
    /// Vixie cron's five fields, and a sixth in front, for seconds. Sunday is 0 or 7.
    Vixie,
    /// Quartz's six fields, and a seventh for years. Sunday is 1.
    Quartz,
}

impl Pattern {
    pub(crate) fn new(text: &str, dialect: Dialect) -> Result<Self, ScheduleError> {
        let refuse = |part: &'static str, got: &str, expected: &'static str| ScheduleError::Pattern {
            pattern: cut(text),
            part,
            got: cut(got),
            expected,
        };
        if text.len() > LONGEST {
            return Err(refuse("its length", &format!("{} bytes", text.len()), "at most 256 bytes"));
        }
        let normal = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let upper = expand(&normal.to_ascii_uppercase(), dialect);
        let given: Vec<&str> = upper.split(' ').filter(|field| !field.is_empty()).collect();
        if given.first().is_some_and(|first| first.starts_with('@')) {
            return Err(refuse("the name", given[0], NICKNAMES));
        }
        let Some(fields) = complete(&given, dialect) else {
            let expected = match dialect {
                Dialect::Vixie => "5 (minute, hour, day, month, weekday), or 6 with the second in front",
                Dialect::Quartz => "6 (second, minute, hour, day, month, weekday), or 7 with the year at the end",
            };
            return Err(refuse("the number of fields", &given.len().to_string(), expected));
        };
        let reader = reader(dialect);
        for (at, field) in fields.iter().enumerate() {
            if !is_well_formed(at, field) || !can_read(&reader, at, field) {
                return Err(refuse(PARTS[at], field, expected(at, dialect)));
            }
        }
        if dialect == Dialect::Quartz && ![fields[DAY], fields[WEEKDAY]].iter().any(|field| ["?", "*"].contains(field))
        {
            return Err(refuse(PARTS[WEEKDAY], fields[WEEKDAY], "`?`, because the day of the month is given"));
        }
        let Ok(matcher) = reader.parse(&fields.join(" ")) else {
            return Err(refuse("the text", &normal, "a cron pattern"));
        };
        let is_fixed = ![fields[MINUTE], fields[HOUR]].iter().any(|field| is_open(field));
        let mut pattern = Self { text: normal, dialect, matcher, is_fixed, has_times: true };
        pattern.has_times = pattern.next_local(0).is_some();
        Ok(pattern)
    }

    /// Returns the text, with single spaces.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Returns whether the pattern names certain times of a day: neither its hour nor its minute is
    /// open, as `*` or `*/5` are.
    pub(crate) fn is_fixed(&self) -> bool {
        self.is_fixed
    }

    /// Returns whether any time since 1970 matches. For 30 February, finding out takes
    /// milliseconds, so it is found out once.
    pub(crate) fn has_times(&self) -> bool {
        self.has_times
    }

    /// Returns the first matching time from `local` on, in seconds of the wall clock.
    pub(crate) fn next_local(&self, local: i64) -> Option<i64> {
        let found = self.matcher.find_next_occurrence(&to_civil(local)?, true).ok()?;
        to_local(found)
    }

    /// Returns the last matching time up to `local`, in seconds of the wall clock.
    pub(crate) fn latest_local(&self, local: i64) -> Option<i64> {
        let found = self.matcher.find_previous_occurrence(&to_civil(local)?, true).ok()?;
        to_local(found)
    }
}

const MINUTE: usize = 1;
const HOUR: usize = 2;
const DAY: usize = 3;
const MONTH: usize = 4;
const WEEKDAY: usize = 5;

/// The parts of a complete pattern, in their order.
const PARTS: [&str; 7] =
    ["the second", "the minute", "the hour", "the day of the month", "the month", "the weekday", "the year"];

const NICKNAMES: &str = "`@hourly`, `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly` or `@annually`";

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];

const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// Returns the fields that a nickname stands for; other texts as they are.
fn expand(text: &str, dialect: Dialect) -> String {
    let fields = match text {
        "@YEARLY" | "@ANNUALLY" => "0 0 1 1 *",
        "@MONTHLY" => "0 0 1 * *",
        "@WEEKLY" => "0 0 * * 0",
        "@DAILY" | "@MIDNIGHT" => "0 0 * * *",
        "@HOURLY" => "0 * * * *",
        _ => text,
    };
    if dialect == Dialect::Vixie { fields.to_owned() } else { text.to_owned() }
}

/// Adds the seconds and the years if they are left out. Returns `None` for another number of
/// fields.
fn complete<'a>(given: &[&'a str], dialect: Dialect) -> Option<Vec<&'a str>> {
    match (dialect, given.len()) {
        (Dialect::Vixie, 5) => Some([&["0"], given, &["*"]].concat()),
        (Dialect::Vixie | Dialect::Quartz, 6) => Some([given, &["*"]].concat()),
        (Dialect::Quartz, 7) => Some(given.to_vec()),
        _ => None,
    }
}

fn reader(dialect: Dialect) -> CronParser {
    let builder = CronParser::builder().seconds(Seconds::Required).year(Year::Required);
    builder.alternative_weekdays(dialect == Dialect::Quartz).sloppy_ranges(dialect == Dialect::Quartz).build()
}

/// Returns whether croner can read a field, beside others that it can read.
fn can_read(reader: &CronParser, at: usize, field: &str) -> bool {
    let mut fields = ["0", "0", "0", "1", "1", "1", "2000"];
    fields[at] = field;
    reader.parse(&fields.join(" ")).is_ok()
}

/// Returns whether a field has no empty item, and letters only where they have a meaning.
fn is_well_formed(at: usize, field: &str) -> bool {
    let field = if at == WEEKDAY { field.strip_prefix('+').unwrap_or(field) } else { field };
    if field == "?" {
        return at == DAY || at == WEEKDAY;
    }
    if field.contains(['?', '+', '@']) || field.split(',').any(str::is_empty) {
        return false;
    }
    let is_separator = |c: char| matches!(c, ',' | '-' | '/' | '#' | '*');
    field.split(is_separator).filter(|word| word.contains(|c: char| !c.is_ascii_digit())).all(|word| match at {
        DAY => matches!(word, "L" | "LW") || word.strip_suffix('W').is_some_and(is_number),
        MONTH => MONTHS.contains(&word),
        WEEKDAY => {
            let day = word.strip_suffix('L').unwrap_or(word);
            WEEKDAYS.contains(&day) || is_number(day)
        }
        _ => false,
    })
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_digit())
}

/// Returns whether a field has no fixed values: `*`, `*/5`, and Quartz's `0/5` and `/5`.
fn is_open(field: &str) -> bool {
    let is_open_step = |item: &str| item.split_once('/').is_some_and(|(range, _)| !range.contains('-'));
    field.contains('*') || field.split(',').any(is_open_step)
}

/// Returns the valid texts of a field.
fn expected(at: usize, dialect: Dialect) -> &'static str {
    match (at, dialect) {
        (0 | MINUTE, Dialect::Vixie) => {
            "0 to 59, `*`, or lists, rising ranges and steps of them, as in `0,30`, `10-20` and `*/5`"
        }
        (0 | MINUTE, Dialect::Quartz) => {
            "0 to 59, `*`, or lists, rising ranges and steps of them, as in `0,30`, `10-20` and `0/5`"
        }
        (HOUR, _) => "0 to 23, `*`, or lists, rising ranges and steps of them, as in `8,20`, `9-17` and `*/6`",
        (DAY, _) => "1 to 31, `*`, `?`, or lists, rising ranges and steps of them; `L`, `LW` or `15W`",
        (MONTH, _) => "1 to 12, JAN to DEC, `*`, or lists, rising ranges and steps of them",
        (WEEKDAY, Dialect::Vixie) => {
            "0 to 7, SUN to SAT, `*`, `?`, or lists, rising ranges and steps of them; `5L` or `FRI#2`"
        }
        (WEEKDAY, Dialect::Quartz) => {
            "1 to 7, SUN to SAT, `*`, `?`, or lists, rising ranges and steps of them; `6L` or `FRI#2`"
        }
        _ => "1 to 5000, `*`, or lists, rising ranges and steps of them",
    }
}

/// Converts seconds of the wall clock, counted from midnight of 1970-01-01 on it.
fn to_civil(local: i64) -> Option<DateTime> {
    Timestamp::from_second(local).ok().map(|at| Offset::UTC.to_datetime(at))
}

fn to_local(civil: DateTime) -> Option<i64> {
    Offset::UTC.to_timestamp(civil).ok().map(Timestamp::as_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the wrong part of a pattern and its text.
    fn wrong(text: &str, dialect: Dialect) -> Option<(&'static str, String)> {
        match Pattern::new(text, dialect) {
            Ok(_) => None,
            Err(ScheduleError::Pattern { part, got, .. }) => Some((part, got)),
            Err(other) => panic!("{text}: {other}"),
        }
    }

    #[test]
    fn patterns_of_cron_are_read() {
        for text in [
            "0 3 * * *",
            "  0\t3  * * * ",
            "*/15 8-17 * * MON-FRI",
            "0,30 0 1,15 jan-mar,DEC mon,5",
            "0 0 L * ?",
            "0 0 LW * ?",
            "0 0 1W,15W * *",
            "0 0 ? * 7",
            "0 0 * * 5L",
            "0 0 * * FRIL",
            "0 0 * * 1#1,FRI#5",
            "0 0 13 * +FRI",
            "30 0 3 * * *",
            "*/10 * * * * *",
            "@hourly",
            "@MIDNIGHT",
            "@yearly",
        ] {
            assert_eq!(wrong(text, Dialect::Vixie), None, "{text}");
        }
    }

    #[test]
    fn patterns_of_quartz_are_read() {
        for text in [
            "0 0/5 * * * ?",
            "0 0 12 ? * MON-FRI",
            "0 0 12 ? * 1",
            "0 0 12 L * ?",
            "0 0 12 ? * 6L",
            "0 0 12 ? * 6#3",
            "0 15 10 * * ? 2030",
            "0 15 10 * * ? 2030-2040/2",
            "0 0 0 * * *",
        ] {
            assert_eq!(wrong(text, Dialect::Quartz), None, "{text}");
        }
    }

    #[test]
    fn the_wrong_field_of_a_pattern_is_named() {
        for (text, part, got) in [
            ("60 * * * *", "the minute", "60"),
            ("*/0 * * * *", "the minute", "*/0"),
            ("5/15 * * * *", "the minute", "5/15"),
            ("0,,30 * * * *", "the minute", "0,,30"),
            ("MON * * * *", "the minute", "MON"),
            ("? * * * *", "the minute", "?"),
            ("0 24 * * *", "the hour", "24"),
            ("0 17-9 * * *", "the hour", "17-9"),
            ("0 -1 * * *", "the hour", "-1"),
            ("0 0 0 * *", "the day of the month", "0"),
            ("0 0 32 * *", "the day of the month", "32"),
            ("0 0 L-3 * *", "the day of the month", "L-3"),
            ("0 0 W * *", "the day of the month", "W"),
            ("0 0 * 13 *", "the month", "13"),
            ("0 0 * MON *", "the month", "MON"),
            ("0 0 * JANUARY *", "the month", "JANUARY"),
            ("0 0 * * 8", "the weekday", "8"),
            ("0 0 * * L", "the weekday", "L"),
            ("0 0 * * JAN", "the weekday", "JAN"),
            ("0 0 * * FRI#6", "the weekday", "FRI#6"),
            ("0 0 * * FRI-MON", "the weekday", "FRI-MON"),
            ("0 0 * * ++1", "the weekday", "++1"),
            ("60 0 0 * * *", "the second", "60"),
            ("0 0 * * é", "the weekday", "é"),
            ("", "the number of fields", "0"),
            ("* * * *", "the number of fields", "4"),
            ("0 0 0 1 1 * 2030", "the number of fields", "7"),
            ("@never", "the name", "@NEVER"),
            ("@reboot now", "the name", "@REBOOT"),
        ] {
            assert_eq!(wrong(text, Dialect::Vixie), Some((part, got.to_owned())), "{text}");
        }
        for (text, part, got) in [
            ("0 0 12 * *", "the number of fields", "5"),
            ("0 0 12 ? * 0", "the weekday", "0"),
            ("0 0 12 ? * 8", "the weekday", "8"),
            ("0 0 12 13 * FRI", "the weekday", "FRI"),
            ("0 0 12 ? * MON 0", "the year", "0"),
            ("0 0 12 ? * MON 5001", "the year", "5001"),
            ("@daily", "the name", "@DAILY"),
        ] {
            assert_eq!(wrong(text, Dialect::Quartz), Some((part, got.to_owned())), "{text}");
        }
        assert_eq!(wrong(&"*".repeat(257), Dialect::Vixie), Some(("its length", "257 bytes".to_owned())));
    }

    #[test]
    fn each_part_says_what_is_valid() {
        for (at, part) in PARTS.iter().enumerate() {
            for dialect in [Dialect::Vixie, Dialect::Quartz] {
                assert!(expected(at, dialect).contains("ranges"), "{part}");
            }
        }
        let error = Pattern::new("0 0 * * 8", Dialect::Vixie).err().unwrap().to_string();
        let text = "cannot read the cron pattern `0 0 * * 8`: the weekday is `8`, expected 0 to 7, SUN to SAT, `*`, `?`, \
                    or lists, rising ranges and steps of them; `5L` or `FRI#2`";
        assert_eq!(error, text);
    }

    #[test]
    fn a_pattern_is_fixed_if_its_minute_and_hour_are() {
        for (text, is_fixed) in [
            ("30 2 * * *", true),
            ("0,30 2-4 * * *", true),
            ("0-30/10 2 * * *", true),
            ("*/10 30 2 * * *", true),
            ("@daily", true),
            ("* 2 * * *", false),
            ("30 * * * *", false),
            ("*/10 2 * * *", false),
            ("5,*/10 2 * * *", false),
            ("30 */2 * * *", false),
            ("@hourly", false),
        ] {
            assert_eq!(Pattern::new(text, Dialect::Vixie).unwrap().is_fixed(), is_fixed, "{text}");
        }
        for (text, is_fixed) in [("0 30 2 * * ?", true), ("0 0/5 2 * * ?", false), ("0 0-30/5 2 * * ?", true)] {
            assert_eq!(Pattern::new(text, Dialect::Quartz).unwrap().is_fixed(), is_fixed, "{text}");
        }
    }

    #[test]
    fn dates_that_do_not_exist_have_no_times() {
        for (text, has_times) in [
            ("0 0 30 2 *", false),
            ("0 0 31 2,4,6,9,11 *", false),
            ("0 0 31W 6 *", false),
            ("0 0 30 2 +MON", false),
            // Either the day or the weekday is enough.
            ("0 0 30 2 MON", true),
            ("0 0 29 2 *", true),
            ("0 0 29 2 +MON", true),
            ("0 0 31 * *", true),
        ] {
            let pattern = Pattern::new(text, Dialect::Vixie).unwrap();
            assert_eq!(pattern.has_times(), has_times, "{text}");
        }
        assert!(!Pattern::new("0 0 0 1 1 ? 1969", Dialect::Quartz).unwrap().has_times());
        assert!(Pattern::new("0 0 0 1 1 ? 1970", Dialect::Quartz).unwrap().has_times());
    }
}
