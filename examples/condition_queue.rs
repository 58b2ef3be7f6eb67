//! Shows a condition variable: consumers of a queue under a lock wait for an element without
//! holding the lock.
//!
//! Run it with `cargo run -p redgrid-examples --example condition_queue`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::error::Error;
use std::time::Duration;

use redgrid::Grid;

const QUEUE: &str = "redgrid-example:queue";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let takers: Vec<_> = (1..=2).map(|taker| tokio::spawn(take(url.clone(), taker))).collect();

    let grid = Grid::connect(url.as_str()).await?;
    let (lock, filled) = (grid.lock(format!("{QUEUE}:lock")), grid.condition(format!("{QUEUE}:filled")));
    for item in 1..=6 {
        let guard = lock.acquire().await?;
        grid.command("RPUSH").key(QUEUE)?.arg(format!("item {item}")).query::<i64>().await?;
        filled.notify_one().await?;
        guard.release().await?;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for taker in takers {
        taker.await?.map_err(|error| error.to_string())?;
    }
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

async fn take(url: String, taker: u32) -> Result<(), Box<dyn Error + Send + Sync>> {
    let grid = Grid::connect(url.as_str()).await?;
    let (lock, filled) = (grid.lock(format!("{QUEUE}:lock")), grid.condition(format!("{QUEUE}:filled")));
    for _ in 0..3 {
        let mut guard = lock.acquire().await?;
        let item = loop {
            match grid.command("LPOP").key(QUEUE)?.query::<Option<String>>().await? {
                Some(item) => break item,
                None => guard = filled.wait(guard).await?, // the lock is released meanwhile
            }
        };
        println!("taker {taker}: {item}");
        guard.release().await?;
    }
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
