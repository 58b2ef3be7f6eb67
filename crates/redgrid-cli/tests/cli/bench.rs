//! `redgrid bench`: the protocol of the benchmark harness, and single jobs. Rates are not asserted.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use redgrid_testkit::{Observer, RedisServer, wait_until};
use serde_json::{Value, json};

use crate::support::{redgrid, run};

/// Timeout of operations that take a moment, long enough for a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// A driver that serves jobs. It ends when the value is dropped.
struct Driver {
    process: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Driver {
    fn start(server: &RedisServer, more: &[&str]) -> Self {
        let addr = server.addr().to_string();
        let mut command = redgrid(&[&["bench", "--addr", &addr, "--serve"], more].concat());
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program runs");
        let (stdin, stdout) = (process.stdin.take(), process.stdout.take().expect("it is piped"));
        let driver = Driver { process, stdin, lines: lines(stdout) };
        assert_eq!(driver.line(), "UP");
        driver
    }

    fn say(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().expect("it is open"), "{line}").expect("it listens");
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(SOON).expect("a line in time")
    }

    /// Prepares a job and runs it.
    fn job(&mut self, words: &str) -> Value {
        self.ready(words);
        self.go()
    }

    fn ready(&mut self, words: &str) {
        self.say(&format!("JOB {words}"));
        assert_eq!(self.line(), "READY", "{words}");
    }

    fn go(&mut self) -> Value {
        self.say("GO");
        serde_json::from_str(&self.line()).expect("JSON")
    }

    /// Waits for the end of the driver, and returns its exit code.
    fn ended(&mut self) -> Option<i32> {
        let until = Instant::now() + SOON;
        loop {
            match self.process.try_wait().expect("it is ours") {
                Some(status) => return status.code(),
                None if Instant::now() > until => panic!("it does not end"),
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn lines(stdout: ChildStdout) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    lines
}

/// Checks the fields that every line of a clean run has.
#[track_caller]
fn assert_clean(line: &Value, workload: &str, tasks: u64) {
    assert_eq!((&line["driver"], &line["workload"]), (&json!("redgrid"), &json!(workload)), "{line}");
    assert_eq!((&line["tasks"], &line["errors"]), (&json!(tasks), &json!(0)), "{line}");
    assert_eq!((&line["violations"], &line["stuck"]), (&json!(0), &json!(0)), "{line}");
    assert!(line["secs"].as_f64().is_some_and(|secs| secs >= 0.0), "{line}");
}

/// Checks the fields that lines of repeated operations also have. Returns the number of operations.
#[track_caller]
fn assert_cycles(line: &Value, workload: &str, tasks: u64) -> u64 {
    assert_clean(line, workload, tasks);
    let number = |field: &str| line[field].as_f64().unwrap_or_else(|| panic!("{field}: {line}"));
    assert!(number("ops_s") > 0.0 && number("mean_us") > 0.0, "{line}");
    assert!(number("p50_us") > 0.0 && number("p50_us") <= number("p99_us"), "{line}");
    assert!(number("p99_us") <= number("p999_us"), "{line}");
    assert!(number("min_task") <= number("max_task") && number("max_task") <= number("ops"), "{line}");
    line["ops"].as_u64().expect("a whole number")
}

#[tokio::test]
async fn a_served_driver_does_each_workload_and_quits_with_0() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    let mut driver = Driver::start(&server, &[]);

    let line = driver.job("workload=W1 tasks=4 ops=200 warm=0.01 prefix=a");
    assert_eq!(assert_cycles(&line, "W1", 4), 200);
    assert_eq!(line.get("handoff_p50_us"), None, "no other process is in the way: {line}");

    let line = driver.job("workload=W1 tasks=2 secs=0.05 warm=0 prefix=b");
    assert!(assert_cycles(&line, "W1", 2) > 0 && line["secs"].as_f64() >= Some(0.04), "{line}");

    let line = driver.job("workload=W2 tasks=8 ops=100 warm=0.01 prefix=c k=16 rounds=5");
    assert_eq!(assert_cycles(&line, "W2", 8), 100);
    for field in ["handoff_p50_us", "handoff_p99_us", "wait_p50_us", "wait_p99_us"] {
        assert!(line[field].as_f64() > Some(0.0), "{field}: {line}");
    }

    let line = driver.job("workload=W4 tasks=8 ops=2000 warm=0.01 prefix=j");
    assert_eq!(assert_cycles(&line, "W4", 8), 2000);

    let line = driver.job("workload=W6fair tasks=4 ops=100 warm=0.01 prefix=f");
    assert_eq!(assert_cycles(&line, "W6fair", 4), 100);
    let line = driver.job("workload=W6rw tasks=8 ops=200 warm=0.01 prefix=g");
    assert_eq!(assert_cycles(&line, "W6rw", 8), 200);
    let line = driver.job("workload=W6sem tasks=16 ops=200 warm=0.01 prefix=i");
    assert_eq!(assert_cycles(&line, "W6sem", 16), 200);
    let line = driver.job("workload=W6latch tasks=8 rounds=4 prefix=h");
    assert_eq!(assert_cycles(&line, "W6latch", 8), 4);

    for workload in ["W7queue", "W7push"] {
        let line = driver.job(&format!("workload={workload} tasks=8 ops=200 warm=0.01 prefix=q"));
        assert_eq!(assert_cycles(&line, workload, 8), 200);
    }

    let line = driver.job("workload=W4adder tasks=4 ops=10000 warm=0.01 prefix=j");
    assert_eq!(assert_cycles(&line, "W4adder", 4), 10_000);

    driver.ready("workload=W5 n=300 secs=0.05 warm=0 prefix=d");
    assert_eq!(observer.keys("d:*").await.expect("an answer").len(), 300, "held from before the start");
    let line = driver.go();
    assert_clean(&line, "W5", 1);
    assert_eq!((&line["n"], &line["ops"]), (&json!(300), &json!(300)), "{line}");
    for field in ["acquire_s", "rss0_kb", "rss1_kb", "heap0_kb", "heap1_kb"] {
        assert!(line[field].as_f64().is_some(), "{field}: {line}");
    }
    assert_eq!(held(&observer).await.len(), 300, "and held until the measuring process has counted them");

    driver.job("workload=W1 ops=5 warm=0");
    wait_until(SOON, async || observer.keys("d:*").await.expect("an answer").is_empty()).await;
    driver.ready("workload=W5 n=10 secs=0.05 warm=0 prefix=d");
    driver.go();
    driver.say("QUIT");
    assert_eq!(driver.ended(), Some(0));
    assert_eq!(held(&observer).await, Vec::<String>::new(), "everything has been given back");
}

/// Returns the keys that remain after a job, except those that expire: idempotency records, and
/// cancelled sum requests of an adder, to which members may still reply.
async fn held(observer: &Observer) -> Vec<String> {
    let keys = observer.keys("*").await.expect("an answer");
    let of_round = |key: &str| key.contains("}:redgrid-") && (key.ends_with(":counter") || key.ends_with(":semaphore"));
    let is_remembered = |key: &str| key.starts_with("redgrid_once:") || key.starts_with("redgrid_latch:");
    let stays = |key: &String| is_remembered(key) || of_round(key);
    keys.into_iter().filter(|key| !stays(key)).collect()
}

#[tokio::test]
async fn three_drivers_sell_a_stock_to_exactly_0() {
    let server = RedisServer::start().await.expect("a server");
    let observer = server.observer().await.expect("an observer");
    observer.cmd(&["SET", "sale:stock", "150"]).await.expect("an answer");
    let mut drivers: Vec<_> = (0..3).map(|_| Driver::start(&server, &[])).collect();
    for driver in &mut drivers {
        driver.ready("workload=W3 tasks=4 secs=20 warm=0.01 prefix=sale");
    }
    for driver in &mut drivers {
        driver.say("GO");
    }
    let mut sold = 0;
    for driver in &drivers {
        let line = serde_json::from_str(&driver.line()).expect("JSON");
        assert_clean(&line, "W3", 4);
        sold += line["ops"].as_u64().expect("a whole number");
    }
    assert_eq!((sold, observer.get::<i64>("sale:stock").await.expect("an answer")), (150, Some(0)));
}

#[tokio::test]
async fn an_unsupported_job_is_answered_and_the_next_one_is_run() {
    let server = RedisServer::start().await.expect("a server");
    let mut driver = Driver::start(&server, &["--threads", "1"]);
    for (words, unsupported, told) in [
        (
            "workload=W8 tasks=1 ops=1",
            Some(true),
            "no workload `W8` here; there are W1, W2, W3, W4, W4adder, W5, W6fair, W6rw, W6sem, W6latch, W7queue and W7push",
        ),
        ("workload=W1 tasks=few", Some(false), "`tasks=few` is not understood: invalid digit found in string"),
        ("workload=W3 tasks=1 prefix=e", None, "there is no stock to sell; SET e:stock to a number first"),
    ] {
        driver.say(&format!("JOB {words}"));
        let answer: Value = serde_json::from_str(&driver.line()).expect("JSON");
        assert_eq!((answer["unsupported"].as_bool(), answer["error"].as_str()), (unsupported, Some(told)), "{words}");
    }
    assert_eq!(assert_cycles(&driver.job("workload=W1 ops=5 warm=0"), "W1", 1), 5);
    // The end of stdin is equivalent to QUIT.
    driver.stdin = None;
    assert_eq!(driver.ended(), Some(0));
}

#[tokio::test]
async fn one_job_from_the_command_line_is_a_line_of_json_or_a_sentence() {
    let server = RedisServer::start().await.expect("a server");
    let addr = server.addr().to_string();
    let job = ["bench", "--addr", &addr, "--workload", "W2", "--tasks", "2", "--ops", "20", "--warm", "0"];
    let ended = run(&[&job[..], &["--json"]].concat());
    assert_eq!(ended.code(), 0, "{}", ended.stderr());
    assert_eq!(assert_cycles(&ended.json(), "W2", 2), 20);
    let ended = run(&job);
    assert_eq!(ended.code(), 0, "{}", ended.stderr());
    assert!(ended.stdout().starts_with("W2, 2 tasks: 20 operations in "), "{}", ended.stdout());
}

#[test]
fn a_bench_without_a_server_or_with_bad_options_says_so() {
    for (line, code, word) in [
        ("bench", 2, "--addr HOST:PORT"),
        ("bench --addr 127.0.0.1:1", 69, "cannot work with 127.0.0.1:1"),
        ("bench --addr 127.0.0.1:1 --workload W9", 2, "no workload `W9` here"),
        ("bench --addr 127.0.0.1:1 --secs -1", 2, "-1"),
        ("bench --addr 127.0.0.1:1 --threads 0", 2, "--threads"),
    ] {
        let ended = run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!((ended.code(), ended.stdout()), (code, String::new()), "{line}: {}", ended.stderr());
        assert!(ended.stderr().contains(word), "{line}: {}", ended.stderr());
    }
}
