//! `redgrid queue`: reliable queues.

use redgrid::Grid;
use redgrid_testkit::{Cluster, RedisServer};
use serde_json::{Value, json};

use crate::look::on;
use crate::support::{Ended, run};

fn lines(ended: &Ended) -> Vec<Value> {
    assert_eq!(ended.code(), 0, "{}", ended.stderr());
    ended.stdout().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[tokio::test]
async fn queues_are_listed_with_their_messages_by_state() {
    let server = RedisServer::start().await.expect("a server");
    let grid = Grid::connect(server.url().as_str()).await.expect("a client");
    let mail = grid.reliable_queue::<String>("mail\n\u{202e}");
    for text in ["a", "b", "c"] {
        mail.push(text).await.expect("pushed");
    }
    mail.push("later").delay(std::time::Duration::from_secs(600)).await.expect("pushed");
    let received = mail.receive().await.expect("received");
    mail.receive().await.expect("received").reject("no order").await.expect("rejected");
    grid.reliable_queue::<u64>("invoices").push(&7).await.expect("pushed");
    // A key that is no queue does not end the list.
    let observer = server.observer().await.expect("an observer");
    observer.cmd(&["HSET", "redgrid_reliable_queue:{broken}", "last", "1"]).await.expect("an answer");
    observer.cmd(&["SET", "redgrid_reliable_queue_dead:{broken}", "1"]).await.expect("an answer");

    let listed = lines(&on(&server, &["queue", "ls", "--json"]));
    assert_eq!(listed.len(), 3, "{listed:?}");
    let row = |name: &str| listed.iter().find(|row| row["name"] == name).expect("a row").clone();
    let counted = row("mail\n\u{202e}");
    let want = json!({
        "schema": 1, "name": "mail\n\u{202e}", "ready": 1, "delayed": 1, "in_flight": 1, "dead": 1,
        "totals": {
            "pushed": 4, "received": 2, "redelivered": 0, "acknowledged": 0, "returned": 0, "died": 1, "expired": 0,
        },
        "error": null,
    });
    assert_eq!(counted, want);
    assert!(row("broken")["ready"].is_null() && row("broken")["error"].is_string(), "{listed:?}");
    assert_eq!(lines(&on(&server, &["queue", "ls", "inv*", "--json"])).len(), 1);
    let table = on(&server, &["queue", "ls"]).stdout();
    assert!(table.starts_with("NAME ") && table.contains("mail\\u{a}\\u{202e}  1 "), "{table}");

    let counts = lines(&on(&server, &["queue", "counts", "invoices", "nothing", "mail\n\u{202e}", "--json"]));
    assert_eq!((&counts[0]["ready"], &counts[1]["ready"], &counts[2]), (&json!(1), &json!(0), &want));
    let broken = on(&server, &["queue", "counts", "broken"]);
    assert!(broken.code() == 2 && broken.stderr().contains("another kind of value"), "{}", broken.stderr());
    drop(received);
}

#[tokio::test]
async fn values_are_shown_only_on_request_and_messages_stay() {
    let server = RedisServer::start().await.expect("a server");
    let grid = Grid::connect(server.url().as_str()).await.expect("a client");
    let mail = grid.reliable_queue::<String>("mail");
    let first = mail.push("s3cret\u{1b}[2J").header("trace", "t\n1").await.expect("pushed");
    mail.push("b").priority(7).await.expect("pushed");
    let raw = redgrid::ReliableQueue::<Vec<u8>>::new(grid.client(), "mail").with_codec(redgrid::codecs::Raw);
    raw.push(&b"\xff\x00"[..]).await.expect("pushed");

    let peek = |more: &[&str]| on(&server, &[&["queue", "peek", "mail"], more].concat());
    for format in ["table", "wide", "json", "jsonl", "yaml", "name"] {
        assert!(!peek(&["-o", format]).stdout().contains("s3cret"), "{format}");
    }
    let messages = lines(&peek(&["--json"]));
    assert_eq!(messages.len(), 3);
    let fields: Vec<_> = messages[0].as_object().expect("an object").keys().map(String::as_str).collect();
    let want = ["attempts", "id", "priority", "pushed_ms", "reason", "schema", "state", "state_ms"];
    assert_eq!((fields, &messages[0]["priority"]), (want.to_vec(), &json!(7)));
    assert_eq!(lines(&peek(&["--json", "--max", "1"])).len(), 1);

    let shown = lines(&peek(&["--json", "--values"]));
    let one = shown.iter().find(|one| one["headers"] == json!([["trace", "t\n1"]])).expect("the first");
    assert_eq!(one["value"], json!("\"s3cret\\u001b[2J\""));
    let bytes = shown.iter().find(|one| one["value"].is_null()).expect("the bytes");
    assert_eq!((&bytes["value_base64"], &bytes["error"]), (&json!("/wA="), &json!(null)));
    let table = peek(&["--values"]).stdout();
    assert!(
        table.contains("  trace=t\\u{a}1  ") && table.contains("base64:/wA=") && !table.contains('\u{1b}'),
        "{table}"
    );
    let by_id = lines(&peek(&["--json", "--id", &first.id.to_string()]));
    assert_eq!((by_id.len(), &by_id[0]["id"]), (1, &json!(first.id.to_string())));
    // Nothing was received.
    let counts = lines(&on(&server, &["queue", "counts", "mail", "--json"]));
    assert_eq!((&counts[0]["ready"], &counts[0]["totals"]["received"]), (&json!(3), &json!(0)));
    let none = on(&server, &["queue", "peek", "nothing"]);
    assert_eq!((none.code(), none.stderr().as_str()), (0, "redgrid: there is no such message\n"));
}

async fn fail(grid: &Grid, name: &str, count: usize) {
    let queue = grid.reliable_queue::<u64>(name);
    for number in 0..count as u64 {
        queue.push(&number).await.expect("pushed");
        queue.receive().await.expect("received").reject("no\u{202e} order").await.expect("rejected");
    }
}

#[tokio::test]
async fn dead_letters_are_ready_again_one_by_one_or_all() {
    let server = RedisServer::start().await.expect("a server");
    let grid = Grid::connect(server.url().as_str()).await.expect("a client");
    fail(&grid, "mail", 120).await;
    let dead = |max: &str| lines(&on(&server, &["queue", "peek", "mail", "--state", "dead", "--json", "--max", max]));
    assert_eq!((dead("1000").len(), dead("110").len()), (120, 110));
    let first = &dead("1")[0];
    assert_eq!((&first["state"], &first["reason"]), (&json!("dead"), &json!("no\u{202e} order")));
    assert!(first["state_ms"].as_u64() >= first["pushed_ms"].as_u64(), "{first}");
    let table = on(&server, &["queue", "peek", "mail", "--state", "dead", "--max", "1"]).stdout();
    assert!(table.contains("no\\u{202e} order\n"), "{table}");

    let id = first["id"].as_str().expect("text");
    let one = on(&server, &["queue", "redrive", "mail", "--id", id, "--id", "0000000000000001", "--json"]);
    let want = json!({ "schema": 1, "name": "mail", "redriven": 1, "not_dead": ["0000000000000001"] });
    assert_eq!((one.code(), one.json()), (0, want), "{}", one.stderr());
    let again = on(&server, &["queue", "redrive", "mail", "--id", id]);
    assert_eq!(
        (again.code(), again.stdout()),
        (1, format!("mail: no message is ready again; no dead letters: {id}\n"))
    );
    let all = on(&server, &["queue", "redrive", "mail", "--all"]);
    assert_eq!((all.code(), all.stdout().as_str()), (0, "mail: 119 messages are ready again\n"), "{}", all.stderr());
    assert_eq!(dead("1000").len(), 0);
    let none = on(&server, &["queue", "redrive", "mail", "--all", "--quiet"]);
    assert_eq!((none.code(), none.stdout().as_str()), (1, ""));
    let counts = lines(&on(&server, &["queue", "counts", "mail", "--json"]));
    assert_eq!((&counts[0]["ready"], &counts[0]["dead"]), (&json!(120), &json!(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queues_of_all_nodes_of_a_cluster_are_listed_and_read() {
    let cluster = Cluster::start(3, 0).await.expect("it starts");
    let url = cluster.url();
    let grid = Grid::connect(url.as_str()).await.expect("a client");
    // The names are in slots of different nodes.
    for name in ["a", "b", "c"] {
        fail(&grid, name, 2).await;
    }
    let at = |arguments: &[&str]| tokio::task::block_in_place(|| run(&[arguments, &["--url", &url]].concat()));
    let listed = lines(&at(&["queue", "ls", "--json"]));
    assert_eq!((listed.len(), listed.iter().filter(|row| row["dead"] == json!(2)).count()), (3, 3), "{listed:?}");
    for name in ["a", "b", "c"] {
        assert_eq!(lines(&at(&["queue", "peek", name, "--state", "dead", "--json"])).len(), 2);
        assert_eq!(at(&["queue", "redrive", name, "--all"]).code(), 0);
    }
    let counts = lines(&at(&["queue", "counts", "a", "b", "c", "--json"]));
    assert!(counts.iter().all(|row| row["ready"] == json!(2) && row["dead"] == json!(0)), "{counts:?}");
}
