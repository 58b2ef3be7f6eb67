//! Shows a queue with waiting workers. If a worker stops waiting, no job is lost.
//!
//! Run it with `cargo run -p redgrid-examples --example job_queue`, for a server at 127.0.0.1:6379
//! or `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let jobs = grid.queue::<u32>("redgrid-example:jobs");
    let workers: Vec<_> = (0..3)
        .map(|worker| {
            let jobs = jobs.clone();
            tokio::spawn(async move {
                while let Some(job) = jobs.take_within(Duration::from_millis(500)).await? {
                    println!("worker {worker}: job {job}");
                }
                Ok::<_, redgrid::ObjectError>(())
            })
        })
        .collect();
    // A call that is cancelled by a timeout does not remove a job.
    let _ = tokio::time::timeout(Duration::from_millis(10), jobs.take()).await;
    jobs.push_many(&(0..10).collect::<Vec<_>>()).await?;
    for worker in workers {
        worker.await??;
    }
    println!("left: {}", jobs.len().await?);

    jobs.object().delete().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
