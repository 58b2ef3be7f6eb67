//! Due times of schedules: cron patterns in time zones, fixed rates, fixed delays and single times,
//! with rules for missed times.
//!
//! This crate computes. It has no clock, no server and no timer, and it starts no job. Use it to
//! find out when something is due, in a program that decides itself what to do then.
//!
//! ```
//! use std::time::{Duration, UNIX_EPOCH};
//! use redgrid_scheduler::{Every, Missed, Spec};
//!
//! let hour = Duration::from_secs(3_600);
//! let spec = Spec::new(Every::new(hour)?).missed(Missed::Once);
//!
//! let due = spec.first(UNIX_EPOCH)?; // 1:00
//! // Nothing ran until 4:30. One run makes up for 1:00 to 4:00, and the next one is due at 5:00.
//! let step = spec.step("report", due, UNIX_EPOCH + hour * 9 / 2);
//! assert_eq!(step.and_then(|step| step.runs), Some(UNIX_EPOCH + 4 * hour));
//! # Ok::<(), redgrid_scheduler::ScheduleError>(())
//! ```
//!
//! | type | content |
//! |---|---|
//! | `Cron` (feature `cron`, on by default) | a pattern of cron or Quartz, in a time zone |
//! | [`Every`], [`AfterEach`], [`Once`] | a fixed rate, a fixed delay after each job, a single time |
//! | [`Spec`] | one of these, with its rules: [`Missed`], [`Overlap`], jitter, end |
//! | [`Step`] | what is to be done at a due time |
//! | [`ScheduleError`], [`StoredError`] | what was wrong, and what was expected |
//!
//! # Guarantees
//!
//! - The functions have no state and no clock: from the same arguments, every process computes the
//!   same times, on every machine. The rules of time zones are part of the program.
//! - The next due time is computed from the last one, not from the current time, so late runs do
//!   not shift a schedule.
//! - Where a clock jumps forward or back, the rules of Vixie cron hold (`Cron` describes them).
//! - A pattern that never fires, such as 30 February, is refused, and so is an unknown time zone.
//! - No text makes a parser panic or search without an end.
//!
//! # Stored form
//!
//! [`Spec::to_stored`] writes a schedule as one line of JSON, and [`Spec::from_stored`] reads it:
//!
//! ```text
//! {"v":1,"cron":"0 3 * * *","zone":"Europe/Berlin","missed":"once","overlap":"skip"}
//! ```
//!
//! `v` is the format. Fields that a program does not know are ignored. A field that changes the
//! meaning of others raises `v`, and a program refuses a `v` that is newer than its own.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "cron")]
mod cron;
mod error;
mod every;
#[cfg(feature = "cron")]
mod occurrence;
#[cfg(feature = "cron")]
mod pattern;
mod rules;
mod spec;
mod step;
mod stored;
mod time;
mod when;
#[cfg(feature = "cron")]
mod zone;

#[cfg(feature = "cron")]
pub use cron::Cron;
pub use error::{ScheduleError, StoredError};
pub use every::{AfterEach, Every, Once};
pub use rules::{Missed, Overlap};
pub use spec::Spec;
pub use step::{Next, Step};
pub use when::When;
