//! Shows a count-down latch: three services work on parts of a job, and two readers wait for the
//! last part.
//!
//! Run it with `cargo run -p redgrid-examples --example fan_out_and_wait`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;
use redgrid::countdown_latch::WaitError;

const PARTS: u64 = 6;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(url.as_str()).await?;
    let import = grid.countdown_latch("redgrid-example:import");
    // The latch expires after a minute, in case a service dies before it finishes its part.
    if !import.try_set_count(PARTS).expires_in(Duration::from_secs(60)).await? {
        println!("another import is under way, {} parts to go", import.count().await?);
        return Ok(());
    }

    // Two readers need the result: an index and a report.
    let mut readers = Vec::new();
    for reader in ["index", "report"] {
        let import = import.clone();
        readers.push(tokio::spawn(async move {
            match import.wait().timeout(Duration::from_secs(30)).await {
                Ok(()) => println!("{reader}: all parts are there"),
                Err(WaitError::TimedOut { waited, .. }) => println!("{reader}: gave up after {waited:?}"),
                Err(other) => println!("{reader}: {other}"),
            }
        }));
    }

    // Three services, each with its own client and two parts.
    let mut services = Vec::new();
    for service in 0..3 {
        let grid = Grid::connect(url.as_str()).await?;
        services.push(tokio::spawn(async move {
            let import = grid.countdown_latch("redgrid-example:import");
            for part in [2 * service, 2 * service + 1] {
                tokio::time::sleep(Duration::from_millis(40 * (part + 1))).await; // the work
                let left = import.count_down().await?;
                println!("service {service}: part {part} is done, {left} to go");
            }
            grid.shutdown(Duration::from_secs(5)).await?;
            Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
        }));
    }
    for service in services {
        service.await?.map_err(|error| error.to_string())?;
    }
    for reader in readers {
        reader.await?;
    }
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
