//! One task of this process waits for each of many names that another process holds. The
//! measurement has two results: the cost of each waiter, also while idle, and the time until the
//! releases have woken all.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use redgrid_core::Config;
use redgrid_locks::{Detached, Lock};
use redgrid_testkit::{RedisServer, wait_until};
use tokio::task::JoinSet;

use crate::look::{Counted, Own};
use crate::report::Report;
use crate::{AT_A_TIME, SOON, Trouble, connected};

/// A lease and a timeout that do not end during the measurement.
const LONG: Duration = Duration::from_secs(3600);

/// Number of waiters that begin together. Each sends two requests. With too many waiters, the last
/// reply would come after the response timeout (3 s).
const BEGUN_AT_A_TIME: usize = 500;

/// The longest wait for all requests of the client to take effect on the server.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) async fn play(report: &mut Report, waiters: usize, idle: Duration) -> Result<(), Trouble> {
    let server = RedisServer::start().await?;
    let observer = server.observer().await?;
    let config = || Config::single(server.addr().to_string());
    let (holder, client) = (connected(config()?).await?, connected(config()?).await?);
    let name = |number: usize| format!("name:{number}");
    // The locks are held without renewals, so that only the waiters are measured.
    let taken = (0..waiters).map(|number| {
        let lock = Lock::new(&holder, name(number));
        async move { Ok::<_, Trouble>((number, lock.acquire().lease(LONG).await?.detach().await?)) }
    });
    let held: Vec<(usize, Detached)> = stream::iter(taken).buffer_unordered(AT_A_TIME).try_collect().await?;
    let (own, counted, began) = (Own::now(), Counted::at(&observer).await?, Instant::now());

    let mut waiting = JoinSet::new();
    for first in (0..waiters).step_by(BEGUN_AT_A_TIME) {
        let more = first..waiters.min(first + BEGUN_AT_A_TIME);
        let heard_by = counted.channels + more.end as f64;
        for number in more {
            let lock = Lock::new(&client, name(number));
            waiting.spawn(async move {
                let guard = lock.acquire().timeout(LONG).await?;
                let at = Instant::now();
                guard.release().await?;
                Ok::<_, Trouble>((number, at))
            });
        }
        let heard = async || Counted::at(&observer).await.is_ok_and(|now| now.channels >= heard_by);
        wait_until(PATIENCE, heard).await;
    }
    let in_force = began.elapsed();
    // Each waiter polls its lock once when its subscription is active. These polls are complete
    // when only the regular ones remain.
    let budget = 1000.0;
    let quiet = async || {
        let Ok(before) = Counted::at(&observer).await else { return false };
        tokio::time::sleep(Duration::from_secs(1)).await;
        Counted::at(&observer).await.is_ok_and(|now| now.since(before).scripts < budget)
    };
    wait_until(PATIENCE, quiet).await;
    let each = waiters as f64;
    let (full, now) = (Own::now(), Counted::at(&observer).await?);
    report.say(&format!("{waiters} waiters are subscribed after {:.1} s", in_force.as_secs_f64()));
    report.number("all are subscribed after, s", in_force.as_secs_f64());
    report.number("client's heap, B a waiter and task", (full.heap - own.heap) / each);
    report.number("client's resident memory, B a waiter and task", (full.resident - own.resident) / each);
    report.number("server's memory, B a waiter", (now.memory - counted.memory) / each);
    report.number("channels on the server, a waiter", (now.channels - counted.channels) / each);
    report.number("commands until it is subscribed, a waiter", (now.commands - counted.commands) / each);

    // This sleep is the measured time, not a wait for a condition.
    let over = Instant::now();
    tokio::time::sleep(idle).await;
    let seconds = over.elapsed().as_secs_f64();
    let (later, at_rest) = (Own::now(), Counted::at(&observer).await?.since(now));
    report.number("at rest: client, CPU s a minute", (later.cpu - full.cpu) * 60.0 / seconds);
    report.number("at rest: server, CPU s a minute", at_rest.cpu * 60.0 / seconds);
    report.number("at rest: commands a second", at_rest.commands / seconds);

    let (later, before, began) = (Own::now(), Counted::at(&observer).await?, Instant::now());
    let released = stream::iter(held).map(|(number, detached)| {
        let lock = Lock::new(&holder, name(number));
        async move {
            let guard = lock.attach(&detached).await?;
            let at = Instant::now();
            guard.release().await?;
            Ok::<_, Trouble>((number, at))
        }
    });
    let released: Vec<(usize, Instant)> = released.buffer_unordered(AT_A_TIME).try_collect().await?;
    let mut granted = vec![None; waiters];
    while let Some(ended) = tokio::time::timeout(SOON, waiting.join_next()).await? {
        let (number, at) = ended??;
        granted[number] = Some(at);
    }
    let (took, counted) = (began.elapsed(), Counted::at(&observer).await?.since(before));
    let mut slept: Vec<f64> = released
        .iter()
        .filter_map(|(number, at)| Some(granted[*number]?.saturating_duration_since(*at).as_secs_f64() * 1000.0))
        .collect();
    slept.sort_by(f64::total_cmp);
    let at = |share: f64| slept[((slept.len() - 1) as f64 * share) as usize];
    report.exactly("waiters that held the lock", slept.len(), waiters);
    report.number("all have held the lock after, s", took.as_secs_f64());
    report.number("from the call of release to the grant, p50 ms", at(0.5));
    report.number("from the call of release to the grant, p99 ms", at(0.99));
    report.number("from the call of release to the grant, at most, ms", at(1.0));
    report.number("holder and waiter, µs a turn", (Own::now().cpu - later.cpu) * 1e6 / each);
    report.number("server, µs a turn", counted.cpu * 1e6 / each);
    report.number("commands a turn", counted.commands / each);
    report.number("bytes a turn", (counted.read + counted.written) / each);
    report.say(&format!("all have held the lock after {:.1} s", took.as_secs_f64()));
    wait_until(SOON, async || client.stats().names == 0 && client.stats().channels == 0).await;
    report.number("heap afterwards, kB more", (Own::now().heap - own.heap) / 1024.0);
    for client in [&client, &holder] {
        client.shutdown(SOON).await?;
    }
    Ok(())
}
