//! Shows a fair lock: tickets are sold in order of arrival over all processes, and a waiting buyer
//! reads its position.
//!
//! Run it with `cargo run -p redgrid-examples --example fair_tickets`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;
use redgrid::locks::QueuePosition;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    // Three services, each with its own client.
    let mut services = Vec::new();
    for _ in 0..3 {
        services.push(Grid::connect(url.as_str()).await?);
    }
    let counter = services[0].fair_lock("redgrid-example:tickets");
    let gate = counter.acquire().await?;

    let mut buyers = Vec::new();
    for buyer in 1..=6 {
        let position = QueuePosition::new();
        let asking = services[buyer % 3].fair_lock("redgrid-example:tickets").acquire();
        let asking = asking.timeout(Duration::from_secs(30)).track(&position);
        buyers.push(tokio::spawn(async move {
            let guard = asking.await?;
            println!("buyer {buyer} has ticket {}", guard.token());
            guard.release().await?;
            Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
        }));
        // The next buyer starts when this one is in the queue.
        let before = loop {
            if let Some(before) = counter.position(&position).await? {
                break before;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        println!("buyer {buyer} is in line, {before} before it");
    }
    println!("{} wait; the counter opens", counter.waiting_count().await?);
    gate.release().await?;
    for buyer in buyers {
        buyer.await?.map_err(|error| error.to_string())?;
    }
    for service in services {
        service.shutdown(Duration::from_secs(5)).await?;
    }
    Ok(())
}
