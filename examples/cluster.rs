//! Shows locks in a cluster, which is configured in code by the addresses of some nodes.
//!
//! Run it with `cargo run -p redgrid-examples --example cluster`, and these addresses in
//! `REDGRID_CLUSTER` (`127.0.0.1:7000,127.0.0.1:7001`).

use std::error::Error;
use std::time::Duration;

use redgrid::{Config, Grid};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let seeds = std::env::var("REDGRID_CLUSTER").unwrap_or_else(|_| "127.0.0.1:7000".into());
    // Some nodes are enough: each node names all others. The same configuration as a URL:
    // redis-cluster://127.0.0.1:7000,127.0.0.1:7001
    let config = Config::cluster(seeds.split(','))?.response_timeout(Duration::from_secs(2));
    let grid = Grid::connect(config).await?;
    grid.wait_ready(Duration::from_secs(5)).await?;

    // Each name is on the node of its slot. All keys of a lock share that slot.
    for order in 1..=5 {
        let lock = grid.lock(format!("redgrid-example:order:{order}"));
        let guard = lock.acquire().timeout(Duration::from_secs(2)).await?;
        println!("order {order}: acquired, token {}", guard.token());
        guard.release().await?;
    }

    // Your own commands with several keys need the keys in one slot: give the keys a hash tag.
    for key in ["{redgrid-example:cart:7}:items", "{redgrid-example:cart:7}:total"] {
        grid.command("SET").key(key)?.arg("1").query::<()>().await?;
        grid.command("DEL").key(key)?.query::<()>().await?;
    }

    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
