//! Whether a client has ended: by a shutdown, or because the runtime of its tasks has ended.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use crate::error::ServerError;

/// The error message when the tasks of a client have ended without a shutdown.
const RUNTIME_ENDED: &str = "the Tokio runtime in which the client was created has ended, and its connections with it; \
                             create a client in the runtime that uses it";

/// The end of a client.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// A shutdown was requested, or the last handle was dropped.
    asked: AtomicBool,
    /// No request can be sent any more.
    over: OnceLock<()>,
    told: Notify,
    /// Notified when a shutdown begins.
    begun: Notify,
}

impl Ended {
    /// Records that a shutdown begins.
    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        self.begun.notify_waiters();
    }

    /// Completes when a shutdown has begun.
    pub(crate) async fn is_asked(&self) {
        let begun = self.begun.notified();
        if !self.asked.load(Ordering::Acquire) {
            begun.await;
        }
    }

    /// Records that the connections are about to be closed, or that the client's tasks have ended.
    pub(crate) fn is_over(&self) {
        let _ = self.over.set(());
        self.told.notify_waiters();
    }

    /// Returns the error of a request to a client that has ended.
    ///
    /// It distinguishes a shutdown from a runtime that ended.
    pub(crate) fn why(&self) -> ServerError {
        match self.asked.load(Ordering::Acquire) {
            true => ServerError::ShuttingDown,
            false => ServerError::not_sent(RUNTIME_ENDED),
        }
    }

    /// Returns the error of a request if the client has ended; see [`Ended::why`].
    pub(crate) fn error(&self) -> Option<ServerError> {
        self.over.get().map(|()| self.why())
    }

    /// Completes when the client has ended.
    pub(crate) async fn wait(&self) {
        let told = self.told.notified();
        if self.over.get().is_none() {
            told.await;
        }
    }
}

/// Guard of the task that drives a client. If it is dropped before [`Driven::ends`], the runtime
/// has ended without a shutdown.
pub(crate) struct Driven(Option<Box<dyn FnOnce() + Send>>);

impl Driven {
    /// Creates the guard; `abandoned` is called if the task is dropped.
    pub(crate) fn new(abandoned: impl FnOnce() + Send + 'static) -> Self {
        Driven(Some(Box::new(abandoned)))
    }

    /// Disarms the guard because the task completes normally.
    pub(crate) fn ends(mut self) {
        self.0 = None;
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        if let Some(abandoned) = self.0.take() {
            abandoned();
        }
    }
}
