//! Rates that all processes keep together: the sliding log.

use std::future::IntoFuture;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redgrid_rate_limiter::{Client, Config, LimitError, Rate, RateLimiter, Taken};
use redgrid_testkit::{Action, Direction, Fault, Monitor, Observer, Proxy, RedisServer, SeenCommand, wait_until};
use redgrid_tests::cancel::at_most;
use redgrid_tests::{SOON, client, client_with, server};
use tokio::task::JoinHandle;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// The most permits of one request.
const MOST: u64 = u32::MAX as u64;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(600);

/// Far above what a message takes on a busy machine, and far below what is waited for without one.
const AT_ONCE: Duration = Duration::from_secs(10);

async fn limiter(client: &Client, permits: u64, per: Duration) -> RateLimiter {
    let limiter = RateLimiter::new(client, "a");
    assert!(limiter.try_set_rate(Rate::overall(permits, per)).await.unwrap());
    limiter
}

/// A client that looks by itself after a long time only.
async fn patient(server: &RedisServer) -> Client {
    client_with(&server.url(), |config| config.poll_interval(LONG)).await
}

/// Waits until somebody listens for changes: then it has been refused, and waits.
async fn until_waiting(observer: &Observer, name: &str) {
    let channel = format!("redgrid_rate__channel:{{{name}}}");
    wait_until(SOON, async || observer.pubsub_channels("*").await.unwrap().contains(&channel)).await;
}

/// One who wants five permits, and was told to wait.
async fn waits(limiter: &RateLimiter, observer: &Observer) -> JoinHandle<Result<Taken, LimitError>> {
    let waiting = tokio::spawn(limiter.acquire().permits(5).into_future());
    until_waiting(observer, "a").await;
    waiting
}

async fn log(observer: &Observer) -> i64 {
    observer.query(&["ZCARD", "{a}:permits"]).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_is_set_read_changed_and_deleted() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let limiter = RateLimiter::new(&client, "a");
    let rate = Rate::overall(5, LONG);
    assert!(!limiter.set_rate(rate).if_set().await.unwrap());
    assert!(limiter.try_set_rate(rate).await.unwrap());
    assert!(!limiter.try_set_rate(Rate::overall(7, SECOND)).await.unwrap());
    assert_eq!(limiter.rate().await.unwrap(), rate);
    let hash: Vec<String> = observer.query(&["HMGET", "a", "rate", "interval", "type", "keepAliveTime"]).await.unwrap();
    assert_eq!(hash, ["5", "600000", "0", "0"]);
    assert_eq!(limiter.available_permits().await.unwrap(), 5);
    assert_eq!(limiter.try_acquire_many(3).await.unwrap().unwrap().permits(), 3);
    assert!(limiter.try_acquire_many(3).await.unwrap().is_none());
    assert_eq!(limiter.available_permits().await.unwrap(), 2);
    // What was taken counts on, or does not.
    assert!(limiter.set_rate(Rate::overall(9, LONG)).keeping_state().await.unwrap());
    assert_eq!(limiter.available_permits().await.unwrap(), 6);
    assert!(limiter.set_rate(Rate::overall(2, LONG)).keeping_state().if_set().await.unwrap());
    assert_eq!(limiter.available_permits().await.unwrap(), 0);
    assert_eq!(limiter.release(2).await.unwrap(), 2);
    assert_eq!(limiter.available_permits().await.unwrap(), 1);
    let per_client = Rate::per_client(4, LONG).keep_alive(2 * LONG);
    assert!(limiter.set_rate(per_client).keeping_state().await.unwrap());
    assert_eq!((limiter.available_permits().await.unwrap(), limiter.rate().await.unwrap()), (4, per_client));
    assert!(limiter.set_rate(Rate::overall(3, LONG)).await.unwrap());
    assert_eq!(limiter.available_permits().await.unwrap(), 3);
    assert!(limiter.delete().await.unwrap() && !limiter.delete().await.unwrap());
    let left: Vec<String> = observer.query(&["KEYS", "*"]).await.unwrap();
    assert!(left.iter().all(|key| key.starts_with("redgrid_once:")), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_can_not_be_had_is_told() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let limiter = RateLimiter::new(&client, "a");
    let unset = |told| matches!(told, Err(LimitError::RateNotSet { .. }));
    assert!(unset(limiter.try_acquire().await.map(drop)));
    assert!(unset(limiter.acquire().await.map(drop)));
    assert!(unset(limiter.acquire().wait(SOON).await.map(drop)));
    assert!(unset(limiter.release(1).await.map(drop)));
    assert!(unset(limiter.available_permits().await.map(drop)));
    assert!(unset(limiter.rate().await.map(drop)));
    limiter.try_set_rate(Rate::overall(5, LONG)).await.unwrap();
    let told = limiter.acquire().permits(6).await.unwrap_err();
    assert!(matches!(told, LimitError::TooManyPermits { permits: 6, most: 5, .. }), "{told:?}");
    let told = limiter.try_acquire_many(6).await.unwrap_err();
    assert!(matches!(told, LimitError::TooManyPermits { .. }), "{told:?}");
    let argument = |told| matches!(told, Err(LimitError::InvalidArgument { .. }));
    assert!(argument(limiter.acquire().permits(0).await.map(drop)));
    assert!(argument(limiter.try_acquire_many(1 << 32).await.map(drop)));
    assert!(argument(limiter.release(0).await.map(drop)));
    assert!(argument(limiter.expire(Duration::ZERO).await.map(drop)));
    for bad in [Rate::overall(0, SECOND), Rate::overall(1, MS / 2), Rate::overall(1, SECOND).keep_alive(MS)] {
        assert!(argument(limiter.try_set_rate(bad).await.map(drop)));
        assert!(argument(limiter.set_rate(bad).await.map(drop)));
    }
    limiter.acquire().permits(5).await.unwrap();
    let told = limiter.acquire().wait(Duration::ZERO).await.unwrap_err();
    assert!(matches!(told, LimitError::TimedOut { .. }), "{told:?}");
    let told = limiter.acquire().wait(300 * MS).await.unwrap_err();
    assert!(matches!(told, LimitError::TimedOut { waited, .. } if waited >= 300 * MS), "{told:?}");
    observer.cmd(&["SET", "b", "1"]).await.unwrap();
    let refused = RateLimiter::new(&client, "b").try_acquire().await.unwrap_err();
    assert!(matches!(refused, LimitError::Refused { .. }), "{refused:?}");
    observer.cmd(&["SET", "{a}:permits", "1"]).await.unwrap();
    let refused = limiter.acquire().await.unwrap_err();
    assert!(matches!(refused, LimitError::Refused { .. }), "{refused:?}");
    let invalid = RateLimiter::new(&client, "{}").acquire().await.unwrap_err();
    assert!(matches!(invalid, LimitError::InvalidName(_)), "{invalid:?}");
}

/// What the log was told: at which microsecond how many were taken.
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

/// The most permits of any window `(t - length, t]`.
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

/// How long to run at the limit, in seconds: `REDGRID_RATE_SECONDS`.
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
    // From the first to the last, a window's rate of which is there from the start.
    let ran = taken[taken.len() - 1].0 - taken[0].0;
    let possible = permits as f64 * (1.0 + (ran as f64 / 500_000.0).floor());
    let share = used as f64 / possible;
    println!("{used} of {possible} in {ran} µs: {share:.4}; {most} at most in a window");
    assert!(share >= if long.is_some() { 0.99 } else { 0.5 }, "{share}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_a_process_come_in_their_order_and_one_request_at_a_time_asks_for_all() {
    let server = server().await;
    let (client, observer) = (patient(&server).await, server.observer().await.unwrap());
    let limiter = limiter(&client, 10, SECOND).await;
    let first = limiter.acquire().permits(10).await.unwrap();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for n in 0..40 {
        let (order, mut taking) = (order.clone(), Box::pin(limiter.acquire().into_future()));
        // In the line from here on.
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
    let asked = seen.iter().filter(|command| command.name == "EVALSHA" || command.name == "EVAL").count();
    // Four windows; one look more for each where a timer was early.
    assert!(asked <= 16, "{asked}: {seen:?}");
    let order = order.lock().unwrap();
    // Those of a window go on together.
    let windows = order.chunks(10).map(<[usize]>::to_vec);
    for (n, mut window) in windows.enumerate() {
        window.sort();
        let expected: Vec<usize> = (n * 10..n * 10 + 10).collect();
        assert_eq!(window, expected, "{order:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_takes_once() {
    let server = server().await;
    let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
    let quick = |config: Config| config.timeout(150 * MS);
    let client = client_with(&server.url_via(proxy.addr()), quick).await;
    let limiter = limiter(&client, 10, LONG).await;
    limiter.acquire().await.unwrap();
    for n in 2..5 {
        let swallowed = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&swallowed);
        proxy.on_request(move |request| {
            let asks = request.iter().any(|word| word.starts_with(b"redgrid_once:{a}"));
            match asks && count.fetch_add(1, Ordering::SeqCst) == 0 {
                true if n % 2 == 0 => Action::SwallowReply,
                true => Action::CutAfterForward,
                false => Action::Forward,
            }
        });
        limiter.acquire().wait(SOON).await.unwrap();
        assert!(swallowed.load(Ordering::SeqCst) > 1, "it was sent again");
        assert_eq!(observer.query::<i64>(&["GET", "{a}:value"]).await.unwrap(), 10 - n);
        assert_eq!(log(&observer).await, n);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_leaves_takes_nothing_wherever_he_leaves() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let limiter = limiter(&client, 10, LONG).await;
    for polls in 0..6 {
        for _ in 0..5 {
            let taken = at_most(polls, limiter.acquire().permits(2).into_future()).await;
            assert!(taken.is_none_or(|taken| taken.is_ok()));
            drop(at_most(polls, limiter.try_acquire()).await);
            let all = limiter.available_permits().await.unwrap();
            let used = 10 - all;
            // Those that were handed out.
            if used > 4 {
                limiter.release(used).await.unwrap();
            }
        }
    }
    limiter.set_rate(Rate::overall(10, LONG)).await.unwrap();
    // A request that has left, and nobody there when it is answered.
    for _ in 0..20 {
        let mut taking = Box::pin(limiter.acquire().permits(2).into_future());
        assert!(futures_util::poll!(&mut taking).is_pending());
        tokio::task::yield_now().await;
        drop(taking);
    }
    wait_until(SOON, async || limiter.available_permits().await.unwrap() == 10).await;
    assert_eq!(log(&observer).await, 0);
    // Who waits behind others leaves nothing either, and lets those go who come behind.
    limiter.acquire().permits(8).await.unwrap();
    let big = tokio::spawn(limiter.acquire().permits(5).into_future());
    until_waiting(&observer, "a").await;
    assert!(limiter.try_acquire().await.unwrap().is_none(), "one waits who was first");
    let small = tokio::spawn(limiter.acquire().into_future());
    big.abort();
    let small = tokio::time::timeout(AT_ONCE, small).await.unwrap().unwrap().unwrap();
    assert_eq!(limiter.available_permits().await.unwrap(), 1);
    drop(small);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_taken_for_who_has_left_goes_back() {
    let server = server().await;
    let (proxy, observer) = (Proxy::to(&server).await.unwrap(), server.observer().await.unwrap());
    let patient = |config: Config| config.timeout(SOON);
    let client = client_with(&server.url_via(proxy.addr()), patient).await;
    let limiter = limiter(&client, 10, LONG).await;
    limiter.acquire().permits(3).await.unwrap();
    proxy.set(Direction::ToClient, Fault::Stall);
    let leaving = tokio::spawn(limiter.acquire().permits(2).into_future());
    wait_until(SOON, async || log(&observer).await == 2).await;
    // One that stays is not to be asked for before.
    let staying = tokio::spawn(limiter.acquire().permits(7).into_future());
    leaving.abort();
    assert!(leaving.await.unwrap_err().is_cancelled());
    proxy.heal();
    tokio::time::timeout(AT_ONCE, staying).await.unwrap().unwrap().unwrap();
    assert_eq!(limiter.available_permits().await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_back_late_frees_nothing_of_others() {
    let server = server().await;
    let clients = [client(&server).await, client(&server).await];
    let one = limiter(&clients[0], 4, LONG).await;
    let two = RateLimiter::new(&clients[1], "a");
    let early = one.acquire().permits(3).await.unwrap();
    assert_eq!((early.release().await.unwrap(), one.available_permits().await.unwrap()), (3, 4));
    // As long as they count: this and no other, though two are of one request.
    one.set_rate(Rate::overall(4, LONG)).await.unwrap();
    let both = join_all([one.acquire().into_future(), one.acquire().permits(2).into_future()]).await;
    let [first, second] = both.try_into().unwrap();
    assert_eq!((second.unwrap().release().await.unwrap(), one.available_permits().await.unwrap()), (2, 3));
    assert_eq!((first.unwrap().release().await.unwrap(), one.available_permits().await.unwrap()), (1, 4));
    // Over, and in the log still: it is free by itself.
    let observer = server.observer().await.unwrap();
    one.set_rate(Rate::overall(4, 300 * MS)).await.unwrap();
    let late = one.acquire().permits(3).await.unwrap();
    let had = observer.server_time_micros().await.unwrap();
    wait_until(SOON, async || observer.server_time_micros().await.unwrap() > had + 300_000).await;
    assert_eq!(log(&observer).await, 1);
    assert_eq!((late.release().await.unwrap(), one.available_permits().await.unwrap()), (0, 4));
    one.set_rate(Rate::overall(4, 500 * MS)).await.unwrap();
    let late = one.acquire().permits(3).await.unwrap();
    wait_until(SOON, async || two.available_permits().await.unwrap() == 4).await;
    two.set_rate(Rate::overall(4, LONG)).keeping_state().await.unwrap();
    two.acquire().permits(4).await.unwrap();
    assert_eq!(late.release().await.unwrap(), 0);
    assert_eq!(two.available_permits().await.unwrap(), 0);
    // Without knowing what was whose, the oldest go, and never more than count.
    assert_eq!((one.release(3).await.unwrap(), two.available_permits().await.unwrap()), (3, 3));
    assert_eq!((one.release(3).await.unwrap(), two.available_permits().await.unwrap()), (1, 4));
    assert_eq!((one.release(3).await.unwrap(), two.available_permits().await.unwrap()), (0, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_hears_of_changes_at_once() {
    let server = server().await;
    let (one, two) = (patient(&server).await, patient(&server).await);
    let observer = server.observer().await.unwrap();
    let (here, there) = (limiter(&one, 5, LONG).await, RateLimiter::new(&two, "a"));
    let mut held = here.acquire().permits(5).await.unwrap();
    for change in 0..4 {
        let waiting = waits(&there, &observer).await;
        match change {
            0 => drop(held.release().await.unwrap()),
            1 => drop(here.release(5).await.unwrap()),
            2 => drop(here.set_rate(Rate::overall(10, LONG)).keeping_state().await.unwrap()),
            _ => drop(here.set_rate(Rate::overall(5, LONG)).await.unwrap()),
        }
        held = tokio::time::timeout(AT_ONCE, waiting).await.unwrap().unwrap().unwrap();
        wait_until(SOON, async || two.in_hand().channels == 0).await;
        if change == 2 {
            assert_eq!(here.available_permits().await.unwrap(), 0);
        }
    }
    // What a task of the same process gives back is for those who wait there.
    let waiting = waits(&there, &observer).await;
    assert_eq!(held.release().await.unwrap(), 5);
    tokio::time::timeout(AT_ONCE, waiting).await.unwrap().unwrap().unwrap();
    let waiting = waits(&there, &observer).await;
    here.delete().await.unwrap();
    let told = tokio::time::timeout(AT_ONCE, waiting).await.unwrap().unwrap();
    assert!(matches!(told, Err(LimitError::RateNotSet { .. })), "{told:?}");
    here.set_rate(Rate::overall(5, LONG)).await.unwrap();
    here.acquire().permits(5).await.unwrap();
    let waiting = waits(&there, &observer).await;
    two.shutdown(SOON).await.unwrap();
    let told = waiting.await.unwrap();
    assert!(matches!(told, Err(LimitError::ShuttingDown { .. })), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_log_holds_nobody_up() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let limiter = limiter(&client, 1_000_000, LONG).await;
    let fill = "for n = 1, 100000 do redis.call('ZADD', KEYS[1], ARGV[1] + n / 1000, struct.pack('Bc0I', 16, string.format('%016d', n), 2)) end
        redis.call('SET', KEYS[2], '800000')";
    // Old ones; then those that count.
    for (from, free) in [("1000", 1_000_000), ("now", 800_000)] {
        let time: (u64, u64) = observer.query(&["TIME"]).await.unwrap();
        let from = if from == "now" { (time.0 * 1000 - 200_000).to_string() } else { from.to_owned() };
        observer.cmd(&["EVAL", fill, "2", "{a}:permits", "{a}:value", &from]).await.unwrap();
        let mut monitor = Monitor::start(&server).await.unwrap().with_scripts();
        assert_eq!(limiter.available_permits().await.unwrap(), free);
        limiter.acquire().await.unwrap().release().await.unwrap();
        // Its value gone: all of it is counted as far as one call may.
        observer.cmd(&["DEL", "{a}:value"]).await.unwrap();
        for _ in 0..20 {
            assert!(RateLimiter::new(&client, "a").try_acquire().await.unwrap().is_some());
        }
        let seen = monitor.take().await.unwrap();
        let wholes = seen.iter().filter(|command| command.name == "ZRANGE" && command.args.len() == 3).count();
        // A short one is counted each time.
        assert!(wholes <= 1 || free == 1_000_000, "the log was summed {wholes} times");
        for command in &seen {
            if command.name == "ZREMRANGEBYRANK" {
                assert!(String::from_utf8_lossy(&command.args[2]).parse::<i64>().unwrap() < 1000);
            }
        }
        limiter.set_rate(Rate::overall(1_000_000, LONG)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_live_as_long_as_they_are_to() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let limiter = RateLimiter::new(&client, "a");
    let lives = async || {
        let mut all = Vec::new();
        for key in observer.query::<Vec<String>>(&["KEYS", "*"]).await.unwrap() {
            if !key.starts_with("redgrid_once") {
                all.push((observer.query::<i64>(&["PTTL", &key]).await.unwrap() as f64 / 60_000.0).ceil() as i64);
            }
        }
        all
    };
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let rate = Rate::overall(5, SECOND);
    limiter.try_set_rate(rate.keep_alive(minutes(10))).await.unwrap();
    assert_eq!(lives().await, [10]);
    limiter.acquire().permits(5).await.unwrap();
    assert_eq!(lives().await, [10, 10, 10]);
    // Each use begins it anew, that is refused too.
    limiter.expire(minutes(5)).await.unwrap();
    assert_eq!(lives().await, [5, 5, 5]);
    limiter.try_acquire().await.unwrap();
    assert_eq!(lives().await, [10, 10, 10]);
    limiter.set_rate(rate).keeping_state().await.unwrap();
    assert_eq!(lives().await, [-1, -1, -1].map(|_: i32| 0), "as long as Redisson's");
    limiter.expire(minutes(7)).await.unwrap();
    limiter.acquire().await.unwrap();
    assert_eq!(lives().await, [7, 7, 7]);
    assert!(limiter.persist().await.unwrap() && !limiter.persist().await.unwrap());
    assert_eq!(lives().await, [0, 0, 0]);
    // A client's own never outlives it for long.
    limiter.set_rate(Rate::per_client(5, minutes(2))).await.unwrap();
    limiter.acquire().await.unwrap();
    let mut each = lives().await;
    each.sort();
    assert_eq!(each, [0, 5, 5, 5]);
    limiter.set_rate(Rate::per_client(5, minutes(2)).keep_alive(minutes(9))).keeping_state().await.unwrap();
    limiter.acquire().await.unwrap();
    assert_eq!(lives().await, [9, 9, 9, 9]);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_client_has_its_own_rate_and_hears_of_a_new_one() {
    let server = server().await;
    let (one, two) = (patient(&server).await, patient(&server).await);
    let observer = server.observer().await.unwrap();
    let (here, there) = (RateLimiter::new(&one, "a"), RateLimiter::new(&two, "a"));
    here.try_set_rate(Rate::per_client(3, LONG)).await.unwrap();
    for limiter in [&here, &there] {
        limiter.acquire().permits(3).await.unwrap();
        assert!(limiter.try_acquire().await.unwrap().is_none());
    }
    let waiting = tokio::spawn(there.acquire().permits(2).into_future());
    until_waiting(&observer, "a").await;
    // What the other client took still counts, and no more.
    here.set_rate(Rate::per_client(5, LONG)).keeping_state().await.unwrap();
    tokio::time::timeout(AT_ONCE, waiting).await.unwrap().unwrap().unwrap();
    assert_eq!((here.available_permits().await.unwrap(), there.available_permits().await.unwrap()), (2, 0));
    here.set_rate(Rate::per_client(4, LONG)).keeping_state().await.unwrap();
    assert_eq!((here.available_permits().await.unwrap(), there.available_permits().await.unwrap()), (1, 0));
    assert_eq!(there.release(2).await.unwrap(), 2);
    assert_eq!((here.available_permits().await.unwrap(), there.available_permits().await.unwrap()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_is_wrong_is_made_right() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let limiter = limiter(&client, 10, LONG).await;
    let value = async || observer.query::<String>(&["GET", "{a}:value"]).await.unwrap();
    limiter.acquire().permits(7).await.unwrap();
    limiter.acquire().await.unwrap();
    observer.cmd(&["DEL", "{a}:value"]).await.unwrap();
    assert_eq!((limiter.available_permits().await.unwrap(), value().await), (2, "2".into()));
    // Too high, too low: as when Redisson gives back what was not taken, or keys went apart.
    observer.cmd(&["SET", "{a}:value", "11"]).await.unwrap();
    assert_eq!(limiter.available_permits().await.unwrap(), 2);
    observer.cmd(&["SET", "{a}:value", "-5"]).await.unwrap();
    assert!(limiter.acquire().permits(2).wait(SOON).await.is_ok());
    assert_eq!(value().await, "0");
    observer.cmd(&["DEL", "{a}:permits"]).await.unwrap();
    assert_eq!(limiter.available_permits().await.unwrap(), 10);
    observer.cmd(&["SET", "{a}:value", "many"]).await.unwrap();
    assert!(matches!(limiter.try_acquire().await, Err(LimitError::Refused { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_exact_at_their_ends() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let value = async || observer.query::<i64>(&["GET", "{a}:value"]).await.unwrap();
    let (whole, limiter) = (1_u64 << 53, limiter(&client, 1 << 53, LONG).await);
    limiter.acquire().await.unwrap();
    assert_eq!(value().await, (1 << 53) - 1);
    let most = limiter.acquire().permits(MOST).await.unwrap();
    assert_eq!(value().await, (1 << 53) - 1 - MOST as i64);
    assert_eq!((most.release().await.unwrap(), value().await), (MOST, (1 << 53) - 1));
    assert_eq!(limiter.rate().await.unwrap().permits, whole);
    // As Java may set it.
    observer.cmd(&["HSET", "a", "rate", &i64::MAX.to_string()]).await.unwrap();
    observer.cmd(&["DEL", "{a}:value", "{a}:permits"]).await.unwrap();
    let taken = limiter.acquire().permits(MOST).await.unwrap();
    assert_eq!(value().await, i64::MAX - MOST as i64);
    limiter.acquire().await.unwrap();
    assert_eq!((taken.release().await.unwrap(), value().await), (MOST, i64::MAX - 1));
    assert_eq!((limiter.release(9).await.unwrap(), value().await), (1, i64::MAX));
    // More than four bytes at once make two entries.
    let many = join_all((0..3).map(|_| limiter.acquire().permits(MOST).into_future())).await;
    assert_eq!(value().await, i64::MAX - 3 * MOST as i64);
    for one in many {
        assert_eq!(one.unwrap().release().await.unwrap(), MOST);
    }
    assert_eq!(value().await, i64::MAX);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_was_set_back_costs_one_window() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let limiter = limiter(&client, 2, 400 * MS).await;
    limiter.acquire().permits(2).await.unwrap();
    // As if the clock had been an hour ahead.
    let shift = "for _, entry in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZINCRBY', KEYS[1], 3600000, entry) end";
    observer.cmd(&["EVAL", shift, "1", "{a}:permits"]).await.unwrap();
    assert!(limiter.try_acquire().await.unwrap().is_none());
    limiter.acquire().permits(2).wait(SOON).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_contact_all_end_in_time() {
    let server = server().await;
    let proxy = Proxy::to(&server).await.unwrap();
    let quick = |config: Config| config.timeout(100 * MS).retries(2);
    let client = client_with(&server.url_via(proxy.addr()), quick).await;
    let limiter = limiter(&client, 100, LONG).await;
    limiter.acquire().await.unwrap();
    proxy.set_both(Fault::BlackHole);
    let began = Instant::now();
    let waiting = (0..10).map(|_| limiter.acquire().into_future());
    let told = join_all(waiting).await;
    let honest = |told: &LimitError| matches!(told, LimitError::OutcomeUnknown { .. } | LimitError::Unavailable { .. });
    assert!(told.iter().all(|told| told.as_ref().is_err_and(honest)), "{told:?}");
    let told = limiter.try_acquire().await.unwrap_err();
    assert!(honest(&told), "{told:?}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    proxy.heal();
    wait_until(SOON, async || limiter.try_acquire().await.is_ok()).await;
}

/// On one thread, where nobody asks before both are in line.
#[tokio::test]
async fn what_is_denied_half_way_changes_nothing() {
    let server = server().await;
    let (client, observer) = (client(&server).await, server.observer().await.unwrap());
    let limiter = limiter(&client, 5, LONG).await;
    let taken = limiter.acquire().permits(3).await.unwrap();
    // One that is over, so that there is something to drop.
    let fill = "redis.call('ZADD', KEYS[1], 1000, struct.pack('Bc0I', 16, '0123456789abcdef', 1)) redis.call('SET', KEYS[2], '1')";
    observer.cmd(&["EVAL", fill, "2", "{a}:permits", "{a}:value"]).await.unwrap();
    let state = async || {
        let value: String = observer.query(&["GET", "{a}:value"]).await.unwrap();
        let log: Vec<(Vec<u8>, String)> =
            observer.query(&["ZRANGE", "{a}:permits", "0", "-1", "WITHSCORES"]).await.unwrap();
        let rate: Vec<String> = observer.query(&["HMGET", "a", "rate", "interval", "type"]).await.unwrap();
        (value, log, rate)
    };
    let before = state().await;
    let steps = [
        ("incrby", "take"),
        ("zremrangebyrank", "take"),
        ("zrem", "release"),
        ("zadd", "release"),
        ("incrby", "release"),
        ("zremrangebyrank", "release"),
        ("unlink", "set"),
        ("hset", "set"),
        ("zadd", "take"),
    ];
    for (denied, step) in steps {
        server.deny(&[denied]).await.unwrap();
        let told = match step {
            // A part of the entry that counts.
            "release" => limiter.release(2).await.map(drop),
            "set" => limiter.set_rate(Rate::overall(9, LONG)).await.map(drop),
            _ => limiter.try_acquire_many(2).await.map(drop),
        };
        assert!(matches!(told, Err(LimitError::Refused { .. })), "{denied}: {told:?}");
        server.allow(&[denied]).await.unwrap();
        if (denied, step) != ("zadd", "take") {
            assert_eq!(state().await, before, "{denied} {step}");
        }
    }
    // What is over has been dropped, and is free.
    let after = state().await;
    assert_eq!((after.0.as_str(), after.1.len()), ("2", 1));
    assert_eq!((taken.release().await.unwrap(), limiter.available_permits().await.unwrap()), (3, 5));
    // Two of one request have one entry, a part of which goes back.
    limiter.set_rate(Rate::overall(5, LONG).keep_alive(2 * LONG)).await.unwrap();
    let both = join_all([limiter.acquire().into_future(), limiter.acquire().permits(2).into_future()]).await;
    let [one, two]: [Result<Taken, LimitError>; 2] = both.try_into().unwrap();
    let (mut one, mut two) = (one.ok(), two.ok());
    for (denied, step) in [("pexpire", "take"), ("pexpire", "release"), ("zadd", "one"), ("zrem", "two")] {
        let before = state().await;
        assert_eq!((before.0.as_str(), before.1.len()), ("2", 1));
        server.deny(&[denied]).await.unwrap();
        let told = match step {
            "take" => limiter.try_acquire().await.map(drop),
            "release" => limiter.release(1).await.map(drop),
            "one" => one.take().unwrap().release().await.map(drop),
            _ => two.take().unwrap().release().await.map(drop),
        };
        assert!(matches!(told, Err(LimitError::Refused { .. })), "{denied}: {told:?}");
        server.allow(&[denied]).await.unwrap();
        assert_eq!(state().await, before, "{denied} {step}");
    }
}
