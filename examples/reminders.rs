//! Shows a delayed queue: reminders are taken in the order of their times, and one is cancelled.
//!
//! Run it with `cargo run -p redgrid-examples --example reminders`, for a server at 127.0.0.1:6379
//! or `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let reminders = grid.delayed_queue::<String>("redgrid-example:reminders");
    reminders.push("tea", Duration::from_millis(600)).await?;
    reminders.push("stretch", Duration::from_millis(200)).await?;
    let call = reminders.push("call back", Duration::from_millis(400)).await?;
    println!("{} to come, the first in {:?}", reminders.len().await?, reminders.read_delayed(1).await?[0].1);

    println!("cancelled: {}", reminders.cancel(&call).await?);
    while let Some(reminder) = reminders.take_within(Duration::from_secs(1)).await? {
        println!("now: {reminder}");
    }

    reminders.object().delete().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
