//! Shows a lock without messages: waiters do not subscribe, and try again after increasing pauses.
//!
//! Run it with `cargo run -p redgrid-examples --example spin_lock`, for a server at 127.0.0.1:6379
//! or `REDGRID_URL`.

use std::error::Error;
use std::time::{Duration, Instant};

use redgrid::Grid;

const NAME: &str = "redgrid-example:shelf";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let (one, two) = (Grid::connect(url.as_str()).await?, Grid::connect(url.as_str()).await?);

    let guard = one.spin_lock(NAME).acquire().await?;
    // With shorter pauses a waiter notices a release sooner, but sends more requests.
    let lock = two.spin_lock(NAME).backoff(Duration::from_millis(2), Duration::from_millis(40));
    let waiter = tokio::spawn(lock.acquire().timeout(Duration::from_secs(5)).into_future());
    tokio::time::sleep(Duration::from_millis(200)).await;
    println!("two: waits, and has subscribed {} channels", two.client().stats().channels);

    let released = Instant::now();
    guard.release().await?;
    let guard = waiter.await??;
    println!("two: found it free {:?} after its release", released.elapsed());
    guard.release().await?;

    one.shutdown(Duration::from_secs(5)).await?;
    two.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
