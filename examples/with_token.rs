//! Shows the fencing token: a store rejects a writer whose lock was granted to another holder
//! meanwhile.
//!
//! A lease cannot prevent a paused process from writing late. The store can: it keeps the highest
//! token that it has received, and rejects lower ones.
//!
//! Run it with `cargo run -p redgrid-examples --example with_token`, for a server at 127.0.0.1:6379
//! or `REDGRID_URL`.

use std::error::Error;
use std::time::Duration;

use redgrid::client::Script;
use redgrid::locks::LockLost;
use redgrid::{Client, Grid, Name, ServerError, Token};

/// Writes a value, unless a writer with a higher token wrote before. The script is not idempotent:
/// a late retransmission could undo a later write of the same holder.
static FENCED_SET: Script<1> = Script::new(
    "example/fenced-set",
    "if tonumber(ARGV[1]) < tonumber(redis.call('HGET', KEYS[1], 'fence') or '0') then return 0 end
     redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
     return 1",
);

const LOCK: &str = "redgrid-example:ledger:lock";
const DATA: &str = "redgrid-example:ledger"; // the lock's name is a key of its own

/// Returns true if written, false if a newer holder wrote before.
async fn write(client: &Client, key: &Name, token: Token, value: &str) -> Result<bool, ServerError> {
    client.run(FENCED_SET.with([client.key(key)]).arg(token.to_string()).arg(value.to_owned())).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let (one, two) = (Grid::connect(url.as_str()).await?, Grid::connect(url.as_str()).await?);
    let key = Name::new(DATA)?;

    // In one call: acquire, work with the token, release. The work is dropped if the lock is lost.
    let written = one.lock(LOCK).with(|token| write(one.client(), &key, token, "by with")).await??;
    println!("with: written {written}");

    // One holder is paused for longer than its lease.
    let stale = one.lock(LOCK).acquire().lease(Duration::from_millis(200)).await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    // Another one acquires the lock, and writes.
    let fresh = two.lock(LOCK).acquire().await?;
    let written = fresh.run(write(two.client(), &key, fresh.token(), "by two")).await??;
    println!("two: token {}, written {written}", fresh.token());
    // The first holder writes without checking its lock: the store rejects the write.
    let written = write(one.client(), &key, stale.token(), "by one, too late").await?;
    println!("one: token {}, written {written}", stale.token());
    // With `run`, the write is not sent, because the lock is lost.
    match stale.run(write(one.client(), &key, stale.token(), "by one, too late")).await {
        Err(LockLost { reason, .. }) => println!("one: {reason}"),
        Ok(_) => println!("one: worked without the lock: this must not happen"),
    }

    let value: Option<String> = one.command("HGET").key(DATA)?.arg("value").query().await?;
    println!("the ledger says: {}", value.unwrap_or_default());
    one.command("DEL").key(DATA)?.query::<()>().await?;
    fresh.release().await?;
    drop(stale);
    one.shutdown(Duration::from_secs(5)).await?;
    two.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
