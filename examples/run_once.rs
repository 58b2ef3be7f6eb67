//! Shows a job that runs once per interval on five replicas.
//!
//! With `hold_at_least`, the lock is held for that time, even though its guard is dropped
//! immediately, and even if the process dies.
//!
//! Run it with `cargo run -p redgrid-examples --example run_once`, for a server at 127.0.0.1:6379
//! or `REDGRID_URL`.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redgrid::Grid;
use redgrid::locks::AcquireError;

const NAME: &str = "redgrid-example:job:report";
/// A little less than the interval of the schedule. A replica whose clock is ahead finds the lock
/// held, and in the next interval the lock is free.
const AT_LEAST: Duration = Duration::from_secs(2);

/// Runs in each replica when its schedule fires. Returns whether this replica has run the job.
async fn on_schedule(grid: &Grid, runs: &AtomicU32) -> Result<bool, AcquireError> {
    let Some(turn) = grid.lock(NAME).try_acquire().hold_at_least(AT_LEAST).await? else {
        return Ok(false);
    };
    runs.fetch_add(1, Ordering::SeqCst);
    drop(turn); // a short job: the lock stays taken
    Ok(true)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let mut replicas = Vec::new();
    for _ in 0..5 {
        replicas.push(Grid::connect(url.as_str()).await?);
    }

    let runs = Arc::new(AtomicU32::new(0));
    for interval in 1..=2 {
        // The replicas' schedules fire 100 ms apart.
        let mut waking = Vec::new();
        for (n, grid) in replicas.iter().cloned().enumerate() {
            let runs = Arc::clone(&runs);
            waking.push(tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(100) * u32::try_from(n).unwrap_or(0)).await;
                on_schedule(&grid, &runs).await
            }));
        }
        let mut ran = 0;
        for replica in waking {
            ran += u32::from(replica.await??);
        }
        println!("interval {interval}: {ran} of {} replicas ran the job", replicas.len());
        tokio::time::sleep(AT_LEAST).await;
    }
    println!("runs in all: {}", runs.load(Ordering::SeqCst));

    for grid in &replicas {
        grid.shutdown(Duration::from_secs(5)).await?;
    }
    Ok(())
}
