//! Shows re-entry, which is explicit: by a holder, by a guard, or for a whole call tree.
//!
//! Run it with `cargo run -p redgrid-examples --example reentry`, for a server at 127.0.0.1:6379 or
//! `REDGRID_URL`.

use std::error::Error;
use std::time::Duration;

use redgrid::locks::AcquireError;
use redgrid::{Grid, Holder, Lock, Token};

/// Acquires the lock, and calls another function that acquires the same lock.
async fn transfer(lock: &Lock) -> Result<(), AcquireError> {
    let outer = lock.acquire().await?;
    let inner = audit(lock).await?;
    println!("scope: outer {} and inner {inner} are one hold: {}", outer.token(), outer.token() == inner);
    Ok(())
}

async fn audit(lock: &Lock) -> Result<Token, AcquireError> {
    let guard = lock.acquire().await?;
    Ok(guard.token())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(url).await?;
    let lock = grid.lock("redgrid-example:reentry");

    // 1. By a holder as a value. Clones of it are the same holder, in this task or in another.
    let me = Holder::new();
    let outer = lock.acquire().holder(&me).await?;
    let inner = lock.acquire().holder(&me).await?; // no request to the server
    println!("by holder: two guards of one hold, token {}", inner.token());
    inner.release().await?;
    println!("by holder: still held after the inner release: {}", outer.is_held());

    // 2. From a guard.
    let again = outer.reenter()?;
    outer.release().await?;
    println!("reenter: still held by the last guard: {}", again.is_held());
    again.release().await?;
    println!("reenter: locked after the last release: {}", lock.is_locked().await?);

    // 3. For a whole call tree, without a parameter. Spawned tasks are not part of it.
    Holder::scope(transfer(&lock)).await?;

    // Without any of these, each acquire is by a separate holder: the second one finds the lock
    // busy.
    let first = lock.acquire().await?;
    println!("no holder: the second gets in: {}", lock.try_acquire().await?.is_some());
    first.release().await?;

    // Waiting for a lock that the caller itself holds is an error.
    let refused = Holder::scope(async {
        let _mine = lock.acquire().await?;
        lock.acquire().holder(&Holder::new()).await.map(drop)
    });
    match refused.await {
        Err(AcquireError::WouldDeadlock { name }) => println!("deadlock: refused to wait for `{name}`"),
        other => println!("deadlock: {other:?}: this must not happen"),
    }

    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
