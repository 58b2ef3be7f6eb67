//! Adders on every topology, also when their primary dies.

use std::time::Duration;

use redgrid_atomic_long::{DoubleAdder, LongAdder};
use redgrid_core::config::SubscriptionMode;
use redgrid_core::{Client, Config};
use redgrid_testkit::{Cluster, Observer, Sentinels, wait_until};
use redgrid_tests::SOON;

use crate::contract::clauses;
use crate::fixture::{Fixture, Scenario, by_seeds, by_sentinels, connected};

const OFTEN: Duration = Duration::from_millis(10);

clauses![
    "adders";
    counts_of_all_clients_are_summed_and_reset,
    a_saved_total_is_in_each_sum_once,
    clients_that_subscribe_at_replicas_are_counted,
];

async fn counts_of_all_clients_are_summed_and_reset(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let (here, there) = (LongAdder::new(&one, &on.name), LongAdder::new(&two, &on.name));
    there.ready().await.unwrap();
    here.add(1);
    there.add(20);
    assert_eq!((here.sum().await.unwrap(), there.sum().await.unwrap()), (21, 21));
    here.reset().await.unwrap();
    there.add(300);
    assert_eq!((here.sum().await.unwrap(), there.sum().await.unwrap()), (300, 300));
    there.destroy().await.unwrap();
    let name = format!("{}:doubles", on.name);
    let (here, there) = (DoubleAdder::new(&one, &name), DoubleAdder::new(&two, &name));
    there.ready().await.unwrap();
    here.add(0.25).unwrap();
    there.add(0.5).unwrap();
    assert_eq!((here.sum().await.unwrap(), there.sum().await.unwrap()), (0.75, 0.75));
    there.reset().await.unwrap();
    assert_eq!(here.sum().await.unwrap(), 0.0);
}

/// Returns the saved total of an adder.
async fn total(observer: &Observer, name: &str) -> Option<i64> {
    observer.query::<Option<i64>>(&["HGET", &format!("redgrid_adder:{{{name}}}"), "sum"]).await.unwrap()
}

async fn a_saved_total_is_in_each_sum_once(on: Fixture) {
    let (one, two) = (on.client().await, on.client().await);
    let here = LongAdder::new(&one, &on.name).saving(OFTEN).unwrap();
    let there = LongAdder::new(&two, &on.name);
    there.ready().await.unwrap();
    here.add(1);
    there.add(20);
    wait_until(SOON, async || total(&on.observer, &on.name).await == Some(1)).await;
    assert_eq!((here.sum().await.unwrap(), there.sum().await.unwrap()), (21, 21));
    here.add(300);
    one.shutdown(SOON).await.unwrap();
    assert_eq!((there.sum().await.unwrap(), total(&on.observer, &on.name).await), (321, Some(301)));
    there.reset().await.unwrap();
    assert_eq!((there.sum().await.unwrap(), total(&on.observer, &on.name).await), (0, Some(0)));
    let doubles = DoubleAdder::new(&two, format!("{}:doubles", on.name)).saving(OFTEN).unwrap();
    doubles.add(0.5).unwrap();
    assert_eq!(doubles.sum().await.unwrap(), 0.5);
    doubles.destroy().await.unwrap();
}

/// A sum counts the clients that subscribe at replicas. The answer to a publication counts only
/// subscribers of the same node.
async fn clients_that_subscribe_at_replicas_are_counted(on: Fixture) {
    let at_replicas = |config: Config| config.subscription_mode(SubscriptionMode::Replica);
    let (one, two) = (on.client_with(at_replicas).await, on.client_with(at_replicas).await);
    let (here, there) = (LongAdder::new(&one, &on.name), LongAdder::new(&two, &on.name));
    there.ready().await.unwrap();
    for n in 1..=10 {
        here.increment();
        there.increment();
        assert_eq!(here.sum().await.unwrap(), 2 * n);
    }
}

pub(crate) fn failovers() -> Vec<Scenario> {
    vec![
        Scenario { name: "adders::sentinel_counts_survive_a_failover".into(), run: || Box::pin(sentinel_failover()) },
        Scenario { name: "adders::cluster_counts_survive_a_failover".into(), run: || Box::pin(cluster_failover()) },
    ]
}

async fn sentinel_failover() {
    let sentinels = Sentinels::start().await.unwrap();
    let former = sentinels.current_primary().await.unwrap();
    let address = former.addr();
    counts_survive(by_sentinels(&sentinels), async || {
        former.kill().await.unwrap();
        sentinels.wait_for_primary_other_than(address).await.unwrap();
    })
    .await;
}

async fn cluster_failover() {
    let cluster = Cluster::start(3, 1).await.unwrap();
    let slot = cluster.slot_of("a").await.unwrap();
    let former = cluster.primary_of(slot).await.unwrap();
    counts_survive(by_seeds(&cluster), async || {
        former.kill().await.unwrap();
        let moved = async || cluster.primary_of(slot).await.is_ok_and(|primary| primary.addr() != former.addr());
        wait_until(SOON, moved).await;
    })
    .await;
}

/// A failover loses no count of a living client. The counts are in memory, and a saved total that
/// is lost is saved again.
async fn counts_survive(config: Config, fail_over: impl AsyncFnOnce()) {
    let [one, two, three]: [Client; 3] =
        [connected(config.clone()).await, connected(config.clone()).await, connected(config).await];
    let here = LongAdder::new(&one, "a").saving(OFTEN).unwrap();
    let there = LongAdder::new(&two, "a").saving(Duration::from_secs(3600)).unwrap();
    let asking = LongAdder::new(&three, "a");
    for adder in [&here, &there, &asking] {
        adder.ready().await.unwrap();
    }
    here.add(1);
    there.add(20);
    asking.add(300);
    assert_eq!(asking.sum().await.unwrap(), 321);
    let adding = async {
        for _ in 0..1_000 {
            here.increment();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::join!(adding, fail_over());
    // Other clients may reconnect a moment later than the client that requests the sum.
    wait_until(SOON, async || asking.sum().timeout(SOON).await.is_ok_and(|sum| sum == 1_321)).await;
    there.add(5_000);
    assert_eq!(there.sum().await.unwrap(), 6_321);
    drop(there);
    wait_until(SOON, async || here.sum().await.is_ok_and(|sum| sum == 6_321)).await;
}
