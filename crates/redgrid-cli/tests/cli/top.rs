//! `redgrid top`: held and waited-for locks.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;

use redgrid::Grid;
use redgrid_testkit::{Cluster, RedisServer, wait_until};
use serde_json::{Value, json};

use crate::look::on;
use crate::support::{on_terminal, redgrid, run};

/// For operations that take milliseconds, on a busy machine.
const SOON: Duration = Duration::from_secs(60);

async fn assert_shown(url: &str) {
    let [holder, waiter] = [Grid::connect(url).await.expect("a client"), Grid::connect(url).await.expect("a client")];
    let busy = holder.lock("busy\u{1b}\n").acquire().label("nightly").await.expect("it is free");
    let idle = holder.lock("idle").acquire().await.expect("it is free");
    let waits: Vec<_> = (0..3).map(|_| tokio::spawn(waiter.lock("busy\u{1b}\n").acquire().into_future())).collect();
    let snapshot = || tokio::task::block_in_place(|| run(&["top", "--once", "--json", "--url", url]).json());
    wait_until(SOON, async || snapshot()["waiting"] == json!(3)).await;
    let snapshot = snapshot();
    let counted =
        ["schema", "clients", "silent", "complete", "held", "waiting", "more"].map(|field| snapshot[field].clone());
    assert_eq!(counted, [json!(1), json!(2), json!(0), json!(true), json!(2), json!(3), json!(0)], "{snapshot}");
    let locks = snapshot["locks"].as_array().expect("a list");
    let first = ["name", "held", "waiting", "label"].map(|field| locks[0][field].clone());
    assert_eq!(first, [json!("busy\u{1b}\n"), json!(1), json!(3), json!("nightly")], "{snapshot}");
    assert!(locks[0]["longest_ms"].is_u64() && locks[0]["held_for_ms"].is_u64(), "{snapshot}");
    let second = ["name", "waiting", "longest_ms"].map(|field| locks[1][field].clone());
    assert_eq!((second, locks.len()), ([json!("idle"), json!(0), json!(null)], 2), "{snapshot}");

    let text = |more: &[&str]| tokio::task::block_in_place(|| run(&[&["top", "--once", "--url", url], more].concat()));
    let table = text(&[]).stdout();
    assert!(table.lines().next().is_some_and(|line| line.ends_with("  2 clients, 2 held, 3 waiting")), "{table}");
    assert!(table.contains("\nbusy\\u{1b}\\u{a}  lock ") && !table.contains('\u{1b}'), "{table}");
    let one = text(&["--rows", "1"]).stdout();
    assert!(one.ends_with("\nand 1 more\n") && !one.contains("idle"), "{one}");
    assert_eq!(text(&["-o", "name"]).stdout(), "busy\\u{1b}\\u{a}\nidle\n");
    let yaml: Value = yaml_serde::from_str(text(&["-o", "yaml"]).stdout().trim_start_matches("---\n")).expect("YAML");
    assert_eq!((&yaml["schema"], &yaml["locks"][1]["name"]), (&json!(1), &json!("idle")));
    for wait in waits {
        wait.abort();
    }
    drop((busy, idle));
}

#[tokio::test(flavor = "multi_thread")]
async fn held_and_waited_for_locks_are_shown_with_the_longest_queue_first() {
    let server = RedisServer::start().await.expect("a server");
    assert_shown(&server.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clients_of_all_nodes_of_a_cluster_are_counted() {
    let cluster = Cluster::start(3, 0).await.expect("it starts");
    assert_shown(&cluster.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_snapshots_follow_each_other_until_a_signal() {
    let server = RedisServer::start().await.expect("a server");
    let mut command = redgrid(&["top", "--every", "1s", "--json", "--url", &server.url()]);
    let mut top = command.stdout(Stdio::piped()).spawn().expect("the program runs");
    let mut lines = BufReader::new(top.stdout.take().expect("a pipe")).lines();
    let reading = tokio::task::spawn_blocking(move || {
        (0..2).map(|_| lines.next().expect("a line").expect("text")).collect::<Vec<_>>()
    });
    for line in tokio::time::timeout(SOON, reading).await.expect("in time").expect("no panic") {
        let snapshot: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!((&snapshot["held"], &snapshot["locks"]), (&json!(0), &json!([])), "{line}");
    }
    let id = top.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().expect("kill runs").success());
    let status = tokio::task::spawn_blocking(move || top.wait().expect("it is ours"));
    let status = tokio::time::timeout(SOON, status).await.expect("in time").expect("no panic");
    assert_eq!(status.code(), Some(0));
    let ended = on(&server, &["top", "--for", "10ms", "--json"]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr());
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_terminal_the_table_is_refreshed_in_place() {
    let server = RedisServer::start().await.expect("a server");
    let grid = Grid::connect(server.url().as_str()).await.expect("a client");
    let guard = grid.lock("job").acquire().await.expect("it is free");
    let line = format!("top --every 1s --for 2500ms --url {}", server.url());
    let screen = tokio::task::block_in_place(|| on_terminal(&line, &[("NO_COLOR", "1")]));
    let clear = "\u{1b}[H\u{1b}[J";
    assert!(screen.matches(clear).count() >= 2, "{screen:?}");
    // The cursor is moved, and nothing is coloured.
    assert!(!screen.replace(clear, "").contains('\u{1b}') && screen.contains("job   lock"), "{screen:?}");
    let dumb = tokio::task::block_in_place(|| on_terminal(&line, &[("TERM", "dumb")]));
    assert!(!dumb.contains('\u{1b}') && dumb.matches("NAME").count() >= 2, "{dumb:?}");
    drop(guard);
}
