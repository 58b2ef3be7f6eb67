//! Shows how to stop work when its lock is lost: an operator releases the lock by force, and the
//! holder is notified.
//!
//! Run it with `cargo run -p redgrid-examples --example watch_and_stop`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::error::Error;
use std::time::{Duration, Instant};

use redgrid::Grid;
use redgrid::locks::HoldWatch;

const NAME: &str = "redgrid-example:watch";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let (worker, operator) = (Grid::connect(url.as_str()).await?, Grid::connect(url.as_str()).await?);

    let guard = worker.lock(NAME).acquire().await?;
    // A watch lets other tasks observe the hold. It does not keep the lock.
    let helper = tokio::spawn(report(guard.watch()));

    let by_force = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let at = Instant::now();
        let forced = operator.lock(NAME).force_release().await;
        println!("operator: freed by force: {forced:?}");
        at
    });

    let stopped = tokio::select! {
        () = work() => None,
        reason = guard.lost() => Some((reason, Instant::now())),
    };
    let forced_at = by_force.await?;
    match stopped {
        None => println!("worker: done"),
        Some((reason, at)) => {
            let after = at.saturating_duration_since(forced_at);
            println!("worker: stopped within {after:?} of the release: {reason}; held now: {}", guard.is_held());
        }
    }
    println!("helper saw {} steps", helper.await?);

    // The release returns the same reason as an error.
    if let Err(error) = guard.release().await {
        println!("worker: {error}");
    }
    worker.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

async fn work() {
    for step in 1..=100 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        println!("worker: step {step}");
    }
}

/// Works in another task until the lock is lost, and returns the number of completed steps.
async fn report(watch: HoldWatch) -> u32 {
    let mut steps = 0;
    while watch.is_held() {
        steps += 1;
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(50)) => {}
            _ = watch.lost() => break,
        }
    }
    steps
}
