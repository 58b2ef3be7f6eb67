//! Shows acquire, work and release, and `try_acquire`, which returns `None` instead of waiting.
//!
//! Run it with `cargo run -p redgrid-examples --example lock_basic`, for a server at 127.0.0.1:6379
//! or `REDGRID_URL`.

use std::error::Error;
use std::time::Duration;

use redgrid::Grid;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(url).await?;
    // This call is optional: it reports a connection problem early. Requests wait for the
    // connection by themselves.
    grid.wait_ready(Duration::from_secs(5)).await?;

    let lock = grid.lock("redgrid-example:orders:42");
    let guard = lock.acquire().await?;
    println!("acquired, token {}, valid for another {:?}", guard.token(), guard.remaining());

    // A second acquire is excluded, even in the same task. A busy lock is not an error.
    match lock.try_acquire().await? {
        Some(_) => println!("acquired twice: this must not happen"),
        None => println!("busy, as it should be"),
    }

    if let Some(state) = lock.inspect().await? {
        println!("the server says: held by {:?}, {:?} left", state.holders, state.remaining);
    }

    // `release` waits for the server's reply, and reports if the lock was lost before. Dropping the
    // guard instead would release the lock in the background.
    guard.release().await?;
    println!("released; locked now: {}", lock.is_locked().await?);

    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
