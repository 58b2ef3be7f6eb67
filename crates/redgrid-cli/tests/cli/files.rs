//! Sales with requests from a file, and the generator of such files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;

use serde_json::json;
use tempfile::NamedTempFile;

use crate::support::{example, run};

fn file(content: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(content).expect("it can be written");
    file
}

fn path(file: &NamedTempFile) -> &str {
    file.path().to_str().expect("a path of ASCII")
}

#[test]
fn the_sample_sells_as_its_rows_say() {
    let sample = fs::read_to_string(example("requests.csv")).expect("the sample is there");
    let part: Vec<&str> = sample.lines().take(801).collect();
    // The expected orders are the first request of each user and product; repetitions have the same
    // quantity.
    let mut wanted: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for row in &part[1..] {
        let cells: Vec<&str> = row.split(',').collect();
        wanted.insert((cells[0], cells[1]), cells[2].parse().expect("a number"));
    }
    let products: BTreeSet<&str> = wanted.keys().map(|(_, product)| *product).collect();
    let units: u64 = wanted.values().sum();
    assert!(wanted.len() < 800 && products.len() > 1, "the part has repetitions and several products");

    let part = file(part.join("\n").as_bytes());
    let ended = run(&["demo", "flash-sale", "--stock", "1000", "--requests", path(&part), "--json"]);
    let report = ended.json();
    assert_eq!(ended.code(), 0, "{report} {}", ended.stderr());
    assert_eq!(report["orders"], json!(wanted.len()), "{report}");
    assert_eq!(report["units"], json!(units), "{report}");
    assert_eq!(report["products"], json!(products.len()), "{report}");
    assert_eq!(report["stock_left"], json!(1000 * products.len() as u64 - units), "{report}");
    assert_eq!(report["refused_repeated"], json!(800 - wanted.len()), "{report}");
}

#[test]
fn where_the_stock_is_not_enough_nothing_is_oversold() {
    let rows: Vec<String> = (0..200).map(|user| format!("user{user},lamp,{}", user % 5 + 1)).collect();
    let rows = file(rows.join("\n").as_bytes());
    let ended = run(&["demo", "flash-sale", "--stock", "100", "--requests", path(&rows), "--json"]);
    let report = ended.json();
    assert_eq!(ended.code(), 0, "{report} {}", ended.stderr());
    // The last unit is sold, because some requests are for a single unit.
    assert_eq!((&report["units"], &report["stock_left"], &report["oversold"]), (&json!(100), &json!(0), &json!(0)));
}

#[test]
fn bad_rows_are_reported_by_line_and_do_not_stop_the_sale() {
    let rows = file(b"user_id,product_id,quantity\nann,lamp,2\nbob,lamp\neve,lamp,0\nmax,lamp,many\n,lamp,1\nzoe,lamp,3\nann,lamp,2\n");
    let ended = run(&["demo", "flash-sale", "--stock", "9", "--requests", path(&rows), "--json"]);
    let report = ended.json();
    assert_eq!(ended.code(), 0, "{report} {}", ended.stderr());
    assert_eq!((&report["orders"], &report["stock_left"], &report["bad_rows"]), (&json!(2), &json!(4), &json!(4)));
    let lines = report["bad_lines"].as_array().expect("a list");
    assert_eq!(lines.iter().map(|bad| bad["line"].clone()).collect::<Vec<_>>(), [3, 4, 5, 6]);
    let told = ended.stderr();
    assert!(told.contains("line 3 is left out: expected 3 columns"), "{told}");
    assert!(told.contains("line 4 is left out: quantity must be a whole number from 1"), "{told}");
    assert!(told.contains("line 6 is left out: user_id is empty"), "{told}");
}

#[test]
fn the_same_seed_writes_the_same_bytes_and_the_sample_is_such_a_file() {
    // This is the command documented in examples/data/README.md.
    let generated = run(&["demo", "requests", "--seed", "1", "--rows", "20000"]);
    let sample = fs::read_to_string(example("requests.csv")).expect("the sample is there");
    assert_eq!(generated.code(), 0);
    assert!(generated.stdout() == sample, "write examples/data/requests.csv again as its README says");
    assert_eq!(sample.lines().count(), 20_001);
    assert_ne!(run(&["demo", "requests", "--seed", "2", "--rows", "20000"]).stdout(), sample);
}
