//! Shows barriers: four workers begin each round together, and end it together.
//!
//! Run it with `cargo run -p redgrid-examples --example job_start_barrier`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::error::Error;
use std::time::Duration;

use redgrid::Grid;
use redgrid::barrier::BarrierError;

const NAME: &str = "redgrid-example:import";
const WORKERS: u32 = 4;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let workers: Vec<_> = (1..=WORKERS).map(|worker| tokio::spawn(work(url.clone(), worker))).collect();
    for worker in workers {
        worker.await?.map_err(|error| error.to_string())?;
    }

    // A single waiter times out, and is not counted afterwards.
    let grid = Grid::connect(url.as_str()).await?;
    match grid.barrier(NAME, WORKERS).wait().timeout(Duration::from_millis(300)).await {
        Err(BarrierError::TimedOut { waited, .. }) => println!("alone: gave up after {waited:?}"),
        other => println!("not alone: {other:?}"),
    }
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

async fn work(url: String, worker: u32) -> Result<(), Box<dyn Error + Send + Sync>> {
    let grid = Grid::connect(url.as_str()).await?; // in practice, a process of its own
    tokio::time::sleep(Duration::from_millis(100) * worker).await; // some start later than others

    let start = grid.barrier(NAME, WORKERS);
    for _ in 0..2 {
        let result = start.wait().timeout(Duration::from_secs(30)).await?;
        println!("worker {worker}: round {}", result.generation());
        if result.is_leader() {
            println!("worker {worker} was the last to come");
        }
    }

    let section =
        grid.double_barrier(format!("{NAME}:write"), WORKERS).enter().timeout(Duration::from_secs(30)).await?;
    tokio::time::sleep(Duration::from_millis(50) * worker).await; // the worker's part of the work
    section.leave().timeout(Duration::from_secs(30)).await?;
    println!("worker {worker}: all parts are written");

    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
