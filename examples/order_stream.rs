//! Shows a stream: each order is delivered to one consumer of a group until it is acknowledged.
//!
//! Run it with `cargo run -p redgrid-examples --example order_stream`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;
use redgrid::stream::{Start, Trim};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let orders = grid.stream::<String, u64>("redgrid-example:orders");

    // The stream keeps about the last hundred thousand entries.
    let keep = Trim::max_len(100_000).approximately();
    for (article, amount) in [("book", 2), ("lamp", 1), ("book", 5)] {
        let id = orders.add(article, &amount).trim(keep).await?;
        println!("{id}: {amount} × {article}");
    }
    // The entry is added exactly once, even if a reply is lost.
    orders.add("piano", &1).exactly_once().await?;

    // Two consumers share the work. If one dies, the other takes over its pending entries after a
    // minute.
    let shipping = orders.group("shipping");
    let consumer = |name: &str| {
        let deliveries = shipping.consumer(name).page(2).create_if_missing(Start::Beginning);
        deliveries.claim_idle(Duration::from_secs(60))
    };
    let (mut one, mut other) = (consumer("one"), consumer("other"));
    for _ in 0..2 {
        for (name, deliveries) in [("one", &mut one), ("other", &mut other)] {
            if let Some(delivery) = deliveries.try_next().await? {
                println!("{name} ships {:?}", delivery.fields);
                delivery.ack().await?;
            }
        }
    }
    println!("{} are pending, of {} orders", shipping.pending().await?.total, orders.len().await?);

    // Reads all entries, with one page in memory at a time.
    let (mut entries, mut books) = (orders.entries(..), 0);
    while let Some(entry) = entries.try_next().await? {
        books += entry.get("book").copied().unwrap_or_default();
    }
    println!("{books} books were ordered");

    orders.object().delete().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
