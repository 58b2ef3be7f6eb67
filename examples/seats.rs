//! Shows a bit set: the first request for a seat gets it, and the server finds free ones.
//!
//! Run it with `cargo run -p redgrid-examples --example seats`, for a server at 127.0.0.1:6379 or
//! `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let seats = grid.bit_set("redgrid-example:seats");
    seats.set_range(0..20, true).await?; // sold before

    // Only the first guest finds the bit clear.
    for guest in ["Ada", "Bob"] {
        let was_taken = seats.set(42, true).await?;
        println!("{guest}: {}", if was_taken { "another guest was faster" } else { "seat 42" });
    }
    println!("the first free seat is {:?}", seats.next_clear(0).await?);
    println!("{} of the first hundred are taken", seats.count_in(0..100).await?);

    seats.clear().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
