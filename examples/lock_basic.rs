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
    // Optional: calls wait for the connection by themselves. This reports a problem early.
    grid.wait_ready(Duration::from_secs(5)).await?;

    let lock = grid.lock("redgrid-example:orders:42");
    let guard = lock.acquire().await?;
    println!("acquired, token {}, valid for another {:?}", guard.token(), guard.remaining());

    // A second request is excluded, even in the same task. A busy lock is no error.
    match lock.try_acquire().await? {
        Some(_) => println!("acquired twice: this must not happen"),
        None => println!("busy, as it should be"),
    }

    if let Some(state) = lock.inspect().await? {
        println!("the server says: held by {:?}, {:?} left", state.holders, state.remaining);
    }

    // `release` waits for the server's answer, and reports if the lock had been lost. Dropping the
    // guard would release it in the background.
    guard.release().await?;
    println!("released; locked now: {}", lock.is_locked().await?);

    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
