//! Shows a read-write lock: many readers or one writer, and conversions in both directions.
//!
//! Run it with `cargo run -p redgrid-examples --example read_write`, for a server at 127.0.0.1:6379
//! or `REDGRID_URL`.

use std::error::Error;
use std::time::Duration;

use redgrid::Grid;
use redgrid::locks::UpgradeError;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(url).await?;
    grid.wait_ready(Duration::from_secs(5)).await?;

    let prices = grid.rw_lock("redgrid-example:prices");
    let (one, two) = (prices.read().await?, prices.read().await?);
    println!("two readers; may a writer enter? {}", prices.try_write().await?.is_some());

    // Two readers that wait to upgrade would deadlock. An upgrade of a plain reader is therefore
    // only tried, and may fail.
    let one = match one.try_upgrade().await {
        Err(UpgradeError::Busy(one)) => *one,
        Ok(_) => return Err("upgraded beside a reader: this must not happen".into()),
        Err(error) => return Err(error.into()),
    };
    one.release().await?;
    two.release().await?;

    // Only one reader at a time is upgradable, together with plain readers. Its upgrade may wait
    // for them.
    let seen = prices.upgradable_read().await?;
    let write = seen.upgrade().await?;
    println!("alone, token {}", write.token());

    // The conversion is atomic: no writer acquires the lock between the write and the read. Waiting
    // readers enter.
    let read = write.downgrade().await?;
    println!("reading what was written; may others read? {}", prices.try_read().await?.is_some());
    read.release().await?;
    println!("in now: {:?}", prices.inspect().await?);

    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
