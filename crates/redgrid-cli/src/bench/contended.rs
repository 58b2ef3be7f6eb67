//! W2 and W6fair: lock and unlock of one name by all tasks, with a look at whether they exclude each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use redgrid::locks::Acquire;

use super::Trouble;
use super::crew::{self, Bounds, Cycle, Notes};
use super::job::Job;
use super::outcome::Outcome;
use super::start::Start;

/// Runs the job under the locks that `ask` asks for.
pub(super) async fn run(job: &Job, start: &mut dyn Start, ask: impl Fn(&str) -> Acquire) -> Result<Outcome, Trouble> {
    warm(job, &ask).await;
    start.given().await?;
    Ok(measure(&ask, &job.prefix, job.tasks, Bounds { ops: job.ops, secs: job.secs }).await)
}

/// A while of the same, below another name.
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

/// Lock, be alone for a moment, unlock.
struct Visit {
    ask: Acquire,
    section: Arc<Section>,
}

impl Cycle for Visit {
    async fn once(&mut self, notes: &mut Notes) -> Result<bool, Trouble> {
        let guard = self.ask.clone().await?;
        let entered = Instant::now();
        if let Some(handoff) = self.section.enter(entered) {
            notes.handoff.record(handoff);
        }
        notes.wait.record(entered - notes.begun);
        self.section.leave();
        guard.release().await?;
        Ok(true)
    }
}

/// What all the tasks share: who is inside, and when the last one began to leave.
struct Section {
    born: Instant,
    inside: AtomicU32,
    violations: AtomicU64,
    /// Nanoseconds since `born`; 0 when nobody has been in.
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

    /// Notes somebody who comes in, and tells how long ago the last one began to leave.
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
