//! Shows work on many keys: objects under a prefix are counted, given a lifetime, and deleted with
//! their companion keys.
//!
//! Run it with `cargo run -p redgrid-examples --example cart_keys`, for a server at 127.0.0.1:6379
//! or `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;
use redgrid::keys::Kind;
use redgrid::object::Lifetime;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let keys = grid.keys();

    for user in 1..=5 {
        let cart = grid.map::<String, u32>(format!("redgrid-example:cart:{user}"));
        cart.insert("P0007", &user).await?;
    }

    // Carts live for an hour from now on.
    let carts: Vec<_> = keys.objects().matching("redgrid-example:cart:*").of_kind(Kind::Hash).try_collect().await?;
    println!("{} carts live on for an hour", keys.expire_in(Duration::from_secs(3600), &carts).await?);

    // Lists the carts of every primary, a page at a time.
    let mut found = keys.objects().matching("redgrid-example:cart:[1-3]");
    while let Some(cart) = found.try_next().await? {
        let lives = keys.lifetimes([&cart]).await?;
        if let Some(Lifetime::Ends(left)) = lives.get(&cart) {
            println!("{cart}: {left:?} left");
        }
    }

    println!("{} of {} objects are gone", keys.delete_by_pattern("redgrid-example:*").await?, carts.len());
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
