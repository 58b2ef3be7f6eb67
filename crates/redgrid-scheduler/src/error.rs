//! The errors of schedules. Each names what was wrong, and what was expected.

use std::time::{Duration, SystemTime};

use crate::time::describe;

/// A schedule, or a part of it, that is not valid.
///
/// ```
/// use std::time::Duration;
/// use redgrid_scheduler::{Every, ScheduleError};
///
/// let error = Every::new(Duration::ZERO).unwrap_err();
/// assert_eq!(error, ScheduleError::Period { got: Duration::ZERO });
/// let text = "the period is 0ns, expected whole milliseconds, from 100 ms to 3,650 days";
/// assert_eq!(error.to_string(), text);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// A cron pattern cannot be read.
    #[error("cannot read the cron pattern `{pattern}`: {part} is `{got}`, expected {expected}")]
    Pattern {
        /// The whole pattern, at most 256 characters of it.
        pattern: String,
        /// The part of the pattern, for example `the hour`.
        part: &'static str,
        /// The text of that part.
        got: String,
        /// The texts that are valid there.
        expected: &'static str,
    },
    /// No time zone has this name.
    #[error("there is no time zone `{name}`: {}", hint(.like.as_deref()))]
    UnknownZone {
        /// The name, at most 256 characters of it.
        name: String,
        /// The most similar name of a time zone, if one is similar.
        like: Option<String>,
    },
    /// A cron pattern has no due time, for example because it asks for 30 February.
    ///
    /// The Gregorian calendar repeats after 400 years, so no later time comes either. Only a
    /// pattern with a year may name a time after that.
    #[error("the cron pattern `{pattern}` has no due time in `{zone}` in the 400 years after {}", describe(*.after))]
    NeverFires {
        /// The pattern.
        pattern: String,
        /// The name of the time zone.
        zone: String,
        /// The time after which due times were searched for.
        after: SystemTime,
    },
    /// The time of [`Once`](crate::Once) is over.
    #[error("the time {} is before the current time {}", describe(*.at), describe(*.now))]
    Past {
        /// The time of the schedule.
        at: SystemTime,
        /// The current time.
        now: SystemTime,
    },
    /// The period of [`Every`](crate::Every), or the delay of [`AfterEach`](crate::AfterEach), is
    /// not valid.
    #[error("the period is {got:?}, expected whole milliseconds, from 100 ms to 3,650 days")]
    Period {
        /// The period.
        got: Duration,
    },
    /// A rule of the schedule has a value that is not valid.
    #[error("{rule} is {got}, expected {expected}")]
    Rule {
        /// The rule, for example `the jitter`.
        rule: &'static str,
        /// The value.
        got: String,
        /// The values that are valid.
        expected: &'static str,
    },
    /// The schedule ends before its first due time.
    #[error("the schedule ends at {}, before its first due time {}", describe(*.until), describe(*.first))]
    Ended {
        /// The end of the schedule.
        until: SystemTime,
        /// The first due time.
        first: SystemTime,
    },
}

fn hint(like: Option<&str>) -> String {
    match like {
        Some(like) => format!("did you mean `{like}`?"),
        None => "expected an IANA name, such as `Europe/Berlin`".to_owned(),
    }
}

/// A stored schedule that this program cannot read.
///
/// Another program may be able to read it. So leave it as it is, and go on with other schedules.
///
/// ```
/// use redgrid_scheduler::Spec;
///
/// let error = Spec::from_stored(r#"{"v":1,"solar":"sunset"}"#).unwrap_err();
/// assert!(error.to_string().starts_with("cannot read the stored schedule: it has no kind"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoredError {
    /// A newer program has written it, in a format that this program does not know.
    #[error("the schedule is stored in format {found}, and this program reads formats up to {known}")]
    NewerFormat {
        /// The number of the format.
        found: u64,
        /// The newest format that this program reads.
        known: u64,
    },
    /// The text is not a schedule of the format that it names.
    #[error("cannot read the stored schedule: {reason}")]
    Unreadable {
        /// The text that was found, and the expected one.
        reason: String,
    },
    /// It is a cron pattern, and this program is built without the feature `cron`.
    #[error("the schedule has a cron pattern, which needs the feature `cron` of redgrid-scheduler")]
    NeedsCron,
    /// A value in it is not valid, or is not known to this program, such as a new time zone.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
}

/// Cuts a text for an error.
pub(crate) fn cut(text: &str) -> String {
    text.chars().take(256).collect()
}
