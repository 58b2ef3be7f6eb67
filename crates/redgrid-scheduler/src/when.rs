//! The kinds of schedules.

#[cfg(feature = "cron")]
use crate::Cron;
use crate::{AfterEach, Every, Once};

/// When a schedule is due.
///
/// ```
/// use std::time::Duration;
/// use redgrid_scheduler::{Every, When};
///
/// let poll = Every::new(Duration::from_secs(5))?;
/// assert_eq!(When::from(poll), When::Every(poll));
/// # Ok::<(), redgrid_scheduler::ScheduleError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum When {
    /// At the times of a cron pattern.
    #[cfg(feature = "cron")]
    Cron(Cron),
    /// At a fixed rate.
    Every(Every),
    /// At a fixed delay after the end of each job.
    AfterEach(AfterEach),
    /// At a single time.
    Once(Once),
}

#[cfg(feature = "cron")]
impl From<Cron> for When {
    fn from(cron: Cron) -> Self {
        Self::Cron(cron)
    }
}

impl From<Every> for When {
    fn from(every: Every) -> Self {
        Self::Every(every)
    }
}

impl From<AfterEach> for When {
    fn from(after_each: AfterEach) -> Self {
        Self::AfterEach(after_each)
    }
}

impl From<Once> for When {
    fn from(once: Once) -> Self {
        Self::Once(once)
    }
}
