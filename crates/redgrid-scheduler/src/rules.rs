//! Rules for missed due times, and for due times at which a job still runs.

use std::time::Duration;

/// The rule for due times that have passed without a run, for example because no worker was
/// there.
///
/// A due time is missed if the following one has also passed, or if it is more than a minute ago.
/// The latest due time runs under every rule if it is at most a minute ago, except with a shorter
/// [`IfWithin`](Self::IfWithin). [`Spec::step`](crate::Spec::step) applies the rule.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use redgrid_scheduler::{Every, Missed, Spec};
///
/// let hour = Duration::from_secs(3_600);
/// let spec = Spec::new(Every::new(hour)?);
/// // The due times of 1:00, 2:00 and 3:00 have passed, the latest 30 minutes ago.
/// let (due, now) = (UNIX_EPOCH + hour, UNIX_EPOCH + hour * 7 / 2);
/// let runs = |missed| spec.clone().missed(missed).step("report", due, now)?.runs;
///
/// assert_eq!(runs(Missed::Skip), None);
/// assert_eq!(runs(Missed::Once), Some(due + 2 * hour));
/// assert_eq!(runs(Missed::All(2)), Some(due + hour)); // and then that of 3:00
/// assert_eq!(runs(Missed::IfWithin(hour)), Some(due + 2 * hour));
/// assert_eq!(runs(Missed::IfWithin(hour / 4)), None);
/// # Ok::<(), redgrid_scheduler::ScheduleError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Missed {
    /// No missed due time runs. The schedule goes on with the next one.
    Skip,
    /// All missed due times together run once. This is the default.
    #[default]
    Once,
    /// Each missed due time runs, one after the other, up to the latest ones of this number: 1 to
    /// 1,000. Older ones are skipped.
    All(u32),
    /// As [`Once`](Self::Once), if the latest missed due time is at most so long ago; otherwise as
    /// [`Skip`](Self::Skip). At most 3,650 days.
    IfWithin(Duration),
}

/// The rule for a due time at which the job of an earlier one has not ended.
///
/// ```
/// use redgrid_scheduler::Overlap;
///
/// assert_eq!(Overlap::default(), Overlap::Skip);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Overlap {
    /// No job for this due time. This is the default.
    #[default]
    Skip,
    /// A job for this due time, beside the other one.
    Allow,
    /// A job that begins when the other one has ended. At most one job waits so.
    Queue,
}
