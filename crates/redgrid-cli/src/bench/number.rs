//! W4: all tasks add 1 to one number, with a look at whether it is the sum in the end.

use redgrid::{AtomicLong, Grid};

use super::Trouble;
use super::crew::{self, Bounds, Cycle, Notes};
use super::job::Job;
use super::outcome::Outcome;
use super::start::Start;

/// Runs the job.
pub(super) async fn run(grid: &Grid, job: &Job, start: &mut dyn Start) -> Result<Outcome, Trouble> {
    if !job.warm.is_zero() {
        measure(grid, &job.warm_prefix(), job.tasks, Bounds::time(job.warm)).await?;
    }
    start.given().await?;
    measure(grid, &job.prefix, job.tasks, Bounds { ops: job.ops, secs: job.secs }).await
}

async fn measure(grid: &Grid, name: &str, tasks: usize, bounds: Bounds) -> Result<Outcome, Trouble> {
    let number = grid.atomic_long(name);
    // Several processes may add at the same time, each with a name of its own.
    let before = number.get().await?;
    let mut outcome = crew::run((0..tasks).map(|_| Addition(number.clone())).collect(), bounds).await;
    // What was given up at the end may have been added or not.
    let (sum, least) = (number.get_and_delete().await?.wrapping_sub(before), outcome.ops.cast_signed());
    let most = least.saturating_add((outcome.errors + outcome.stuck).cast_signed());
    outcome.violations = u64::from(!(least..=most).contains(&sum));
    Ok(outcome)
}

/// Adds 1.
struct Addition(AtomicLong);

impl Cycle for Addition {
    async fn once(&mut self, _: &mut Notes) -> Result<bool, Trouble> {
        self.0.increment().await?;
        Ok(true)
    }
}
