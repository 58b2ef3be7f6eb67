//! A waiting request, and its status.

use std::sync::Arc;

use bytes::Bytes;
use redgrid_client::Client;
use redgrid_client::internal::{Mutex, Progress};
use tokio::sync::oneshot;

use super::local_semaphore::{AcquireResult, LocalSemaphore, PermitRequest};
use super::permit::Permit;
use crate::clock::Instant;
use crate::unpolled::{BackgroundTask, Unpolled};

/// A request. Its caller, its waiter and the exchange in flight share it.
pub(super) struct LocalRequest {
    /// Unique in this client, because handles with different capacities share a server queue.
    pub(super) id: u64,
    pub(super) options: PermitRequest,
    /// When the caller made the request.
    pub(super) entered: Instant,
    pub(super) until: Instant,
    /// The last exchange that contained the request, and the time at which that exchange was sent.
    /// `None` before the first exchange, and after an exchange that did not grant the request.
    exchange: Mutex<Option<(Arc<Progress>, Instant)>>,
    /// The granted permits, until the caller takes them. They are not in the result, because the
    /// registry of unpolled grants needs them too.
    granted: Mutex<Option<Permit>>,
}

impl Unpolled for LocalRequest {
    fn give_up(self: Arc<Self>) -> Option<BackgroundTask> {
        // `take` unlocks the mutex before the permits are dropped, because the drop can run any
        // code.
        drop(self.take());
        None
    }
}

impl LocalRequest {
    pub(super) fn new(id: u64, options: PermitRequest, entered: Instant) -> Arc<LocalRequest> {
        let until = options.wait.map_or(Instant::MAX, |wait| entered + wait);
        let (exchange, granted) = (Mutex::default(), Mutex::default());
        Arc::new(LocalRequest { id, options, entered, until, exchange, granted })
    }

    /// Offers permits to the caller.
    pub(super) fn offer(&self, permit: Permit) {
        *self.granted.lock() = Some(permit);
    }

    /// Takes the granted permits. Returns `None` if they were given up, because the caller was too
    /// late.
    pub(super) fn take(&self) -> Option<Permit> {
        self.granted.lock().take()
    }

    pub(super) fn set_exchange(&self, exchange: Option<(&Arc<Progress>, Instant)>) {
        let exchange = exchange.map(|(progress, since)| (Arc::clone(progress), since));
        *self.exchange.lock() = exchange;
    }

    /// Returns the send time of the unanswered exchange that may grant permits to the request;
    /// `None` if there is no such exchange.
    pub(super) fn sent_since(&self) -> Option<Instant> {
        let exchange = self.exchange.lock();
        exchange.as_ref().filter(|(progress, _)| progress.is_sent()).map(|(_, since)| *since)
    }
}

/// A waiting request.
pub(super) struct Waiter {
    pub(super) request: Arc<LocalRequest>,
    pub(super) client: Client,
    pub(super) result_sender: oneshot::Sender<AcquireResult>,
    /// Whether the request may have a position in the server queue.
    pub(super) may_be_queued: bool,
    /// Whether the request had to wait, because there were too few permits.
    pub(super) has_waited: bool,
}

impl Waiter {
    pub(super) fn is_live(&self, now: Instant) -> bool {
        !self.result_sender.is_closed() && self.request.until > now
    }

    /// Ends the wait.
    pub(super) fn end(self, result: AcquireResult) {
        let _ = self.result_sender.send(result);
    }

    /// Returns the text of the waiter's position in the server queue. The text is unique, and
    /// contains the number of permits.
    pub(super) fn queue_position(&self, client: &str) -> Bytes {
        format!("{client}:{}:{}", self.request.options.permits, self.request.id).into()
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
