//! Shows several locks acquired as one. Transfers that name the same accounts in opposite orders do
//! not deadlock.
//!
//! Run it with `cargo run -p redgrid-examples --example multi_lock`, for a server at 127.0.0.1:6379
//! or `REDGRID_URL`.

use std::error::Error;
use std::time::Duration;

use redgrid::Grid;

const ACCOUNTS: [&str; 3] = ["redgrid-example:ann", "redgrid-example:bob", "redgrid-example:eve"];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let (one, two) = (Grid::connect(url.as_str()).await?, Grid::connect(url.as_str()).await?);
    for account in ACCOUNTS {
        one.command("SET").key(balance(account))?.arg("100").query::<()>().await?;
    }

    // Each grid represents a process. The two processes name the accounts in opposite orders.
    let there = tokio::spawn(transfers(one.clone(), [0, 1, 2]));
    let back = tokio::spawn(transfers(two.clone(), [2, 1, 0]));
    for done in [there.await?, back.await?] {
        done?;
    }

    let mut sum = 0;
    for account in ACCOUNTS {
        let left = read(&one, account).await?;
        println!("{account} has {left}");
        sum += left;
        one.command("DEL").key(balance(account))?.query::<()>().await?;
    }
    println!("together {sum}: {}", if sum == 300 { "nothing was lost" } else { "this must not happen" });

    one.shutdown(Duration::from_secs(5)).await?;
    two.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

/// Moves 1 from the first account to each of the others, a hundred times.
async fn transfers(grid: Grid, order: [usize; 3]) -> Result<(), Box<dyn Error + Send + Sync>> {
    let accounts = order.map(|at| ACCOUNTS[at]);
    for _ in 0..100 {
        let guard = grid.multi_lock(accounts).acquire().timeout(Duration::from_secs(20)).await?;
        // If one of the three locks is lost, the transfer is dropped immediately.
        guard.run(async { transfer(&grid, accounts).await }).await??;
        guard.release().await?;
    }
    Ok(())
}

async fn transfer(grid: &Grid, [from, to, also]: [&str; 3]) -> Result<(), Box<dyn Error + Send + Sync>> {
    write(grid, from, read(grid, from).await? - 2).await?;
    write(grid, to, read(grid, to).await? + 1).await?;
    write(grid, also, read(grid, also).await? + 1).await
}

async fn read(grid: &Grid, account: &str) -> Result<i64, Box<dyn Error + Send + Sync>> {
    Ok(grid.command("GET").key(balance(account))?.query().await?)
}

async fn write(grid: &Grid, account: &str, amount: i64) -> Result<(), Box<dyn Error + Send + Sync>> {
    Ok(grid.command("SET").key(balance(account))?.arg(amount.to_string()).query().await?)
}

fn balance(account: &str) -> String {
    format!("{account}:balance")
}
