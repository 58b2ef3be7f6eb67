//! Shows a sale of a popular product, under one lock and under eight segments, which are faster.
//!
//! Both sales end with a stock of exactly 0.
//!
//! Run it with `cargo run --release -p redgrid-examples --example segmented_sale`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redgrid::Grid;
use redgrid::locks::SegmentedLock;

const STOCK: u64 = 240;
const WORKERS: usize = 32;
const PAIRS: usize = 5;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Returns the key of a part of the stock.
fn part(segments: usize, index: usize) -> String {
    format!("redgrid-example:sale:{segments}:{index}:left")
}

/// The response time of a payment service, during each sale.
const PAYMENT: Duration = Duration::from_millis(5);

/// Buys one item; false if every part is empty. The steps read, check, pay and write are protected
/// only by the lock of the part.
async fn buy(grid: &Grid, hot: &SegmentedLock, worker: usize) -> Outcome<bool> {
    // Every holder in this program releases its segment, so each wait for a segment succeeds.
    let mut segments = hot.segments_from(worker).segment_timeout(Duration::from_secs(30));
    while let Some(segment) = segments.next().await? {
        let key = part(hot.segments(), segment.index());
        let left: u64 = grid.command("GET").key(&key)?.query().await?;
        if left > 0 {
            tokio::time::sleep(PAYMENT).await;
            grid.command("SET").key(&key)?.arg((left - 1).to_string()).query::<()>().await?;
            segment.release().await?;
            return Ok(true);
        }
        // Sold items are not returned, so the other workers of this client skip the segment.
        segment.mark_empty().await?;
    }
    Ok(false)
}

/// Sells the whole stock, and returns how long it took.
async fn sell(grids: &[Grid], segments: usize) -> Outcome<Duration> {
    let name = format!("redgrid-example:sale:{segments}");
    let shares = grids[0].segmented_lock(&name, segments).shares(STOCK);
    for (index, share) in shares.iter().enumerate() {
        grids[0].command("SET").key(part(segments, index))?.arg(share.to_string()).query::<()>().await?;
    }
    let hot: Vec<_> = grids.iter().map(|grid| grid.segmented_lock(&name, segments)).collect();
    let sold = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            // One client's workers start at even segments, the other's at odd ones. They continue
            // with further segments when these are empty.
            let (grid, hot) = (grids[worker % grids.len()].clone(), hot[worker % grids.len()].clone());
            let sold = Arc::clone(&sold);
            tokio::spawn(async move {
                while buy(&grid, &hot, worker).await? {
                    sold.fetch_add(1, Ordering::Relaxed);
                }
                Outcome::Ok(())
            })
        })
        .collect();
    for worker in workers {
        worker.await??;
    }
    let took = began.elapsed();
    let mut left = 0;
    for index in 0..segments {
        left += grids[0].command("GET").key(part(segments, index))?.query::<u64>().await?;
        grids[0].command("DEL").key(part(segments, index))?.query::<()>().await?;
    }
    if (sold.load(Ordering::Relaxed), left) != (STOCK, 0) {
        return Err(format!("{} of {STOCK} sold, {left} left", sold.load(Ordering::Relaxed)).into());
    }
    Ok(took)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    // Two clients represent two processes.
    let grids = [Grid::connect(url.as_str()).await?, Grid::connect(url.as_str()).await?];
    let (mut single, mut segmented) = (Vec::new(), Vec::new());
    for pair in 1..=PAIRS {
        // The sales run one after another, so that both have the whole machine.
        single.push(sell(&grids, 1).await.map_err(|error| error.to_string())?);
        segmented.push(sell(&grids, 8).await.map_err(|error| error.to_string())?);
        println!("pair {pair}: one lock {:?}, eight segments {:?}", single[pair - 1], segmented[pair - 1]);
    }
    let mut ratios: Vec<f64> = single.iter().zip(&segmented).map(|(one, many)| one.div_duration_f64(*many)).collect();
    ratios.sort_by(f64::total_cmp);
    single.sort();
    segmented.sort();
    let middle = PAIRS / 2;
    println!("{STOCK} sold by {WORKERS} workers, each time to exactly 0");
    println!(
        "medians: one lock {:?}, eight segments {:?}, {:.2} times as fast",
        single[middle], segmented[middle], ratios[middle]
    );
    for grid in grids {
        grid.shutdown(Duration::from_secs(5)).await?;
    }
    Ok(())
}
