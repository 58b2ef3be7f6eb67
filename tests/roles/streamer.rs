//! A process that streams a map and prints its cost: `streamer URL NAME`.
//! `streamer URL NAME ENTRIES` creates the map first.
//!
//! Prints `there`, then `entries N, before N KiB, peak N KiB, N ms`: its memory in the kernel's
//! terms (`VmRSS`, `VmHWM`). Each value has 1,000 bytes.
//!
//! To measure a million entries, start a server and run `cargo run --release -p redgrid-tests --bin
//! role -- streamer URL large 1000000` with its URL. Then run the same without the number.

use std::time::Instant;

use redgrid_core::Client;
use redgrid_map::Map;
use redgrid_map::codecs::{Long, Text};

#[tokio::main]
pub(crate) async fn run() {
    let args: Vec<String> = std::env::args().skip(2).collect();
    let [url, name, more @ ..] = &args[..] else { panic!("streamer URL NAME [ENTRIES]") };
    let client = Client::connect(url.as_str()).await.expect("a URL");
    client.wait_ready(redgrid_tests::SOON).await.expect("the server answers");
    let map: Map<u32, String, Long, Text> = Map::<u32, String, Text>::new(&client, name).with_codecs(Long, Text);
    if let [entries] = more {
        let entries: u32 = entries.parse().expect("a number");
        let numbers: Vec<u32> = (0..entries).collect();
        for part in numbers.chunks(5000) {
            let part: Vec<(u32, String)> = part.iter().map(|n| (*n, format!("{n:01000}"))).collect();
            map.set_many(part.iter().map(|(key, value)| (key, value))).await.expect("it is set");
        }
        return println!("there");
    }
    // This read makes the one-time allocations before the measurement.
    map.entries().page(10).try_next().await.expect("the server answers");
    println!("there");
    let (before, began) = (kib("VmRSS:"), Instant::now());
    let (mut stream, mut entries, mut sum) = (map.entries(), 0_u64, 0_u64);
    while let Some((key, value)) = stream.try_next().await.expect("the server answers") {
        entries += 1;
        sum += u64::from(key) + value.len() as u64;
    }
    let took = began.elapsed().as_millis();
    assert!(sum > entries);
    println!("entries {entries}, before {before} KiB, peak {} KiB, {took} ms", kib("VmHWM:"));
}

/// Returns a value of the kernel's status of this process.
fn kib(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux says");
    let found = status.lines().find_map(|has| has.strip_prefix(line)).expect("there is such a line");
    found.trim().trim_end_matches(" kB").parse().expect("a number")
}
