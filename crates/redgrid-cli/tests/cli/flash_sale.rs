//! A sale of generated requests on a private server.

use serde_json::{Value, json};

use crate::support::{Ended, run};

/// The documented fields of the JSON line, in their order.
const FIELDS: [&str; 28] = [
    "schema",
    "orders",
    "stock_left",
    "oversold",
    "duplicate_ids",
    "duplicate_users",
    "seconds",
    "orders_per_s",
    "p50_ms",
    "p99_ms",
    "processes",
    "tasks",
    "server",
    "lock",
    "proven",
    "faults",
    "products",
    "units",
    "requests",
    "refused",
    "refused_repeated",
    "unserved",
    "lost",
    "bad_rows",
    "bad_lines",
    "killed",
    "handed_over",
    "finished",
];

fn sell(lock: &str, more: &[&str]) -> Ended {
    let mut line =
        vec!["demo", "flash-sale", "--json", "--stock", "300", "--processes", "3", "--tasks", "8", "--lock", lock];
    line.extend(more);
    run(&line)
}

fn assert_sold_to_the_last_unit(ended: &Ended) -> Value {
    let report = ended.json();
    assert_eq!(ended.code(), 0, "{report} {}", ended.stderr());
    for (field, want) in [
        ("orders", json!(300)),
        ("units", json!(300)),
        ("stock_left", json!(0)),
        ("oversold", json!(0)),
        ("duplicate_ids", json!(0)),
        ("duplicate_users", json!(0)),
        ("unserved", json!(0)),
        ("lost", json!(0)),
        ("bad_rows", json!(0)),
        ("requests", json!(600)),
        ("refused", json!(300)),
        ("proven", json!(true)),
        ("faults", json!([])),
    ] {
        assert_eq!(report[field], want, "{field} in {report}");
    }
    report
}

#[test]
fn under_the_lock_the_stock_is_sold_to_the_last_unit() {
    let report = assert_sold_to_the_last_unit(&sell("redgrid", &[]));
    assert_eq!((&report["processes"], &report["tasks"], &report["lock"]), (&json!(3), &json!(8), &json!("redgrid")));
    assert!(
        report["p50_ms"].as_f64() > Some(0.0) && report["p50_ms"].as_f64() <= report["p99_ms"].as_f64(),
        "{report}"
    );
    let server = report["server"].as_str().unwrap_or_default();
    assert!(server.contains("127.0.0.1") && server.ends_with("private"), "{server}");
}

#[test]
fn a_worker_killed_while_it_holds_the_lock_costs_no_unit_and_no_answer() {
    let report = assert_sold_to_the_last_unit(&sell("redgrid", &["--kill-one"]));
    assert_eq!(report["killed"], json!(1), "{report}");
    assert!(report["handed_over"].as_u64() > Some(0), "{report}");
    // The killed worker held the lock, so the others had to wait until its lease ended.
    assert!(report["seconds"].as_f64() > Some(1.5), "{report}");
    let text = run(&["demo", "flash-sale", "--stock", "60", "--tasks", "4", "--kill-one"]);
    assert_eq!(text.code(), 0, "{}", text.stdout());
    assert!(text.stdout().contains(" workers killed  1, "), "{}", text.stdout());
}

#[test]
fn the_plain_lock_sells_right_as_long_as_nothing_goes_wrong() {
    assert_sold_to_the_last_unit(&sell("setnx", &[]));
}

#[test]
fn without_a_lock_more_is_sold_than_there_is_and_the_exit_code_says_so() {
    // The tasks normally collide. Up to three sales are tried, because a machine may run the tasks
    // one after another.
    for _ in 0..3 {
        let ended = sell("none", &[]);
        let report = ended.json();
        if report["oversold"].as_u64() > Some(0) {
            assert_eq!(ended.code(), 1, "{report}");
            assert_eq!(report["proven"], json!(false));
            assert!(report["orders"].as_u64() > Some(300), "{report}");
            assert!(report["faults"].as_array().is_some_and(|faults| !faults.is_empty()), "{report}");
            return;
        }
    }
    panic!("three sales without a lock went right");
}

#[test]
fn the_json_line_has_the_documented_fields_in_order() {
    let ended = run(&["demo", "flash-sale", "--stock", "5", "--processes", "1", "--tasks", "2", "--json"]);
    let (text, report) = (ended.stdout(), ended.json());
    let places: Vec<_> = FIELDS.iter().map(|field| text.find(&format!("\"{field}\":"))).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
    assert_eq!(report.as_object().map(serde_json::Map::len), Some(FIELDS.len()), "{text}");
}

#[test]
fn a_person_gets_a_table_and_one_sentence() {
    let ended = run(&["demo", "flash-sale", "--stock", "20", "--processes", "2", "--tasks", "2"]);
    assert_eq!(ended.code(), 0, "{}", ended.stderr());
    let text = ended.stdout();
    assert!(text.contains("     stock left  0\n") && !text.contains(['\r', '\x1b']), "{text}");
    assert!(text.lines().last().is_some_and(|line| line.starts_with("Proven: 20 orders sold 20 units")), "{text}");
}
