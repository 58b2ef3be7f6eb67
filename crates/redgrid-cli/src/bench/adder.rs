//! W4adder: all tasks add 1 to a local adder as fast as they can. At the end, one request sums the
//! values of all processes; the measured time includes this request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use redgrid::{Grid, LongAdder};
use tokio::task::JoinSet;

use super::BoxError;
use super::job::Job;
use super::outcome::Outcome;
use super::start::Start;

/// Number of additions between two checks of the time and of the shared total. It is large because
/// a check takes as long as several additions.
const BATCH: u64 = 1_000;

/// Runs the job. Its latency is that of the request for the sum.
pub(super) async fn run(grid: &Grid, job: &Job, start: &mut dyn Start) -> Result<Outcome, BoxError> {
    let warm = grid.long_adder(job.warm_prefix());
    crew(&warm, job.tasks, None, Some(job.warm)).await?;
    warm.sum().await?;
    let adder = grid.long_adder(&job.prefix);
    adder.ready().await?;
    start.wait().await?;
    let began = Instant::now();
    let done = crew(&adder, job.tasks, job.ops, job.secs).await?;
    let asked = Instant::now();
    let sum = adder.sum().await?;
    let mut outcome = Outcome::new();
    outcome.secs = began.elapsed();
    outcome.latency.record(asked.elapsed());
    outcome.ops = done.iter().sum();
    outcome.violations = u64::from(u64::try_from(sum) != Ok(outcome.ops));
    let least_and_most = (done.iter().min(), done.iter().max());
    outcome.min_task = *least_and_most.0.unwrap_or(&0);
    outcome.max_task = *least_and_most.1.unwrap_or(&0);
    Ok(outcome)
}

/// Runs the tasks, and returns how often each task has added.
async fn crew(adder: &LongAdder, tasks: usize, ops: Option<u64>, time: Option<Duration>) -> Result<Vec<u64>, BoxError> {
    let taken = Arc::new(AtomicU64::new(0));
    let end = time.map(|time| Instant::now() + time);
    let mut running = JoinSet::new();
    for _ in 0..tasks {
        let adder = adder.clone();
        let taken = Arc::clone(&taken);
        running.spawn(async move {
            let mut done = 0;
            while end.is_none_or(|end| Instant::now() < end) {
                let before = taken.fetch_add(BATCH, Relaxed);
                let now = ops.map_or(BATCH, |ops| ops.saturating_sub(before).min(BATCH));
                (0..now).for_each(|_| adder.increment());
                done += now;
                if now < BATCH {
                    break;
                }
                tokio::task::yield_now().await;
            }
            done
        });
    }
    let mut done = Vec::new();
    while let Some(task) = running.join_next().await {
        done.push(task?);
    }
    Ok(done)
}
