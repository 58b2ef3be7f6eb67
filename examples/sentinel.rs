//! Shows locks on a primary that sentinels monitor, and a grant that is valid only after replicas
//! have it.
//!
//! Run it with `cargo run -p redgrid-examples --example sentinel`. Set the sentinels in
//! `REDGRID_SENTINELS` (`127.0.0.1:26379,127.0.0.1:26380`) and the primary's name in
//! `REDGRID_MASTER` (by default `mymaster`).

use std::error::Error;
use std::time::Duration;

use redgrid::config::Durability;
use redgrid::locks::AcquireError;
use redgrid::{Config, Grid};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let sentinels = std::env::var("REDGRID_SENTINELS").unwrap_or_else(|_| "127.0.0.1:26379".into());
    let name = std::env::var("REDGRID_MASTER").unwrap_or_else(|_| "mymaster".into());
    // As a URL: redis-sentinel://127.0.0.1:26379,127.0.0.1:26380/mymaster
    let grid = Grid::connect(Config::sentinel(name, sentinels.split(','))?).await?;
    grid.wait_ready(Duration::from_secs(5)).await?;

    // By default the primary alone grants locks. After a failover, the new primary may lack the
    // last grants.
    let lock = grid.lock("redgrid-example:nightly");
    let guard = lock.acquire().timeout(Duration::from_secs(10)).await?;
    println!("acquired from the primary, token {}", guard.token());
    guard.release().await?;

    // This grant is valid only after replicas have it. Set `at_least` to the number of replicas
    // that may be promoted.
    let durable = Durability::Replicas { at_least: 1, timeout: Duration::from_secs(1) };
    match lock.acquire().timeout(Duration::from_secs(10)).durability(durable).await {
        Ok(guard) => {
            println!("acquired, and known to a replica, token {}", guard.token());
            guard.release().await?;
        }
        Err(AcquireError::NotDurable { .. }) => println!("no replica had it in time: released, nothing is held"),
        Err(error) => return Err(error.into()),
    }

    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
