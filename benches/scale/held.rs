//! Held locks with renewed leases: the memory of each lock, and the processor time of all.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use redgrid_core::Config;
use redgrid_locks::{Lock, LockGuard};
use redgrid_testkit::RedisServer;

use crate::look::{Counted, Own};
use crate::report::Report;
use crate::{AT_A_TIME, SOON, Trouble, connected};

/// The minimum time: two rounds of renewals of ten seconds each. Only whole rounds are counted.
const LEAST: Duration = Duration::from_secs(20);

pub(crate) async fn play(report: &mut Report, locks: usize, idle: Duration) -> Result<(), Trouble> {
    let server = RedisServer::start().await?;
    let observer = server.observer().await?;
    let client = connected(Config::single(server.addr().to_string())?).await?;
    Lock::new(&client, "warm").acquire().await?.release().await?;
    let mut guards: Vec<LockGuard> = Vec::with_capacity(locks);
    let (own, counted) = (Own::now(), Counted::at(&observer).await?);

    let asked = Instant::now();
    let taken = (0..locks).map(|number| {
        let lock = Lock::new(&client, format!("held:{number}"));
        async move { lock.acquire().await }
    });
    let mut taken = stream::iter(taken).buffer_unordered(AT_A_TIME);
    while let Some(guard) = taken.try_next().await? {
        guards.push(guard);
    }
    drop(taken);
    let took = asked.elapsed();
    let (full, held) = (Own::now(), Counted::at(&observer).await?);
    report.say(&format!("{locks} locks held after {:.1} s", took.as_secs_f64()));

    // Whole rounds of renewals are measured. This sleep is the measured time, not a wait for a
    // condition.
    let over = idle.max(LEAST);
    let began = Instant::now();
    tokio::time::sleep(over).await;
    let seconds = began.elapsed().as_secs_f64();
    let (later, renewed) = (Own::now(), Counted::at(&observer).await?.since(held));
    let believed = guards.iter().filter(|guard| guard.is_held()).count();
    let keys: usize = observer.query(&["DBSIZE"]).await?;

    let released = Instant::now();
    let back = stream::iter(guards.drain(..)).map(|guard| guard.release());
    let failed = back.buffer_unordered(AT_A_TIME).filter(|ended| std::future::ready(ended.is_err())).count().await;
    let gave_back = released.elapsed();
    let empty = Own::now();

    let each = locks as f64;
    report.exactly("locks still held at the end", believed, locks);
    report.exactly("keys on the server then", keys, locks);
    report.exactly("releases that failed", failed, 0);
    report.exactly("names in the client's tables afterwards", client.stats().names, 0);
    report.number("acquired in, s", took.as_secs_f64());
    report.number("client's heap, B a lock", (full.heap - own.heap) / each + size_of::<LockGuard>() as f64);
    report.number("client's resident memory, B a lock", (full.resident - own.resident) / each);
    report.number("server's memory, B a lock", (held.memory - counted.memory) / each);
    report.number("measured for, s", seconds);
    report.number("client, CPU s a minute", (later.cpu - full.cpu) * 60.0 / seconds);
    report.number("server, CPU s a minute", renewed.cpu * 60.0 / seconds);
    report.number("scripts a second", renewed.scripts / seconds);
    report.number("commands a second", renewed.commands / seconds);
    report.number("bytes a second", (renewed.read + renewed.written) / seconds);
    report.number("heap while held, kB more", (later.heap - full.heap) / 1024.0);
    report.number("released in, s", gave_back.as_secs_f64());
    report.number("heap afterwards, kB more", (empty.heap - own.heap) / 1024.0);
    client.shutdown(SOON).await?;
    Ok(())
}
