//! Processes that are stopped or killed while they hold a lock.

use std::process::Stdio;
use std::time::{Duration, Instant};

use redgrid_locks::Lock;
use redgrid_testkit::wait_until;
use redgrid_tests::process::{Signal, send_signal};
use redgrid_tests::stopwatch::Stopwatch;
use redgrid_tests::{SOON, client, server};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

struct Holder {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Holder {
    async fn start(url: &str, name: &str, lease: u64, at_least: u64) -> Holder {
        let mut child = Command::new(env!("CARGO_BIN_EXE_role"))
            .arg("holder")
            .args([url, name, &lease.to_string(), &at_least.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut holder = Holder { child, input, output };
        assert!(holder.line().await.starts_with("held "));
        holder
    }

    async fn line(&mut self) -> String {
        tokio::time::timeout(SOON, self.output.next_line()).await.unwrap().unwrap().unwrap()
    }

    async fn ask(&mut self) -> String {
        self.input.write_all(b"?\n").await.unwrap();
        self.line().await
    }

    fn signal(&self, signal: Signal) {
        send_signal(self.child.id().unwrap(), signal);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_stopped_past_its_lease_learns_it_by_its_first_poll() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let mut holder = Holder::start(&server.url(), "a", 600, 0).await;
    assert_eq!(holder.ask().await, "held");
    holder.signal(Signal::SIGSTOP);
    wait_until(SOON, async || !observer.exists("a").await.unwrap()).await;
    holder.input.write_all(b"?\n").await.unwrap();
    holder.signal(Signal::SIGCONT);
    assert_eq!(holder.line().await, "lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_frees_its_lock_within_one_lease() {
    let server = server().await;
    let client = client(&server).await;
    let mut holder = Holder::start(&server.url(), "a", 1000, 0).await;
    holder.child.kill().await.unwrap();
    let killed = Stopwatch::start();
    let guard = Lock::new(&client, "a").acquire().timeout(SOON).await.unwrap();
    killed.assert_within(Duration::from_millis(1500));
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_must_run_once_is_not_run_again_when_its_process_is_killed() {
    let server = server().await;
    let client = client(&server).await;
    // The hold begins here at the earliest. The end of its short lease must not shorten the minimum
    // hold.
    let (began, watch) = (Instant::now(), Stopwatch::start());
    let mut holder = Holder::start(&server.url(), "job", 500, 5000).await;
    tokio::time::sleep_until(tokio::time::Instant::now() + Duration::from_secs(1)).await;
    holder.child.kill().await.unwrap();
    let next = Lock::new(&client, "job").acquire().timeout(SOON).await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(5), "{:?}", began.elapsed());
    watch.assert_within(Duration::from_millis(7500));
    next.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_released_early_stays_taken_for_its_own_client_too() {
    let server = server().await;
    let observer = server.observer().await.unwrap();
    let client = client(&server).await;
    let lock = Lock::new(&client, "job");
    let (began, watch) = (Instant::now(), Stopwatch::start());
    let turn = lock.try_acquire().hold_at_least(Duration::from_secs(2)).await.unwrap().unwrap();
    turn.release().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(observer.exists("job").await.unwrap());
    let next = lock.acquire().timeout(SOON).await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
    watch.assert_within(Duration::from_secs(4));
    next.release().await.unwrap();

    // A shutdown does not end the minimum hold either.
    let turn = lock.acquire().hold_at_least(Duration::from_secs(60)).await.unwrap();
    client.shutdown(SOON).await.unwrap();
    drop(turn);
    let left = observer.time_to_live("job").await.unwrap().unwrap();
    assert!(left > Duration::from_secs(50), "{left:?}");
}
