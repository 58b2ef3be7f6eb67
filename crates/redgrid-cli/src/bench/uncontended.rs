//! W1: lock and unlock where nobody is in the way, a name a task.

use std::time::Duration;

use redgrid::{Grid, Lock};

use super::Trouble;
use super::crew::{self, Bounds, Cycle, Notes};
use super::job::Job;
use super::outcome::Outcome;
use super::start::Start;

/// Runs the job.
pub(super) async fn run(grid: &Grid, job: &Job, start: &mut dyn Start) -> Result<Outcome, Trouble> {
    warm(grid, &job.warm_prefix(), job.tasks, job.warm).await;
    start.given().await?;
    Ok(crew::run(pairs(grid, &job.prefix, job.tasks), Bounds { ops: job.ops, secs: job.secs }).await)
}

/// A while of the same, below other names.
pub(super) async fn warm(grid: &Grid, prefix: &str, tasks: usize, warm: Duration) {
    if !warm.is_zero() {
        crew::run(pairs(grid, prefix, tasks), Bounds::time(warm)).await;
    }
}

fn pairs(grid: &Grid, prefix: &str, tasks: usize) -> Vec<Pair> {
    (0..tasks).map(|task| Pair(grid.lock(format!("{prefix}:{task}")))).collect()
}

/// Lock and unlock.
struct Pair(Lock);

impl Cycle for Pair {
    async fn once(&mut self, _: &mut Notes) -> Result<bool, Trouble> {
        self.0.acquire().await?.release().await?;
        Ok(true)
    }
}
