//! A process with tasks that contend for a fair lock, for tests that count or kill it.
//!
//! `contender URL NAME TASKS TIMES HOLD_US`: each of `TASKS` tasks acquires the lock `TIMES` times,
//! and holds it for `HOLD_US` microseconds each time. Prints `ready` before it begins; a line on
//! its standard input starts it. Prints `done SECONDS` at the end. The process ends when its
//! standard input ends.

use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use redgrid_locks::{Client, FairLock};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(2).collect();
    let [url, name, tasks, times, hold] = &args[..] else {
        return Err("contender URL NAME TASKS TIMES HOLD_US".into());
    };
    let (tasks, times, hold): (usize, u64, Duration) =
        (tasks.parse()?, times.parse()?, Duration::from_micros(hold.parse()?));
    let client = Client::connect(url).await?;
    client.wait_ready(Duration::from_secs(20)).await?;
    let lock = FairLock::new(&client, name);
    say("ready")?;
    let mut lines = std::io::stdin().lock().lines();
    lines.next().transpose()?;
    // The process ends with its parent, even while it waits.
    std::thread::spawn(|| {
        while std::io::stdin().lock().lines().next().is_some() {}
        std::process::exit(0);
    });
    let began = Instant::now();
    let working: Vec<_> = (0..tasks)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move {
                for _ in 0..times {
                    let guard = lock.acquire().await?;
                    if !hold.is_zero() {
                        tokio::time::sleep(hold).await;
                    }
                    guard.release().await.map_err(|error| error.to_string())?;
                }
                Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
            })
        })
        .collect();
    for done in working {
        done.await?.map_err(|error| error.to_string())?;
    }
    say(&format!("done {:.3}", began.elapsed().as_secs_f64()))?;
    Ok(())
}

fn say(word: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{word}")?;
    out.flush()
}
