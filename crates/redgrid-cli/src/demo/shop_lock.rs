//! The three ways to keep others away from a product during an order.

use std::error::Error;
use std::time::Duration;

use redgrid::{Grid, LockGuard};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::keys;
use crate::cli::LockKind;

/// What went wrong, for a person to read.
pub(crate) type Trouble = Box<dyn Error + Send + Sync>;

/// How long an order waits for its lock: 20 s. With as many tasks as may be asked for in front of it, 8,192, an order of 1 ms
/// waits for 8 s.
const WAIT: Duration = Duration::from_secs(20);

/// Lease of the library's lock, renewed every third of it: 5 s. The locks of a worker that dies are free this much later.
pub(crate) const LEASE: Duration = Duration::from_secs(5);

/// The same where a worker is to be killed: 3 s. The sale stands still for as long, and a machine that is busy with other things
/// still renews in time.
pub(crate) const SHORT_LEASE: Duration = Duration::from_secs(3);

/// Lifetime of the plain lock: 10 s, thousands of times an order.
const PLAIN_LEASE_MS: &str = "10000";

/// How often the plain lock is tried: every 5 ms, a usual choice, between a busy server and a late waiter.
const PLAIN_POLL: Duration = Duration::from_millis(5);

/// Waits for the turn to order `product`.
///
/// # Errors
///
/// Nothing is held when it did not come in time; otherwise as the library says.
pub(crate) async fn enter(grid: &Grid, kind: LockKind, lease: Duration, product: &str) -> Result<Turn, Trouble> {
    let name = keys::lock(product);
    match kind {
        LockKind::Redgrid => Ok(Turn::Redgrid(grid.lock(name).acquire().timeout(WAIT).auto_renew(lease).await?)),
        LockKind::Setnx => plain(grid, name).await,
        LockKind::None => Ok(Turn::Unlocked),
    }
}

/// The turn to order a product.
#[must_use = "`leave` ends the turn"]
pub(crate) enum Turn {
    /// Under the library's lock.
    Redgrid(LockGuard),
    /// Under the plain lock with this name and value.
    Plain {
        /// Where the lock is.
        grid: Grid,
        /// Its name.
        name: String,
        /// What tells ours from others'.
        value: String,
    },
    /// Under none.
    Unlocked,
}

impl Turn {
    /// Does `work`, and drops it when the lock is lost. The plain lock can not tell.
    ///
    /// # Errors
    ///
    /// The lock was lost before the work was done.
    pub(crate) async fn run<F: Future>(&self, work: F) -> Result<F::Output, Trouble> {
        match self {
            Turn::Redgrid(guard) => Ok(guard.run(work).await?),
            Turn::Plain { .. } | Turn::Unlocked => Ok(work.await),
        }
    }

    /// Lets the next one in.
    ///
    /// # Errors
    ///
    /// The lock may have ended before: somebody else may have been in.
    pub(crate) async fn leave(self) -> Result<(), Trouble> {
        match self {
            Turn::Redgrid(guard) => Ok(guard.release().await?),
            Turn::Plain { grid, name, value } => leave_plain(&grid, &name, &value).await,
            Turn::Unlocked => Ok(()),
        }
    }
}

async fn plain(grid: &Grid, name: String) -> Result<Turn, Trouble> {
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

/// Deletes the lock if it is ours, in two commands: it may run out and be taken between them, which is one of the reasons
/// for the other lock.
async fn leave_plain(grid: &Grid, name: &str, value: &str) -> Result<(), Trouble> {
    let found: Option<String> = grid.command("GET").key(name)?.idempotent().query().await?;
    if found.as_deref() != Some(value) {
        return Err(format!("`{name}` had run out before it was released").into());
    }
    Ok(grid.command("DEL").key(name)?.query::<()>().await?)
}
