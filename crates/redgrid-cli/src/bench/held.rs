//! W5: holds many locks for a while, renewed automatically.

use std::time::Instant;

use futures_util::{StreamExt, TryStreamExt, stream};
use redgrid::{Grid, LockGuard};

use super::job::Job;
use super::outcome::{Held, Outcome};
use super::start::Start;
use super::{BoxError, uncontended};

/// Number of locks acquired concurrently: 64. Acquiring 10,000 locks then takes a moment, and the
/// memory of the requests is small compared with that of the locks.
const BATCH: usize = 64;

/// Tasks of the warm-up.
const BURST_TASKS: usize = 4;

/// Runs the job: a warm-up of lock and unlock, then the locks are acquired and held. They remain in
/// `held`, so that the harness can inspect them on the server afterwards.
pub(super) async fn run(
    grid: &Grid,
    job: &Job,
    start: &mut dyn Start,
    held: &mut Vec<LockGuard>,
) -> Result<Outcome, BoxError> {
    uncontended::warm(grid, &job.warm_prefix(), BURST_TASKS, job.warm).await;
    let before = resident_kb();
    let asked = Instant::now();
    held.reserve_exact(job.n);
    let guards = (0..job.n).map(|number| {
        let lock = grid.lock(format!("{}:{number}", job.prefix));
        async move { lock.acquire().await }
    });
    let mut guards = stream::iter(guards).buffered(BATCH);
    while let Some(guard) = guards.try_next().await? {
        held.push(guard);
    }
    drop(guards);
    let acquired = asked.elapsed();
    let after = resident_kb();
    start.wait().await?;
    let began = Instant::now();
    tokio::time::sleep(job.secs.unwrap_or_default()).await;
    let mut outcome = Outcome::new();
    outcome.secs = began.elapsed();
    outcome.ops = job.n as u64;
    outcome.errors = held.iter().filter(|guard| !guard.is_held()).count() as u64;
    outcome.held = Some(Held {
        n: job.n,
        acquire_s: (acquired.as_secs_f64() * 100.0).round() / 100.0,
        rss0_kb: before,
        rss1_kb: after,
        heap0_kb: before,
        heap1_kb: after,
    });
    Ok(outcome)
}

/// Returns the resident memory of this process in kB; 0 without `/proc`.
fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
