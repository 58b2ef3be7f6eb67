//! Shows a sharded map: shopping carts that are distributed over all nodes of a cluster.
//!
//! Run it with `cargo run -p redgrid-examples --example sharded_carts`, for a cluster at
//! `REDGRID_URL`, such as `redis-cluster://127.0.0.1:7000`.

use std::time::Duration;

use redgrid::Grid;
use redgrid::sharded::ShardedMap;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let carts: ShardedMap<u32, u32> = grid.sharded_map("redgrid-example:carts").with_shards(16);
    let some: Vec<(u32, u32)> = (0..1000).map(|customer| (customer, customer % 7)).collect();
    carts.set_many(some.iter().map(|(customer, items)| (customer, items))).await?;
    carts.update(&42, |items| *items += 1).await?;

    println!("{} carts; of 42: {:?}", carts.len().await?, carts.get(&42).await?);
    for customer in 0..3 {
        let part = carts.shard_of(&customer).await?;
        println!("{customer} is in {:?}, with {} others", part.object().name(), part.len().await? - 1);
    }
    let (mut entries, mut items) = (carts.entries(), 0);
    while let Some((_, of_one)) = entries.try_next().await? {
        items += of_one;
    }
    println!("{items} items in all");

    carts.object().delete().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
