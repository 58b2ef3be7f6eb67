//! Shows leader election: three nodes campaign, one leads at a time, and an observer sees each
//! leader.
//!
//! Run it with `cargo run -p redgrid-examples --example election`, for a server at 127.0.0.1:6379
//! or `REDGRID_URL`.

use std::error::Error;
use std::time::Duration;

use redgrid::Grid;

const NAME: &str = "redgrid-example:scheduler";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let watcher = Grid::connect(url.as_str()).await?;
    let mut changes = watcher.election(NAME).observe();
    let observer = tokio::spawn(async move {
        let mut leaders = 0;
        while leaders < 3 {
            match changes.next().await {
                Ok(Some(leader)) => {
                    println!("observed: {} leads, term {}", leader.id_text(), leader.term);
                    leaders += 1;
                }
                Ok(None) => println!("observed: nobody leads"),
                Err(error) => println!("observed nothing: {error}"),
            }
        }
    });

    let nodes: Vec<_> = (1..=3)
        .map(|node| {
            let url = url.clone();
            tokio::spawn(async move {
                let grid = Grid::connect(url.as_str()).await?;
                let leadership = grid.election(NAME).campaign().proclaim(format!("node {node}")).await?;
                // The work of the leader; dropped if leadership is lost.
                leadership.run(tokio::time::sleep(Duration::from_millis(200))).await?;
                leadership.resign().await?;
                grid.shutdown(Duration::from_secs(5)).await?;
                Ok::<_, Box<dyn Error + Send + Sync>>(())
            })
        })
        .collect();
    for node in nodes {
        node.await?.map_err(|error| error.to_string())?;
    }
    observer.await?;
    watcher.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
