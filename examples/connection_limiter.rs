//! Shows a semaphore shared by three services: together they never open more connections than a
//! database accepts.
//!
//! Run it with `cargo run -p redgrid-examples --example connection_limiter`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redgrid::Grid;
use redgrid::semaphore::AcquireError;

/// The number of connections that the database accepts.
const CONNECTIONS: u64 = 5;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let (open, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));

    // Three services, each with its own client and more queries than connections.
    let mut services = Vec::new();
    for service in 0..3 {
        let grid = Grid::connect(url.as_str()).await?;
        let (open, most) = (Arc::clone(&open), Arc::clone(&most));
        services.push(tokio::spawn(async move {
            // If a service dies, its permits become available again within one lease.
            let connections = grid.semaphore("redgrid-example:connections", CONNECTIONS);
            let mut queries = Vec::new();
            for query in 0..8_u64 {
                let (connections, open, most) = (connections.clone(), Arc::clone(&open), Arc::clone(&most));
                queries.push(tokio::spawn(async move {
                    // A report needs two connections at once: it gets both or none.
                    let needs = if query == 0 { 2 } else { 1 };
                    match connections.acquire_many(needs).timeout(Duration::from_secs(10)).await {
                        Ok(permit) => {
                            most.fetch_max(open.fetch_add(needs, Ordering::SeqCst) + needs, Ordering::SeqCst);
                            tokio::time::sleep(Duration::from_millis(20)).await; // the query
                            open.fetch_sub(needs, Ordering::SeqCst);
                            permit.release().await?;
                        }
                        Err(AcquireError::TimedOut { waited, .. }) => println!("no connection after {waited:?}"),
                        Err(other) => return Err(other.into()),
                    }
                    Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
                }));
            }
            for query in queries {
                query.await??;
            }
            println!("service {service}: done");
            grid.shutdown(Duration::from_secs(5)).await?;
            Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
        }));
    }
    for service in services {
        service.await?.map_err(|error| error.to_string())?;
    }
    let grid = Grid::connect(url.as_str()).await?;
    grid.semaphore("redgrid-example:connections", CONNECTIONS).delete().await?;
    println!("at most {} of {CONNECTIONS} connections were open at a time", most.load(Ordering::SeqCst));
    Ok(())
}
