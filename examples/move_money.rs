//! Shows a transaction: money moves between accounts and into a log as a whole, or not at all.
//!
//! Run it with `cargo run -p redgrid-examples --example move_money`, for a server at 127.0.0.1:6379
//! or `REDGRID_URL`.

use std::time::Duration;

use redgrid::Grid;
use redgrid::transaction::TransactionError;

#[derive(Debug)]
enum Refused {
    TooLittle(i64),
    Transaction(TransactionError),
}

impl From<TransactionError> for Refused {
    fn from(error: TransactionError) -> Self {
        Refused::Transaction(error)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(&*url).await?;
    // In a cluster the objects of a transaction share a hash tag.
    let (accounts, log) = ("redgrid-example:{bank}:accounts", "redgrid-example:{bank}:log");
    grid.map::<String, i64>(accounts).set_many([("anna", &100), ("ben", &0)]).await?;

    for amount in [70, 70] {
        let moved = grid.transaction().serializable().retries(20).run(|tx| async move {
            let accounts = tx.map::<String, i64>(accounts);
            let has = accounts.get("anna").await?.unwrap_or(0);
            if has < amount {
                return Err(Refused::TooLittle(has));
            }
            accounts.set("anna", &(has - amount))?;
            let other = accounts.get("ben").await?.unwrap_or(0);
            accounts.set("ben", &(other + amount))?;
            tx.set::<String>(log).insert(&format!("anna to ben: {amount}")).await?;
            Ok(has - amount)
        });
        match moved.await {
            Ok(left) => println!("moved {amount}, and {left} are left"),
            Err(Refused::TooLittle(has)) => println!("there are only {has}: nothing is moved"),
            Err(Refused::Transaction(error)) => return Err(error.into()),
        }
    }

    grid.object(accounts).delete().await?;
    grid.object(log).delete().await?;
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
