//! Measures a lock over many names:
//! `REDGRID_URL=redis://127.0.0.1:6379 cargo bench -p redgrid-locks --bench multi`.
//!
//! It acquires and releases 10,000 names twenty times; with the URL of a cluster, 1,000 names in as
//! many slots. It prints the best time and the median. Without a URL it does nothing.

use std::time::{Duration, Instant};

use redgrid_locks::{Client, MultiLock};

const TIMES: usize = 20;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Ok(url) = std::env::var("REDGRID_URL") else {
        println!("REDGRID_URL names the server");
        return Ok(());
    };
    let names = if url.contains("cluster") { 1_000 } else { 10_000 };
    let client = Client::connect(url.as_str()).await?;
    client.wait_ready(Duration::from_secs(10)).await?;
    let lock = MultiLock::new(&client, (0..names).map(|n| format!("redgrid-bench:multi:{n}")));
    let (mut taken, mut given_back) = (Vec::new(), Vec::new());
    for _ in 0..TIMES {
        let asked = Instant::now();
        let guard = lock.acquire().await?;
        taken.push(asked.elapsed());
        let released = Instant::now();
        guard.release().await?;
        given_back.push(released.elapsed());
    }
    for (what, mut times) in [("taken", taken), ("given back", given_back)] {
        times.sort();
        println!("{names} names {what}: best {:?}, median {:?}", times[0], times[TIMES / 2]);
    }
    client.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
