//! A process that handles messages of a reliable queue, for tests that kill it.
//!
//! `worker URL NAME VISIBILITY WORK`: receives up to ten at a time with a visibility of
//! `VISIBILITY` milliseconds, works up to `WORK` milliseconds, and acknowledges. It prints `there`
//! first. For each message it prints `got <message> <value> <attempt>` before the acknowledgement,
//! and `ack <message>` or `stale <message>` after it. The process ends when its standard input
//! ends.

use std::io::{BufRead, Write};
use std::time::Duration;

use redgrid_reliable_queue::{Client, QueueError, ReliableQueue};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(2).collect();
    let [url, name, visibility, work] = &args[..] else {
        return Err("worker URL NAME VISIBILITY WORK".into());
    };
    // The process ends with its parent, even while it waits.
    std::thread::spawn(|| {
        while std::io::stdin().lock().lines().next().is_some() {}
        std::process::exit(0);
    });
    let client = Client::connect(url.as_str()).await?;
    let queue: ReliableQueue<u64> = ReliableQueue::new(&client, name);
    let (visibility, work) = (Duration::from_millis(visibility.parse()?), work.parse()?);
    say("there")?;
    loop {
        let deliveries = queue.receive_many(10).visibility(visibility).await?;
        for delivery in &deliveries {
            say(&format!("got {} {} {}", delivery.id(), delivery.value()?, delivery.attempt()))?;
        }
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..=work))).await;
        let outcomes = queue.ack_many(deliveries.iter().map(|delivery| delivery.receipt())).await;
        for (delivery, outcome) in deliveries.iter().zip(outcomes) {
            match outcome {
                Ok(()) => say(&format!("ack {}", delivery.id()))?,
                Err(QueueError::Stale { .. }) => say(&format!("stale {}", delivery.id()))?,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn say(word: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{word}")?;
    out.flush()
}
