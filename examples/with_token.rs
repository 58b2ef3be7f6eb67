//! The fencing token: a store that refuses a writer whose lock has passed on.
//!
//! No lease can stop a process that was paused from writing late. The store can: it remembers the highest token it has
//! seen and refuses lower ones.
//!
//! `REDGRID_URL=redis://127.0.0.1:6379 cargo run -p redgrid-examples --example with_token`

use std::error::Error;
use std::time::Duration;

use redgrid::client::Script;
use redgrid::locks::LockLost;
use redgrid::{Client, Grid, Name, ServerError, Token};

/// Writes a value unless a higher token has written before. Not idempotent: a late copy could undo a later write of the
/// same holder.
static FENCED_SET: Script<1> = Script::new(
    "example/fenced-set",
    "if tonumber(ARGV[1]) < tonumber(redis.call('HGET', KEYS[1], 'fence') or '0') then return 0 end
     redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
     return 1",
);

const LOCK: &str = "redgrid-example:ledger:lock";
const DATA: &str = "redgrid-example:ledger"; // another key than the lock's: that one belongs to the lock

/// True if written, false if a newer holder had written before.
async fn write(client: &Client, key: &Name, token: Token, value: &str) -> Result<bool, ServerError> {
    client.run(FENCED_SET.with([client.key(key)]).arg(token.to_string()).arg(value.to_owned())).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let (one, two) = (Grid::connect(url.as_str()).await?, Grid::connect(url.as_str()).await?);
    let key = Name::new(DATA)?;

    // The short way: acquire, work with the token, release. The work is dropped when the lock is lost.
    let written = one.lock(LOCK).with(|token| write(one.client(), &key, token, "by with")).await??;
    println!("with: written {written}");

    // A holder that is paused for longer than its lease …
    let stale = one.lock(LOCK).acquire().lease(Duration::from_millis(200)).await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    // … while somebody else enters and writes …
    let fresh = two.lock(LOCK).acquire().await?;
    let written = fresh.run(write(two.client(), &key, fresh.token(), "by two")).await??;
    println!("two: token {}, written {written}", fresh.token());
    // … and then writes without looking: refused by the store.
    let written = write(one.client(), &key, stale.token(), "by one, too late").await?;
    println!("one: token {}, written {written}", stale.token());
    // With `run` it does not even come so far.
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
