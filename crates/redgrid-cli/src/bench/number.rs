//! W4: all tasks add 1 to one number; the sum is checked at the end.

use redgrid::{AtomicLong, Grid};

use super::BoxError;
use super::crew::{self, Bounds, Cycle, Measurements};
use super::job::Job;
use super::outcome::Outcome;
use super::start::Start;

/// Runs the job.
pub(super) async fn run(grid: &Grid, job: &Job, start: &mut dyn Start) -> Result<Outcome, BoxError> {
    if !job.warm.is_zero() {
        measure(grid, &job.warm_prefix(), job.tasks, Bounds::time(job.warm)).await?;
    }
    start.wait().await?;
    measure(grid, &job.prefix, job.tasks, Bounds { ops: job.ops, secs: job.secs }).await
}

async fn measure(grid: &Grid, name: &str, tasks: usize, bounds: Bounds) -> Result<Outcome, BoxError> {
    let number = grid.atomic_long(name);
    // Several processes may run the job at the same time, each with its own number.
    let before = number.get().await?;
    let mut outcome = crew::run((0..tasks).map(|_| Addition(number.clone())).collect(), bounds).await;
    // An addition that was cancelled at the end may or may not have been executed.
    let sum = number.get_and_delete().await?.wrapping_sub(before);
    let least = outcome.ops.cast_signed();
    let most = least.saturating_add((outcome.errors + outcome.stuck).cast_signed());
    outcome.violations = u64::from(!(least..=most).contains(&sum));
    Ok(outcome)
}

/// Adds 1.
struct Addition(AtomicLong);

impl Cycle for Addition {
    async fn once(&mut self, _: &mut Measurements) -> Result<bool, BoxError> {
        self.0.increment().await?;
        Ok(true)
    }
}
