//! The end of a client, and who is told of it.

use std::time::Duration;

use super::{Client, Inner, WeakClient};
use crate::clock::Instant;
use crate::connection::core::{Closing, FAREWELL};
use crate::error::ServerError;

impl Client {
    /// Completes when the client begins to shut down: for those who wait on something else than the client.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn shutting_down(&self) {
        self.closing().await;
    }

    /// Whether the client has begun to shut down, and refuses requests.
    pub fn is_shut_down(&self) -> bool {
        self.0.table.is_closed() || *self.0.closing.borrow() != Closing::No
    }

    /// The error of a call to a client that has ended: [`ServerError::ShuttingDown`], or
    /// [`ServerError::NotSent`] where the runtime of the client has ended instead. For errors of
    /// calls that found [`Client::is_shut_down`] to be true.
    pub fn ended(&self) -> ServerError {
        self.0.core.ended.why()
    }

    /// Completes when the client is being shut down.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn closing(&self) {
        // It can not have gone: `self` has it.
        let _ = self.0.closing.subscribe().wait_for(|closing| *closing != Closing::No).await;
    }

    /// Refuses new requests, wakes those who wait, gives back all holds in bulk, and closes the connections.
    ///
    /// # Errors
    ///
    /// [`NotClosed`] when `within` was over before everything was given back; leases end the rest.
    ///
    /// # Cancel safety
    ///
    /// The shutdown goes on when this is dropped.
    pub async fn shutdown(&self, within: Duration) -> Result<(), NotClosed> {
        let by = self.0.core.clock.now() + within;
        self.0.close_by(by);
        let mut closed = self.0.closed.clone();
        // The task always ends; that it is gone means that all is closed.
        match closed.wait_for(|closed| *closed).await {
            Ok(_) => Ok(()),
            Err(_) => Err(NotClosed { within }),
        }
    }
}

impl WeakClient {
    /// Completes when the client is being shut down, or has gone.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    pub async fn closing(&self) {
        let closing = self.0.upgrade().map(|inner| inner.closing.subscribe());
        if let Some(mut closing) = closing {
            // Without a sender the client has gone.
            let _ = closing.wait_for(|closing| *closing != Closing::No).await;
        }
    }
}

impl Inner {
    /// Begins to close, unless that has begun.
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

/// The most names of holds in a warning.
const MOST_NAMED: usize = 10;

impl Inner {
    /// Warns of holds that are still to be given back when the last handle is dropped without a
    /// shutdown: nobody waits for that, and a process that ends meanwhile leaves them to their
    /// leases.
    fn warn_of_open_holds(&self) {
        let mut names = self.table.held_names();
        names.extend(self.pools.held_names());
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

/// Not everything was given back in time.
#[derive(Debug, Clone, thiserror::Error)]
#[error("not everything was given back within {within:?}; leases end the rest")]
pub struct NotClosed {
    /// How long was waited.
    pub within: Duration,
}
