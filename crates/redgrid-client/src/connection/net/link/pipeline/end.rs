//! The beginning and the end of a connection. At the end, requests without a reply are answered
//! with an error.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::BytesMut;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::super::wire;
use super::{Expects, Pipeline, Queue, Shared, Waiting};
use crate::connection::trouble::CLOSED;
use crate::sync::Mutex;

/// How long to wait for the answer to QUIT before a connection is dropped: 100 ms.
///
/// If a hanging primary was replaced, the callers that still wait for its replies get an error
/// after this time. Then they use the new primary.
const QUIT: Duration = Duration::from_millis(100);

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Unanswered {
    /// The connection has ended, and the server has not received the whole request.
    NotWritten,
    /// The request was not written because too many requests are outstanding.
    Full,
    /// The connection has ended, and the request may have been executed.
    Lost,
}

impl Pipeline {
    pub(super) fn new(is_resp2: bool, ended: Option<String>) -> Self {
        let is_finished = AtomicBool::new(ended.is_some());
        Pipeline(Arc::new(Shared {
            is_resp2,
            queue: Mutex::new(Queue { ended, ..Queue::default() }),
            more: Notify::new(),
            finished: Notify::new(),
            is_finished,
            written: AtomicU64::new(0),
            is_writing: AtomicBool::new(false),
            is_reading: AtomicBool::new(false),
            task: OnceLock::new(),
        }))
    }

    /// Closes the connection once outstanding requests are answered, or after a short limit.
    pub(in super::super) async fn quit(&self) {
        if let Ok(answer) = self.enqueue(&wire(["QUIT"]), Expects::Reply) {
            let _ = tokio::time::timeout(QUIT, answer).await;
        }
        self.abort();
    }

    pub(in super::super) fn abort(&self) {
        self.0.task.get().into_iter().for_each(AbortHandle::abort);
    }

    /// Returns a placeholder: a connection that has already ended.
    pub(in super::super) fn ended() -> Self {
        Pipeline::new(false, Some(CLOSED.into()))
    }

    pub(in super::super) fn is_resp2(&self) -> bool {
        self.0.is_resp2
    }

    pub(in super::super) fn end(&self) -> Option<String> {
        self.0.queue.lock().ended.clone()
    }

    /// Completes when the connection has ended and all requests are answered. Returns the reason
    /// for the end.
    pub(in super::super) async fn lost(&self) -> String {
        loop {
            let mut finished = std::pin::pin!(self.0.finished.notified());
            finished.as_mut().enable();
            if self.0.is_finished.load(Ordering::Acquire) {
                return self.end().unwrap_or_default();
            }
            finished.await;
        }
    }

    /// Returns whether only a part of a request or reply has been transferred so far.
    pub(in super::super) fn is_midway(&self) -> bool {
        self.0.is_reading.load(Ordering::Relaxed) || self.0.is_writing.load(Ordering::Relaxed)
    }

    pub(super) fn finish(&self, why: String) {
        let mut queue = self.0.queue.lock();
        queue.ended.get_or_insert(why);
        let (waiting, written) = (std::mem::take(&mut queue.waiting), self.0.written.load(Ordering::Relaxed));
        queue.outgoing = BytesMut::new();
        drop(queue);
        for Waiting { end, answer, .. } in waiting {
            let why = if end > written { Unanswered::NotWritten } else { Unanswered::Lost };
            let _ = answer.send(Err(why));
        }
        self.0.is_finished.store(true, Ordering::Release);
        self.0.finished.notify_waiters();
    }
}

/// Answers all outstanding requests when the connection's task ends or is aborted.
pub(super) struct Finish(pub(super) Pipeline);

impl Drop for Finish {
    fn drop(&mut self) {
        self.0.finish(CLOSED.into());
    }
}
