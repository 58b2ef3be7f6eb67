//! Names that are used once: the cost of an acquire and a release, and the memory used afterwards.
//! The client must not retain memory for a name.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redgrid_core::{Client, Config};
use redgrid_locks::Lock;
use redgrid_testkit::{RedisServer, wait_until};
use tokio::task::JoinSet;

use crate::look::{Counted, Own};
use crate::report::Report;
use crate::{AT_A_TIME, SOON, Trouble, connected};

/// Number of names used before the first measurement. After them, connections, script caches,
/// tables and buffers have reached their final size.
const WARM: usize = 20_000;

/// Bytes that may remain on the heap for each name: fewer than any retained data structure takes.
const BYTES_A_NAME: f64 = 1.0;

/// Bytes allowed for buffers. Their size does not depend on the number of names.
const BUFFERS: f64 = 512.0 * 1024.0;

/// Number of intermediate measurements.
const LOOKS: usize = 10;

pub(crate) async fn play(report: &mut Report, names: usize) -> Result<(), Trouble> {
    let server = RedisServer::start().await?;
    let observer = server.observer().await?;
    let client = connected(Config::single(server.addr().to_string())?).await?;
    use_once(&client, 0..WARM).await?;
    let (own, counted) = (at_rest(&client).await, Counted::at(&observer).await?);
    let (mut most, mut done, began) = (0.0_f64, 0, Instant::now());
    let mut working = Duration::ZERO;
    for look in 1..=LOOKS {
        let until = names * look / LOOKS;
        let from = Instant::now();
        use_once(&client, WARM + done..WARM + until).await?;
        working += from.elapsed();
        done = until;
        let heap = at_rest(&client).await.heap - own.heap;
        most = most.max(heap);
        report.say(&format!("{done} names, {:.0} kB more on the heap", heap / 1024.0));
    }
    let (after, counted) = (at_rest(&client).await, Counted::at(&observer).await?.since(counted));
    let pairs = names as f64;
    let keys: usize = observer.query(&["DBSIZE"]).await?;
    report.at_most("heap afterwards, bytes more", after.heap - own.heap, BYTES_A_NAME * pairs + BUFFERS);
    report.at_most("heap at any measurement, bytes more", most, BYTES_A_NAME * pairs + BUFFERS);
    report.exactly("names in the client's tables afterwards", client.stats().names, 0);
    report.exactly("keys on the server afterwards", keys, 0);
    report.number("heap before, kB", own.heap / 1024.0);
    report.number("heap afterwards, kB more", (after.heap - own.heap) / 1024.0);
    report.number("heap at most, kB more", most / 1024.0);
    report.number("resident before, kB", own.resident / 1024.0);
    report.number("resident afterwards, kB more", (after.resident - own.resident) / 1024.0);
    report.number("server's memory, kB more", counted.memory / 1024.0);
    report.number("pairs a second", pairs / working.as_secs_f64());
    report.number("client, µs a pair", (after.cpu - own.cpu) * 1e6 / pairs);
    report.number("server, µs a pair", counted.cpu * 1e6 / pairs);
    report.number("server busy", counted.cpu / began.elapsed().as_secs_f64());
    report.number("commands a pair", counted.commands / pairs);
    report.number("bytes a pair", (counted.read + counted.written) / pairs);
    client.shutdown(SOON).await?;
    Ok(())
}

/// Acquires and releases each of the names, with a limit on concurrent requests.
async fn use_once(client: &Client, names: std::ops::Range<usize>) -> Result<(), Trouble> {
    let (next, end) = (Arc::new(AtomicUsize::new(names.start)), names.end);
    let mut tasks = JoinSet::new();
    for _ in 0..AT_A_TIME {
        let (client, next) = (client.clone(), Arc::clone(&next));
        tasks.spawn(async move {
            loop {
                let name = next.fetch_add(1, Ordering::Relaxed);
                if name >= end {
                    return Ok::<(), Trouble>(());
                }
                Lock::new(&client, format!("once:{name}")).acquire().await?.release().await?;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

/// Waits until the client has no names, then measures this process.
async fn at_rest(client: &Client) -> Own {
    wait_until(SOON, async || client.stats().names == 0 && client.stats().channels == 0).await;
    Own::now()
}
