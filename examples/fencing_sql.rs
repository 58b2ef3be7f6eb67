//! Shows fencing in SQL: the row stores the highest token, and the write of a stale holder changes
//! nothing.
//!
//! The lock is acquired before the transaction begins, and released after the commit.
//!
//! Run it with `cargo run -p redgrid-examples --features sql --example fencing_sql`, for a server
//! at 127.0.0.1:6379 or `REDGRID_URL`.

use std::error::Error;
use std::time::Duration;

use redgrid::{Grid, Token};
use rusqlite::{Connection, params};

/// Returns true if written; false if a newer holder wrote before, or the row does not exist.
fn set_balance(db: &mut Connection, account: i64, cents: i64, token: Token) -> Result<bool, Box<dyn Error>> {
    let token = i64::try_from(token.get())?;
    let transaction = db.transaction()?;
    let changed = transaction.execute(
        "UPDATE account SET cents = ?1, fence = ?2 WHERE id = ?3 AND fence <= ?2",
        params![cents, token, account],
    )?;
    transaction.commit()?;
    Ok(changed == 1)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let (one, two) = (Grid::connect(url.as_str()).await?, Grid::connect(url.as_str()).await?);
    let mut db = Connection::open_in_memory()?;
    db.execute_batch(
        "CREATE TABLE account (id INTEGER PRIMARY KEY, cents INTEGER NOT NULL, fence INTEGER NOT NULL DEFAULT 0);
         INSERT INTO account (id, cents) VALUES (7, 0);",
    )?;

    // One holder is paused for longer than its lease. Another one acquires the lock meanwhile.
    let stale = one.lock("redgrid-example:account:7").acquire().lease(Duration::from_millis(200)).await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let fresh = two.lock("redgrid-example:account:7").acquire().await?;

    println!("two writes 500: {}", set_balance(&mut db, 7, 500, fresh.token())?);
    println!("two writes 600: {}", set_balance(&mut db, 7, 600, fresh.token())?);
    println!("one writes 100: {}", set_balance(&mut db, 7, 100, stale.token())?);
    let cents: i64 = db.query_row("SELECT cents FROM account WHERE id = 7", [], |row| row.get(0))?;
    println!("the account has {cents}");

    fresh.release().await?;
    drop(stale);
    one.shutdown(Duration::from_secs(5)).await?;
    two.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
