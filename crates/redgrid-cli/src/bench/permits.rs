//! W6sem: all tasks acquire one of eight permits; the job checks that at most eight are held.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use redgrid::Grid;
use redgrid::semaphore::{Failure, PlainSemaphore};

use super::BoxError;
use super::crew::{self, Bounds, Cycle, Measurements};
use super::job::Job;
use super::outcome::Outcome;
use super::start::Start;

/// Number of permits, as in the drivers of the other libraries.
const PERMITS: u64 = 8;

/// Runs the job with permits without leases, as in Redisson's semaphore.
pub(super) async fn run(grid: &Grid, job: &Job, start: &mut dyn Start) -> Result<Outcome, BoxError> {
    if !job.warm.is_zero() {
        measure(grid, &job.warm_prefix(), job.tasks, Bounds::time(job.warm)).await?;
    }
    start.wait().await?;
    Ok(measure(grid, &job.prefix, job.tasks, Bounds { ops: job.ops, secs: job.secs }).await?)
}

async fn measure(grid: &Grid, name: &str, tasks: usize, bounds: Bounds) -> Result<Outcome, Failure> {
    let inside = Arc::new(Inside::default());
    let semaphore = grid.plain_semaphore(name);
    semaphore.try_set_permits(PERMITS).await?;
    let cycles = (0..tasks).map(|_| Visit { semaphore: semaphore.clone(), inside: Arc::clone(&inside) });
    let mut outcome = crew::run(cycles.collect(), bounds).await;
    outcome.violations = inside.violations.load(SeqCst);
    // The permits are deleted, so that the next job does not find them.
    let _ = semaphore.delete().await;
    Ok(outcome)
}

/// Acquires a permit, and releases it.
struct Visit {
    semaphore: PlainSemaphore,
    inside: Arc<Inside>,
}

impl Cycle for Visit {
    async fn once(&mut self, measurements: &mut Measurements) -> Result<bool, BoxError> {
        let permit = self.semaphore.acquire().await?;
        measurements.wait.record(measurements.begun.elapsed());
        self.inside.enter();
        self.inside.leave();
        permit.release().await?;
        Ok(true)
    }
}

/// State shared by all tasks: how many hold a permit.
#[derive(Default)]
struct Inside {
    now: AtomicU64,
    violations: AtomicU64,
}

impl Inside {
    fn enter(&self) {
        let before = self.now.fetch_add(1, SeqCst);
        self.violations.fetch_add(u64::from(before >= PERMITS), SeqCst);
    }

    fn leave(&self) {
        self.now.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ninth_inside_is_a_violation() {
        let inside = Inside::default();
        (0..PERMITS).for_each(|_| inside.enter());
        assert_eq!(inside.violations.load(SeqCst), 0);
        inside.enter();
        assert_eq!(inside.violations.load(SeqCst), 1);
        inside.leave();
        inside.leave();
        inside.enter();
        assert_eq!(inside.violations.load(SeqCst), 1);
    }
}
