//! `redgrid wait`: waits until a lock is free.

use std::process::{Child, Stdio};
use std::time::Duration;

use redgrid::Grid;
use redgrid_testkit::{Cluster, Observer, RedisServer, wait_until};
use serde_json::json;

use crate::look::{CLIENT, hold, on};
use crate::support::{Ended, redgrid, run};

/// For operations that take milliseconds, on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// Exit code: the lock is still held.
const BUSY: i32 = 75;

fn waiting(url: &str, more: &[&str]) -> Child {
    let arguments = [&["wait", "job", "--free", "--every", "50ms", "--url", url], more].concat();
    redgrid(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs")
}

async fn ended(child: Child) -> Ended {
    let output = tokio::task::spawn_blocking(move || child.wait_with_output().expect("it ends"));
    Ended::of(tokio::time::timeout(SOON, output).await.expect("it ends in time").expect("no panic"))
}

/// Returns how many polls of locks the server has executed.
async fn polls(observer: &Observer) -> u64 {
    let stats: String = observer.query(&["INFO", "commandstats"]).await.expect("an answer");
    let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).unwrap_or_default();
    line.split(',').next().and_then(|calls| calls.parse().ok()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_when_the_lock_is_free_and_is_no_waiter_of_it() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    assert_eq!(on(&server, &["wait", "job", "--free"]).stdout(), "job: free\n");
    hold(&observer, "job", "1", "600000").await;
    let before = polls(&observer).await;
    let wait = waiting(&server.url(), &["--json"]);
    wait_until(SOON, async || polls(&observer).await > before + 5).await;
    let channels = observer.pubsub_channels("redisson_lock__channel*").await.expect("an answer");
    assert!(channels.is_empty(), "{channels:?}");
    assert_eq!(on(&server, &["inspect", "job", "--json"]).json()["waiting"], json!(0));
    observer.cmd(&["DEL", "job"]).await.expect("an answer");
    let ended = ended(wait).await;
    let told = ended.json();
    assert_eq!((ended.code(), &told["schema"], &told["free"]), (0, &json!(1), &json!(true)), "{}", ended.stderr());
    // It acquired nothing.
    assert!(!observer.exists("job").await.expect("an answer"));
    assert_eq!(on(&server, &["wait", "job", "--free", "--quiet"]).stdout(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_stays_held_is_exit_code_75_with_its_holder() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    hold(&observer, "job", "1", "600000").await;
    for timeout in ["0s", "300ms"] {
        let ended = ended(waiting(&server.url(), &["--timeout", timeout])).await;
        assert_eq!((ended.code(), ended.stdout().as_str()), (BUSY, ""), "{}", ended.stderr());
        let start = format!("redgrid: `job` is held by client {CLIENT}, number 17, after ");
        assert!(ended.stderr().starts_with(&start) && ended.stderr().lines().count() == 1, "{}", ended.stderr());
    }
    let ended = ended(waiting(&server.url(), &["--timeout", "100ms", "--json"])).await;
    assert_eq!((ended.code(), &ended.json()["free"]), (BUSY, &json!(false)));
    observer.cmd(&["SET", "text", "1"]).await.expect("an answer");
    observer.cmd(&["HSET", "user", "name", "Ada", "mail", "a@b"]).await.expect("an answer");
    for name in ["text", "user"] {
        let ended = on(&server, &["wait", name, "--free"]);
        assert!(ended.code() == 2 && ended.stderr().contains("is not a lock"), "{}", ended.stderr());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_lease_and_of_each_kind_of_hold_frees_the_lock() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    hold(&observer, "job", "1", "400").await;
    assert_eq!(ended(waiting(&server.url(), &[])).await.code(), 0, "the lease ends");
    let grid = Grid::connect(server.url().as_str()).await.expect("a client");
    let guard = grid.rw_lock("job").read().await.expect("it is free");
    assert_eq!(ended(waiting(&server.url(), &["--timeout", "0s"])).await.code(), BUSY);
    let wait = waiting(&server.url(), &[]);
    guard.release().await.expect("released");
    assert_eq!(ended(wait).await.code(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_on_each_node_of_a_cluster_are_waited_for() {
    let cluster = Cluster::start(3, 0).await.expect("it starts");
    let url = cluster.url();
    let grid = Grid::connect(url.as_str()).await.expect("a client");
    for name in ["a", "b", "c"] {
        let wait = |more: &[&str]| {
            let arguments = [&["wait", name, "--free", "--url", &url], more].concat();
            tokio::task::block_in_place(|| run(&arguments)).code()
        };
        let guard = grid.fair_lock(name).acquire().await.expect("it is free");
        assert_eq!(wait(&["--timeout", "0s"]), BUSY, "{name}");
        guard.release().await.expect("released");
        assert_eq!(wait(&[]), 0, "{name}");
    }
}
