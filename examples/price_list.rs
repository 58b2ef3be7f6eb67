//! Shows a price list that each process caches: reads need no server, and a change reaches all
//! processes.
//!
//! Run it with `cargo run -p redgrid-examples --example price_list`, for a server at 127.0.0.1:6379
//! or `REDGRID_URL`.

use std::time::{Duration, Instant};

use redgrid::Grid;
use redgrid::local_cached_map::Options;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let (shop, office) = (Grid::connect(&*url).await?, Grid::connect(&*url).await?);
    let name = "redgrid-example:prices";
    let options = Options::default().max_entries(10_000).time_to_live(Duration::from_secs(3600));
    let prices = shop.local_cached_map::<String, u32>(name, options);
    let ours = office.local_cached_map::<String, u32>(name, options);
    let list: Vec<(String, u32)> = (1..=1000).map(|n| (format!("P{n:04}"), n)).collect();
    ours.set_many(list.iter().map(|(product, price)| (product, price))).await?;

    // Loads the whole list at once; otherwise each price is loaded on demand.
    println!("{} prices are cached", prices.pre_load(10_000).await?);
    // The cache becomes active after its first heartbeat, which takes a round trip.
    while !prices.is_active() {
        prices.get("P0001").await?;
    }
    let began = Instant::now();
    for (product, _) in &list {
        prices.get(product).await?;
    }
    println!(
        "1000 prices in {:?}, {:.0} % of all without the server",
        began.elapsed(),
        100.0 * prices.stats().hit_ratio()
    );

    // Another process changes a price, and this process is notified.
    ours.set("P0007", &700_u32).await?;
    while prices.get("P0007").await? != Some(700) {
        tokio::task::yield_now().await;
    }
    println!("{:?}", prices.stats());

    ours.clear().await?;
    shop.shutdown(Duration::from_secs(5)).await?;
    office.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
