//! Shows a deque: the newest steps are undone at one end, and the oldest are dropped at the other.
//!
//! Run it with `cargo run -p redgrid-examples --example undo_deque`, for a server at 127.0.0.1:6379
//! or `REDGRID_URL`.

use std::time::Duration;

use redgrid::{Grid, queue::End};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let steps = grid.deque::<String>("redgrid-example:steps");
    for step in ["draw", "paint", "erase", "write"] {
        steps.push_back(step).await?;
        if steps.len().await? > 3 {
            println!("forgotten: {:?}", steps.pop_front().await?);
        }
    }
    println!("undone: {:?}", steps.take_within(End::Back, Duration::ZERO).await?);
    println!("left: {:?}", steps.read_all().await?);

    steps.object().delete().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
