//! Shutdown of a client and the notification of it.

use std::sync::Arc;
use std::time::Duration;

use super::{Client, Inner, WeakClient};
use crate::connection::driver::FAREWELL;

impl Client {
    /// Returns whether the client has begun to shut down. It then rejects new requests.
    pub fn is_shut_down(&self) -> bool {
        self.0.table.is_closed() || self.0.core.life.closes_by().is_some()
    }

    /// Completes when the client begins to shut down. For tasks that wait on something other than
    /// the client.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn closing(&self) {
        self.0.core.life.closing().await;
    }

    /// Shuts the client down.
    ///
    /// New requests are rejected, waiters are woken, all holds are released in bulk, and the
    /// connections are closed.
    ///
    /// # Errors
    ///
    /// [`NotClosed`] if `within` passed before everything was released; the remaining holds end
    /// with their leases.
    ///
    /// # Cancel safety
    ///
    /// The shutdown continues if this future is dropped.
    pub async fn shutdown(&self, within: Duration) -> Result<(), NotClosed> {
        let core = &self.0.core;
        core.life.close_by(core.clock.now() + within);
        if core.life.finished().await { Ok(()) } else { Err(NotClosed { within }) }
    }
}

impl WeakClient {
    /// Completes when the client begins to shut down, or has been dropped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn closing(&self) {
        let core = self.0.upgrade().map(|inner| Arc::clone(&inner.core));
        if let Some(core) = core {
            core.life.closing().await;
        }
    }
}

/// The maximum number of hold names in a warning.
const MOST_NAMED: usize = 10;

impl Inner {
    /// Warns about holds that are still held when the last handle is dropped without a shutdown.
    ///
    /// Their release is not awaited. If the process ends before it, they end with their leases.
    fn warn_of_open_holds(&self) {
        let mut names = self.table.held_names();
        names.extend(self.semaphores.held_names());
        if names.is_empty() || self.core.life.closes_by().is_some() {
            return;
        }
        let count = names.len();
        names.truncate(MOST_NAMED);
        let names = names.join(", ");
        tracing::warn!(
            count,
            names,
            "the client was dropped while it had holds; `shutdown` would wait for their release"
        );
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.warn_of_open_holds();
        self.core.life.close_by(self.core.clock.now() + FAREWELL);
    }
}

/// Not everything was released in time.
#[derive(Debug, Clone, thiserror::Error)]
#[error("not everything was given back within {within:?}; leases end the rest")]
#[non_exhaustive]
pub struct NotClosed {
    /// How long the shutdown has waited.
    pub within: Duration,
}
