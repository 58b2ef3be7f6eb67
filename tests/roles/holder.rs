//! A process that holds a lock, for tests that stop or kill it.
//!
//! `holder URL NAME LEASE_MS AT_LEAST_MS [OWNERS]`, where NAME may be `read|NAME` or `write|NAME`:
//! prints `held TOKEN`. It then answers each line on its standard input by `held` or `lost`, after
//! one poll of `lost()` and one call of `is_held()`. The process ends when its standard input ends.
//!
//! With OWNERS, the lock is a fenced lock, which the process acquires that many times in a row; it
//! holds the last of these grants.

use std::io::{BufRead, Write};
use std::time::Duration;

use redgrid_locks::{Client, FencedLock, Lock, RwLock};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(2).collect();
    let [url, name, lease, at_least, owners @ ..] = &args[..] else {
        return Err("holder URL NAME LEASE_MS AT_LEAST_MS [OWNERS]".into());
    };
    let millis = |text: &str| text.parse().map(Duration::from_millis);
    let client = Client::connect(url).await?;
    let plain = match owners.first() {
        None => Lock::new(&client, name).acquire(),
        Some(owners) => {
            let lock = FencedLock::new(&client, name);
            for _ in 1..owners.parse()? {
                lock.acquire().await?.release().await?;
            }
            lock.acquire()
        }
    };
    let (lease, at_least) = (millis(lease)?, millis(at_least)?);
    // The guard is kept in each case.
    let (watch, _guard): (_, Box<dyn Send>) = match name.split_once('|') {
        Some(("read", name)) => {
            let guard = RwLock::new(&client, name).read().auto_renew(lease).hold_at_least(at_least).await?;
            (guard.watch(), Box::new(guard))
        }
        Some(("write", name)) => {
            let guard = RwLock::new(&client, name).write().auto_renew(lease).hold_at_least(at_least).await?;
            (guard.watch(), Box::new(guard))
        }
        _ => {
            let guard = plain.auto_renew(lease).hold_at_least(at_least).await?;
            (guard.watch(), Box::new(guard))
        }
    };
    say(&format!("held {}", watch.token()))?;
    for line in std::io::stdin().lock().lines() {
        line?;
        // One poll of a new future, as in a `select!` that has just been resumed.
        let mut lost = Box::pin(watch.lost());
        let told = futures_util::poll!(&mut lost).is_ready();
        say(if told && !watch.is_held() { "lost" } else { "held" })?;
    }
    Ok(())
}

fn say(word: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{word}")?;
    out.flush()
}
