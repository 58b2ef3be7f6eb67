//! Shows a fenced lock. Its tokens are counted in a key that survives restarts and that Redisson's
//! fenced locks share.
//!
//! Run it with `cargo run -p redgrid-examples --example fenced_lock`, for a server at
//! 127.0.0.1:6379 or `REDGRID_URL`.

use std::error::Error;
use std::time::Duration;

use redgrid::locks::AcquireError;
use redgrid::{Grid, Holder};

const NAME: &str = "redgrid-example:ledger";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let (one, two) = (Grid::connect(url.as_str()).await?, Grid::connect(url.as_str()).await?);

    // The server gives each holder a token. Writes carry the token, and the store rejects lower
    // ones.
    let guard = one.fenced_lock(NAME).acquire().await?;
    let first = guard.token();
    println!("one: holds it with token {first}");
    guard.release().await?;
    let guard = two.fenced_lock(NAME).acquire().await?;
    println!("two: holds it with token {}, which is higher: {}", guard.token(), guard.token() > first);

    // Any client can read the last token. A Java service gets the same from `getToken()`.
    println!("one: reads that the last token is {:?}", one.fenced_lock(NAME).token().await?.map(u64::from));
    guard.release().await?;

    // Re-entry returns the same token, so several writes could share it; this lock rejects
    // re-entry.
    let me = Holder::new();
    let lock = one.fenced_lock(NAME).non_reentrant();
    let guard = lock.acquire().holder(&me).await?;
    match lock.acquire().holder(&me).await {
        Err(AcquireError::AlreadyHeld { name }) => println!("one: is refused, as it holds {name} already"),
        other => println!("one: {other:?}: this must not happen"),
    }
    guard.release().await?;

    one.command("DEL").key(NAME)?.key(format!("redisson_lock_token:{{{NAME}}}"))?.query::<()>().await?;
    one.shutdown(Duration::from_secs(5)).await?;
    two.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
