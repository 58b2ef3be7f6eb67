//! Shows a fence in Redis, which rejects the late write of a paused holder, whatever the timing.
//!
//! Run it with `cargo run -p redgrid-examples --example fence`, for a server at 127.0.0.1:6379 or
//! `REDGRID_URL`.

use std::error::Error;
use std::time::Duration;

use redgrid::Grid;
use redgrid::locks::FenceError;

const LOCK: &str = "redgrid-example:account:lock";
const DATA: &str = "{redgrid-example:account}:cents"; // guarded by the fence with its hash tag

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let (one, two) = (Grid::connect(url.as_str()).await?, Grid::connect(url.as_str()).await?);
    let fence = |grid: &Grid| grid.fence("{redgrid-example:account}").lifetime(Duration::from_secs(60));

    // One holder is paused for longer than its lease. Another one acquires the lock, and writes.
    let stale = one.lock(LOCK).acquire().lease(Duration::from_millis(200)).await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let fresh = two.lock(LOCK).acquire().await?;
    fence(&two).set(DATA, "500", fresh.token()).await?;
    println!("two adds 50: {}", fence(&two).increment(DATA, 50, fresh.token()).await?);

    // The paused holder writes as if it still held the lock.
    match fence(&one).set(DATA, "100", stale.token()).await {
        Err(FenceError::Stale { highest, .. }) => println!("one is refused: {highest} has written since"),
        written => println!("one: {written:?}, and this must not happen"),
    }
    let cents: i64 = one.command("GET").key(DATA)?.query().await?;
    println!("the account has {cents}");

    fence(&two).delete(DATA, fresh.token()).await?;
    fresh.release().await?;
    drop(stale);
    one.shutdown(Duration::from_secs(5)).await?;
    two.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
