//! Shows order numbers that are unique over all processes and rise with time, and small numbers for
//! tickets.
//!
//! Run it with `cargo run -p redgrid-examples --example order_ids`, for a server at 127.0.0.1:6379
//! or `REDGRID_URL`.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use redgrid::Grid;
use redgrid::id_generator::IdError;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(url.as_str()).await?;

    // The names are unique to this run: no other process uses them when they are deleted.
    let run = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos();
    let orders = grid.time_ordered_id(format!("redgrid-example:order-{run}"));
    let tasks = (0..10).map(|_| {
        let orders = orders.clone();
        tokio::spawn(async move {
            let mut ids = Vec::new();
            for _ in 0..1_000 {
                ids.push(orders.next().await?);
            }
            Ok::<_, IdError>(ids)
        })
    });
    let mut all = HashSet::new();
    for task in tasks.collect::<Vec<_>>() {
        all.extend(task.await??);
    }
    let last = orders.next().await?;
    let made = orders.decode(last)?;
    println!("{} orders; then {last}: number {} of its day, at {:?}", all.len(), made.sequence, made.time);

    // Ids start at a million, in blocks of 100; the first call of `try_init` sets this. Java
    // services share the keys.
    let tickets = grid.id_generator(format!("redgrid-example:ticket-{run}"));
    tickets.try_init(1_000_000, 100).await?;
    println!("ticket {}", tickets.next().await?);

    // The counter of a day expires two days later. No process may draw ids after its deletion.
    tickets.delete().await?;
    grid.command("DEL").key(orders.counter_of(made.time)?.as_str())?.query::<()>().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
