//! Whether a client has ended: shut down, or left without the runtime that its tasks ran in.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use crate::error::ServerError;

/// What is said when the tasks of a client have gone without a shutdown.
const RUNTIME_ENDED: &str = "the Tokio runtime in which the client was created has ended, and its connections with it; \
                             create a client in the runtime that uses it";

/// The end of a client.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// A shutdown was asked for, or the last handle was dropped.
    asked: AtomicBool,
    /// No request can be sent any more.
    over: OnceLock<()>,
    told: Notify,
    /// Notified when a shutdown begins.
    begun: Notify,
}

impl Ended {
    /// A shutdown begins.
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

    /// The connections are about to be closed, or the tasks of the client have gone.
    pub(crate) fn is_over(&self) {
        let _ = self.over.set(());
        self.told.notify_waiters();
    }

    /// The error of a request to a client that has ended; a runtime that ended is told apart from a
    /// shutdown.
    pub(crate) fn why(&self) -> ServerError {
        match self.asked.load(Ordering::Acquire) {
            true => ServerError::ShuttingDown,
            false => ServerError::not_sent(RUNTIME_ENDED),
        }
    }

    /// The same, where the end has come.
    pub(crate) fn error(&self) -> Option<ServerError> {
        self.over.get().map(|()| self.why())
    }

    /// Completes when the end has come.
    pub(crate) async fn wait(&self) {
        let told = self.told.notified();
        if self.over.get().is_none() {
            told.await;
        }
    }
}

/// Held by the task that drives a client. Dropped before [`Driven::ends`], the runtime has ended
/// without a shutdown.
pub(crate) struct Driven(Option<Box<dyn FnOnce() + Send>>);

impl Driven {
    /// `abandoned` is called where the task is dropped.
    pub(crate) fn new(abandoned: impl FnOnce() + Send + 'static) -> Self {
        Driven(Some(Box::new(abandoned)))
    }

    /// The task comes to its end by itself.
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
