//! Shows a bounded wait and a fixed lease, and how the lock of a dead process ends.
//!
//! Run it with `cargo run -p redgrid-examples --example lock_wait_and_lease`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::error::Error;
use std::time::{Duration, Instant};

use redgrid::Grid;
use redgrid::locks::AcquireError;

const NAME: &str = "redgrid-example:wait-and-lease";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    // Two clients stand for two processes.
    let (one, two) = (Grid::connect(url.as_str()).await?, Grid::connect(url.as_str()).await?);

    // A fixed lease is not renewed. After `forget` the lock is held until its lease ends, as after
    // a crash.
    let guard = one.lock(NAME).acquire().lease(Duration::from_millis(1500)).await?;
    println!("one: holds it with a lease of 1.5 s, and dies");
    guard.forget();

    let begun = Instant::now();
    match two.lock(NAME).acquire().timeout(Duration::from_millis(300)).await {
        Err(AcquireError::TimedOut { waited, .. }) => println!("two: gave up after {waited:?}"),
        Err(error) => return Err(error.into()),
        Ok(_) => println!("two: got it too early: this must not happen"),
    }

    // The waiter tries again when the lease ends. If the lock were released earlier, a message
    // would wake the waiter.
    let guard = two.lock(NAME).acquire().timeout(Duration::from_secs(5)).lease(Duration::from_secs(10)).await?;
    println!("two: got it {:?} after one had died", begun.elapsed());

    // If the work takes longer than expected, the lease can be extended.
    guard.extend(Duration::from_secs(20)).await?;
    println!("two: holds it for at least another {:?}", guard.remaining());
    guard.release().await?;

    // `try_acquire` with a timeout returns `None` after the timeout.
    let held = one.lock(NAME).acquire().await?;
    let none = two.lock(NAME).try_acquire().timeout(Duration::from_millis(100)).await?;
    println!("two: tried for 100 ms: {}", if none.is_none() { "busy" } else { "acquired: this must not happen" });
    held.release().await?;

    one.shutdown(Duration::from_secs(5)).await?;
    two.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
