//! Shows HyperLogLogs: estimates of the number of different visitors of each day, and of both days.
//!
//! Run it with `cargo run -p redgrid-examples --example visitors`, for a server at 127.0.0.1:6379
//! or `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let (monday, tuesday) = ("{redgrid-example:visitors}:monday", "{redgrid-example:visitors}:tuesday");
    let (first, second) = (grid.hyper_log_log::<u32>(monday), grid.hyper_log_log::<u32>(tuesday));
    first.add_many(&(0..10_000).collect::<Vec<_>>()).await?;
    second.add_many(&(5_000..15_000).collect::<Vec<_>>()).await?;

    println!("monday: about {}, tuesday: about {}", first.count().await?, second.count().await?);
    println!("both: about {}", first.count_with([tuesday]).await?);

    first.object().delete().await?;
    second.object().delete().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
