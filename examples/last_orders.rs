//! Shows a ring buffer, which keeps the last five of twelve orders.
//!
//! Run it with `cargo run -p redgrid-examples --example last_orders`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let orders = grid.ring_buffer::<u32>("redgrid-example:last-orders");
    orders.try_set_capacity(5).await?;
    let gone = orders.push_many(&(1..=12).collect::<Vec<_>>()).await?;
    println!("the last: {:?}; gone: {gone}", orders.read_all().await?);
    println!("room for {:?} before the oldest goes", orders.remaining_capacity().await?);

    orders.object().delete().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
