//! The life of a client. At first the client is open, then it is closing until a deadline, then it
//! is over.
//!
//! A client is over after a shutdown, or once the runtime of its tasks has ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::{Client, Inner, WeakClient};
use crate::clock::Instant;
use crate::connection::driver::FAREWELL;
use crate::error::ServerError;

/// The error message when the tasks of a client have ended without a shutdown.
const RUNTIME_ENDED: &str = "the Tokio runtime in which the client was created has ended, and its connections with it; \
                             create a client in the runtime that uses it";

/// The state of a client's life, which tasks can watch.
pub struct Lifecycle(watch::Sender<Life>);

#[derive(Debug, Default)]
pub(in crate::connection) struct Life {
    /// Whether a shutdown was requested, or the last handle was dropped.
    is_requested: bool,
    /// When the shutdown stops waiting for releases; `None` while the client is open.
    closes_by: Option<Instant>,
    /// Whether the shutdown has begun. If so, new requests are rejected.
    pub(in crate::connection) is_closed: bool,
    /// Whether the client has ended. It then sends no more requests.
    pub(in crate::connection) is_over: bool,
    /// Whether everything was released in time; known when the shutdown has ended.
    pub(in crate::connection) is_clean: Option<bool>,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Lifecycle(watch::Sender::new(Life::default()))
    }
}

impl Lifecycle {
    pub(crate) fn close_by(&self, by: Instant) {
        self.0.send_modify(|life| {
            life.is_requested = true;
            life.closes_by.get_or_insert(by);
        });
    }

    pub(in crate::connection) fn update(&self, change: impl FnOnce(&mut Life)) {
        self.0.send_modify(change);
    }

    /// Records that the runtime of the client's tasks has ended. Returns false if the shutdown had
    /// already ended.
    pub(in crate::connection) fn abandon(&self, now: Instant) -> bool {
        self.0.send_if_modified(|life| {
            let is_first = life.is_clean.is_none();
            if is_first {
                (life.is_closed, life.is_over, life.is_clean) = (true, true, Some(false));
                life.closes_by.get_or_insert(now);
            }
            is_first
        })
    }

    /// Returns the time at which the shutdown stops waiting for releases; `None` while the client
    /// is open.
    pub fn closes_by(&self) -> Option<Instant> {
        self.0.borrow().closes_by
    }

    /// Returns whether new requests are rejected, because the driver has begun the shutdown, or
    /// because the client has ended.
    pub fn is_closed(&self) -> bool {
        self.0.borrow().is_closed
    }

    /// Completes when the client begins to shut down, is dropped, or has lost its runtime.
    pub async fn closing(&self) {
        self.until(|life| life.closes_by.is_some()).await;
    }

    /// Completes when a shutdown is requested, or the last handle is dropped.
    pub async fn shutdown_requested(&self) {
        self.until(|life| life.is_requested).await;
    }

    pub(in crate::connection) async fn over(&self) {
        self.until(|life| life.is_over).await;
    }

    /// Completes when the shutdown has ended; returns whether everything was released in time.
    pub(in crate::connection) async fn finished(&self) -> bool {
        self.until(|life| life.is_clean.is_some()).await;
        self.0.borrow().is_clean == Some(true)
    }

    async fn until(&self, is_reached: impl FnMut(&Life) -> bool) {
        // This cannot fail: `self` owns the sender.
        let _ = self.0.subscribe().wait_for(is_reached).await;
    }

    /// Returns the error with which requests fail once the client is closing or has ended.
    ///
    /// If a shutdown was requested or the last handle was dropped, the error is
    /// [`ServerError::ShuttingDown`]. Otherwise the error says that the runtime of the client's
    /// tasks has ended.
    pub fn why(&self) -> ServerError {
        let is_requested = self.0.borrow().is_requested;
        if is_requested { ServerError::ShuttingDown } else { ServerError::not_sent(RUNTIME_ENDED) }
    }

    /// Returns [`Lifecycle::why`] if the client has ended, and `None` otherwise.
    pub(in crate::connection) fn error(&self) -> Option<ServerError> {
        let is_over = self.0.borrow().is_over;
        is_over.then(|| self.why())
    }
}

impl Client {
    /// Returns whether the client has begun to shut down. Such a client rejects new requests.
    pub fn is_shut_down(&self) -> bool {
        self.0.core.life.closes_by().is_some()
    }

    /// Completes when the client begins to shut down. A task that waits for something other than
    /// the client can use this method to end together with the client.
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

const MOST_NAMED: usize = 10;

impl Inner {
    /// Warns about holds that still exist when the last handle is dropped without a shutdown.
    ///
    /// The client releases these holds in the background, and no caller waits for that. If the
    /// process ends first, the holds end with their leases.
    fn warn_of_open_holds(&self) {
        let mut names = self.service.get().map(|service| service.held_names()).unwrap_or_default();
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

/// The error of a shutdown that did not release everything in time.
#[derive(Debug, Clone, thiserror::Error)]
#[error("not everything was released within {within:?}; the rest ends with its leases")]
#[non_exhaustive]
pub struct NotClosed {
    /// How long the shutdown has waited.
    pub within: Duration,
}
