//! Shows events of objects: sales of a product as they happen, and carts that expire.
//!
//! Run it with `cargo run -p redgrid-examples --example stock_events`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;
use redgrid::object::events::{Kind, Kinds, Notice};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let stock = grid.map::<String, u32>("redgrid-example:stock-events");

    // `enable` makes the server publish events if it does not. From this call on, each loss of
    // events is reported as a gap.
    let mut sales = stock.object().events(Kinds::named(["hset", "hdel"])).enable().await?;
    let mut carts = grid.events_of("redgrid-example:cart:*", Kind::Expired).enable().await?;

    stock.insert("P0007", &3).await?;
    let cart = grid.bucket::<String>("redgrid-example:cart:42");
    cart.set(&"P0007".into()).expires_in(Duration::from_millis(100)).await?;

    for events in [&mut sales, &mut carts] {
        match events.next().await {
            Some(Notice::Event(event)) => println!("{}: {:?} by {}", event.name, event.kind, event.command),
            Some(Notice::Gap(why)) => println!("events may be missing: {why:?}"),
            Some(Notice::Uncertain(why)) => println!("events may not arrive: {why}"),
            Some(other) => println!("{other:?}"),
            None => println!("the client has ended"),
        }
    }

    stock.clear().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
