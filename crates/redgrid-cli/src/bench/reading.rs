//! W6rw: one read-write lock for all tasks. Each task writes every tenth time; the job checks
//! exclusion.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};

use redgrid::{Grid, RwLock};

use super::BoxError;
use super::crew::{self, Bounds, Cycle, Measurements};
use super::job::Job;
use super::outcome::Outcome;
use super::start::Start;

/// A task writes once in this many operations.
const WRITES_EVERY: usize = 10;

/// Runs the job.
pub(super) async fn run(grid: &Grid, job: &Job, start: &mut dyn Start) -> Result<Outcome, BoxError> {
    if !job.warm.is_zero() {
        measure(grid, &job.warm_prefix(), job.tasks, Bounds::time(job.warm)).await;
    }
    start.wait().await?;
    Ok(measure(grid, &job.prefix, job.tasks, Bounds { ops: job.ops, secs: job.secs }).await)
}

async fn measure(grid: &Grid, name: &str, tasks: usize, bounds: Bounds) -> Outcome {
    let inside = Arc::new(Inside::default());
    // Tasks start at different counts, so that they do not all write at the same time.
    let cycles = (0..tasks).map(|task| Visit { lock: grid.rw_lock(name), times: task, inside: Arc::clone(&inside) });
    let mut outcome = crew::run(cycles.collect(), bounds).await;
    outcome.violations = inside.violations.load(SeqCst);
    outcome
}

/// Acquires the lock to read or to write, and releases it.
struct Visit {
    lock: RwLock,
    times: usize,
    inside: Arc<Inside>,
}

impl Cycle for Visit {
    async fn once(&mut self, measurements: &mut Measurements) -> Result<bool, BoxError> {
        let writes = self.times.is_multiple_of(WRITES_EVERY);
        self.times += 1;
        if writes {
            let guard = self.lock.write().await?;
            measurements.wait.record(measurements.begun.elapsed());
            self.inside.write();
            guard.release().await?;
        } else {
            let guard = self.lock.read().await?;
            self.inside.read();
            guard.release().await?;
        }
        Ok(true)
    }
}

/// State shared by all tasks: how many readers and writers hold the lock.
#[derive(Default)]
struct Inside {
    readers: AtomicI64,
    writers: AtomicI64,
    violations: AtomicU64,
}

impl Inside {
    fn write(&self) {
        let alone = self.writers.fetch_add(1, SeqCst) == 0 && self.readers.load(SeqCst) == 0;
        self.count(alone);
        self.writers.fetch_sub(1, SeqCst);
    }

    fn read(&self) {
        self.readers.fetch_add(1, SeqCst);
        self.count(self.writers.load(SeqCst) == 0);
        self.readers.fetch_sub(1, SeqCst);
    }

    fn count(&self, holds: bool) {
        self.violations.fetch_add(u64::from(!holds), SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_beside_a_writer_is_a_violation_in_any_order() {
        let inside = Inside::default();
        inside.read();
        inside.write();
        assert_eq!(inside.violations.load(SeqCst), 0);
        inside.readers.store(1, SeqCst);
        inside.write();
        inside.readers.store(0, SeqCst);
        inside.writers.store(1, SeqCst);
        inside.read();
        inside.write();
        assert_eq!(inside.violations.load(SeqCst), 3);
    }
}
