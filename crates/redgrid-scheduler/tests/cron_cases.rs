//! Due times of cron patterns, compared with a table that another implementation has computed:
//! `cron_cases/generate.py`, with zone data of Python.
//!
//! The windows of the table lie around times at which clocks jump, and in calendars with leap
//! years. All jumps are in the past. So if zone data change, the table stays true.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use redgrid_scheduler::{Cron, Spec};

/// A row of the table.
struct Case<'a> {
    zone: &'a str,
    pattern: &'a str,
    after: SystemTime,
    to: SystemTime,
    due: Vec<SystemTime>,
}

fn time(text: &str) -> SystemTime {
    text.parse::<Timestamp>().unwrap_or_else(|error| panic!("{text}: {error}")).into()
}

fn cases() -> Vec<Case<'static>> {
    let lines = include_str!("cron_cases/cases.txt").lines().filter(|line| !line.starts_with('#'));
    let case = |line: &'static str| {
        let fields: Vec<&str> = line.split(" | ").collect();
        let [zone, pattern, after, to, due] = fields[..] else { panic!("five fields: {line}") };
        Case { zone, pattern, after: time(after), to: time(to), due: due.split_whitespace().map(time).collect() }
    };
    lines.map(case).collect()
}

fn cron(case: &Case<'_>) -> Cron {
    let read = match case.pattern.strip_prefix("q:") {
        Some(quartz) => Cron::quartz(quartz),
        None => Cron::new(case.pattern),
    };
    read.and_then(|cron| cron.zone(case.zone)).unwrap_or_else(|error| panic!("{}: {error}", case.pattern))
}

/// Describes times for a failure, in the zone of their case.
fn shown(times: &[SystemTime]) -> Vec<String> {
    times
        .iter()
        .map(|at| Timestamp::try_from(*at).map_or_else(|error| error.to_string(), |at| at.to_string()))
        .collect()
}

#[test]
fn due_times_are_those_of_another_implementation() {
    let (cases, mut wrong) = (cases(), Vec::new());
    for case in &cases {
        let spec = Spec::new(cron(case));
        let due: Vec<SystemTime> = spec.between(case.after, case.to).collect();
        if due != case.due {
            let (expected, got) = (shown(&case.due), shown(&due));
            wrong.push(format!("{} in {}\n  expected {expected:?}\n  got      {got:?}", case.pattern, case.zone));
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn the_latest_due_time_is_found_from_each_time_after_it() {
    let (second, mut checked) = (Duration::from_secs(1), 0);
    for case in &cases() {
        let cron = cron(case);
        for (at, due) in case.due.iter().enumerate() {
            let before_next = case.due.get(at + 1).map_or(case.to, |next| *next - second);
            for time in [*due, *due + (before_next.duration_since(*due).unwrap() / 2), before_next] {
                assert_eq!(cron.latest(time), Some(*due), "{} in {}: {:?}", case.pattern, case.zone, shown(&[time]));
                checked += 1;
            }
        }
        if let Some(first) = case.due.first() {
            assert!(cron.latest(*first - second).is_none_or(|before| before <= case.after), "{}", case.pattern);
        }
    }
    assert!(checked > 6_000, "{checked} times");
}

#[test]
fn the_table_has_200_cases_of_zones_and_patterns() {
    let cases = cases();
    assert!(cases.len() >= 200, "{} cases", cases.len());
    let mut zones: Vec<&str> = cases.iter().map(|case| case.zone).collect();
    zones.sort_unstable();
    zones.dedup();
    assert!(zones.len() >= 20, "{zones:?}");
    // Cases without a due time show what is not due, such as times of a skipped day.
    assert!(cases.iter().any(|case| case.due.is_empty()));
    assert!(cases.iter().any(|case| case.pattern.starts_with("q:")));
}
