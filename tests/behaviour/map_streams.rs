//! Streams over maps larger than the available memory.

use redgrid_map::Map;
use redgrid_map::codecs::{Long, Text};
use redgrid_tests::process::Other;
use redgrid_tests::{client, server};

/// A process reads 50 MB of values in the memory of a few pages. A page in flight takes a few
/// hundred KiB, and the allocator retains some more.
#[tokio::test(flavor = "multi_thread")]
async fn a_map_is_streamed_in_less_memory_than_it_has() {
    const ENTRIES: u32 = 50_000;
    const MOST: u64 = 16 << 10;
    let server = server().await;
    let client = client(&server).await;
    let map: Map<u32, String, Long, Text> = Map::<u32, String, Text>::new(&client, "large").with_codecs(Long, Text);
    for first in (0..ENTRIES).step_by(5000) {
        let part: Vec<(u32, String)> = (first..first + 5000).map(|n| (n, format!("{n:01000}"))).collect();
        map.set_many(part.iter().map(|(key, value)| (key, value))).await.unwrap();
    }
    let mut streamer = Other::start(env!("CARGO_BIN_EXE_role"), &["streamer", &server.url(), "large"]).await;
    let said = streamer.next_line().await;
    let numbers: Vec<u64> = said.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
    let [entries, before, peak, _] = numbers[..] else { panic!("its output was {said:?}") };
    assert!(entries >= ENTRIES.into(), "{said}");
    assert!(peak - before < MOST, "{said}");
}
