//! Rate limits shared by all processes: the generic cell rate algorithm.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redgrid_core::Failure;
use redgrid_rate_limiter::{Config, GcraLimiter, LimitError, Quota};
use redgrid_testkit::{Action, Fault, Monitor, Proxy, SeenCommand, wait_until};
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{SOON, client, client_with, is_script, server};

const MS: Duration = Duration::from_millis(1);

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_is_granted_at_once_and_replenished_evenly() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let limiter = GcraLimiter::new(&client, "a", Quota::new(10, 10 * LONG).burst(4));
    assert_eq!(limiter.available_permits().await.unwrap(), 4);
    assert!(limiter.try_acquire_many(3).await.unwrap() && !limiter.try_acquire_many(2).await.unwrap());
    assert_eq!(limiter.available_permits().await.unwrap(), 1);
    limiter.acquire().await.unwrap();
    let lives = observer.time_to_live("a").await.unwrap().unwrap();
    assert!(lives > 4 * LONG - LONG / 2 && lives <= 4 * LONG + MS, "until all is replenished: {lives:?}");
    let told = limiter.acquire().permits(5).await.unwrap_err();
    assert!(matches!(told, LimitError::TooManyPermits { permits: 5, most: 4, .. }), "{told:?}");
    let told = limiter.acquire().timeout(1000 * MS).await.unwrap_err();
    assert!(matches!(told, LimitError::TimedOut { waited, .. } if waited >= 1000 * MS), "{told:?}");
    assert!(matches!(limiter.acquire().permits(0).await, Err(LimitError::Failed(Failure::InvalidArgument { .. }))));
    // After half an interval, half a permit is replenished, which is not enough. After a whole
    // interval there is one permit.
    let (time, rest) = {
        let text: String = observer.query(&["GET", "a"]).await.unwrap();
        let (time, rest) = text.split_once(' ').unwrap();
        (time.parse::<u64>().unwrap(), rest.to_owned())
    };
    let passes = async |micros: u64| {
        let sooner = format!("{} {rest}", time - micros);
        observer.cmd(&["SET", "a", &sooner, "PX", "600000"]).await.unwrap();
        limiter.available_permits().await.unwrap()
    };
    assert_eq!((passes(300_000_000).await, passes(601_000_000).await, passes(9_000_000_000).await), (0, 1, 4));
    assert!(limiter.reset().await.unwrap() && !limiter.reset().await.unwrap());
    // A third of a second is not a whole number of microseconds.
    let thirds = GcraLimiter::new(&client, "b", Quota::new(3, 1000 * MS).burst(1));
    for _ in 0..2 {
        thirds.acquire().await.unwrap();
    }
    let text: String = observer.query(&["GET", "b"]).await.unwrap();
    assert!(["0", "1", "2"].contains(&text.split_once(' ').unwrap().1), "{text}");
    observer.cmd(&["SET", "c", "soon"]).await.unwrap();
    let told = GcraLimiter::new(&client, "c", Quota::per_second(1)).try_acquire().await;
    assert!(matches!(told, Err(LimitError::Failed(Failure::Refused { .. }))), "{told:?}");
    let told = GcraLimiter::new(&client, "c", Quota::per_second(0)).try_acquire().await;
    assert!(matches!(told, Err(LimitError::Failed(Failure::InvalidArgument { .. }))), "{told:?}");
    assert!(matches!(
        GcraLimiter::new(&client, "", Quota::per_second(1)).acquire().await,
        Err(LimitError::Failed(Failure::InvalidName(_)))
    ));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_period_exceeds_the_rate_and_little_is_lost_at_the_limit() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await, client(&server).await];
    let (rate, burst) = (400_u64, 100_u64);
    let mut monitor = Monitor::start(&server).await.unwrap().with_scripts();
    let long = std::env::var("REDGRID_RATE_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let lasts = Duration::from_secs(long.unwrap_or(4));
    let began = Instant::now();
    let end = began + lasts;
    let used = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..100)
        .map(|task| {
            let limiter = GcraLimiter::new(&clients[task % 3], "a", Quota::per_second(rate).burst(burst));
            let used = Arc::clone(&used);
            tokio::spawn(async move {
                while Instant::now() < end {
                    let permits = 1 + task as u64 % 3;
                    limiter.acquire().permits(permits).await.unwrap();
                    // If the machine pauses between these lines, more permits are possible than
                    // calculated.
                    let used = used.fetch_add(permits, Ordering::SeqCst) + permits;
                    let possible = burst as f64 + began.elapsed().as_secs_f64() * rate as f64;
                    assert!(used as f64 <= possible, "{used} of {possible}");
                }
            })
        })
        .collect();
    let mut commands = Vec::new();
    while Instant::now() < end {
        commands.extend(monitor.take().await.unwrap());
        tokio::time::sleep(100 * MS).await;
    }
    join_all(tasks).await.into_iter().for_each(Result::unwrap);
    commands.extend(monitor.take().await.unwrap());
    // For each grant, the time at which all permits will be replenished. The difference between two
    // of these times corresponds to the permits that were taken.
    let written = commands.iter().filter(|command| command.name == "SET" && command.args[0] == "a");
    let mut times: Vec<u64> = Vec::new();
    for command in written {
        let text = |arg: usize| String::from_utf8_lossy(&command.args[arg]).into_owned();
        times.push(text(1).split_once(' ').unwrap().0.parse().unwrap());
        // The key lives until all permits are replenished. This time includes a burst from now, and
        // the permits taken ahead of time.
        let lives: u64 = text(3).parse().unwrap();
        assert!(lives <= 1000 * burst / rate + 100 + 2, "taken {lives} ms ahead");
    }
    assert!(times.is_sorted(), "{times:?}");
    let used = used.load(Ordering::SeqCst);
    let ran = times[times.len() - 1] - times[0];
    // Each permit advances that time by its own share. The permits therefore use all elapsed time,
    // but no part of it twice.
    let possible = (ran as f64 / 1e6 * rate as f64) + burst as f64;
    let share = used as f64 / possible;
    println!("{used} of {possible:.0} in {ran} µs: {share:.4}");
    assert!(used as f64 <= possible + 1.0, "{used} of {possible}");
    assert!(share >= if long.is_some() { 0.99 } else { 0.5 }, "{share}");
}

/// Single permits are granted evenly and in order. The test has one thread, so timers that are due
/// together fire in order.
#[tokio::test]
async fn single_permits_are_granted_evenly_and_in_order() {
    let server = server().await;
    let client = client(&server).await;
    let limiter = GcraLimiter::new(&client, "a", Quota::new(20, 1000 * MS).burst(1));
    let began = Instant::now();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for n in 0..20 {
        let (order, mut taking) = (Arc::clone(&order), Box::pin(limiter.acquire().into_future()));
        // This poll queues the request.
        if futures_util::poll!(&mut taking).is_ready() {
            order.lock().unwrap().push(n);
            continue;
        }
        tasks.push(tokio::spawn(async move {
            taking.await.unwrap();
            order.lock().unwrap().push(n);
        }));
    }
    join_all(tasks).await.into_iter().for_each(Result::unwrap);
    assert!(began.elapsed() >= 19 * 50 * MS - MS, "{:?}", began.elapsed());
    let mut moves = 0;
    for pair in order.lock().unwrap().windows(2) {
        moves += usize::from(pair[0] > pair[1]);
    }
    // If the machine stalls, two timers that become due meanwhile may fire in any order.
    assert!(moves <= 5, "{:?}", order.lock().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_takes_once_and_a_clock_set_back_costs_a_burst() {
    let server = server().await;
    let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
    let quick = |config: Config| config.response_timeout(150 * MS).retries(9);
    let client = client_with(&server.url_via(proxy.addr()), quick).await;
    let limiter = GcraLimiter::new(&client, "a", Quota::new(1, LONG).burst(10));
    limiter.acquire().await.unwrap();
    for n in 2..5 {
        proxy.next(1, "redgrid_once:{a}", Action::SwallowReply);
        limiter.acquire().timeout(SOON).await.unwrap();
        assert_eq!(limiter.available_permits().await.unwrap(), 10 - n);
    }
    let hours = (observer.server_time_micros().await.unwrap() + 90_000_000_000).to_string();
    observer.cmd(&["SET", "a", &format!("{hours} 0")]).await.unwrap();
    assert_eq!(limiter.available_permits().await.unwrap(), 0);
    let quick = GcraLimiter::new(&client, "a", Quota::new(100, 1000 * MS).burst(10));
    quick.acquire().timeout(SOON).await.unwrap();
    proxy.set_both(Fault::BlackHole);
    let told = join_all((0..5).map(|_| limiter.acquire().timeout(2000 * MS).into_future())).await;
    let honest = |told: &LimitError| {
        matches!(told, LimitError::Failed(Failure::OutcomeUnknown { .. } | Failure::Unavailable { .. }))
    };
    assert!(told.iter().all(|told| told.as_ref().is_err_and(honest)), "{told:?}");
    proxy.heal();
    wait_until(SOON, async || quick.try_acquire().await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_learns_of_a_reset_and_leaves_nothing() {
    let server = server().await;
    let settings = |config: Config| config.poll_interval(LONG);
    let (one, two) = (client(&server).await, client_with(&server.url(), settings).await);
    let quota = Quota::new(1, LONG).burst(3);
    let (here, there) = (GcraLimiter::new(&one, "a", quota), GcraLimiter::new(&two, "a", quota));
    here.acquire().permits(3).await.unwrap();
    let waiting = tokio::spawn(there.acquire().permits(2).into_future());
    wait_until(SOON, async || two.stats().channels == 1).await;
    let observer = server.observer().await.unwrap();
    let channel = "redgrid_rate__channel:{a}".to_owned();
    wait_until(SOON, async || observer.pubsub_channels("*").await.unwrap().contains(&channel)).await;
    assert!(!there.try_acquire().await.unwrap(), "an earlier request waits");
    assert!(here.reset().await.unwrap());
    tokio::time::timeout(SOON, waiting).await.unwrap().unwrap().unwrap();
    wait_until(SOON, async || two.stats().channels == 0).await;
    here.acquire().await.unwrap();
    let waiting = tokio::spawn(there.acquire().into_future());
    wait_until(SOON, async || two.stats().channels == 1).await;
    two.shutdown(SOON).await.unwrap();
    assert!(matches!(waiting.await.unwrap(), Err(LimitError::Failed(Failure::ShuttingDown { .. }))));
}

/// Returns the number of requests for the limiter.
fn asked(seen: &[SeenCommand]) -> usize {
    seen.iter().filter(|command| is_script(&command.name)).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_set_back_by_hours_costs_a_burst() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let limiter = GcraLimiter::new(&client, "a", Quota::per_second(1));
    for waits in [false, true] {
        let hours = observer.server_time_micros().await.unwrap() + 90_000_000_000;
        observer.cmd(&["SET", "a", &format!("{hours} 0")]).await.unwrap();
        assert!(!limiter.try_acquire().await.unwrap());
        match waits {
            true => limiter.acquire().timeout(SOON).await.unwrap(),
            false => wait_until(SOON, async || limiter.try_acquire().await.unwrap()).await,
        }
    }
}

/// The test has one thread, so all calls are queued before the first request is sent.
#[tokio::test]
async fn a_caller_beyond_the_batch_is_answered_too() {
    let server = server().await;
    let client = client(&server).await;
    let limiter = GcraLimiter::new(&client, "a", Quota::new(1, LONG));
    limiter.acquire().await.unwrap();
    let mut crowd: Vec<_> = (0..300).map(|_| limiter.acquire().into_future()).collect();
    for one in &mut crowd {
        assert!(futures_util::poll!(one).is_pending());
    }
    let mut bounded = limiter.acquire().timeout(3000 * MS).into_future();
    let mut trying = Box::pin(limiter.try_acquire());
    assert!(futures_util::poll!(&mut bounded).is_pending() && futures_util::poll!(&mut trying).is_pending());
    let tried = tokio::time::timeout(10_000 * MS, trying).await.expect("an answer without a wait");
    assert!(!tried.unwrap());
    let told = bounded.await.unwrap_err();
    assert!(matches!(told, LimitError::TimedOut { .. }), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_all_callers_of_a_long_queue_end_together() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let settings = |config: Config| config.response_timeout(1000 * MS).retries(1);
    let client = client_with(&server.url_via(proxy.addr()), settings).await;
    let limiter = GcraLimiter::new(&client, "a", Quota::new(1, LONG));
    limiter.acquire().await.unwrap();
    proxy.set_both(Fault::BlackHole);
    let began = Stopwatch::start();
    let told = join_all((0..1500).map(|_| limiter.acquire().into_future())).await;
    let honest = |told: &LimitError| {
        matches!(told, LimitError::Failed(Failure::OutcomeUnknown { .. } | Failure::Unavailable { .. }))
    };
    assert!(told.iter().all(|told| told.as_ref().is_err_and(honest)), "{told:?}");
    // The limit of two seconds applies to all calls together, not to each batch of 256.
    began.assert_within(7000 * MS);
}

/// When the first caller is cancelled, its permits are free. The test has one thread, so no request
/// is sent between the two calls.
#[tokio::test]
async fn permits_of_a_cancelled_first_caller_are_free() {
    let server = server().await;
    let client = client(&server).await;
    let limiter = GcraLimiter::new(&client, "a", Quota::new(1, LONG).burst(3));
    limiter.acquire().permits(2).await.unwrap();
    let mut big = limiter.acquire().permits(2).into_future();
    assert!(futures_util::poll!(&mut big).is_pending());
    wait_until(SOON, async || {
        let mut trying = Box::pin(limiter.try_acquire());
        // The call is answered without a request, because an earlier caller waits.
        let is_told = futures_util::poll!(&mut trying).is_ready();
        is_told && client.stats().channels == 1
    })
    .await;
    drop(big);
    assert!(limiter.try_acquire().await.unwrap());
}

/// The test has one thread, so all calls are queued before the first request is sent.
#[tokio::test]
async fn a_grant_wakes_no_waiter() {
    let server = server().await;
    let client = client(&server).await;
    let limiter = GcraLimiter::new(&client, "a", Quota::per_second(100).burst(1));
    limiter.acquire().await.unwrap();
    let mut monitor = Monitor::start(&server).await.unwrap();
    join_all((0..60).map(|_| limiter.acquire().into_future())).await.into_iter().for_each(Result::unwrap);
    let seen = monitor.take().await.unwrap();
    // First ten permits are taken ahead of time. Then a few are taken every 50 ms, for half a
    // second.
    assert!(asked(&seen) <= 25, "{}", asked(&seen));
    // The first waiter never waits long enough to subscribe.
    assert!(!seen.iter().any(|command| command.name == "SUBSCRIBE"), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_behind_a_waiting_one_send_no_request_and_report_the_limit() {
    let server = server().await;
    let client = client_with(&server.url(), |config| config.poll_interval(LONG)).await;
    let limiter = GcraLimiter::new(&client, "a", Quota::new(1, LONG));
    limiter.acquire().await.unwrap();
    let waiting = tokio::spawn(limiter.acquire().into_future());
    wait_until(SOON, async || client.stats().channels == 1).await;
    let mut monitor = Monitor::start(&server).await.unwrap();
    for _ in 0..20 {
        let told = limiter.acquire().timeout(20 * MS).await.unwrap_err();
        assert!(matches!(told, LimitError::TimedOut { .. }), "{told:?}");
    }
    let seen = monitor.take().await.unwrap();
    // One request may be caused by the confirmation of the subscription.
    assert!(asked(&seen) <= 2, "{seen:?}");
    waiting.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_with_little_time_left_does_not_poll_constantly() {
    let server = server().await;
    let client = client(&server).await;
    let mut monitor = Monitor::start(&server).await.unwrap();
    for n in 0..6 {
        let limiter = GcraLimiter::new(&client, format!("{n}"), Quota::per_second(1));
        limiter.acquire().await.unwrap();
        // The permit would be replenished a moment after the timeout.
        let _ = limiter.acquire().timeout(990 * MS).await;
    }
    let asked = asked(&monitor.take().await.unwrap());
    assert!(asked <= 60, "{asked}");
}
