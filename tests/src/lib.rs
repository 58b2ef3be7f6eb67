//! Shared helpers of the tests.

pub mod before;
pub mod cancel;
pub mod contest;
pub mod either;
pub mod fair;
pub mod fake_server;
pub mod history;
pub mod latch;
pub mod model;
pub mod process;
pub mod simulated_network;
pub mod spread;
pub mod stopwatch;
pub mod store;
pub mod topology;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use redgrid_core::config::Protocol;
use redgrid_core::{Client, ClientStats, Config};
use redgrid_locks::Lock;
use redgrid_testkit::{Observer, RedisServer, wait_until};
use tokio::runtime::Builder;

/// A time limit of a minute: long enough for every event that a test waits for, even on a busy
/// machine. Only a failing test waits this long.
pub const SOON: Duration = Duration::from_secs(60);

/// Runs a test on a multi-threaded and on a single-threaded runtime, because batches form
/// differently on each.
pub fn on_each_runtime(test: impl AsyncFn()) {
    for mut runtime in [Builder::new_multi_thread(), Builder::new_current_thread()] {
        runtime.enable_all().build().expect("a runtime").block_on(test());
    }
}

/// Starts a server for the test.
pub async fn server() -> RedisServer {
    RedisServer::start().await.expect("a server starts")
}

/// Returns a connected client of `server`.
pub async fn client(server: &RedisServer) -> Client {
    client_with(&server.url(), |config| config).await
}

/// Returns a connected client of the server at `url` with the test's settings.
pub async fn client_with(url: &str, settings: impl FnOnce(Config) -> Config) -> Client {
    let client = client_unready(url, settings).await;
    client.wait_ready(SOON).await.expect("the server answers");
    client
}

/// Returns a client that may not be connected yet.
pub async fn client_unready(url: &str, settings: impl FnOnce(Config) -> Config) -> Client {
    let config = Config::from_url(url).expect("a valid URL").protocol(protocol());
    Client::connect(settings(config)).await.expect("a valid configuration")
}

/// Returns the protocol in the variable `TEST_PROTOCOL`; it allows running all tests with RESP2.
pub fn protocol() -> Protocol {
    match std::env::var("TEST_PROTOCOL").as_deref() {
        Ok("resp2") => Protocol::Resp2,
        _ => Protocol::Auto,
    }
}

/// Waits until the client's subscription to its own notification channel is active. The activation
/// causes one check of all holds.
pub async fn listening(server: &RedisServer, client: &Client) {
    let observer = server.observer().await.expect("the server answers");
    let notices = format!("redgrid_client:{{{}}}", client.id());
    let subscribed = async || observer.pubsub_channels("*").await.is_ok_and(|channels| channels.contains(&notices));
    wait_until(SOON, subscribed).await;
}

/// Returns how often the server has executed a command, including calls from scripts.
pub async fn calls_of(observer: &Observer, command: &str) -> u64 {
    let stats: String = observer.query(&["INFO", "commandstats"]).await.expect("the server answers");
    let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
    line.map_or(0, |line| line.split(',').next().and_then(|calls| calls.parse().ok()).expect("a number of calls"))
}

/// Returns the rules of the line in docs/operating/acl.md that begins with `begins` after the
/// user's name. The password is `secret`.
pub fn published_rules(begins: &str) -> Vec<String> {
    let lines = include_str!("../../docs/operating/acl.md").lines();
    let mut rules = lines.filter_map(|line| line.strip_prefix("ACL SETUSER app "));
    let rules = rules.find(|rules| rules.starts_with(begins));
    let rules = rules.unwrap_or_else(|| panic!("the page has a line that begins with {begins}"));
    rules.split(' ').map(|rule| rule.replace("SECRET", "secret")).collect()
}

/// The statistics of an idle client.
pub const NOTHING: ClientStats = ClientStats { names: 0, holds: 0, waiting: 0, channels: 0 };

/// Waits until the server has no key and no channel of Redisson's, and all clients are idle.
pub async fn nothing_is_left(observer: &Observer, clients: &[&Client]) {
    wait_until(SOON, async || {
        let keys = observer.keys("*").await.expect("the server answers");
        let channels = observer.pubsub_channels("redisson*").await.expect("the server answers");
        keys.is_empty() && channels.is_empty() && clients.iter().all(|client| client.stats() == NOTHING)
    })
    .await;
}

/// Returns how many empty critical sections the tasks of one client complete within a time.
pub async fn sections(client: &Client, tasks: usize, name: &str, time: Duration) -> u64 {
    sections_of_length(Duration::ZERO, client, tasks, name, time).await
}

/// Returns how many critical sections of a length the tasks of one client complete within a time.
pub async fn sections_of_length(length: Duration, client: &Client, tasks: usize, name: &str, time: Duration) -> u64 {
    let count = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..tasks)
        .map(|_| {
            let (lock, count, stop) = (Lock::new(client, name), count.clone(), stop.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let guard = lock.acquire().timeout(SOON).await.unwrap();
                    count.fetch_add(1, Ordering::Relaxed);
                    if !length.is_zero() {
                        tokio::time::sleep(length).await;
                    }
                    let _ = guard.release().await;
                }
            })
        })
        .collect();
    tokio::time::sleep(time).await;
    stop.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.await.unwrap();
    }
    count.load(Ordering::Relaxed)
}

/// Returns the hash of a lock script: `script!("acquire")`.
#[macro_export]
macro_rules! script {
    ($name:literal) => {
        $crate::sha(include_str!(concat!("../../crates/redgrid-locks/src/scripts/", $name, ".lua")))
    };
}

/// Returns whether a command with this name executes a script.
pub fn is_script(name: impl AsRef<[u8]>) -> bool {
    [&b"EVAL"[..], b"EVALSHA"].iter().any(|script| script.eq_ignore_ascii_case(name.as_ref()))
}

/// Returns the SHA-1 of a script's text in hex.
pub fn sha(text: &str) -> String {
    sha1_smol::Sha1::from(text).digest().to_string()
}
