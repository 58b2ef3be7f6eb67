//! A process that takes part in a synchronizer, for tests that kill it.
//!
//! `party URL LEASE_MS KIND NAME PARTIES`, with a KIND of `barrier`, `enter`, `inside`, `phaser`,
//! `notify` or `notified`: prints `there` once it takes part, as far as the process can determine.
//! It takes part until it is killed or its standard input ends. At a barrier it prints `through`
//! after it.

use std::io::Write;
use std::time::Duration;

use redgrid_barrier::{Barrier, Condition, DoubleBarrier, Notify, Phaser};
use redgrid_core::{Client, Config};
use redgrid_locks::Lock;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn run() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(2).collect();
    let [url, lease, kind, name, parties] = &args[..] else {
        return Err("party URL LEASE_MS KIND NAME PARTIES".into());
    };
    let config = Config::from_url(url)?.watchdog_lease(Duration::from_millis(lease.parse()?));
    let client = Client::connect(config).await?;
    let parties = parties.parse()?;
    let _taking_part: Box<dyn Send> = match kind.as_str() {
        "barrier" => {
            let barrier = Barrier::new(&client, name, parties);
            Box::new(tokio::spawn(async move {
                let through = barrier.wait().await.is_ok();
                say(if through { "through" } else { "not through" })
            }))
        }
        "enter" => Box::new(tokio::spawn(DoubleBarrier::new(&client, name, parties).enter().into_future())),
        "inside" => Box::new(DoubleBarrier::new(&client, name, parties).enter().await?),
        "phaser" => Box::new(Phaser::new(&client, name).register().await?),
        "notify" => Box::new(tokio::spawn(Notify::new(&client, name).notified().into_future())),
        // Notified, but blocked by a lock that others hold.
        "notified" => {
            let guard = Lock::new(&client, name).acquire().await?;
            let (client, name) = (client.clone(), name.clone());
            Box::new(tokio::spawn(async move { Condition::new(&client, &name).wait(guard).await }))
        }
        other => return Err(format!("what is {other}?").into()),
    };
    say("there")?;
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}

fn say(word: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{word}")?;
    out.flush()
}
