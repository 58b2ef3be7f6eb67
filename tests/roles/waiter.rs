//! A process with tasks that wait for a latch.
//!
//! `waiter URL NAME TASKS`: prints `waiting` when all tasks wait, and `done SECONDS` when all are
//! complete. The process ends when its standard input ends.

use std::io::{BufRead, Write};
use std::time::Duration;

use redgrid_countdown_latch::{Client, CountDownLatch};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(2).collect();
    let [url, name, tasks] = &args[..] else {
        return Err("waiter URL NAME TASKS".into());
    };
    // The process ends with its parent, even while it waits.
    std::thread::spawn(|| {
        while std::io::stdin().lock().lines().next().is_some() {}
        std::process::exit(0);
    });
    let client = Client::connect(url.as_str()).await?;
    client.wait_ready(Duration::from_secs(20)).await?;
    let waiting = redgrid_tests::latch::crowd(&CountDownLatch::new(&client, name), tasks.parse()?).await;
    wait_until(SOON, async || client.stats().channels > 0).await;
    say("waiting")?;
    let began = std::time::Instant::now();
    for waiter in waiting {
        waiter.await??;
    }
    say(&format!("done {:.3}", began.elapsed().as_secs_f64()))?;
    client.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

fn say(word: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{word}")?;
    out.flush()
}
