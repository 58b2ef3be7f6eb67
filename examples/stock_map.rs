//! Shows a map: stock that all processes sell from, read page by page, and numbers to which the
//! server adds.
//!
//! Run it with `cargo run -p redgrid-examples --example stock_map`, for a server at 127.0.0.1:6379
//! or `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;
use redgrid::codecs::{Long, Text};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let stock = grid.map::<String, u32>("redgrid-example:stock");
    let delivery: Vec<(String, u32)> = (1..=1000).map(|n| (format!("P{n:04}"), n % 5)).collect();
    stock.set_many(delivery.iter().map(|(product, count)| (product, count))).await?;

    // Sells one item if one is left. The server compares the value, so no item is sold twice.
    let mut sold = false;
    let left = stock
        .update("P0007", |left| {
            sold = *left > 0;
            *left -= u32::from(sold);
        })
        .await?;
    println!("sold: {sold}, left: {left:?}");

    // One page is in memory at a time.
    let (mut entries, mut out_of_stock) = (stock.entries(), 0);
    while let Some((_, left)) = entries.try_next().await? {
        out_of_stock += u32::from(left == 0);
    }
    println!("{out_of_stock} of {} are out of stock", stock.len().await?);

    // The server itself adds to these numbers.
    let counts = grid.map_with::<String, i64, _, _>("redgrid-example:sales", Text, Long);
    println!("{} sales today", counts.add("today", &i64::from(sold)).await?);

    stock.clear().await?;
    counts.clear().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
