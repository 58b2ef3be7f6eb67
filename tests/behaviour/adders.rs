//! Adders: each process counts in its own memory, and sums are requested from all processes.

use redgrid_core::author::ClientExt;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redgrid_atomic_long::{AdderError, Amount, Client, DoubleAdder, LongAdder};
use redgrid_core::Failure;
use redgrid_testkit::{Observer, wait_until};
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{SOON, client, server};

/// Returns the keys of adders except records of exactly-once calls; and, of these, the keys without
/// a lifetime.
pub(super) async fn keys(observer: &Observer) -> (Vec<String>, Vec<String>) {
    let all: Vec<String> = observer.query(&["KEYS", "*"]).await.unwrap();
    let (mut left, mut for_ever) = (Vec::new(), Vec::new());
    for key in all {
        if observer.query::<i64>(&["PTTL", &key]).await.unwrap() == -1 {
            for_ever.push(key.clone());
        }
        if !key.starts_with("redgrid_once:") {
            left.push(key);
        }
    }
    left.sort();
    (left, for_ever)
}

pub(super) async fn adders(clients: &[&Client]) -> Vec<LongAdder> {
    let adders: Vec<_> = clients.iter().map(|client| LongAdder::new(client, "views")).collect();
    for adder in &adders {
        adder.ready().await.unwrap();
    }
    adders
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_of_all_clients_are_summed_and_reset() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let all = adders(&[&one, &two]).await;
    // Handles of one client share one count.
    let again = LongAdder::new(&one, "views");
    (0..10).for_each(|_| all[0].increment());
    again.add(5);
    all[1].add(100);
    all[1].decrement();
    for adder in [&all[0], &all[1], &again] {
        assert_eq!(adder.sum().await.unwrap(), 114);
    }
    all[1].reset().await.unwrap();
    all[0].add(-3);
    assert_eq!((all[0].sum().await.unwrap(), all[1].sum().await.unwrap()), (-3, -3));
    wait_until(SOON, async || keys(&observer).await == (vec![], vec![])).await;

    let doubles = [DoubleAdder::new(&one, "litres"), DoubleAdder::new(&two, "litres")];
    for double in &doubles {
        double.ready().await.unwrap();
        double.add(0.25).unwrap();
        double.increment().unwrap();
    }
    assert_eq!(doubles[0].sum().await.unwrap(), 2.5);
    doubles[1].reset().await.unwrap();
    doubles[1].decrement().unwrap();
    assert_eq!(doubles[0].sum().await.unwrap(), -1.0);
    wait_until(SOON, async || keys(&observer).await == (vec![], vec![])).await;
}

/// A sum includes an adder that was just created, even if the server has not confirmed its
/// subscription yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_concurrent_sum_includes_the_caller() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let there = adders(&[&one]).await;
    there[0].add(1);
    for n in 0..20 {
        let name = format!("views:{n}");
        let adder = LongAdder::new(&two, &name);
        adder.add(7);
        assert_eq!(adder.sum().await.unwrap(), 7);
    }
    let adder = LongAdder::new(&two, "views");
    adder.add(7);
    assert_eq!(adder.sum().await.unwrap(), 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_and_additions_of_many_tasks_lose_nothing() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await];
    let all = adders(&[&clients[0], &clients[1]]).await;
    let counting = (0..8).map(|task| {
        let adder = all[task % 2].clone();
        tokio::task::spawn_blocking(move || (0..100_000).for_each(|_| adder.increment()))
    });
    let counting: Vec<_> = counting.collect();
    let mut last = 0;
    for turn in 0..20 {
        let sum = all[turn % 2].sum().await.unwrap();
        assert!(sum >= last && sum <= 800_000, "{sum} after {last}");
        last = sum;
    }
    for task in counting {
        task.await.unwrap();
    }
    let sums = join_all((0..20).map(|n| all[n % 2].sum().into_future())).await;
    assert!(sums.iter().all(|sum| *sum.as_ref().unwrap() == 800_000), "{sums:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn overflowing_sums_are_errors_and_nonfinite_values_rejected() {
    let server = server().await;
    let (one, two) = (client(&server).await, client(&server).await);
    let all = adders(&[&one, &two]).await;
    all[0].add(i64::MAX);
    all[1].add(1);
    let told = all[0].sum().await.unwrap_err();
    assert!(matches!(told, AdderError::Overflow { .. }), "{told:?}");
    all[1].add(-2);
    assert_eq!(all[0].sum().await.unwrap(), i64::MAX - 1);
    // More than one process may report.
    all[0].add(i64::MAX);
    let told = all[1].sum().await.unwrap_err();
    assert!(matches!(told, AdderError::Overflow { .. }), "{told:?}");
    all[0].add(i64::MIN);
    assert_eq!(all[1].sum().await.unwrap(), i64::MAX - 2);
    all[1].reset().await.unwrap();
    assert_eq!(all[0].sum().await.unwrap(), 0);

    let (double, other) = (DoubleAdder::new(&one, "litres"), DoubleAdder::new(&two, "litres"));
    for unfit in [f64::NAN, f64::INFINITY] {
        assert!(matches!(double.add(unfit), Err(AdderError::Failed(Failure::InvalidArgument { .. }))));
    }
    other.ready().await.unwrap();
    double.add(f64::MAX).unwrap();
    other.add(f64::MAX).unwrap();
    let told = double.sum().await.unwrap_err();
    assert!(matches!(told, AdderError::Overflow { .. }), "{told:?}");
    other.add(-f64::MAX).unwrap();
    assert_eq!(double.sum().await.unwrap(), f64::MAX);
    double.reset().await.unwrap();
    assert_eq!(double.sum().await.unwrap(), 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_calls_are_reported() {
    let server = server().await;
    let client = client(&server).await;
    let bad = LongAdder::new(&client, "a{b");
    bad.increment();
    assert!(matches!(bad.sum().await, Err(AdderError::Failed(Failure::InvalidName(_)))));
    assert!(matches!(DoubleAdder::new(&client, "").add(1.0), Err(AdderError::Failed(Failure::InvalidName(_)))));
    let good = LongAdder::new(&client, "views");
    for bound in [Duration::ZERO, Duration::from_secs(301)] {
        assert!(matches!(good.sum().timeout(bound).await, Err(AdderError::Failed(Failure::InvalidArgument { .. }))));
        assert!(matches!(good.reset().timeout(bound).await, Err(AdderError::Failed(Failure::InvalidArgument { .. }))));
    }
    let told = good.clone().saving(Duration::from_millis(9)).unwrap_err();
    assert!(told.to_string().contains("10 ms to 1 day"), "{told}");
    // Each client replies to a sum request once, so an adder has one type per client.
    let other = DoubleAdder::new(&client, "views");
    assert!(matches!(other.add(1.0), Err(AdderError::OtherKind { is: "LongAdder", .. })));
    assert!(matches!(other.sum().await, Err(AdderError::OtherKind { .. })));
    assert_eq!(good.sum().await.unwrap(), 0);
}

/// Returns a member that receives all messages and replies to none, like a stopped process.
pub(super) async fn mute(observer_of: &redgrid_testkit::RedisServer) -> (Client, redgrid_core::OrderedSubscription) {
    let client = client(observer_of).await;
    let hearing = client.subscribe_ordered_unpolled(["{views}:adder-topic".into()], &"views".into());
    wait_until(SOON, async || hearing.is_active()).await;
    (client, hearing)
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_timeout_partial_sums_are_reported_and_no_key_stays() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let all = adders(&[&one, &two]).await;
    all[0].add(1);
    all[1].add(2);
    let (_silent, mut hearing) = mute(&server).await;
    let began = Instant::now();
    let told = all[0].sum().timeout(Duration::from_millis(700)).await.unwrap_err();
    assert!(began.elapsed() >= Duration::from_millis(700) && began.elapsed() < SOON / 2, "{:?}", began.elapsed());
    match told {
        AdderError::Partial { answered: 2, expected: 3, so_far, .. } => assert_eq!(so_far, Amount::Long(3)),
        other => panic!("{other:?}"),
    }
    let told = all[0].reset().timeout(Duration::from_millis(700)).await.unwrap_err();
    assert!(matches!(told, AdderError::Partial { answered: 2, expected: 3, .. }), "{told:?}");
    let (left, for_ever) = keys(&observer).await;
    assert!(!left.is_empty() && for_ever.is_empty(), "{left:?} {for_ever:?}");
    // A member of Redisson that is resumed later adds to the key, and its commands do not set a
    // lifetime.
    let mut round = None;
    while let Some(heard) = hearing.take() {
        if let redgrid_core::ChannelEvent::Message { payload, .. } = heard {
            round = round.or(Some(String::from_utf8(payload[2..].to_vec()).unwrap()));
        }
    }
    let round = round.expect("a message of the round");
    for (key, by) in [("counter", "5"), ("semaphore", "1")] {
        observer.cmd(&["INCRBY", &format!("{{views}}:{round}:{key}"), by]).await.unwrap();
    }
    assert_eq!(keys(&observer).await.1, Vec::<String>::new());
    drop(hearing);
    wait_until(SOON, async || listeners(&observer).await == 2).await;
    assert_eq!(all[0].sum().await.unwrap(), 0);
}

async fn listeners(observer: &Observer) -> u64 {
    observer.query::<(String, u64)>(&["PUBSUB", "NUMSUB", "{views}:adder-topic"]).await.unwrap().1
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_handle_or_a_shutdown_ends_the_subscription() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let all = adders(&[&one, &two]).await;
    let [here, there] = &all[..] else { unreachable!() };
    here.add(1);
    there.add(2);
    assert_eq!((here.sum().await.unwrap(), listeners(&observer).await), (3, 2));
    let other = there.clone();
    there.clone().destroy().await.unwrap();
    assert_eq!(here.sum().await.unwrap(), 3);
    let here = here.clone();
    drop(all);
    other.destroy().await.unwrap();
    wait_until(SOON, async || listeners(&observer).await == 1).await;
    assert_eq!(here.sum().await.unwrap(), 1);
    // A new handle begins at 0, even immediately afterwards.
    let there = LongAdder::new(&two, "views");
    there.add(10);
    assert_eq!(there.sum().await.unwrap(), 11);
    drop(there);
    let there = LongAdder::new(&two, "views");
    there.add(20);
    assert_eq!(there.sum().await.unwrap(), 21);
    two.shutdown(SOON).await.unwrap();
    assert!(matches!(there.sum().await, Err(AdderError::Failed(Failure::ShuttingDown { .. }))));
    wait_until(SOON, async || listeners(&observer).await == 1).await;
    assert_eq!(here.sum().await.unwrap(), 1);
    drop(here);
    wait_until(SOON, async || listeners(&observer).await == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_sums_leave_no_permanent_key() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let (one, two) = (client(&server).await, client(&server).await);
    let all = adders(&[&one, &two]).await;
    all[0].add(1);
    all[1].add(2);
    for n in 0..200 {
        let asks = &all[n % 2];
        let polled = async {
            match n % 3 {
                0 => drop(asks.reset().await),
                _ => drop(asks.sum().await),
            }
        };
        let _ = tokio::time::timeout(Duration::from_micros(n as u64 * 20), polled).await;
    }
    all[0].reset().await.unwrap();
    all[1].add(4);
    assert_eq!(all[0].sum().await.unwrap(), 4);
    // The keys of abandoned sum requests expire by themselves.
    assert_eq!(keys(&observer).await.1, Vec::<String>::new());
    let rounds = async || keys(&observer).await.0.iter().any(|key| key.starts_with("redgrid_adder_round"));
    wait_until(SOON, async || !rounds().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_shuts_down_delays_no_sum() {
    let server = server().await;
    let here = client(&server).await;
    let adder = &adders(&[&here]).await[0];
    let began = Stopwatch::start();
    for _ in 0..10 {
        let there = client(&server).await;
        let other = &adders(&[&there]).await[0];
        other.add(1);
        let (told, closed) = tokio::join!(adder.sum().timeout(SOON).into_future(), there.shutdown(SOON));
        closed.unwrap();
        // The other member had answered or had left. If it left during the request, the remaining
        // members were queried again.
        assert!(matches!(told, Ok(0 | 1)), "{told:?}");
    }
    // Every request ends before its timeout.
    began.assert_within(Duration::from_secs(10));
    assert_eq!(adder.sum().await.unwrap(), 0);
}
