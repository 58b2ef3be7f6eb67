//! The formats of lists: the same rows in each of them, whatever the names contain.

use std::collections::BTreeSet;
use std::process::Command;

use redgrid::Grid;
use redgrid_testkit::{Cluster, Observer, RedisServer};
use serde_json::{Value, json};

use crate::look::{CLIENT, hold, on};
use crate::support::{Ended, on_terminal, redgrid, run};

/// A waiter in a queue, as a Java service writes it.
const WAITER: &str = "1f8fad5b-d9cb-469f-a165-70867728950e:5";

/// Names that would control a terminal, break a line or end a string.
const HOSTILE: [&str; 7] = [
    "plain",
    "quotes\"'`\\",
    "line\nbreak\r\tand: # - {[&*!|>%@",
    "rtl\u{202e}gnp\u{2066}\u{200f}",
    "nul\0esc\u{1b}[2J\u{9b}31m",
    "<img src=x onerror=alert(1)>",
    "中文 ü no",
];

async fn hold_all(observer: &Observer, names: &[&str]) {
    for name in names {
        hold(observer, name, "1", "60000").await;
    }
}

fn printed(ended: Ended) -> String {
    assert_eq!(ended.code(), 0, "{}", ended.stderr());
    ended.stdout()
}

/// Fails if a line would do anything but show text.
fn assert_harmless(text: &str) {
    let is_harmful = |character: char| {
        (character.is_control() && character != '\n')
            || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!text.contains(is_harmful), "{text:?}");
}

fn set<T: ToString>(names: impl IntoIterator<Item = T>) -> BTreeSet<String> {
    names.into_iter().map(|name| name.to_string()).collect()
}

fn names(items: &Value) -> BTreeSet<String> {
    set(items.as_array().expect("a list").iter().map(|item| item["name"].as_str().expect("text")))
}

#[tokio::test]
async fn hostile_names_are_exact_in_json_and_yaml_and_one_line_each_elsewhere() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    hold_all(&observer, &HOSTILE).await;
    let list = |format: &str| printed(on(&server, &["ls", "-o", format]));

    let json: Value = serde_json::from_str(&list("json")).expect("JSON");
    assert_eq!((&json["schema"], names(&json["items"])), (&json!(1), set(HOSTILE)));
    let yaml: Value = yaml_serde::from_str(&list("yaml")).expect("YAML");
    assert_eq!(names(&yaml["items"]), set(HOSTILE));
    assert_eq!(yaml["items"][0].as_object().map(serde_json::Map::len), Some(6));
    let lines: Vec<Value> = list("jsonl").lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(lines.iter().all(|line| line["schema"] == json!(1)), "{lines:?}");
    assert_eq!(names(&json!(lines)), set(HOSTILE));
    assert_eq!(on(&server, &["ls", "--json"]).stdout().lines().count(), HOSTILE.len());

    let shown = set([
        "plain",
        "quotes\"'`\\",
        "line\\u{a}break\\u{d}\\u{9}and: # - {[&*!|>%@",
        "rtl\\u{202e}gnp\\u{2066}\\u{200f}",
        "nul\\u{0}esc\\u{1b}[2J\\u{9b}31m",
        "<img src=x onerror=alert(1)>",
        "中文 ü no",
    ]);
    assert_eq!(set(list("name").lines()), shown);
    for format in ["table", "wide"] {
        let table = list(format);
        assert_eq!(table.lines().count(), HOSTILE.len() + 1, "{table}");
        for name in &shown {
            assert!(table.lines().any(|line| line.starts_with(&format!("{name}  "))), "{name} in {table}");
        }
    }
    for format in ["table", "wide", "name", "json", "jsonl", "yaml"] {
        assert_harmless(&list(format));
    }
}

#[tokio::test]
async fn a_name_that_is_not_utf8_is_shown_with_its_bytes_in_each_format() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let field = format!("{CLIENT}:17");
    observer.cmd(&[b"HSET".as_slice(), b"a\xff\xfeb", field.as_bytes(), b"1"]).await.expect("an answer");
    for format in ["table", "wide", "name", "json", "jsonl", "yaml"] {
        let text = printed(on(&server, &["ls", "-o", format]));
        let is_quoted = matches!(format, "json" | "jsonl" | "yaml");
        let shown = if is_quoted { "a\\\\xff\\\\xfeb" } else { "a\\xff\\xfeb" };
        assert!(text.contains(shown), "{format}: {text}");
    }
}

#[tokio::test]
async fn columns_are_aligned_and_chosen_by_name() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    observer.cmd(&["HSET", "short", &format!("{CLIENT}:17"), "1"]).await.expect("an answer");
    let long = "long".repeat(100);
    hold(&observer, &long, "1", "3600000").await;
    let table = printed(on(&server, &["ls"]));
    let mut lines = table.lines();
    let heading = lines.next().expect("a heading");
    assert_eq!(heading.split_whitespace().collect::<Vec<_>>(), ["NAME", "KIND", "CLIENT", "LEASE"]);
    // Nothing is shortened where no terminal is.
    assert!(table.contains(&long), "{table}");
    for line in lines {
        for column in ["KIND", "CLIENT"] {
            let at = heading.find(column).expect("a column");
            assert!(line[..at].ends_with("  ") && !line[at..].starts_with(' '), "{column}: {line}");
        }
    }
    assert!(table.contains("  none\n") && table.contains("  59m 5"), "{table}");
    let wide = printed(on(&server, &["ls", "-o", "wide"]));
    assert!(wide.lines().next().is_some_and(|line| line.contains("NUMBER") && line.contains("SIZE")), "{wide}");
    let chosen = printed(on(&server, &["ls", "short", "--columns", "size,Name"]));
    assert_eq!(chosen, "SIZE  NAME\n1     short\n");

    let unknown = on(&server, &["ls", "--columns", "name,colour"]);
    assert_eq!((unknown.code(), unknown.stdout().as_str()), (2, ""));
    assert!(unknown.stderr().contains("`colour`; expected some of name, kind, client"), "{}", unknown.stderr());
    for (arguments, words) in [
        (&["ls", "--columns", "name", "-o", "json"][..], "--columns is for tables"),
        (&["ls", "--columns", "name", "--json"], "--columns is for tables"),
        (&["ls", "--json", "-o", "yaml"], "--json and --output"),
        (&["ls", "-o", "xml"], "xml"),
    ] {
        let ended = on(&server, arguments);
        assert!(ended.code() == 2 && ended.stderr().contains(words), "{arguments:?}: {}", ended.stderr());
    }
}

#[tokio::test]
async fn empty_lists_are_valid_documents_and_quiet_prints_no_notice() {
    let server = RedisServer::start().await.expect("a server");
    for command in [&["ls"][..], &["clients"], &["queue", "ls"]] {
        let list = |more: &[&str]| on(&server, &[command, more].concat());
        assert_eq!(list(&["-o", "json"]).stdout(), "{\"schema\":1,\"items\":[]}\n");
        assert_eq!(list(&["-o", "yaml"]).stdout(), "schema: 1\nitems: []\n");
        for format in ["table", "wide", "name", "jsonl"] {
            let ended = list(&["-o", format]);
            assert_eq!((ended.code(), ended.stdout().as_str()), (0, ""), "{command:?} {format}");
            assert!(ended.stderr().starts_with("redgrid: no") && ended.stderr().lines().count() == 1, "{command:?}");
        }
        assert_eq!(list(&["--quiet"]).stderr(), "");
    }
}

#[tokio::test]
async fn colours_are_for_terminals_and_never_the_only_sign() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let long = "x".repeat(80);
    observer.cmd(&["HSET", &long, &format!("{CLIENT}:17"), "1"]).await.expect("an answer");
    let line = format!("ls --url {}", server.url());
    let has_colours = |text: &str| text.contains('\u{1b}');

    let terminal = on_terminal(&line, &[]);
    assert!(has_colours(&terminal) && terminal.contains("none"), "{terminal:?}");
    // There the row is shortened to the width, and nowhere else.
    assert!(terminal.contains('…') && !terminal.contains(&long), "{terminal:?}");
    let plain = on_terminal(&line, &[("NO_COLOR", "1")]);
    assert!(!has_colours(&plain) && plain.contains("none"), "{plain:?}");
    assert!(plain.lines().all(|line| line.trim_end().chars().count() <= 60), "{plain:?}");
    assert!(!has_colours(&on_terminal(&format!("{line} --color never"), &[])));
    assert!(has_colours(&on_terminal(&format!("{line} --color always"), &[("NO_COLOR", "1")])));

    let url = server.url();
    assert!(!has_colours(&printed(run(&["ls", "--url", &url]))));
    let forced = printed(run(&["ls", "--url", &url, "--color", "always"]));
    assert!(has_colours(&forced) && forced.contains(&long), "{forced:?}");
    let output = redgrid(&["doctor", "--url", &url, "--color", "always"]).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(has_colours(&text) && text.contains("warn"), "{text:?}");
    // Programs read these.
    for format in ["json", "jsonl", "yaml", "name"] {
        assert!(!has_colours(&printed(run(&["ls", "-o", format, "--url", &url, "--color", "always"]))), "{format}");
    }
}

#[tokio::test]
async fn a_lock_is_listed_by_holder_and_waiter() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    hold(&observer, "job", "2", "600000").await;
    observer.cmd(&["RPUSH", "redisson_lock_queue:{job}", WAITER]).await.expect("an answer");
    observer.cmd(&["ZADD", "redisson_lock_timeout:{job}", "9000000000000", WAITER]).await.expect("an answer");
    let table = printed(on(&server, &["inspect", "job", "--columns", "role,client,number,state"]));
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["ROLE", "CLIENT", "NUMBER", "STATE"]);
    assert_eq!(rows[1], ["holder", CLIENT, "17", "not", "redgrid"]);
    assert_eq!((&rows[2][..3], rows.len()), (&["waiter", &WAITER[..36], "5"][..], 3), "{table}");
    let names = printed(on(&server, &["inspect", "job", "-o", "name"]));
    assert_eq!(names, format!("{CLIENT}:17\n{WAITER}\n"));
    let yaml: Value = yaml_serde::from_str(&printed(on(&server, &["inspect", "job", "-o", "yaml"]))).expect("YAML");
    let json = on(&server, &["inspect", "job", "-o", "json"]).json();
    let fields = |value: &Value| set(value.as_object().expect("an object").keys());
    assert_eq!((fields(&yaml), &yaml["holders"]), (fields(&json), &json["holders"]));
    assert_eq!((&yaml["schema"], &yaml["held"], &json["schema"]), (&json!(1), &json!(true), &json!(1)));
    let free = on(&server, &["inspect", "nobody", "-o", "table"]);
    assert_eq!((free.code(), free.stdout().as_str(), free.stderr().as_str()), (0, "", "redgrid: `nobody` is free\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_format_has_the_objects_of_all_nodes_of_a_cluster_once() {
    let cluster = Cluster::start(3, 0).await.expect("it starts");
    let url = cluster.url();
    let grid = Grid::connect(url.as_str()).await.expect("a client");
    let mut guards = Vec::new();
    let held: Vec<String> = (0..12).map(|number| format!("orders:{number}")).chain(["nul\0\u{202e}".into()]).collect();
    for name in &held {
        guards.push(grid.lock(name).acquire().await.expect("it is free"));
    }
    let list = |format: &str| printed(tokio::task::block_in_place(|| run(&["ls", "-o", format, "--url", &url])));
    let json: Value = serde_json::from_str(&list("json")).expect("JSON");
    assert_eq!((names(&json["items"]), json["items"].as_array().map(Vec::len)), (set(&held), Some(13)));
    let yaml: Value = yaml_serde::from_str(&list("yaml")).expect("YAML");
    assert_eq!((names(&yaml["items"]), yaml["items"].as_array().map(Vec::len)), (set(&held), Some(13)));
    for (format, lines) in [("jsonl", 13), ("name", 13), ("table", 14), ("wide", 14)] {
        let text = list(format);
        assert_eq!(text.lines().count(), lines, "{format}: {text}");
        assert_harmless(&text);
    }
    let doctor =
        tokio::task::block_in_place(|| run(&["doctor", "-o", "table", "--columns", "node,check", "--url", &url]));
    for node in cluster.nodes() {
        assert!(doctor.stdout().contains(&node.addr().to_string()), "{} in {}", node.addr(), doctor.stdout());
    }
    drop(guards);
}

#[tokio::test]
async fn a_reader_that_has_seen_enough_ends_the_list_without_an_error() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let fill = "for i = 1, 20000 do redis.call('HSET', 'lock:' .. i, ARGV[1], '1') end";
    observer.cmd(&["EVAL", fill, "0", &format!("{CLIENT}:17")]).await.expect("an answer");
    for format in ["table", "name", "jsonl", "json", "yaml"] {
        let program = env!("CARGO_BIN_EXE_redgrid");
        let line = format!("set -o pipefail; {program} ls -o {format} --url {} | head -c 20 > /dev/null", server.url());
        let output = Command::new("bash").args(["-c", &line]).output().expect("bash runs");
        let told = String::from_utf8(output.stderr).expect("text");
        assert_eq!((output.status.code(), told.as_str()), (Some(0), ""), "{format}");
        let stats: String = observer.query(&["INFO", "commandstats"]).await.expect("an answer");
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_scan:calls=")).expect("it was scanned");
        let pages: u64 = line.split(',').next().and_then(|calls| calls.parse().ok()).expect("a number");
        assert!(pages < 30, "{format}: {pages} pages of 500, of at least 40");
        observer.cmd(&["CONFIG", "RESETSTAT"]).await.expect("an answer");
    }
}
