//! Holders that are killed or stopped, as the console and `redgrid inspect` show them.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redgrid_testkit::{Observer, RedisServer, wait_until};

use crate::clients::settled;
use crate::console::{get, started};
use crate::support::{redgrid, run};

/// For operations that take milliseconds, on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// How soon a killed holder is shown as gone.
const GONE_WITHIN: Duration = Duration::from_secs(3);

/// How soon a stopped holder is shown as silent.
const SILENT_WITHIN: Duration = Duration::from_secs(10);

/// Holders of each test. A busy machine may delay all but one of them.
const HOLDERS: usize = 3;

/// A process that is killed in the end.
struct Process(Child);

impl Process {
    /// Starts `redgrid lock`, and waits until it holds the lock.
    async fn holding(url: &str, observer: &Observer, name: &str) -> Self {
        let mut command = redgrid(&["--url", url, "lock", name, "--", "sleep", "1000"]);
        let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let holder = Process(command.spawn().expect("the program runs"));
        wait_until(SOON, async || observer.exists(name).await.expect("an answer")).await;
        holder
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.0.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server that has run for a while, with its console.
struct Setup {
    server: RedisServer,
    observer: Observer,
    console: String,
    _process: Process,
}

impl Setup {
    async fn start() -> Self {
        let server = RedisServer::start().await.expect("a server");
        let observer = server.observer().await.expect("an observer");
        let (process, line) = started(&server, &["--no-login"], None);
        settled(&observer).await;
        Setup { server, observer, console: line["url"].as_str().expect("text").to_owned(), _process: Process(process) }
    }

    /// Waits until the page of a lock contains a text, and returns the page.
    async fn shown(&self, name: &str, text: &str) -> String {
        let path = format!("/lock?name={name}");
        let began = Instant::now();
        loop {
            let page = tokio::task::block_in_place(|| get(&self.console, &path, ""));
            if page.contains(text) {
                return page;
            }
            assert!(began.elapsed() < SOON, "no {text:?}: {page}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until `redgrid inspect` prints a text, and returns its output.
    fn inspected(&self, name: &str, text: &str) -> String {
        let began = Instant::now();
        loop {
            let shown = tokio::task::block_in_place(|| run(&["inspect", name, "--url", &self.server.url()])).stdout();
            if shown.contains(text) {
                return shown;
            }
            assert!(began.elapsed() < SOON, "no {text:?}: {shown}");
        }
    }
}

/// Fails unless the fastest of these times is within the limit.
fn assert_within(limit: Duration, what: &str, times: &[Duration]) {
    println!("{what} after {times:.1?}");
    assert!(times.iter().any(|time| *time <= limit), "{what} after {times:?}, expected {limit:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_holder_is_gone_within_three_seconds_with_the_time_until_its_lock_is_free() {
    let setup = Setup::start().await;
    let (mut on_the_page, mut inspected) = (Vec::new(), Vec::new());
    for number in 0..HOLDERS {
        let name = format!("job:{number}");
        let holder = Process::holding(&setup.server.url(), &setup.observer, &name).await;
        setup.shown(&name, "class=\"state alive\"").await;
        holder.signal("-KILL");
        let killed = Instant::now();
        let page = setup.shown(&name, "class=\"state gone\"").await;
        on_the_page.push(killed.elapsed());
        assert!(page.contains("data-until="), "{page}");

        let name = format!("job:{number}:2");
        let holder = Process::holding(&setup.server.url(), &setup.observer, &name).await;
        holder.signal("-KILL");
        let killed = Instant::now();
        let text = setup.inspected(&name, "not connected: free in ");
        inspected.push(killed.elapsed());
        assert!(text.contains("s, unless the lease is renewed\n"), "{text}");
    }
    assert_within(GONE_WITHIN, "gone on the page", &on_the_page);
    assert_within(GONE_WITHIN, "gone for `inspect`", &inspected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_holder_is_silent_within_ten_seconds() {
    let setup = Setup::start().await;
    let (mut on_the_page, mut inspected) = (Vec::new(), Vec::new());
    for number in 0..HOLDERS {
        let name = format!("job:{number}");
        let holder = Process::holding(&setup.server.url(), &setup.observer, &name).await;
        // A client that has answered before is silent; one that never has does not report.
        setup.shown(&name, &format!("pid {}", holder.0.id())).await;
        holder.signal("-STOP");
        let stopped = Instant::now();
        setup.shown(&name, "class=\"state silent\"").await;
        on_the_page.push(stopped.elapsed());
        let asked = Instant::now();
        setup.inspected(&name, "state    silent");
        inspected.push(asked.elapsed());
    }
    assert_within(SILENT_WITHIN, "silent on the page", &on_the_page);
    assert_within(SILENT_WITHIN, "silent for `inspect`", &inspected);
}
