//! How a schedule is stored: a JSON object that people can read and other programs can write.
//!
//! ```json
//! {"v":1,"cron":"0 3 * * *","zone":"Europe/Berlin","missed":"once","overlap":"skip"}
//! ```
//!
//! | field | content |
//! |---|---|
//! | `v` | the format: 1. A program refuses a higher number |
//! | `cron`, or `quartz`, with `zone` | a pattern and the IANA name of its zone |
//! | or `every_ms`, or `after_each_ms` | a period or delay in milliseconds |
//! | or `once_ms` | a time, in milliseconds since 1970 |
//! | `missed` | `"skip"`, `"once"`, `{"all":<number>}` or `{"if_within_ms":<number>}`; absent: `"once"` |
//! | `overlap` | `"skip"`, `"allow"` or `"queue"`; absent: `"skip"` |
//! | `jitter_ms` | absent: 0 |
//! | `until_ms` | milliseconds since 1970; absent: no end |
//!
//! A program ignores fields that it does not know. So a field that changes the meaning of others
//! needs a higher `v`; one that can be ignored does not. Equal schedules have equal texts.

use std::time::Duration;

use serde::{Deserialize, Serialize};

#[cfg(feature = "cron")]
use crate::Cron;
use crate::error::cut;
use crate::time::{from_millis, in_millis, to_millis};
use crate::{AfterEach, Every, Missed, Once, Overlap, Spec, StoredError, When};

/// The format that this program writes, and the newest one that it reads.
const FORMAT: u64 = 1;

#[derive(Deserialize)]
struct Version {
    v: u64,
}

#[derive(Serialize, Deserialize, Default)]
struct Stored {
    v: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quartz: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    every_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after_each_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    once_ms: Option<i64>,
    #[serde(default)]
    missed: StoredMissed,
    #[serde(default)]
    overlap: StoredOverlap,
    #[serde(default, skip_serializing_if = "is_zero")]
    jitter_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    until_ms: Option<i64>,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
enum StoredMissed {
    Skip,
    #[default]
    Once,
    All(u32),
    IfWithinMs(u64),
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
enum StoredOverlap {
    #[default]
    Skip,
    Allow,
    Queue,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Spec {
    /// Returns the text with which the schedule is stored: JSON of one line.
    ///
    /// Equal schedules have equal texts. Times and durations are stored in milliseconds.
    ///
    /// ```
    /// use std::time::Duration;
    /// use redgrid_scheduler::{Every, Spec};
    ///
    /// let spec = Spec::new(Every::new(Duration::from_secs(30))?);
    /// let text = spec.to_stored();
    /// assert_eq!(text, r#"{"v":1,"every_ms":30000,"missed":"once","overlap":"skip"}"#);
    /// assert_eq!(Spec::from_stored(&text), Ok(spec));
    /// # Ok::<(), redgrid_scheduler::ScheduleError>(())
    /// ```
    pub fn to_stored(&self) -> String {
        let mut stored = Stored {
            v: FORMAT,
            missed: match self.missed {
                Missed::Skip => StoredMissed::Skip,
                Missed::Once => StoredMissed::Once,
                Missed::All(most) => StoredMissed::All(most),
                Missed::IfWithin(late) => StoredMissed::IfWithinMs(whole(late)),
            },
            overlap: match self.overlap {
                Overlap::Skip => StoredOverlap::Skip,
                Overlap::Allow => StoredOverlap::Allow,
                Overlap::Queue => StoredOverlap::Queue,
            },
            jitter_ms: whole(self.jitter),
            until_ms: self.until.map(to_millis),
            ..Stored::default()
        };
        match &self.when {
            #[cfg(feature = "cron")]
            When::Cron(cron) => {
                let pattern = Some(cron.pattern().to_owned());
                if cron.is_quartz() {
                    stored.quartz = pattern;
                } else {
                    stored.cron = pattern;
                }
                stored.zone = Some(cron.zone_name().to_owned());
            }
            When::Every(every) => stored.every_ms = Some(whole(every.period())),
            When::AfterEach(after_each) => stored.after_each_ms = Some(whole(after_each.delay())),
            When::Once(once) => stored.once_ms = Some(once.millis()),
        }
        serde_json::to_string(&stored).expect("a struct of texts and numbers is JSON")
    }

    /// Reads a text that [`Spec::to_stored`] has written, of this or of another version of the
    /// crate.
    ///
    /// Unknown fields are ignored. A schedule that a newer program has written in a newer format is
    /// refused, so that it is not run at wrong times.
    ///
    /// # Errors
    ///
    /// [`StoredError`] says what was found, and what was expected.
    ///
    /// ```
    /// use redgrid_scheduler::{Spec, StoredError};
    ///
    /// let error = Spec::from_stored(r#"{"v":2,"solar":"sunset"}"#);
    /// assert_eq!(error, Err(StoredError::NewerFormat { found: 2, known: 1 }));
    /// ```
    pub fn from_stored(text: &str) -> Result<Self, StoredError> {
        let Version { v } = serde_json::from_str(text).map_err(unreadable)?;
        if v > FORMAT {
            return Err(StoredError::NewerFormat { found: v, known: FORMAT });
        }
        let stored: Stored = serde_json::from_str(text).map_err(unreadable)?;
        let spec = Self {
            when: when(&stored)?,
            missed: match stored.missed {
                StoredMissed::Skip => Missed::Skip,
                StoredMissed::Once => Missed::Once,
                StoredMissed::All(most) => Missed::All(most),
                StoredMissed::IfWithinMs(late) => Missed::IfWithin(Duration::from_millis(late)),
            },
            overlap: match stored.overlap {
                StoredOverlap::Skip => Overlap::Skip,
                StoredOverlap::Allow => Overlap::Allow,
                StoredOverlap::Queue => Overlap::Queue,
            },
            jitter: Duration::from_millis(stored.jitter_ms),
            until: stored.until_ms.map(from_millis),
        };
        spec.check_rules()?;
        Ok(spec)
    }
}

/// Returns when a stored schedule is due. It must have exactly one of the kinds.
fn when(stored: &Stored) -> Result<When, StoredError> {
    let wrong = |reason: &str| StoredError::Unreadable { reason: reason.to_owned() };
    let kinds = "expected one of `cron`, `quartz`, `every_ms`, `after_each_ms` and `once_ms`";
    match (&stored.cron, &stored.quartz, stored.every_ms, stored.after_each_ms, stored.once_ms) {
        (None, None, Some(period), None, None) => Ok(Every::new(Duration::from_millis(period))?.into()),
        (None, None, None, Some(delay), None) => Ok(AfterEach::new(Duration::from_millis(delay))?.into()),
        (None, None, None, None, Some(at)) => Ok(Once::at(from_millis(at)).into()),
        (Some(_), None, None, None, None) | (None, Some(_), None, None, None) => {
            let zone = stored.zone.as_deref().ok_or_else(|| wrong("the pattern has no `zone`"))?;
            cron(stored, zone)
        }
        (None, None, None, None, None) => Err(wrong(&format!("it has no kind, {kinds}"))),
        _ => Err(wrong(&format!("it has several kinds, {kinds}"))),
    }
}

#[cfg(feature = "cron")]
fn cron(stored: &Stored, zone: &str) -> Result<When, StoredError> {
    let cron = match (&stored.cron, &stored.quartz) {
        (Some(pattern), _) => Cron::new(pattern)?,
        (None, pattern) => Cron::quartz(pattern.as_deref().unwrap_or_default())?,
    };
    Ok(cron.zone(zone)?.into())
}

#[cfg(not(feature = "cron"))]
fn cron(_: &Stored, _: &str) -> Result<When, StoredError> {
    Err(StoredError::NeedsCron)
}

fn whole(duration: Duration) -> u64 {
    in_millis(duration).unsigned_abs()
}

fn unreadable(error: serde_json::Error) -> StoredError {
    StoredError::Unreadable { reason: cut(&error.to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ScheduleError;

    /// Each stored form, with its schedule. Programs of other versions have written them, so they
    /// must never change.
    fn stored() -> Vec<(&'static str, Spec)> {
        let every = Every::new(Duration::from_secs(30)).unwrap();
        let delay = AfterEach::new(Duration::from_millis(100)).unwrap();
        #[cfg_attr(not(feature = "cron"), expect(unused_mut))]
        let mut all = vec![
            (r#"{"v":1,"every_ms":30000,"missed":"once","overlap":"skip"}"#, Spec::new(every)),
            (
                r#"{"v":1,"after_each_ms":100,"missed":"skip","overlap":"allow"}"#,
                Spec::new(delay).missed(Missed::Skip).overlap(Overlap::Allow),
            ),
            (
                r#"{"v":1,"once_ms":1795219200123,"missed":{"if_within_ms":600000},"overlap":"queue"}"#,
                Spec::new(Once::at(from_millis(1_795_219_200_123)))
                    .missed(Missed::IfWithin(Duration::from_secs(600)))
                    .overlap(Overlap::Queue),
            ),
            (
                r#"{"v":1,"every_ms":30000,"missed":{"all":5},"overlap":"skip","jitter_ms":1500,"until_ms":1795219200000}"#,
                Spec::new(every)
                    .missed(Missed::All(5))
                    .jitter(Duration::from_millis(1_500))
                    .until(from_millis(1_795_219_200_000)),
            ),
        ];
        #[cfg(feature = "cron")]
        all.extend([
            (
                r#"{"v":1,"cron":"0 3 * * MON-FRI","zone":"Europe/Berlin","missed":"once","overlap":"skip"}"#,
                Spec::new(Cron::new("0 3 * * MON-FRI").unwrap().zone("Europe/Berlin").unwrap()),
            ),
            (
                r#"{"v":1,"quartz":"0 0/5 * * * ?","zone":"UTC","missed":"once","overlap":"skip"}"#,
                Spec::new(Cron::quartz("0 0/5 * * * ?").unwrap()),
            ),
        ]);
        all
    }

    #[test]
    fn schedules_are_stored_as_these_texts() {
        for (text, spec) in stored() {
            assert_eq!(spec.to_stored(), text);
            assert_eq!(Spec::from_stored(text), Ok(spec), "{text}");
        }
    }

    #[test]
    fn rules_that_are_absent_are_the_defaults_and_unknown_fields_are_ignored() {
        let spec = Spec::new(Every::new(Duration::from_secs(1)).unwrap());
        for text in [
            r#"{"v":1,"every_ms":1000}"#,
            r#"{ "every_ms": 1000, "v": 1, "cron": null }"#,
            r#"{"v":1,"every_ms":1000,"label":"nightly","owner":{"team":["a",1,null]}}"#,
        ] {
            assert_eq!(Spec::from_stored(text).as_ref(), Ok(&spec), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let kinds = "expected one of `cron`, `quartz`, `every_ms`, `after_each_ms` and `once_ms`";
        for (text, reason) in [
            (r#"{"every_ms":1000}"#, "missing field `v` at line 1 column 17".to_owned()),
            (r#"{"v":"1","every_ms":1000}"#, "invalid type: string \"1\", expected u64 at line 1 column 8".to_owned()),
            (r#"{"v":1}"#, format!("it has no kind, {kinds}")),
            (r#"{"v":1,"solar":"sunset"}"#, format!("it has no kind, {kinds}")),
            (r#"{"v":1,"every_ms":1000,"once_ms":5}"#, format!("it has several kinds, {kinds}")),
            (r#"{"v":1,"cron":"@daily"}"#, "the pattern has no `zone`".to_owned()),
            (
                r#"{"v":1,"every_ms":1000,"missed":"twice"}"#,
                "unknown variant `twice`, expected one of `skip`, `once`, `all`, `if_within_ms` at line 1 column 39"
                    .to_owned(),
            ),
        ] {
            assert_eq!(Spec::from_stored(text), Err(StoredError::Unreadable { reason }), "{text}");
        }
        let error = Spec::from_stored("not JSON").unwrap_err().to_string();
        assert_eq!(error, "cannot read the stored schedule: expected ident at line 1 column 2");
    }

    #[test]
    fn a_newer_format_is_refused_whatever_it_contains() {
        for text in [r#"{"v":2}"#, r#"{"v":2,"every_ms":"often","missed":7}"#, r#"{"v":2,"every_ms":1000}"#] {
            let error = Spec::from_stored(text).unwrap_err();
            assert_eq!(error, StoredError::NewerFormat { found: 2, known: 1 }, "{text}");
            let text = "the schedule is stored in format 2, and this program reads formats up to 1";
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn stored_values_are_checked_as_given_ones_are() {
        let period = ScheduleError::Period { got: Duration::ZERO };
        assert_eq!(Spec::from_stored(r#"{"v":1,"every_ms":0}"#), Err(period.clone().into()));
        assert_eq!(Spec::from_stored(r#"{"v":1,"after_each_ms":0}"#), Err(period.into()));
        for text in [
            r#"{"v":1,"every_ms":1000,"missed":{"all":0}}"#,
            r#"{"v":1,"every_ms":1000,"jitter_ms":86400001}"#,
            r#"{"v":1,"every_ms":1000,"missed":{"if_within_ms":18446744073709551615}}"#,
        ] {
            let error = Spec::from_stored(text);
            assert!(matches!(error, Err(StoredError::Schedule(ScheduleError::Rule { .. }))), "{text}: {error:?}");
        }
    }

    #[cfg(feature = "cron")]
    #[test]
    fn a_stored_pattern_and_zone_are_checked() {
        for (text, expected) in [
            (r#"{"v":1,"cron":"0 24 * * *","zone":"UTC"}"#, "the hour is `24`"),
            (r#"{"v":1,"quartz":"0 0 12 * *","zone":"UTC"}"#, "the number of fields is `5`"),
            (r#"{"v":1,"cron":"0 3 * * *","zone":"Mars/Olympus"}"#, "there is no time zone `Mars/Olympus`"),
        ] {
            let error = Spec::from_stored(text).unwrap_err();
            assert!(matches!(error, StoredError::Schedule(_)) && error.to_string().contains(expected), "{error}");
        }
    }

    #[cfg(not(feature = "cron"))]
    #[test]
    fn a_stored_pattern_needs_the_feature() {
        let text = r#"{"v":1,"cron":"0 3 * * *","zone":"UTC"}"#;
        assert_eq!(Spec::from_stored(text), Err(StoredError::NeedsCron));
    }
}
