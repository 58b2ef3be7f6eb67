//! Shows connection events for a log, and a health check for a readiness probe. The program cuts
//! its own connection, as a restart of the server would.
//!
//! Run it with `cargo run -p redgrid-examples --example events`, for a server at 127.0.0.1:6379 or
//! `REDGRID_URL`.

use std::error::Error;
use std::time::Duration;

use redgrid::Grid;
use redgrid::client::ConnectionEvent;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let (grid, operator) = (Grid::connect(url.as_str()).await?, Grid::connect(url.as_str()).await?);
    let client = grid.client();
    client.wait_ready(Duration::from_secs(5)).await?;

    let topology = client.topology();
    println!("{}: {} primaries", topology.kind, topology.shards.len());
    readiness(client).await;

    // The receiver gets events from this call on. A receiver that is too slow gets the number of
    // missed events.
    let mut events = client.events();
    let guard = grid.lock("redgrid-example:events").acquire().await?;
    let id: i64 = client.command("CLIENT").arg("ID").query().await?;
    operator.client().command("CLIENT").arg("KILL").arg("ID").arg(id.to_string()).query::<i64>().await?;

    let news = tokio::time::timeout(Duration::from_secs(10), async {
        while let Some(event) = events.recv().await {
            match event {
                ConnectionEvent::Lost { node, why } => println!("lost {node}: {why}"),
                ConnectionEvent::Connected { node } => {
                    println!("connected to {node} again");
                    break;
                }
                other => println!("{other:?}"),
            }
        }
    });
    news.await?;

    // After reconnecting, the client verifies all its holds immediately.
    println!("still held: {}", guard.is_held());
    readiness(client).await;
    guard.release().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    operator.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

/// Prints the result of a readiness probe.
async fn readiness(client: &redgrid::Client) {
    let health = client.health().timeout(Duration::from_secs(1)).await;
    println!("ready: {}, holding {}", health.is_ready(), health.held);
    for node in &health.nodes {
        println!("  {} {:?}: answered in {:?}, trouble: {:?}", node.node, node.part, node.round_trip, node.trouble);
    }
}
