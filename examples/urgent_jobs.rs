//! Shows a priority queue: the most urgent job is first, and equally urgent jobs keep their order.
//!
//! Run it with `cargo run -p redgrid-examples --example urgent_jobs`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let jobs = grid.priority_queue::<String>("redgrid-example:urgent-jobs");
    jobs.clear().await?;

    // The smallest priority is taken first.
    let names = ["newsletter", "invoice 1", "invoice 2", "alarm"].map(String::from);
    let pushed = jobs.push_many(names.iter().zip([9, 5, 5, 1])).await?;
    // The newsletter becomes the most urgent.
    jobs.change_priority(&pushed[0], 0).await?;
    println!("{} jobs, the last of them {:?}", jobs.len().await?, jobs.peek_last().await?);

    while let Some((priority, job)) = jobs.take_within(Duration::from_millis(100)).await? {
        println!("{priority}: {job}");
    }
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
