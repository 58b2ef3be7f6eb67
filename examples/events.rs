//! Hear of connections that come and go, and ask how a client is: what a service logs, and what its readiness probe answers.
//!
//! The program cuts its own connections, as a restart of the server would, and hears of it.
//!
//! `REDGRID_URL=redis://127.0.0.1:6379 cargo run -p redgrid-examples --example events`

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

    // A receiver hears what happens from now on. A slow one is told how much it missed; nobody waits for it.
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

    // What is held is looked after at once when a connection is new.
    println!("still held: {}", guard.is_held());
    readiness(client).await;
    guard.release().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    operator.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

/// What a readiness probe would answer.
async fn readiness(client: &redgrid::Client) {
    let health = client.health().timeout(Duration::from_secs(1)).await;
    println!("ready: {}, holding {}", health.is_ready(), health.held);
    for node in &health.nodes {
        println!("  {} {:?}: answered in {:?}, trouble: {:?}", node.node, node.part, node.round_trip, node.trouble);
    }
}
