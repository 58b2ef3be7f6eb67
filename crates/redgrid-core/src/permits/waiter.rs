//! A waiting request, and the status that its caller reads.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use redgrid_client::Client;
use redgrid_client::internal::Progress;
use tokio::sync::oneshot;

use super::local_semaphore::{AcquireResult, LocalSemaphore, PermitRequest};
use crate::clock::Instant;

/// The status of a request, which its caller can read. It consists of the last exchange that
/// contained the request, and of the time at which that exchange was sent. The value is `None`
/// before the first exchange, and after an exchange that did not grant the request.
#[derive(Default)]
pub(super) struct RequestStatus(Mutex<Option<(Arc<Progress>, Instant)>>);

impl RequestStatus {
    pub(super) fn set_exchange(&self, exchange: Option<(&Arc<Progress>, Instant)>) {
        let exchange = exchange.map(|(progress, since)| (Arc::clone(progress), since));
        *self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = exchange;
    }

    /// Returns the send time of the unanswered exchange that may grant permits to the request;
    /// `None` if there is no such exchange.
    pub(super) fn sent_since(&self) -> Option<Instant> {
        let exchange = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        exchange.as_ref().filter(|(progress, _)| progress.is_sent()).map(|(_, since)| *since)
    }
}

/// A waiting request.
pub(super) struct Waiter {
    pub(super) id: u64,
    pub(super) request: PermitRequest,
    pub(super) client: Client,
    /// When the caller made the request.
    pub(super) entered: Instant,
    pub(super) until: Instant,
    pub(super) status: Arc<RequestStatus>,
    pub(super) result_sender: oneshot::Sender<AcquireResult>,
    /// Whether the request may have a position in the server queue.
    pub(super) may_be_queued: bool,
    /// Whether the request had to wait, because there were too few permits.
    pub(super) has_waited: bool,
}

impl Waiter {
    pub(super) fn is_live(&self, now: Instant) -> bool {
        !self.result_sender.is_closed() && self.until > now
    }

    /// Ends the wait.
    pub(super) fn end(self, result: AcquireResult) {
        let _ = self.result_sender.send(result);
    }

    /// Returns the text of the waiter's position in the server queue. The text is unique, and
    /// contains the number of permits.
    pub(super) fn queue_position(&self, client: &str) -> Bytes {
        format!("{client}:{}:{}", self.request.permits, self.id).into()
    }

    /// Schedules the removal of the waiter's position from the server queue, if it may have one.
    ///
    /// After the removal, the waiters behind that position may be served, so permits are requested
    /// for them again.
    pub(super) fn cancel_position(
        &self,
        semaphore: &LocalSemaphore,
        cancelled_positions: &mut Vec<Bytes>,
        should_request: &mut bool,
    ) {
        if self.may_be_queued {
            cancelled_positions.push(self.queue_position(&semaphore.core.id));
            *should_request = true;
        }
    }
}
