//! A process with tasks that acquire permits and release them, for tests that kill it.
//!
//! `taker URL NAME CAPACITY LEASE_MS`: prints `in` once a permit is held, and continues until it is
//! killed.

use std::io::Write;
use std::time::Duration;

use redgrid_core::Client;
use redgrid_semaphore::Semaphore;

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(2).collect();
    let [url, name, capacity, lease] = &args[..] else { return Err("taker URL NAME CAPACITY LEASE_MS".into()) };
    let (capacity, lease) = (capacity.parse::<u64>()?, Duration::from_millis(lease.parse()?));
    let semaphore = Semaphore::new(&Client::connect(url).await?, name, capacity);
    let tasks = (0..capacity).map(|_| {
        let semaphore = semaphore.clone();
        tokio::spawn(async move {
            loop {
                let permits = fastrand::u64(1..=capacity.div_ceil(2));
                let Ok(permit) = semaphore.acquire_many(permits).auto_renew(lease).await else { continue };
                let mut out = std::io::stdout();
                let _ = writeln!(out, "in").and_then(|()| out.flush());
                tokio::time::sleep(Duration::from_millis(fastrand::u64(0..20))).await;
                drop(permit);
            }
        })
    });
    futures_util::future::join_all(tasks).await;
    Ok(())
}
