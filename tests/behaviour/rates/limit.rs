//! Many callers at the limit of a rate.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redgrid_rate_limiter::{Rate, RateLimiter};
use redgrid_testkit::{Monitor, SeenCommand};
use redgrid_tests::{client, is_script, server};

use super::{LONG, MS, SECOND, limiter, patient, until_waiting};

/// Returns the grants in the log: the time of each in microseconds, and its number of permits.
fn taken(commands: &[SeenCommand]) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    for command in commands.iter().filter(|command| command.name == "ZADD") {
        for pair in command.args[1..].chunks(2) {
            let score: f64 = std::str::from_utf8(&pair[0]).unwrap().parse().unwrap();
            let permits = u32::from_le_bytes(pair[1][17..21].try_into().unwrap());
            all.push(((score * 1000.0).round() as u64, permits.into()));
        }
    }
    all.sort();
    all
}

/// Returns the maximum number of permits in any window `(t - length, t]`.
fn most_in_a_window(taken: &[(u64, u64)], length: u64) -> u64 {
    let (mut first, mut inside, mut most) = (0, 0, 0);
    for (at, permits) in taken {
        inside += permits;
        while taken[first].0 + length <= *at {
            inside -= taken[first].1;
            first += 1;
        }
        most = most.max(inside);
    }
    most
}

/// Returns how long to run at the limit, in seconds: `REDGRID_RATE_SECONDS`.
fn seconds() -> Option<u64> {
    std::env::var("REDGRID_RATE_SECONDS").ok().and_then(|seconds| seconds.parse().ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_window_ever_has_more_than_the_rate_and_little_is_lost_at_the_limit() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await, client(&server).await];
    let (permits, per) = (200, 500 * MS);
    limiter(&clients[0], permits, per).await;
    let mut monitor = Monitor::start(&server).await.unwrap().with_scripts();
    let long = seconds().map(Duration::from_secs);
    let lasts = long.unwrap_or(4 * SECOND);
    let end = Instant::now() + lasts;
    let tasks = (0..300).map(|task| {
        let limiter = RateLimiter::new(&clients[task % 3], "a");
        tokio::spawn(async move {
            let mut used = 0;
            while Instant::now() < end {
                let permits = 1 + task as u64 % 3;
                used += limiter.acquire().permits(permits).await.unwrap().permits();
            }
            used
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let mut commands = Vec::new();
    while Instant::now() < end {
        commands.extend(monitor.take().await.unwrap());
        tokio::time::sleep(100 * MS).await;
    }
    let used: u64 = join_all(tasks).await.into_iter().map(Result::unwrap).sum();
    commands.extend(monitor.take().await.unwrap());
    let taken = taken(&commands);
    assert_eq!(taken.iter().map(|(_, permits)| permits).sum::<u64>(), used);
    let most = most_in_a_window(&taken, 500_000);
    assert!(most <= permits, "{most}");
    // From the first to the last grant. The permits of one window are available at the start.
    let ran = taken[taken.len() - 1].0 - taken[0].0;
    let possible = permits as f64 * (1.0 + (ran as f64 / 500_000.0).floor());
    let share = used as f64 / possible;
    println!("{used} of {possible} in {ran} µs: {share:.4}; {most} at most in a window");
    assert!(share >= if long.is_some() { 0.99 } else { 0.5 }, "{share}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_a_process_are_served_in_order_by_one_request_at_a_time() {
    let server = server().await;
    let (client, observer) = (patient(&server).await, server.observer().await.unwrap());
    let limiter = limiter(&client, 10, SECOND).await;
    let first = limiter.acquire().permits(10).await.unwrap();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for n in 0..40 {
        let (order, mut taking) = (order.clone(), Box::pin(limiter.acquire().into_future()));
        // The request is queued by this poll.
        assert!(futures_util::poll!(&mut taking).is_pending());
        tasks.push(tokio::spawn(async move {
            taking.await.unwrap();
            order.lock().unwrap().push(n);
        }));
    }
    drop(first);
    until_waiting(&observer, "a").await;
    let mut monitor = Monitor::start(&server).await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    let seen = monitor.take().await.unwrap();
    let asked = seen.iter().filter(|command| is_script(&command.name)).count();
    // There are four windows, and one more poll for each if a timer was early.
    assert!(asked <= 16, "{asked}: {seen:?}");
    let order = order.lock().unwrap();
    // The permits of a window are granted together.
    let windows = order.chunks(10).map(<[usize]>::to_vec);
    for (n, mut window) in windows.enumerate() {
        window.sort();
        let expected: Vec<usize> = (n * 10..n * 10 + 10).collect();
        assert_eq!(window, expected, "{order:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_log_delays_no_caller() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let limiter = limiter(&client, 1_000_000, LONG).await;
    let fill = "for n = 1, 30000 do redis.call('ZADD', KEYS[1], ARGV[1] + n / 1000, struct.pack('Bc0I', 16, string.format('%016d', n), 2)) end
        redis.call('SET', KEYS[2], '940000')";
    // The log gets several times as many entries as the 5,000 that one call sums: first expired
    // ones, then valid ones.
    for (from, free) in [("1000", 1_000_000), ("now", 940_000)] {
        let time: (u64, u64) = observer.query(&["TIME"]).await.unwrap();
        let from = if from == "now" { (time.0 * 1000 - 200_000).to_string() } else { from.to_owned() };
        observer.cmd(&["EVAL", fill, "2", "{a}:permits", "{a}:value", &from]).await.unwrap();
        let mut monitor = Monitor::start(&server).await.unwrap().with_scripts();
        assert_eq!(limiter.available_permits().await.unwrap(), free);
        limiter.acquire().await.unwrap().release().await.unwrap();
        // Without the stored value, the calls sum all entries, each call as many as it may.
        observer.cmd(&["DEL", "{a}:value"]).await.unwrap();
        for _ in 0..20 {
            assert!(RateLimiter::new(&client, "a").try_acquire().await.unwrap().is_some());
        }
        let seen = monitor.take().await.unwrap();
        let wholes = seen.iter().filter(|command| command.name == "ZRANGE" && command.args.len() == 3).count();
        // A short log is summed each time.
        assert!(wholes <= 1 || free == 1_000_000, "the log was summed {wholes} times");
        for command in &seen {
            if command.name == "ZREMRANGEBYRANK" {
                assert!(String::from_utf8_lossy(&command.args[2]).parse::<i64>().unwrap() < 1000);
            }
        }
        limiter.set_rate(Rate::overall(1_000_000, LONG)).await.unwrap();
    }
}
