//! W2 and W6fair: lock and unlock of one name by all tasks, checking mutual exclusion.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use redgrid::locks::Acquire;

use super::BoxError;
use super::crew::{self, Bounds, Cycle, Measurements};
use super::job::Job;
use super::outcome::Outcome;
use super::start::Start;

/// Runs the job with the locks that `ask` requests.
pub(super) async fn run(job: &Job, start: &mut dyn Start, ask: impl Fn(&str) -> Acquire) -> Result<Outcome, BoxError> {
    warm(job, &ask).await;
    start.wait().await?;
    Ok(measure(&ask, &job.prefix, job.tasks, Bounds { ops: job.ops, secs: job.secs }).await)
}

/// Warms up with the same work under another name.
pub(super) async fn warm(job: &Job, ask: &impl Fn(&str) -> Acquire) {
    if !job.warm.is_zero() {
        measure(ask, &job.warm_prefix(), job.tasks, Bounds::time(job.warm)).await;
    }
}

async fn measure(ask: &impl Fn(&str) -> Acquire, name: &str, tasks: usize, bounds: Bounds) -> Outcome {
    let section = Arc::new(Section::new());
    let cycles = (0..tasks).map(|_| Visit { ask: ask(name), section: Arc::clone(&section) });
    let mut outcome = crew::run(cycles.collect(), bounds).await;
    outcome.violations = section.violations.load(SeqCst);
    outcome
}

/// One operation: acquires the lock, holds it for a moment, and releases it.
struct Visit {
    ask: Acquire,
    section: Arc<Section>,
}

impl Cycle for Visit {
    async fn once(&mut self, measurements: &mut Measurements) -> Result<bool, BoxError> {
        let guard = self.ask.clone().await?;
        let entered = Instant::now();
        if let Some(handoff) = self.section.enter(entered) {
            measurements.handoff.record(handoff);
        }
        measurements.wait.record(entered - measurements.begun);
        self.section.leave();
        guard.release().await?;
        Ok(true)
    }
}

/// State shared by all tasks: how many hold the lock, and when the last holder began its release.
struct Section {
    born: Instant,
    inside: AtomicU32,
    violations: AtomicU64,
    /// Nanoseconds since `born`; 0 before the first visit.
    left: AtomicU64,
}

impl Section {
    fn new() -> Self {
        Section {
            born: Instant::now(),
            inside: AtomicU32::new(0),
            violations: AtomicU64::new(0),
            left: AtomicU64::new(0),
        }
    }

    /// Records an entry, and returns the time since the previous holder began its release.
    fn enter(&self, now: Instant) -> Option<Duration> {
        if self.inside.fetch_add(1, SeqCst) != 0 {
            self.violations.fetch_add(1, SeqCst);
        }
        let left = Some(self.left.load(SeqCst)).filter(|left| *left != 0)?;
        Some((now - self.born).saturating_sub(Duration::from_nanos(left)))
    }

    fn leave(&self) {
        self.inside.fetch_sub(1, SeqCst);
        self.left.store(u64::try_from(self.born.elapsed().as_nanos()).unwrap_or(u64::MAX), SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_inside_at_once_are_a_violation() {
        let section = Section::new();
        let now = section.born;
        assert_eq!(section.enter(now), None);
        section.leave();
        assert!(section.enter(now + Duration::from_secs(5)).is_some_and(|handoff| handoff > Duration::from_secs(4)));
        assert_eq!(section.violations.load(SeqCst), 0);
        section.enter(now);
        assert_eq!(section.violations.load(SeqCst), 1);
    }
}
