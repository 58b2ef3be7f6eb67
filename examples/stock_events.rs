//! What happens to objects, as it happens: sales of a product, and carts whose time is over.
//!
//! `cargo run -p redgrid-examples --example stock_events`

use std::time::Duration;

use redgrid::Grid;
use redgrid::object::events::{Kind, Kinds, Notice};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let stock = grid.map::<String, u32>("redgrid-example:stock-events");

    // The server is told to tell, if it does not yet. From here on nothing is missed that is not told to be.
    let mut sales = stock.object().events(Kinds::named(["hset", "hdel"])).enable().await?;
    let mut carts = grid.events_of("redgrid-example:cart:*", Kind::Expired).enable().await?;

    stock.insert("P0007", &3).await?;
    let cart = grid.bucket::<String>("redgrid-example:cart:42");
    cart.set(&"P0007".into()).expires_in(Duration::from_millis(100)).await?;

    for events in [&mut sales, &mut carts] {
        match events.next().await {
            Some(Notice::Event(event)) => println!("{}: {:?} by {}", event.name, event.kind, event.command),
            Some(Notice::Gap(why)) => println!("look for yourself: {why:?}"),
            Some(Notice::Uncertain(why)) => println!("nobody knows whether events come: {why}"),
            None => println!("the client has ended"),
        }
    }

    stock.clear().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
