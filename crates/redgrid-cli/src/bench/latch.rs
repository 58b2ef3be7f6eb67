//! W6latch: many wait for a latch; from the call of the last count-down to the last of them awake.

use std::time::{Duration, Instant};

use redgrid::Grid;
use tokio::task::JoinSet;

use super::Trouble;
use super::job::Job;
use super::outcome::Outcome;
use super::start::Start;

/// How long the tasks of a round have to begin to wait: 50 ms, as in the other drivers.
const SETTLES: Duration = Duration::from_millis(50);

/// Rounds before those that count.
const WARM_ROUNDS: usize = 3;

/// Who is not awake by then has been forgotten.
const STUCK_AFTER: Duration = Duration::from_secs(1);

/// Runs the job: an operation is a round.
pub(super) async fn run(grid: &Grid, job: &Job, start: &mut dyn Start) -> Result<Outcome, Trouble> {
    for number in 0..WARM_ROUNDS {
        let _ = round(grid, &format!("{}:{number}", job.warm_prefix()), job.tasks).await?;
    }
    start.given().await?;
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
    (outcome.min_task, outcome.max_task) = (outcome.ops, outcome.ops);
    Ok(outcome)
}

/// One round: how long it took, or how many still slept a second later.
async fn round(grid: &Grid, name: &str, tasks: usize) -> Result<Result<Duration, u64>, Trouble> {
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
