//! Many read, one writes; a write goes on as a read, and who has read may come to write.
//!
//! `REDGRID_URL=redis://127.0.0.1:6379 cargo run -p redgrid-examples --example read_write`

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
    println!("two read; may a third one write? {}", prices.try_write().await?.is_some());

    // Two that wait for each other to leave would wait for ever: an upgrade is tried, and says so.
    let one = match one.try_upgrade().await {
        Err(UpgradeError::Busy(one)) => *one,
        Ok(_) => return Err("wrote beside a reader: this must not happen".into()),
        Err(error) => return Err(error.into()),
    };
    one.release().await?;
    two.release().await?;

    // Who may come to write is one at a time, beside readers, and may wait for them.
    let seen = prices.upgradable_read().await?;
    let write = seen.upgrade().await?;
    println!("alone, token {}", write.token());

    // Nobody writes between the write and the read that follows it; readers that waited come in.
    let read = write.downgrade().await?;
    println!("reading what was written; may others read? {}", prices.try_read().await?.is_some());
    read.release().await?;
    println!("in now: {:?}", prices.inspect().await?);

    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
