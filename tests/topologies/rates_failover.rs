//! Rate limits during failovers, under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redgrid_core::{Client, Config, Failure};
use redgrid_rate_limiter::{GcraLimiter, LimitError, Quota, Rate, RateLimiter};
use redgrid_testkit::{Cluster, Sentinels, wait_until};
use redgrid_tests::SOON;

use crate::fixture::{by_seeds, by_sentinels, connected, replicated, scenarios};

scenarios![
    sentinel_rates_go_on_through_a_failover,
    sentinel_used_permits_still_count_after_a_failover,
    cluster_rates_go_on_through_a_planned_failover,
    cluster_rates_go_on_after_a_primary_died,
];

const PER: Duration = Duration::from_millis(200);

/// Two processes that use up limits of both kinds until the load ends.
struct Load {
    over: Arc<AtomicBool>,
    done: [Arc<AtomicU64>; 2],
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    async fn begin(clients: [Client; 2]) -> Load {
        RateLimiter::new(&clients[0], "a").try_set_rate(Rate::overall(20, PER)).await.unwrap();
        let (over, done) = (Arc::new(AtomicBool::new(false)), [Arc::default(), Arc::default()]);
        let mut tasks = Vec::new();
        for client in &clients {
            let log = RateLimiter::new(client, "a");
            let (stop, count) = (Arc::clone(&over), Arc::clone(&done[0]));
            tasks.push(tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let result = log.acquire().timeout(2 * SOON).await.map(drop);
                    count_or_fail(&count, result);
                }
            }));
            let cells = GcraLimiter::new(client, "b{a}", Quota::per_second(100).burst(10));
            let (stop, count) = (Arc::clone(&over), Arc::clone(&done[1]));
            tasks.push(tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let result = cells.acquire().timeout(2 * SOON).await;
                    count_or_fail(&count, result);
                }
            }));
        }
        Load { over, done, tasks }
    }

    async fn goes_on(&self) {
        let before = self.done.each_ref().map(|done| done.load(Ordering::Relaxed));
        wait_until(2 * SOON, async || {
            self.done.iter().zip(before).all(|(done, before)| done.load(Ordering::Relaxed) >= before + 50)
        })
        .await;
    }

    async fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

/// A request in flight at a dying server may have no answer. Any other failure is wrong.
fn count_or_fail(count: &AtomicU64, result: Result<(), LimitError>) {
    match result {
        Ok(()) => drop(count.fetch_add(1, Ordering::Relaxed)),
        Err(LimitError::Failed(Failure::OutcomeUnknown { .. } | Failure::Unavailable { .. })) => {}
        Err(other) => panic!("{other:?}"),
    }
}

async fn two(config: Config) -> [Client; 2] {
    [connected(config.clone()).await, connected(config).await]
}

async fn sentinel_rates_go_on_through_a_failover() {
    let sentinels = Sentinels::start().await.unwrap();
    let load = Load::begin(two(by_sentinels(&sentinels)).await).await;
    load.goes_on().await;
    let primary = sentinels.current_primary().await.unwrap();
    replicated(primary, 2).await;
    let former = primary.addr();
    primary.kill().await.unwrap();
    sentinels.wait_for_primary_other_than(former).await.unwrap();
    load.goes_on().await;
    load.end().await;
}

async fn sentinel_used_permits_still_count_after_a_failover() {
    let sentinels = Sentinels::start().await.unwrap();
    let [one, two] = two(by_sentinels(&sentinels)).await;
    let long = Duration::from_secs(600);
    let (here, there) = (RateLimiter::new(&one, "a"), RateLimiter::new(&two, "a"));
    here.try_set_rate(Rate::overall(5, long)).await.unwrap();
    let held = here.acquire().permits(4).await.unwrap();
    let quota = Quota::new(1, long).burst(5);
    assert!(GcraLimiter::new(&one, "b", quota).try_acquire_many(4).await.unwrap());
    let primary = sentinels.current_primary().await.unwrap();
    replicated(primary, 2).await;
    let waiting = tokio::spawn(there.acquire().permits(3).into_future());
    wait_until(SOON, async || two.stats().channels > 0).await;
    let former = primary.addr();
    primary.kill().await.unwrap();
    sentinels.wait_for_primary_other_than(former).await.unwrap();
    wait_until(SOON, async || here.available_permits().await.is_ok_and(|free| free == 1)).await;
    let cells = GcraLimiter::new(&two, "b", quota);
    wait_until(SOON, async || cells.available_permits().await.is_ok_and(|free| free == 1)).await;
    assert_eq!(held.release().await.unwrap(), 4);
    tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().unwrap();
}

async fn cluster_rates_go_on_through_a_planned_failover() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let slot = cluster.slot_of("a").await.unwrap();
    let load = Load::begin(two(by_seeds(&cluster)).await).await;
    load.goes_on().await;
    cluster.fail_over(cluster.primary_of(slot).await.unwrap()).await.unwrap();
    load.goes_on().await;
    load.end().await;
}

async fn cluster_rates_go_on_after_a_primary_died() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let slot = cluster.slot_of("a").await.unwrap();
    let load = Load::begin(two(by_seeds(&cluster)).await).await;
    load.goes_on().await;
    let primary = cluster.primary_of(slot).await.unwrap();
    replicated(primary, 1).await;
    let former = primary.addr();
    primary.kill().await.unwrap();
    wait_until(SOON, async || cluster.primary_of(slot).await.is_ok_and(|primary| primary.addr() != former)).await;
    load.goes_on().await;
    load.end().await;
}
