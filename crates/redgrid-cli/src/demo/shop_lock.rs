//! The three ways to exclude other workers during an order, one of which is no lock.

use std::error::Error;
use std::time::Duration;

use redgrid::{Grid, LockGuard};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::keys;
use crate::cli::LockKind;

/// An error for display.
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// How long an order waits for its lock: 20 s. With the maximum of 8,192 tasks queued before it,
/// each taking 1 ms, it waits for 8 s.
const WAIT: Duration = Duration::from_secs(20);

/// Lease of the library's lock: 5 s, renewed after every third of it. The locks of a worker that
/// dies become free after this time at most.
pub(crate) const LEASE: Duration = Duration::from_secs(5);

/// The lease of the library's lock if a worker is to be killed: 3 s. The sale pauses until it ends;
/// and even a busy machine renews it in time.
pub(crate) const SHORT_LEASE: Duration = Duration::from_secs(3);

/// Lease of the plain lock: 10 s, thousands of times the duration of an order.
const PLAIN_LEASE_MS: &str = "10000";

/// Poll interval of the plain lock: 5 ms, a usual compromise between server load and delay.
const PLAIN_POLL: Duration = Duration::from_millis(5);

/// Waits for the lock of `product`.
///
/// # Errors
///
/// The lock was not acquired in time, or the library returned an error; the lock is not held.
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
        /// The value that distinguishes this owner's lock from those of other workers.
        value: String,
    },
    /// No lock.
    Unlocked,
}

impl Turn {
    /// Runs `work`, and drops it if the lock is lost. The loss of a plain lock is not detected.
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
    /// The lease may have ended before the release, so that another worker held the lock meanwhile.
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

/// Deletes the lock if its value is ours, by two commands. Between them the lock may expire and be
/// acquired by another worker. The library's lock avoids this defect.
async fn leave_plain(grid: &Grid, name: &str, value: &str) -> Result<(), BoxError> {
    let found: Option<String> = grid.command("GET").key(name)?.idempotent().query().await?;
    if found.as_deref() != Some(value) {
        return Err(format!("`{name}` had run out before it was released").into());
    }
    Ok(grid.command("DEL").key(name)?.query::<()>().await?)
}
