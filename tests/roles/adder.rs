//! A process with an adder.
//!
//! `adder URL NAME BY SAVING [leaves]`: adds `BY`, saves its count every `SAVING` milliseconds (0:
//! never), and prints `there` when it is subscribed. With `leaves` it then shuts down and prints
//! `left`. The process ends when its standard input ends.

use std::io::{BufRead, Write};
use std::time::Duration;

use redgrid_atomic_long::{Client, LongAdder};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(2).collect();
    let [url, name, by, saving, leaves @ ..] = &args[..] else {
        return Err("adder URL NAME BY SAVING [leaves]".into());
    };
    // The process ends with its parent, even while it waits.
    std::thread::spawn(|| {
        while std::io::stdin().lock().lines().next().is_some() {}
        std::process::exit(0);
    });
    let client = Client::connect(url.as_str()).await?;
    let mut adder = LongAdder::new(&client, name);
    if let interval @ 1.. = saving.parse()? {
        adder = adder.saving(Duration::from_millis(interval))?;
    }
    adder.add(by.parse()?);
    adder.ready().await?;
    say("there")?;
    if leaves.is_empty() {
        std::future::pending::<()>().await;
    }
    client.shutdown(Duration::from_secs(10)).await?;
    say("left")?;
    Ok(())
}

fn say(word: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{word}")?;
    out.flush()
}
