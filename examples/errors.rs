//! Shows the common errors of an acquire, and what each error implies for the state of the lock.
//!
//! Run it with `cargo run -p redgrid-examples --example errors`, for a server at 127.0.0.1:6379 or
//! `REDGRID_URL`.

use std::error::Error;
use std::time::Duration;

use redgrid::locks::AcquireError;
use redgrid::{Config, Failure, Grid, LockGuard};

/// Returns advice for the caller.
fn advice(outcome: &Result<LockGuard, AcquireError>) -> &'static str {
    match outcome {
        Ok(_) => "held: work, then release",
        Err(AcquireError::TimedOut { .. }) => "others held it all the time; nothing is held; try later or give up",
        Err(AcquireError::Failed(Failure::Unavailable { .. })) => {
            "no server was reached in time; nothing is held; try later"
        }
        Err(AcquireError::Failed(Failure::Refused { .. })) => "the server refused; nothing is held; remove the cause",
        Err(AcquireError::Failed(Failure::OutcomeUnknown { .. })) => {
            "no reply; what may be held is being released; do not work; try later"
        }
        Err(AcquireError::NotDurable { .. }) => {
            "granted, but too few replicas have it; it was released; check the replicas"
        }
        Err(AcquireError::Lost { .. }) => "this holder lost it; end the outer work first",
        Err(AcquireError::WouldDeadlock { .. }) => "the caller holds it itself; pass its holder",
        Err(AcquireError::Failed(Failure::ShuttingDown { .. })) => "this client is closing; nothing is held; end",
        Err(AcquireError::Failed(Failure::InvalidName(_) | Failure::InvalidArgument { .. })) => {
            "a mistake in the program"
        }
        Err(_) => "a newer variant",
    }
}

fn show(what: &str, outcome: Result<LockGuard, AcquireError>) {
    let said = advice(&outcome);
    match outcome {
        Ok(_) => println!("{what}: acquired\n    → {said}"),
        // The message contains the cause.
        Err(error) => println!("{what}: {error}\n    → {said}"),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDGRID_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let grid = Grid::connect(url).await?;
    let lock = grid.lock("redgrid-example:errors");
    show("free", lock.acquire().await);

    let held = lock.acquire().await?;
    show("held by another", lock.acquire().timeout(Duration::from_millis(200)).await);
    held.release().await?;

    // The key with the lock's name has another type.
    let taken = "redgrid-example:errors:string";
    grid.command("SET").key(taken)?.arg("not a lock").arg("PX").arg("10000").query::<()>().await?;
    show("wrong type", grid.lock(taken).acquire().await);
    grid.command("DEL").key(taken)?.query::<()>().await?;

    show("bad name", grid.lock("half{a tag").acquire().await);
    show("bad lease", lock.acquire().lease(Duration::from_millis(5)).await);

    // No server listens on this port. The client gives up after response_timeout × (retries + 1) =
    // 600 ms.
    let nowhere = Config::single("127.0.0.1:1")?.response_timeout(Duration::from_millis(300)).retries(1);
    let lonely = Grid::connect(nowhere).await?;
    show("no server", lonely.lock("any").acquire().await);

    grid.shutdown(Duration::from_secs(5)).await?;
    show("after shutdown", lock.acquire().await);
    Ok(())
}
