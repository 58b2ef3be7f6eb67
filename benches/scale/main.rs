//! Measures the capacity of one process, one server and a cluster. Each measurement runs in a
//! process of its own.
//!
//! `scale names|held|queue|waiters|bus|console COUNT SECONDS` prints one line of JSON, and exits
//! with 1 if a promise was broken. COUNT is the number of names, locks, waiters, wake-ups or keys.
//! SECONDS is how long `held` and `waiters` are measured while idle, and each part of `console`
//! with open pages. `cargo xtask scale` runs all measurements.

mod bus;
mod console;
mod held;
mod look;
mod names;
mod queue;
mod report;
mod traffic;
mod waiters;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use redgrid_core::{Client, Config};
use report::Report;

/// An error, as text.
type Trouble = Box<dyn Error + Send + Sync>;

/// The timeout of every awaited condition.
const SOON: Duration = Duration::from_secs(60);

/// Number of concurrent requests: enough to keep a server busy, and few enough for timely replies.
const AT_A_TIME: usize = 256;

#[tokio::main(worker_threads = 2)]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [measure, count, seconds] = words.as_slice() else { return usage() };
    let (Ok(count), Ok(seconds)) = (count.parse::<usize>(), seconds.parse()) else { return usage() };
    let (count, idle) = (count.max(1), Duration::from_secs(seconds));
    let mut report = Report::new(measure, Some(count));
    let played = match measure.as_str() {
        "names" => names::play(&mut report, count).await,
        "held" => held::play(&mut report, count, idle).await,
        "queue" => queue::play(&mut report, count).await,
        "waiters" => waiters::play(&mut report, count, idle).await,
        "console" => console::play(&mut report, count, idle).await,
        "bus" => bus::play(&mut report, count).await,
        _ => return usage(),
    };
    if let Err(trouble) = played {
        eprintln!("{measure}: {}", trouble);
        return ExitCode::FAILURE;
    }
    report.print()
}

fn usage() -> ExitCode {
    eprintln!("usage: scale names|held|queue|waiters|bus|console COUNT SECONDS");
    ExitCode::from(2)
}

impl Report {
    /// Prints the progress, because a measurement takes minutes.
    pub(crate) fn say(&self, what: &str) {
        eprintln!("{} {:6.1} s  {what}", self.measure, self.began.elapsed().as_secs_f64());
    }
}

async fn connected(config: Config) -> Result<Client, Trouble> {
    let client = Client::connect(config).await?;
    client.wait_ready(SOON).await?;
    Ok(client)
}
