//! Shows numbers that all processes share. Many tasks add to one number, and concurrent additions
//! are combined into one command.
//!
//! Run it with `cargo run -p redgrid-examples --example hit_counter`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;
use redgrid::atomic_long::AtomicError;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let hits = grid.atomic_long("redgrid-example:hits");
    let tasks = (0..10).map(|_| {
        let hits = hits.clone();
        tokio::spawn(async move {
            for _ in 0..1_000 {
                hits.increment().await?;
            }
            Ok::<_, AtomicError>(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await??;
    }
    println!("{} hits", hits.get().await?);

    // At most 100 tickets are sold, over all processes.
    let tickets = grid.atomic_long("redgrid-example:tickets");
    match tickets.add(1).at_most(100).await {
        Ok(number) => println!("ticket {number}"),
        Err(AtomicError::OutOfBounds { .. }) => println!("sold out"),
        Err(error) => return Err(error.into()),
    }

    // This number may have a fraction.
    let paid = grid.atomic_double("redgrid-example:paid");
    paid.add(9.75).await?;
    println!("{} paid", paid.add(0.25).await?);
    paid.delete().await?;
    hits.delete().await?;
    tickets.delete().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
