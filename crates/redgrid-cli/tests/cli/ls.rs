//! `redgrid ls`: the locks of a server or a cluster, and objects of other kinds.

use std::collections::BTreeSet;

use redgrid::Grid;
use redgrid_testkit::{Cluster, RedisServer};
use serde_json::{Value, json};

use crate::look::{CLIENT, HOLDER, hold, on};
use crate::support::{Ended, run};

fn lines(ended: &Ended) -> Vec<Value> {
    ended.stdout().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[tokio::test]
async fn the_list_has_the_locks_and_nothing_else() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    assert_eq!(on(&server, &["ls"]).stdout(), "");
    // More keys than one page has, and everything that resembles a lock.
    for number in 0..1200 {
        observer.cmd(&["HSET", &format!("other:{number}"), "field", "1"]).await.expect("an answer");
    }
    observer.cmd(&["SET", "text", "1"]).await.expect("an answer");
    observer.cmd(&["HSET", "half", "0f8fad5b:17", "1"]).await.expect("an answer");
    observer.cmd(&["HSET", "rw", "mode", "write", &format!("{HOLDER}:write"), "1"]).await.expect("an answer");
    for name in ["orders:1", "orders:2", "mail", "odd{name"] {
        hold(&observer, name, "1", "60000").await;
    }
    hold(&observer, "prod:orders:9", "1", "60000").await;

    let names = |ended: Ended| -> Vec<String> {
        assert_eq!(ended.code(), 0, "{}", ended.stderr());
        let mut names: Vec<_> =
            lines(&ended).iter().map(|lock| lock["name"].as_str().expect("text").to_owned()).collect();
        names.sort_unstable();
        names
    };
    let all = ["mail", "odd{name", "orders:1", "orders:2", "prod:orders:9"];
    assert_eq!(names(on(&server, &["ls", "--json"])), all);
    assert_eq!(names(on(&server, &["ls", "orders:*", "--json"])), ["orders:1", "orders:2"]);
    assert_eq!(names(on(&server, &["ls", "--json", "--namespace", "prod"])), ["orders:9"]);
    // A namespace is not a pattern.
    assert_eq!(names(on(&server, &["ls", "--json", "--namespace", "p*"])), [""; 0]);

    let one = on(&server, &["ls", "mail", "--json"]).json();
    assert_eq!((&one["client"], &one["number"]), (&json!(CLIENT), &json!(17)), "{one}");
    assert!(one["lease_left_ms"].as_u64().is_some_and(|left| (30_000..=60_000).contains(&left)), "{one}");
    assert_eq!((&one["kind"], &one["size"]), (&json!("lock"), &json!(1)), "{one}");
    assert_eq!((one.as_object().map(serde_json::Map::len), &one["schema"]), (Some(7), &json!(1)));
    let text = on(&server, &["ls", "mail"]).stdout();
    let start = format!("NAME  KIND  {:<36}  LEASE\nmail  lock  {CLIENT}  5", "CLIENT");
    assert!(text.starts_with(&start) && text.ends_with("s\n"), "{text}");
}

#[tokio::test]
async fn other_kinds_are_listed_on_request() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    hold(&observer, "job", "1", "60000").await;
    observer.cmd(&["HSET", "prices", "mode", "write", &format!("{HOLDER}:write"), "1"]).await.expect("an answer");
    observer.cmd(&["SET", "leased", "5"]).await.expect("an answer");
    observer.cmd(&["ZADD", "{leased}:timeout", "1", "permit"]).await.expect("an answer");
    observer.cmd(&["HSET", "redgrid_reliable_queue:{mail}", "last", "1"]).await.expect("an answer");
    observer.cmd(&["SET", "text\u{202e}", "abc"]).await.expect("an answer");
    let kinds = |option: &[&str]| -> BTreeSet<(String, String)> {
        let ended = on(&server, &[&["ls", "--json"], option].concat());
        assert_eq!(ended.code(), 0, "{}", ended.stderr());
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        lines(&ended).iter().map(|line| (text(&line["name"]), text(&line["kind"]))).collect()
    };
    let set = |all: &[(&str, &str)]| all.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect();
    assert_eq!(kinds(&[]), set(&[("job", "lock")]));
    assert_eq!(kinds(&["--kind", "rw,queue"]), set(&[("prices", "read-write lock"), ("mail", "reliable queue")]));
    assert_eq!(kinds(&["--kind", "semaphore"]), set(&[("leased", "leased semaphore")]));
    assert_eq!(kinds(&["--kind", "all"]).len(), 5);
    let row = |kind: &str| {
        let text = on(&server, &["ls", "--kind", kind, "-o", "wide"]).stdout();
        let line = text.lines().nth(1).expect("a row").to_owned();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("rw"), ["prices", "read-write", "lock", CLIENT, "17", "none", "1"]);
    assert_eq!(row("string"), ["text\\u{202e}", "string", "3"]);
}

#[tokio::test]
async fn the_list_never_asks_for_all_keys_at_once() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    hold(&observer, "job", "1", "60000").await;
    assert_eq!(on(&server, &["ls"]).code(), 0);
    let stats: String = observer.query(&["INFO", "commandstats"]).await.expect("an answer");
    assert!(stats.contains("cmdstat_scan:") && !stats.contains("cmdstat_keys:"), "{stats}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_has_the_locks_of_every_node_of_a_cluster() {
    let cluster = Cluster::start(3, 0).await.expect("it starts");
    let grid = Grid::connect(cluster.url().as_str()).await.expect("a client");
    let names: BTreeSet<String> = (0..24).map(|number| format!("orders:{number}")).collect();
    let mut guards = Vec::new();
    for name in &names {
        guards.push(grid.lock(name).acquire().await.expect("it is free"));
    }
    for node in cluster.nodes() {
        let held: Vec<String> = node.observer().await.expect("an observer").keys("orders:*").await.expect("an answer");
        assert!(!held.is_empty(), "{} has no lock", node.addr());
    }
    let ended = run(&["ls", "--json", "--url", &cluster.url()]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr());
    let listed = lines(&ended);
    let found: BTreeSet<_> = listed.iter().map(|lock| lock["name"].as_str().expect("text").to_owned()).collect();
    assert_eq!((found, listed.len()), (names, 24), "{}", ended.stdout());
    drop(guards);
}
