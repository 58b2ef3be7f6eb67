//! Ids taken by several processes, while processes and the server are killed.

use std::path::Path;
use std::time::{Duration, Instant};

use redgrid_testkit::RedisServer;
use redgrid_tests::process::Other;

/// Returns how many ids are taken: `REDGRID_IDS`, or a number that every machine takes within
/// seconds.
fn wanted() -> u64 {
    std::env::var("REDGRID_IDS").map_or(200_000, |wanted| wanted.parse().expect("REDGRID_IDS is a number"))
}

/// Returns how many ids a process writes at a time. The number is small, so that the last ids
/// before a kill are on disk; it is larger if very many ids are taken.
fn chunk() -> &'static str {
    if wanted() > 1_000_000 { "1000" } else { "8" }
}

/// How often a process or the server is killed.
const TROUBLES: u64 = 10;

#[tokio::test(flavor = "multi_thread")]
async fn killed_processes_repeat_no_time_ordered_id() {
    no_id_is_given_twice("times").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_processes_repeat_no_id_of_a_block() {
    no_id_is_given_twice("blocks").await;
}

/// Three processes take ids and write them to files. In turn, one of the processes or the server is
/// killed. The server keeps acknowledged writes on disk.
async fn no_id_is_given_twice(kind: &str) {
    let began = Instant::now();
    let server = RedisServer::builder().append_only(true).config("appendfsync always").start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let url = server.url();
    let at = folder.path().to_str().unwrap();
    let start =
        async || Other::start(env!("CARGO_BIN_EXE_role"), &["issuer", &url, kind, "order", at, "2", chunk()]).await;
    let mut processes = std::collections::VecDeque::new();
    for _ in 0..3 {
        processes.push_back(start().await);
    }
    let wanted = wanted();
    for trouble in 1..=TROUBLES {
        until_written(folder.path(), wanted * trouble / TROUBLES).await;
        if trouble % 2 == 0 {
            processes.pop_front().expect("three").kill().await;
            processes.push_back(start().await);
        } else {
            server.kill().await.unwrap();
            server.restart_with_data().await.unwrap();
        }
    }
    until_written(folder.path(), wanted + wanted / TROUBLES).await;
    for process in processes {
        process.kill().await;
    }
    let mut all = Vec::new();
    let mut files = 0;
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        // A partial write of a killed process is not counted as an id.
        let ids = bytes.chunks_exact(8).map(|id| i64::from_le_bytes(id.try_into().unwrap()));
        let from = all.len();
        all.extend(ids);
        assert!(all[from..].is_sorted_by(|a, b| a < b), "ids of a task rise");
        files += 1;
    }
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    println!("{count} ids of {kind} from {} processes in {:?}", files / 2, began.elapsed());
    assert_eq!(count, all.len(), "ids were given twice");
    assert!(count as u64 >= wanted);
}

/// Waits until the files contain this many ids.
async fn until_written(folder: &Path, ids: u64) {
    // A million ids take seconds, and slightly more in a debug build.
    let within = Duration::from_secs(120) + Duration::from_micros(100 * ids / TROUBLES);
    let written = || -> u64 {
        let files = std::fs::read_dir(folder).unwrap();
        files.map(|file| file.unwrap().metadata().unwrap().len() / 8).sum()
    };
    redgrid_testkit::wait_until(within, async || written() >= ids).await;
}
