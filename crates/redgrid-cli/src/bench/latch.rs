//! W6latch: many tasks wait for a countdown latch. Measures the time from the call of the last
//! count-down to the last wake-up.

use std::time::{Duration, Instant};

use redgrid::Grid;
use tokio::task::JoinSet;

use super::BoxError;
use super::job::Job;
use super::outcome::Outcome;
use super::start::Start;

/// How long the tasks of a round have to begin waiting: 50 ms, as in the drivers of the other
/// libraries.
const SETTLES: Duration = Duration::from_millis(50);

/// Warm-up rounds.
const WARM_ROUNDS: usize = 3;

/// A task that is still waiting after this time counts as stuck.
const STUCK_AFTER: Duration = Duration::from_secs(1);

/// Runs the job; one round is one operation.
pub(super) async fn run(grid: &Grid, job: &Job, start: &mut dyn Start) -> Result<Outcome, BoxError> {
    for number in 0..WARM_ROUNDS {
        let _ = round(grid, &format!("{}:{number}", job.warm_prefix()), job.tasks).await?;
    }
    start.wait().await?;
    let mut outcome = Outcome::new();
    for number in 0..job.rounds {
        match round(grid, &format!("{}:{number}", job.prefix), job.tasks).await? {
            Ok(took) => {
                outcome.ops += 1;
                outcome.secs += took;
                outcome.latency.record(took);
            }
            Err(stuck) => outcome.stuck += stuck,
        }
    }
    outcome.min_task = outcome.ops;
    outcome.max_task = outcome.ops;
    Ok(outcome)
}

/// Runs one round. Returns its time, or the number of tasks that still waited after
/// [`STUCK_AFTER`].
async fn round(grid: &Grid, name: &str, tasks: usize) -> Result<Result<Duration, u64>, BoxError> {
    let latch = grid.countdown_latch(name);
    if !latch.try_set_count(1).await? {
        return Err(format!("the latch `{name}` is set already").into());
    }
    let mut waiting = JoinSet::new();
    for _ in 0..tasks {
        let latch = latch.clone();
        waiting.spawn(async move { latch.wait().await.map(|()| Instant::now()) });
    }
    tokio::time::sleep(SETTLES).await;
    let called = Instant::now();
    latch.count_down().await?;
    let mut last = called;
    while let Ok(Some(awake)) = tokio::time::timeout_at((called + STUCK_AFTER).into(), waiting.join_next()).await {
        last = last.max(awake??);
    }
    Ok(if waiting.is_empty() { Ok(last - called) } else { Err(waiting.len() as u64) })
}
