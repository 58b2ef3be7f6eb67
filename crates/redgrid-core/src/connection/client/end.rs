//! Shutdown of a client and the notification of it.

use std::time::Duration;

use super::{Client, Inner, WeakClient};
use crate::clock::Instant;
use crate::connection::core::{Closing, FAREWELL};

impl Client {
    /// Returns whether the client has begun to shut down. It then rejects new requests.
    pub fn is_shut_down(&self) -> bool {
        self.0.table.is_closed() || *self.0.closing.borrow() != Closing::No
    }

    /// Completes when the client begins to shut down. For tasks that wait on something other than
    /// the client.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn closing(&self) {
        // Cannot fail: `self` owns the sender.
        let _ = self.0.closing.subscribe().wait_for(|closing| *closing != Closing::No).await;
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
        let by = self.0.core.clock.now() + within;
        self.0.close_by(by);
        let mut closed = self.0.closed.clone();
        // The task always ends. A dropped sender means that everything is closed.
        match closed.wait_for(|closed| *closed).await {
            Ok(_) => Ok(()),
            Err(_) => Err(NotClosed { within }),
        }
    }
}

impl WeakClient {
    /// Completes when the client begins to shut down, or has been dropped.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn closing(&self) {
        let closing = self.0.upgrade().map(|inner| inner.closing.subscribe());
        if let Some(mut closing) = closing {
            // A dropped sender means that the client has been dropped.
            let _ = closing.wait_for(|closing| *closing != Closing::No).await;
        }
    }
}

impl Inner {
    /// Begins to close, unless closing has already begun.
    fn close_by(&self, by: Instant) {
        self.core.ended.ask();
        self.closing.send_if_modified(|closing| {
            let first = *closing == Closing::No;
            if first {
                *closing = Closing::By(by);
            }
            first
        });
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
        if names.is_empty() || *self.closing.borrow() != Closing::No {
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
        let by = self.core.clock.now() + FAREWELL;
        self.close_by(by);
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
