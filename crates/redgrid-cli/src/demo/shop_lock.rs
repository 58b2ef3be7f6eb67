//! The three ways to exclude other workers during an order.

use std::error::Error;
use std::time::Duration;

use redgrid::{Grid, LockGuard};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::keys;
use crate::cli::LockKind;

/// An error for display.
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// How long an order waits for its lock: 20 s. With the maximum of 8,192 tasks before it, each
/// taking 1 ms, an order waits for 8 s.
const WAIT: Duration = Duration::from_secs(20);

/// Lease of the library's lock, renewed after every third of it: 5 s. The locks of a worker that
/// dies are free this much later.
pub(crate) const LEASE: Duration = Duration::from_secs(5);

/// The lease if a worker is to be killed: 3 s. The sale stands still for as long, and even a busy
/// machine renews it in time.
pub(crate) const SHORT_LEASE: Duration = Duration::from_secs(3);

/// Lifetime of the plain lock: 10 s, thousands of times an order.
const PLAIN_LEASE_MS: &str = "10000";

/// Poll interval of the plain lock: 5 ms, a usual compromise between server load and delay.
const PLAIN_POLL: Duration = Duration::from_millis(5);

/// Waits for the lock of `product`.
///
/// # Errors
///
/// The lock was not acquired in time, and nothing is held; otherwise the library's error.
pub(crate) async fn enter(grid: &Grid, kind: LockKind, lease: Duration, product: &str) -> Result<Turn, BoxError> {
    let name = keys::lock(product);
    match kind {
        LockKind::Redgrid => Ok(Turn::Redgrid(grid.lock(name).acquire().timeout(WAIT).auto_renew(lease).await?)),
        LockKind::Setnx => plain(grid, name).await,
        LockKind::None => Ok(Turn::Unlocked),
    }
}

/// The lock of a product.
#[must_use = "`leave` ends the turn"]
pub(crate) enum Turn {
    /// The library's lock.
    Redgrid(LockGuard),
    /// The plain lock with this name and value.
    Plain {
        /// The client.
        grid: Grid,
        /// Its name.
        name: String,
        /// Distinguishes it from the locks of others.
        value: String,
    },
    /// No lock.
    Unlocked,
}

impl Turn {
    /// Runs `work`, and drops it if the lock is lost. The plain lock cannot detect that.
    ///
    /// # Errors
    ///
    /// The lock was lost before the work was done.
    pub(crate) async fn run<F: Future>(&self, work: F) -> Result<F::Output, BoxError> {
        match self {
            Turn::Redgrid(guard) => Ok(guard.run(work).await?),
            Turn::Plain { .. } | Turn::Unlocked => Ok(work.await),
        }
    }

    /// Releases the lock.
    ///
    /// # Errors
    ///
    /// The lock may have ended before, so another worker may have held it.
    pub(crate) async fn leave(self) -> Result<(), BoxError> {
        match self {
            Turn::Redgrid(guard) => Ok(guard.release().await?),
            Turn::Plain { grid, name, value } => leave_plain(&grid, &name, &value).await,
            Turn::Unlocked => Ok(()),
        }
    }
}

async fn plain(grid: &Grid, name: String) -> Result<Turn, BoxError> {
    let value = Uuid::new_v4().to_string();
    let until = Instant::now() + WAIT;
    loop {
        let set = grid.command("SET").key(&name)?.arg(value.clone()).arg("NX").arg("PX").arg(PLAIN_LEASE_MS);
        if set.query::<Option<String>>().await?.is_some() {
            return Ok(Turn::Plain { grid: grid.clone(), name, value });
        }
        if Instant::now() >= until {
            return Err(format!("`{name}` was still held by others after {WAIT:?}").into());
        }
        sleep(PLAIN_POLL).await;
    }
}

/// Deletes the lock if it is ours, by two commands. It may expire and be acquired by another worker
/// between them, which is one reason for the library's lock.
async fn leave_plain(grid: &Grid, name: &str, value: &str) -> Result<(), BoxError> {
    let found: Option<String> = grid.command("GET").key(name)?.idempotent().query().await?;
    if found.as_deref() != Some(value) {
        return Err(format!("`{name}` had run out before it was released").into());
    }
    Ok(grid.command("DEL").key(name)?.query::<()>().await?)
}
