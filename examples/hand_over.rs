//! Shows a lock that is handed over to another process. The parent detaches it, a child attaches
//! it, and the lock is held all the time.
//!
//! Run it with `cargo run -p redgrid-examples --example hand_over`, for a server at 127.0.0.1:6379
//! or `REDGRID_URL`.

use std::error::Error;
use std::process::Command;
use std::time::Duration;

use redgrid::Grid;
use redgrid::locks::{AttachError, Detached};

const NAME: &str = "redgrid-example:deployment";

/// Runs in the child: attaches the parent's lock, and continues the work.
async fn go_on(grid: &Grid, json: &str) -> Result<(), Box<dyn Error>> {
    let detached: Detached = serde_json::from_str(json)?;
    let guard = grid.lock(NAME).attach(&detached).await?;
    println!("child: attached, token {}, held {}", guard.token(), guard.is_held());
    guard.release().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(url.as_str()).await?;
    if let Ok(json) = std::env::var("REDGRID_EXAMPLE_DETACHED") {
        go_on(&grid, &json).await?;
        return Ok(grid.shutdown(Duration::from_secs(5)).await?);
    }
    let guard = grid.lock(NAME).acquire().await?;
    println!("parent: acquired, token {}", guard.token());
    let detached = guard.detach().await?;
    println!("parent: detached; to be attached within {:?}", detached.left());
    println!("parent: free for others: {}", grid.lock(NAME).try_acquire().await?.is_some());

    let json = serde_json::to_string(&detached)?;
    let child = Command::new(std::env::current_exe()?).env("REDGRID_EXAMPLE_DETACHED", &json).status()?;
    println!("parent: the child ended with {child}");
    // A detached lock can be attached only once.
    match grid.lock(NAME).attach(&detached).await {
        Err(AttachError::Gone { name }) => println!("parent: `{name}` was handed over and is not ours any more"),
        again => println!("parent: {again:?}, and this must not happen"),
    }
    grid.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
