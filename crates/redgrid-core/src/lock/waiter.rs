//! A waiting acquire request of this process, and the answer that it gets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use smallvec::SmallVec;
use tokio::sync::oneshot;

use super::guard::HoldGuard;
use super::queue_position::QueuePosition;
use super::terms::AcquireRequest;
use crate::clock::Instant;
use crate::connection::{Client, CommitError, Progress};
use crate::error::ServerError;
/// One queued request.
pub(super) struct Waiter {
    pub(super) id: u64,
    pub(super) request: Arc<AcquireRequest>,
    pub(super) client: Client,
    pub(super) answer: oneshot::Sender<Answer>,
    pub(super) status: Arc<RequestStatus>,
    /// When the waiter times out.
    pub(super) until: Instant,
}

/// The answer to a queued request: a grant, `None` for "busy", or the failure.
pub(super) type Answer = Result<Option<HoldGuard>, AcquireFailure>;

/// Answers and the channels to their waiters.
pub(super) type Answers = SmallVec<[(oneshot::Sender<Answer>, Answer); 1]>;

/// Why a request failed, before the name of the lock is added.
#[derive(Debug, Clone)]
pub(super) enum AcquireFailure {
    Unavailable(ServerError),
    Unknown(ServerError),
    Refused(ServerError),
    /// The server rejected this client's credentials.
    Unauthorized(ServerError),
    /// Another request of the same holder was granted, and this request does not re-enter.
    AlreadyHeld,
    /// Another request of the same holder was granted; this request re-enters when it is polled
    /// next.
    Reenters,
    /// The grant was not as durable as requested, and was released.
    NotDurable(CommitError),
    ShuttingDown,
}

impl AcquireFailure {
    /// Returns the failure of a request of which an earlier transmission may have executed.
    pub(super) fn unknown(self) -> AcquireFailure {
        match self {
            AcquireFailure::Unavailable(source)
            | AcquireFailure::Refused(source)
            | AcquireFailure::Unauthorized(source) => AcquireFailure::Unknown(source),
            other => other,
        }
    }
}

/// What a request has observed, for the error that its timeout returns.
#[derive(Default)]
pub(super) struct RequestStatus {
    pub(super) progress: Progress,
    busy: AtomicBool,
    /// Until when a retransmission of the request may still acquire the lock, in nanoseconds.
    may_execute_until: AtomicU64,
    /// The request's position in the server's queue, for lock kinds that have one.
    pub(super) position: QueuePosition,
}

impl RequestStatus {
    pub(super) fn set_busy(&self) {
        self.busy.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    pub(super) fn set_maybe_executed(&self, until: Instant) {
        self.may_execute_until.fetch_max(until.as_nanos(), Ordering::Relaxed);
    }

    pub(super) fn may_be_executed(&self, now: Instant) -> bool {
        now < self.may_execute_until()
    }

    pub(super) fn may_execute_until(&self) -> Instant {
        Instant::from_nanos(self.may_execute_until.load(Ordering::Relaxed))
    }
}

/// Sends the answers to their waiters.
///
/// Must not run under the table's lock: a grant that its waiter does not receive is released by its
/// drop.
pub(super) fn send(answers: Answers) {
    for (sender, answer) in answers {
        let _ = sender.send(answer);
    }
}
