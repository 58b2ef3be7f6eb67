//! The commands that a console sends to the server.

use std::collections::BTreeMap;
use std::time::Duration;

use redgrid_console::{Access, Client, Console};
use redgrid_locks::Lock;
use redgrid_testkit::{Observer, RedisServer};
use tokio::time::Instant;

use crate::live::Stream;
use crate::support::{Setup, get, until_shown};

/// The calls of each command so far, but not of those that this test itself sends.
async fn calls(observer: &Observer) -> BTreeMap<String, u64> {
    let text: String = observer.query(&["INFO", "commandstats"]).await.expect("an answer");
    let call = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
    };
    text.lines().filter_map(call).collect()
}

/// Returns the commands between two readings, without those of `INFO` itself.
fn between(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let more = |(name, n): (&String, &u64)| {
        let grown = n - before.get(name).unwrap_or(&0);
        (grown > 0).then(|| (name.clone(), grown))
    };
    after.iter().filter_map(more).collect()
}

async fn setup() -> (Setup, Client) {
    let setup = Setup::start().await;
    let user = Client::connect(setup.server.url().as_str()).await.expect("a client");
    (setup, user)
}

/// Commands of several viewers within a time.
async fn measured(setup: &Setup, viewers: usize, page: &str, time: Duration) -> BTreeMap<String, u64> {
    let router = setup.console();
    let mut streams = Vec::new();
    for _ in 0..viewers {
        let mut stream = Stream::open(&router, page).await;
        stream.next().await.expect("a message");
        streams.push(stream);
    }
    // The first reads of all sources are over.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = calls(&setup.observer).await;
    tokio::time::sleep(time).await;
    between(&before, &calls(&setup.observer).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn many_viewers_cost_what_one_costs() {
    let (setup, user) = setup().await;
    let _held = Lock::new(&user, "job").acquire().await.expect("it is free");
    let time = Duration::from_secs(6);
    let one: u64 = measured(&setup, 1, "locks", time).await.values().sum();
    let many: u64 = measured(&setup, 20, "locks", time).await.values().sum();
    // The collector of the first console still works for its last viewer.
    assert!(many <= 2 * one + 20, "{one} commands for one viewer, {many} for 20");
    assert!(one <= 30 * time.as_secs(), "{one} commands in {time:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_subscribed_at_the_channel_of_a_lock() {
    let (setup, user) = setup().await;
    let _held = Lock::new(&user, "job").acquire().await.expect("it is free");
    let router = setup.console();
    let mut stream = Stream::open(&router, "lock&name=job").await;
    let mut list = Stream::open(&router, "locks").await;
    stream.next().await.expect("a message");
    list.next().await.expect("a message");
    tokio::time::sleep(Duration::from_secs(3)).await;
    let channels: Vec<String> = setup.observer.query(&["PUBSUB", "CHANNELS", "*lock*"]).await.expect("an answer");
    assert_eq!(channels, Vec::<String>::new());
    let patterns: u64 = setup.observer.query(&["PUBSUB", "NUMPAT"]).await.expect("an answer");
    assert_eq!(patterns, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_pings_remain_when_the_last_viewer_has_left() {
    let setup = Setup::start().await;
    let router = setup.console();
    let left = {
        let mut stream = Stream::open(&router, "overview").await;
        stream.next().await.expect("a message");
        for page in ["/locks", "/contention", "/queues", "/queue?name=jobs", "/synchronizers", "/limiters", "/streams"]
        {
            get(&router, page).await;
        }
        Instant::now()
    };
    tokio::time::sleep_until(left + Duration::from_secs(31)).await;
    // The last requests have been answered.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = calls(&setup.observer).await;
    tokio::time::sleep(Duration::from_secs(8)).await;
    let after = between(&before, &calls(&setup.observer).await);
    // The ping of a connection to a server with data is TIME.
    let others: Vec<_> = after.keys().filter(|name| !matches!(name.as_str(), "info" | "ping" | "time")).collect();
    assert!(others.is_empty() && after.get("info").is_none_or(|n| *n <= 1), "{after:?}");
    // A new viewer starts the work again.
    let mut stream = Stream::open(&router, "overview").await;
    stream.next().await.expect("a message");
    let again = Instant::now();
    loop {
        let now = between(&before, &calls(&setup.observer).await);
        if now.contains_key("scan") {
            break;
        }
        assert!(again.elapsed() < crate::support::SOON, "{now:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The sources end at different times after the last viewer has left, and start again together.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_pause_everything_is_read_again() {
    let (setup, user) = setup().await;
    let router = setup.console();
    let held = Lock::new(&user, "old").acquire().await.expect("it is free");
    until_shown(&router, "/lock?name=old", user.id()).await;
    until_shown(&router, "/locks", "lock?name=old").await;
    let left = Instant::now();
    held.release().await.expect("it was held");
    tokio::time::sleep_until(left + Duration::from_secs(33)).await;
    // The state before the pause is not shown as that of now.
    let page = get(&router, "/lock?name=old").await.text;
    assert!(!page.contains(user.id()), "{page}");
    let _held = Lock::new(&user, "new").acquire().await.expect("it is free");
    let page = until_shown(&router, "/locks", "lock?name=new").await;
    assert!(!page.contains("lock?name=old"), "{page}");
    until_shown(&router, "/overview", "state alive").await;
    until_shown(&router, "/clients", user.id()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_with_too_many_keys_is_not_searched() {
    let setup = Setup::start().await;
    for part in 0..6 {
        let fill = format!("for i = 1, 200000 do redis.call('set', '{part}:' .. i, i) end");
        setup.observer.cmd(&["EVAL", &fill, "0"]).await.expect("an answer");
    }
    let router = setup.console();
    let mut stream = Stream::open(&router, "locks").await;
    stream.next().await.expect("a message");
    until_shown(&router, "/locks", "more than 1 000 000 keys").await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(calls(&setup.observer).await.get("scan"), None);
    // The first search begins when there are fewer.
    setup.observer.cmd(&["FLUSHALL"]).await.expect("an answer");
    setup.observer.cmd(&["HSET", "job", "0f8fad5b-d9cb-469f-a165-70867728950e:17", "1"]).await.expect("an answer");
    until_shown(&router, "/locks", "lock?name=job").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_keys_are_searched_within_two_percent_of_the_time() {
    let setup = Setup::start().await;
    let fill = "for i = 1, 200000 do redis.call('set', 'k' .. i, i) end";
    setup.observer.cmd(&["EVAL", fill, "0"]).await.expect("an answer");
    setup.observer.cmd(&["CONFIG", "SET", "slowlog-log-slower-than", "10000"]).await.expect("an answer");
    setup.observer.cmd(&["SLOWLOG", "RESET"]).await.expect("an answer");
    let usage = async |observer: &Observer| -> u64 {
        let text: String = observer.query(&["INFO", "commandstats"]).await.expect("an answer");
        let usec =
            |line: &str| line.strip_prefix("cmdstat_scan:")?.split("usec=").nth(1)?.split(',').next()?.parse().ok();
        text.lines().find_map(usec).unwrap_or(0)
    };
    let router = setup.console();
    let mut stream = Stream::open(&router, "locks").await;
    stream.next().await.expect("a message");
    let (before, began) = (usage(&setup.observer).await, Instant::now());
    tokio::time::sleep(Duration::from_secs(6)).await;
    let (used, time) = (usage(&setup.observer).await - before, began.elapsed());
    assert!(u128::from(used) * 100 <= time.as_micros() * 2, "{used} µs of SCAN in {time:?}");
    let slow: u64 = setup.observer.query(&["SLOWLOG", "LEN"]).await.expect("an answer");
    assert_eq!(slow, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_console_that_nobody_opens_sends_nothing() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let client = Client::connect(server.url().as_str()).await.expect("a client");
    client.wait_ready(crate::support::SOON).await.expect("it is there");
    // The client subscribes to its own channel.
    let is_subscribed = async || !observer.pubsub_channels("redgrid_client:*").await.expect("an answer").is_empty();
    redgrid_testkit::wait_until(crate::support::SOON, is_subscribed).await;
    let router = Console::new(&client).access(|_| Access::None).router();
    let before = calls(&observer).await;
    assert_eq!(get(&router, "/locks").await.status, 403);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let after = between(&before, &calls(&observer).await);
    assert!(after.keys().all(|name| matches!(name.as_str(), "info" | "ping" | "time")), "{after:?}");
}
