//! Shows a script that moves money, a batch of commands in one round trip, and an atomic batch.
//!
//! Run it with `cargo run -p redgrid-examples --example transfer_batch`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;
use redgrid::script::{Call, Script};

/// Checks first and writes last: if a script fails, its earlier writes remain.
const TRANSFER: &str = "
local left = tonumber(redis.call('GET', KEYS[1]) or 0)
if left < tonumber(ARGV[1]) then return redis.error_reply('POOR there are only ' .. left) end
redis.call('DECRBY', KEYS[1], ARGV[1])
return redis.call('INCRBY', KEYS[2], ARGV[1])";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    let account = |owner: &str| format!("{{redgrid-example:bank}}:{owner}");

    // Ten commands, one round trip.
    let mut batch = grid.batch();
    for n in 0..10 {
        batch.push::<()>(Call::command("SET").key(account(&n.to_string())).int(100));
    }
    batch.send().await?.check()?;

    let transfer = Script::named("transfer", TRANSFER);
    let pay = |amount| transfer.call().key(account("1")).key(account("2")).int(amount);
    println!("2 has {}", pay(30).query::<i64>(grid.client()).await?);
    if let Err(error) = pay(1000).query::<i64>(grid.client()).await {
        println!("{error}"); // the message contains the script's own
    }

    // No client sees one change without the other.
    let mut batch = grid.batch().atomic();
    let one = batch.push::<i64>(Call::command("DECRBY").key(account("3")).int(5));
    let other = batch.push::<i64>(Call::command("INCRBY").key(account("4")).int(5));
    let results = batch.send().await?;
    println!("3 has {}, 4 has {}", results.get(&one)?, results.get(&other)?);

    let all = (0..10).map(|n| account(&n.to_string()));
    println!("{} accounts closed", Call::command("DEL").keys(all).query::<i64>(grid.client()).await?);
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
