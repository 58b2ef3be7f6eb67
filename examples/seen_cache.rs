//! Shows a set cache: a message that was already handled within the last minute is not handled
//! again.
//!
//! Run it with `cargo run -p redgrid-examples --example seen_cache`, for a server at 127.0.0.1:6379
//! or `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let seen = grid.set_cache::<u64>("redgrid-example:seen");
    for message in [1, 2, 1, 3, 2] {
        // This is one step: if two processes do it concurrently, only one gets `true`.
        match seen.insert_if_absent(&message).expires_in(Duration::from_secs(60)).await? {
            true => println!("{message}: handled"),
            false => println!("{message}: seen, and forgotten in {:?}", seen.lifetime(&message).await?),
        }
    }
    println!("{} seen", seen.len().await?);
    seen.clear().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
