//! `redgrid watch`: following a lock.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use redgrid::Grid;
use redgrid_testkit::RedisServer;
use serde_json::{Value, json};

use crate::support::{redgrid, run};

/// Timeout of operations that take milliseconds, long enough for a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// Starts `redgrid watch`, and returns its lines of output.
fn started(server: &RedisServer, options: &[&str]) -> (Child, Lines<BufReader<ChildStdout>>) {
    let url = server.url();
    let mut command = redgrid(&[&["watch", "job", "--url", &url, "--every", "50ms"], options].concat());
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the program runs");
    let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    (child, lines)
}

fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> Value {
    serde_json::from_str(&lines.next().expect("a line").expect("text")).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_change_is_a_line_until_a_signal_ends_it() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let (mut child, mut lines) = started(&server, &["--json"]);
    let first = next(&mut lines);
    assert_eq!((&first["event"], &first["name"], &first["holders"]), (&json!("free"), &json!("job"), &json!([])));
    let grid = Grid::connect(server.url().as_str()).await.expect("a client");
    let lock = grid.lock("job");
    let client = json!(grid.client().id());

    let guard = lock.acquire().await.expect("it is free");
    let held = next(&mut lines);
    assert_eq!((&held["event"], &held["holders"][0]["client"]), (&json!("held"), &client));
    assert!(held["lease_left_ms"].as_u64().is_some_and(|left| left > 20_000), "{held}");
    guard.release().await.expect("it was held");
    assert_eq!(next(&mut lines)["event"], "released");

    // A holder that dies does not release its lock: the lock ends with its lease.
    observer.cmd(&["HSET", "job", "0f8fad5b-d9cb-469f-a165-70867728950e:17", "1"]).await.expect("an answer");
    observer.cmd(&["PEXPIRE", "job", "3000"]).await.expect("an answer");
    let held = next(&mut lines);
    assert_eq!((&held["event"], &held["holders"][0]["number"]), (&json!("held"), &json!(17)));
    // Re-entry does not change the holder, so no line is printed.
    observer.cmd(&["HINCRBY", "job", "0f8fad5b-d9cb-469f-a165-70867728950e:17", "1"]).await.expect("an answer");
    assert_eq!(next(&mut lines)["event"], "ended");

    let guard = lock.acquire().await.expect("it is free");
    assert_eq!(next(&mut lines)["event"], "held");
    let other = Grid::connect(server.url().as_str()).await.expect("a client");
    let thief = other.lock("job").steal().await.expect("it is taken");
    let passed = next(&mut lines);
    assert_eq!((&passed["event"], &passed["holders"][0]["client"]), (&json!("passed"), &json!(other.client().id())));
    drop((guard, thief));
    assert_eq!(next(&mut lines)["event"], "released");
    // The command holds no lock and leaves no key.
    assert!(observer.keys("*").await.expect("an answer").is_empty());

    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_kinds_of_locks_are_not_reported_as_a_loss() {
    let server = RedisServer::start().await.expect("a server");
    let (mut child, mut lines) = started(&server, &["--json"]);
    assert_eq!(next(&mut lines)["event"], "free");
    let grid = Grid::connect(server.url().as_str()).await.expect("a client");

    // A read-write lock uses its own channel; its field `mode` is not a holder.
    let rw = grid.rw_lock("job");
    let read = rw.read().await.expect("it is free");
    let held = next(&mut lines);
    assert_eq!((&held["event"], &held["holders"][0]["client"]), (&json!("held"), &json!(grid.client().id())));
    assert_eq!(held["holders"].as_array().map(Vec::len), Some(1), "{held}");
    let shown = run(&["inspect", "job", "--url", &server.url(), "--json"]);
    assert_eq!(shown.json()["holders"].as_array().map(Vec::len), Some(1), "{}", shown.stdout());
    read.release().await.expect("it was held");
    assert_eq!(next(&mut lines)["event"], "released");
    let write = rw.write().await.expect("it is free");
    assert_eq!(next(&mut lines)["event"], "held");
    write.release().await.expect("it was held");
    assert_eq!(next(&mut lines)["event"], "released");

    // A spin lock publishes no message. The lock vanished before its lease ended, so `released` is
    // reported.
    let spin = grid.spin_lock("job").acquire().await.expect("it is free");
    assert_eq!(next(&mut lines)["event"], "held");
    spin.release().await.expect("it was held");
    assert_eq!(next(&mut lines)["event"], "released");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_in_time_and_with_its_reader() {
    let server = RedisServer::start().await.expect("a server");
    let url = server.url();
    let began = Instant::now();
    let ended = run(&["watch", "job", "--url", &url, "--for", "700ms"]);
    assert!(began.elapsed() >= Duration::from_millis(700));
    assert_eq!((ended.code(), ended.stdout().lines().count()), (0, 1), "{}", ended.stderr());
    assert!(ended.stdout().ends_with("  job: free\n"), "{}", ended.stdout());

    let grid = Grid::connect(url.as_str()).await.expect("a client");
    let guard = grid.lock("job").acquire().await.expect("it is free");
    let (mut child, mut lines) = started(&server, &[]);
    let line = lines.next().expect("a line").expect("text");
    assert!(line.contains(&format!("job: held by client {}, number ", grid.client().id())), "{line}");
    assert!(line.ends_with(" left"), "{line}");
    drop(lines);
    guard.release().await.expect("it was held");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));

    let observer = server.observer().await.expect("an observer");
    observer.cmd(&["SET", "text", "1"]).await.expect("an answer");
    let refused = run(&["watch", "text", "--url", &url]);
    assert_eq!(refused.code(), 2);
    assert!(refused.stderr().contains("`text` is not a lock"), "{}", refused.stderr());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_is_not_counted_as_a_waiter() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let grid = Grid::connect(server.url().as_str()).await.expect("a client");
    let (mut child, mut lines) = started(&server, &["--json", "--poll"]);
    let first = next(&mut lines);
    assert_eq!((&first["event"], &first["schema"]), (&json!("free"), &json!(1)));
    let guard = grid.lock("job").acquire().await.expect("it is free");
    assert_eq!(next(&mut lines)["event"], "held");
    // The command has polled several times, without a subscription.
    let channels = async || observer.pubsub_channels("redisson*").await.expect("an answer");
    assert_eq!(channels().await, [""; 0]);
    guard.release().await.expect("it was held");
    assert_eq!(next(&mut lines)["event"], "released");
    assert_eq!(channels().await, [""; 0]);
    child.kill().expect("it runs");
    child.wait().expect("it ends");

    // The command subscribes only on request.
    let (mut child, mut lines) = started(&server, &["--json", "--subscribe"]);
    assert_eq!(next(&mut lines)["event"], "free");
    redgrid_testkit::wait_until(SOON, async || channels().await.len() == 2).await;
    let guard = grid.lock("job").acquire().await.expect("it is free");
    guard.release().await.expect("it was held");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}
