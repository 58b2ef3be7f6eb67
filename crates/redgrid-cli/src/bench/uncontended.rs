//! W1: lock and unlock without contention, one name per task.

use std::time::Duration;

use redgrid::{Grid, Lock};

use super::BoxError;
use super::crew::{self, Bounds, Cycle, Measurements};
use super::job::Job;
use super::outcome::Outcome;
use super::start::Start;

/// Runs the job.
pub(super) async fn run(grid: &Grid, job: &Job, start: &mut dyn Start) -> Result<Outcome, BoxError> {
    warm(grid, &job.warm_prefix(), job.tasks, job.warm).await;
    start.wait().await?;
    Ok(crew::run(pairs(grid, &job.prefix, job.tasks), Bounds { ops: job.ops, secs: job.secs }).await)
}

/// Warms up with the same work under other names.
pub(super) async fn warm(grid: &Grid, prefix: &str, tasks: usize, warm: Duration) {
    if !warm.is_zero() {
        crew::run(pairs(grid, prefix, tasks), Bounds::time(warm)).await;
    }
}

fn pairs(grid: &Grid, prefix: &str, tasks: usize) -> Vec<Pair> {
    (0..tasks).map(|task| Pair(grid.lock(format!("{prefix}:{task}")))).collect()
}

/// One operation: acquires the lock and releases it.
struct Pair(Lock);

impl Cycle for Pair {
    async fn once(&mut self, _: &mut Measurements) -> Result<bool, BoxError> {
        self.0.acquire().await?.release().await?;
        Ok(true)
    }
}
