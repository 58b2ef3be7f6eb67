//! Shows an event and a notification: workers start when the shop opens, and are woken one by one.
//!
//! Run it with `cargo run -p redgrid-examples --example open_for_business`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;
use redgrid::barrier::WaitError;
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let open = grid.event("redgrid-example:open");
    let bell = grid.notify("redgrid-example:bell");

    let mut workers = JoinSet::new();
    for worker in ["ann", "bob"] {
        let (open, bell) = (open.clone(), bell.clone());
        workers.spawn(async move {
            open.wait().await?; // returns at once if it is open
            println!("{worker} is here");
            bell.notified().await?;
            println!("{worker} serves a customer");
            Ok::<_, WaitError>(())
        });
    }

    println!("opened just now: {}", open.set().await?);
    while !workers.is_empty() {
        // Wakes the waiter that has waited longest. If there is no waiter, the next one returns
        // immediately.
        println!("a worker waited for the bell: {}", bell.notify_one().await?);
        if let Some(served) = workers.join_next().await {
            served??;
        }
    }

    for object in [open.object(), bell.object()] {
        object.delete().await?;
    }
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
