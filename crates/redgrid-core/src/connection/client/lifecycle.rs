//! The life of a client: open, then closing until a deadline, then over.
//!
//! It is over after a shutdown, or because the runtime of its tasks has ended.

use tokio::sync::watch;

use crate::clock::Instant;
use crate::error::ServerError;

/// The error message when the tasks of a client have ended without a shutdown.
const RUNTIME_ENDED: &str = "the Tokio runtime in which the client was created has ended, and its connections with it; \
                             create a client in the runtime that uses it";

/// The life of a client.
pub(crate) struct Lifecycle(watch::Sender<Life>);

#[derive(Debug, Default)]
struct Life {
    /// A shutdown was requested, or the last handle was dropped.
    is_asked: bool,
    /// When the shutdown stops waiting; `None` while the client is open.
    closes_by: Option<Instant>,
    /// No request can be sent any more.
    is_over: bool,
    /// Whether everything was released in time; known when the shutdown has ended.
    is_clean: Option<bool>,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Lifecycle(watch::Sender::new(Life::default()))
    }
}

impl Lifecycle {
    /// Begins the shutdown, unless it has begun.
    pub(crate) fn close_by(&self, by: Instant) {
        self.0.send_modify(|life| {
            life.is_asked = true;
            life.closes_by.get_or_insert(by);
        });
    }

    /// Records that the connections are about to be closed.
    pub(in crate::connection) fn set_over(&self) {
        self.0.send_modify(|life| life.is_over = true);
    }

    /// Records that the shutdown has ended, and whether everything was released in time.
    pub(in crate::connection) fn finish(&self, is_clean: bool) {
        self.0.send_modify(|life| life.is_clean = Some(is_clean));
    }

    /// Records that the runtime of the client's tasks has ended; false if the shutdown had ended
    /// before.
    pub(in crate::connection) fn abandon(&self, now: Instant) -> bool {
        self.0.send_if_modified(|life| {
            let is_first = life.is_clean.is_none();
            if is_first {
                (life.is_over, life.is_clean) = (true, Some(false));
                life.closes_by.get_or_insert(now);
            }
            is_first
        })
    }

    /// Returns when the shutdown stops waiting; `None` while the client is open.
    pub(crate) fn closes_by(&self) -> Option<Instant> {
        self.0.borrow().closes_by
    }

    /// Completes when the client begins to close, or its runtime has ended.
    pub(crate) async fn closing(&self) {
        self.until(|life| life.closes_by.is_some()).await;
    }

    /// Completes when a shutdown has begun.
    pub(crate) async fn asked(&self) {
        self.until(|life| life.is_asked).await;
    }

    /// Completes when no request can be sent any more.
    pub(in crate::connection) async fn over(&self) {
        self.until(|life| life.is_over).await;
    }

    /// Completes when the shutdown has ended; returns whether everything was released in time.
    pub(in crate::connection) async fn finished(&self) -> bool {
        self.until(|life| life.is_clean.is_some()).await;
        self.0.borrow().is_clean == Some(true)
    }

    async fn until(&self, is_reached: impl FnMut(&Life) -> bool) {
        // Cannot fail: `self` owns the sender.
        let _ = self.0.subscribe().wait_for(is_reached).await;
    }

    /// Returns the error of a request to a client that has ended.
    ///
    /// It distinguishes a shutdown from a runtime that ended.
    pub(crate) fn why(&self) -> ServerError {
        match self.0.borrow().is_asked {
            true => ServerError::ShuttingDown,
            false => ServerError::not_sent(RUNTIME_ENDED),
        }
    }

    /// Returns the error of a request if the client has ended; see [`Lifecycle::why`].
    pub(in crate::connection) fn error(&self) -> Option<ServerError> {
        let is_over = self.0.borrow().is_over;
        is_over.then(|| self.why())
    }
}
