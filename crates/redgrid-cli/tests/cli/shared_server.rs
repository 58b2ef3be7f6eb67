//! Sales on an existing server. The server has no keys of the sale afterwards.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redgrid_testkit::{Observer, RedisServer, wait_until};
use serde_json::{Value, json};

use crate::support::{redgrid, run};

/// Timeout of operations that take milliseconds, long enough for a busy machine.
const SOON: Duration = Duration::from_secs(60);

async fn number(observer: &Observer, command: &str) -> usize {
    observer.query::<usize>(&[command]).await.expect("an answer")
}

/// Returns the number of a sale's connections.
async fn connections(observer: &Observer) -> usize {
    let list: String = observer.query(&["CLIENT", "LIST"]).await.expect("an answer");
    list.lines().filter(|line| line.contains("redgrid-demo")).count()
}

#[tokio::test]
async fn a_sale_deletes_its_keys_and_touches_no_others() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    observer.cmd(&["SET", "stock:console", "7"]).await.expect("an answer");
    let url = server.url();
    for arguments in [["--url", &url, "demo", "flash-sale"], ["demo", "flash-sale", "--url", &url]] {
        let ended = run(&[&arguments[..], &["--stock", "20", "--processes", "2", "--tasks", "2"]].concat());
        assert_eq!(ended.code(), 0, "{}", ended.stderr());
        assert!(!ended.stdout().contains("private"));
    }
    assert_eq!(observer.keys("*").await.expect("an answer"), ["stock:console"]);
    assert_eq!(observer.get::<String>("stock:console").await.expect("an answer").as_deref(), Some("7"));
}

#[tokio::test]
async fn workers_end_with_the_sale_even_when_it_is_killed() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let mut command = redgrid(&["demo", "flash-sale", "--stock", "1000000", "--url", &server.url()]);
    let mut sale = command.stdout(Stdio::null()).spawn().expect("the program runs");
    wait_until(SOON, async || number(&observer, "DBSIZE").await >= 4).await;
    assert!(connections(&observer).await > 3);
    sale.kill().expect("it is still running");
    sale.wait().expect("it is ours");
    wait_until(SOON, async || connections(&observer).await == 0).await;
}

/// Returns the process ids of a sale's workers.
fn workers(sale: &Child) -> Vec<String> {
    let children = Command::new("pgrep").args(["-P", &sale.id().to_string(), "-f", "sale-worker"]).output();
    let children = String::from_utf8(children.expect("pgrep runs").stdout).expect("numbers");
    children.lines().map(str::to_owned).collect()
}

fn kill(worker: &str) {
    assert!(Command::new("kill").args(["-KILL", worker]).status().expect("kill runs").success());
}

#[tokio::test]
async fn when_a_worker_is_killed_the_others_serve_its_requests() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let mut command = redgrid(&["demo", "flash-sale", "--stock", "1500", "--json", "--url", &server.url()]);
    let sale = command.stdout(Stdio::piped()).spawn().expect("the program runs");
    wait_until(SOON, async || number(&observer, "DBSIZE").await >= 4).await;
    kill(workers(&sale).first().expect("a worker"));
    let ended = sale.wait_with_output().expect("it is ours");
    let report: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert_eq!(ended.status.code(), Some(0), "{report}");
    for (field, want) in [("killed", 1), ("unserved", 0), ("requests", 3000), ("units", 1500), ("stock_left", 0)] {
        assert_eq!(report[field], json!(want), "{field} in {report}");
    }
    assert_eq!((&report["duplicate_ids"], &report["duplicate_users"]), (&json!(0), &json!(0)), "{report}");
}

#[tokio::test]
async fn when_all_workers_are_killed_the_rest_is_reported_as_unserved() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let mut command = redgrid(&["demo", "flash-sale", "--stock", "100000", "--json", "--url", &server.url()]);
    let sale = command.stdout(Stdio::piped()).spawn().expect("the program runs");
    wait_until(SOON, async || number(&observer, "DBSIZE").await >= 4).await;
    workers(&sale).iter().for_each(|worker| kill(worker));
    let ended = sale.wait_with_output().expect("it is ours");
    let report: Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert_eq!(ended.status.code(), Some(1), "{report}");
    assert_eq!((&report["killed"], &report["requests"]), (&json!(3), &json!(200_000)), "{report}");
    let faults = report["faults"].to_string();
    assert!(report["unserved"].as_u64() > Some(0) && faults.contains("all workers ended"), "{report}");
    // Incomplete orders of the workers were completed: stock and orders add up.
    assert!(!faults.contains("add up") && !faults.contains("other buyers"), "{report}");
}

#[tokio::test]
async fn a_sale_that_is_stopped_cleans_up_and_says_that_nothing_is_proven() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let mut command = redgrid(&["demo", "flash-sale", "--stock", "1000000", "--url", &server.url()]);
    let sale = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program runs");
    wait_until(SOON, async || number(&observer, "DBSIZE").await >= 4).await;
    let sent = Command::new("kill").args(["-TERM", &sale.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
    let ended = sale.wait_with_output().expect("it is ours");
    assert_eq!(ended.status.code(), Some(143));
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "redgrid: stopped before the end; nothing is proven\n");
    assert_eq!(number(&observer, "DBSIZE").await, 0);
    assert_eq!(connections(&observer).await, 0);
}

#[tokio::test]
async fn a_server_that_dies_during_the_sale_ends_it_with_exit_code_69() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let mut command = redgrid(&["demo", "flash-sale", "--stock", "1000000", "--url", &server.url()]);
    let sale = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program runs");
    wait_until(SOON, async || number(&observer, "DBSIZE").await >= 4).await;
    server.kill().await.expect("it was running");
    let ended = sale.wait_with_output().expect("it is ours");
    let told = String::from_utf8_lossy(&ended.stderr);
    assert_eq!((ended.status.code(), told.lines().count()), (Some(69), 1), "{told}");
    assert!(told.contains(&server.addr().to_string()) && told.contains("delete the keys redgrid-demo:"), "{told}");
}

#[tokio::test]
async fn a_rejected_password_is_reported_without_the_password() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let wrong = server.url().replace("redis://", "redis://nobody:hunter2@");
    let ended = run(&["demo", "flash-sale", "--url", &wrong]);
    assert_eq!(ended.code(), 69, "{}", ended.stderr());
    assert!(!ended.stderr().contains("hunter2") && ended.stderr().lines().count() == 1, "{}", ended.stderr());
    assert_eq!(number(&observer, "DBSIZE").await, 0);
}
