//! Tasks of one process that wait for one name. The measurement has three results: the memory of
//! each task, the time until all have held the lock, and the time until all have left after a
//! cancellation. A release must wake exactly one task.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redgrid_core::{Client, Config};
use redgrid_locks::Lock;
use redgrid_testkit::{Observer, RedisServer, wait_until};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::look::{Counted, Own};
use crate::report::Report;
use crate::{SOON, Trouble, connected};

/// A timeout that no waiter reaches.
const LONG: Duration = Duration::from_secs(3600);

/// Maximum number of scripts between a release and the next grant: the release, the acquire, and
/// concurrent renewals and polls.
const FOR_ONE: f64 = 8.0;

/// How long no second waiter may acquire the lock. This time is longer than any poll or retry
/// interval.
const NOBODY: Duration = Duration::from_secs(2);

/// Time allowed for each waiter that leaves: 20 µs on a busy machine. A waiter that leaves must not
/// cause a walk through the queue.
const LEFT_IN: Duration = Duration::from_micros(20);

pub(crate) async fn play(report: &mut Report, waiters: usize) -> Result<(), Trouble> {
    let server = RedisServer::start().await?;
    let observer = server.observer().await?;
    let config = || Config::single(server.addr().to_string());
    let (holder, client) = (connected(config()?).await?, connected(config()?).await?);
    let own = Own::now();
    let each = waiters as f64;

    let guard = Lock::new(&holder, "one").acquire().await?;
    let mut line = Line::new(&client, waiters);
    line.stands(waiters).await;
    let channel_by = Instant::now();
    until_heard(&observer).await;
    let (full, counted) = (Own::now(), Counted::at(&observer).await?);
    report.say(&format!("{waiters} waiters, their channel active {:.1} s later", channel_by.elapsed().as_secs_f64()));
    report.number("client's heap, B a waiter and task", (full.heap - own.heap) / each);
    report.number("client's resident memory, B a waiter and task", (full.resident - own.resident) / each);
    report.number("channels of all waiters", client.stats().channels as f64);

    let asked = Instant::now();
    guard.release().await?;
    wait_until(SOON, async || line.entered() > 0).await;
    let first = asked.elapsed();
    let for_one = Counted::at(&observer).await?.since(counted);
    // This sleep is the measured time, not a wait for a condition.
    tokio::time::sleep(NOBODY).await;
    report.exactly("admitted by one release", line.entered(), 1);
    report.at_most("scripts from a release to the next grant", for_one.scripts, FOR_ONE);
    report.number("from a release to the next grant, ms", first.as_secs_f64() * 1000.0);

    let (own_before, counted, began) = (Own::now(), Counted::at(&observer).await?, Instant::now());
    line.open.add_permits(waiters);
    let ended = line.end().await?;
    let (took, counted) = (began.elapsed(), Counted::at(&observer).await?.since(counted));
    report.exactly("waiters that held the lock", ended, waiters);
    report.number("all have held the lock after, s", took.as_secs_f64());
    report.number("client, µs a turn", (Own::now().cpu - own_before.cpu) * 1e6 / each);
    report.number("scripts a turn", counted.scripts / each);
    report.number("bytes a turn", (counted.read + counted.written) / each);
    report.number("server, µs a turn", counted.cpu * 1e6 / each);
    report.say(&format!("all have held the lock after {:.1} s", took.as_secs_f64()));

    let guard = Lock::new(&holder, "one").acquire().await?;
    let mut line = Line::new(&client, waiters);
    line.stands(waiters).await;
    let began = Instant::now();
    line.tasks.abort_all();
    wait_until(SOON, async || client.stats().waiting == 0).await;
    while line.tasks.join_next().await.is_some() {}
    let left = began.elapsed();
    report.at_most("all have left, s", left.as_secs_f64(), (LEFT_IN * u32::try_from(waiters)?).as_secs_f64() + 1.0);
    report.say(&format!("all have left after {:.2} s", left.as_secs_f64()));
    guard.release().await?;
    wait_until(SOON, async || client.stats().names == 0 && client.stats().channels == 0).await;
    report.number("heap afterwards, kB more", (Own::now().heap - own.heap) / 1024.0);
    for client in [&client, &holder] {
        client.shutdown(SOON).await?;
    }
    Ok(())
}

/// Tasks that each acquire the name, wait for permission to continue, and release it.
struct Line {
    client: Client,
    entered: Arc<AtomicUsize>,
    open: Arc<Semaphore>,
    tasks: JoinSet<Result<(), Trouble>>,
}

impl Line {
    fn new(client: &Client, waiters: usize) -> Self {
        let (entered, open) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let lock = Lock::new(client, "one");
        let mut tasks = JoinSet::new();
        for _ in 0..waiters {
            let (lock, entered, open) = (lock.clone(), Arc::clone(&entered), Arc::clone(&open));
            tasks.spawn(async move {
                let guard = lock.acquire().timeout(LONG).await?;
                entered.fetch_add(1, Ordering::Relaxed);
                open.acquire().await?.forget();
                Ok(guard.release().await?)
            });
        }
        Line { client: client.clone(), entered, open, tasks }
    }

    async fn stands(&self, waiters: usize) {
        wait_until(SOON, async || self.client.stats().waiting == waiters).await;
    }

    fn entered(&self) -> usize {
        self.entered.load(Ordering::Relaxed)
    }

    /// Waits for all tasks, and returns how many succeeded.
    async fn end(&mut self) -> Result<usize, Trouble> {
        let mut well = 0;
        while let Some(ended) = self.tasks.join_next().await {
            ended??;
            well += 1;
        }
        Ok(well)
    }
}

/// Waits until the waiters' channel has a subscriber on the server.
async fn until_heard(observer: &Observer) {
    let heard = async || observer.pubsub_channels("redisson_lock__channel:*").await.is_ok_and(|all| !all.is_empty());
    wait_until(SOON, heard).await;
}
