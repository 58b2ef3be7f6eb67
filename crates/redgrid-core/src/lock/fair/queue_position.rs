//! A request's position in the server's queue: its holder field and its state.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redgrid_client::internal::Mutex;

use crate::clock::Instant;
use crate::lock::acquire::{LocalRequest, PendingAcquire};
use crate::lock::cleanup::DeferredRelease;
use crate::lock::protocol::{LockKeys, LockProtocol};
use crate::lock::table::{LockState, Table};

/// The queue position of one acquire request. Its holder field stays the same until the grant. It
/// changes only if the field is released before the grant.
pub(in crate::lock) struct QueuePosition(Mutex<Place>);

#[derive(Clone, Copy, Default)]
pub(in crate::lock) struct Place {
    /// Number in the holder field: at first, the id of the request. A released field is never
    /// reused.
    pub(in crate::lock) number: u64,
    /// Whether a request for the position was sent. If so, the position may be queued, or may hold
    /// the lock.
    pub(in crate::lock) was_requested: bool,
    /// Whether a request for the position is in flight.
    pub(in crate::lock) has_request_in_flight: bool,
    /// Whether the position is in the server's queue.
    pub(in crate::lock) is_queued: bool,
    /// Whether a notification or a reply has shown that the position is next.
    is_notified: bool,
    /// When the holder's lease ends, if this position is the head of the queue.
    next_at: Option<Instant>,
}

impl QueuePosition {
    pub(in crate::lock) fn new(number: u64) -> QueuePosition {
        QueuePosition(Mutex::new(Place { number, ..Place::default() }))
    }

    pub(in crate::lock) fn get(&self) -> Place {
        *self.0.lock()
    }

    /// Gives the request a new position, with another holder field. The caller of this method
    /// releases the old field, and the request is enqueued again.
    pub(in crate::lock) fn moved(&self, number: u64) {
        *self.0.lock() = Place { number, ..Place::default() };
    }

    pub(in crate::lock) fn mark_requested(&self) {
        let mut place = self.0.lock();
        (place.was_requested, place.has_request_in_flight, place.is_notified, place.next_at) =
            (true, true, false, None);
    }

    /// Records the end of a request for the position. `waits` says whether the waiter is queued
    /// now.
    ///
    /// If `waits` is false, the waiter has left or the outcome is unknown. A waiter that leaves
    /// releases the position. But the server may have executed that release first, and then this
    /// request, which has created the position anew. So the position is marked as requested, and
    /// must be released again.
    pub(in crate::lock) fn request_ended(&self, waits: bool) {
        let mut place = self.0.lock();
        place.is_queued = std::mem::take(&mut place.has_request_in_flight) && waits;
        place.was_requested |= !waits;
    }

    /// Records that the position is no longer in the queue: it was granted, removed, given up, or
    /// is about to be enqueued again. Returns whether a request for the position was sent.
    pub(in crate::lock) fn left(&self) -> bool {
        let mut place = self.0.lock();
        let number = place.number;
        std::mem::replace(&mut *place, Place { number, ..Place::default() }).was_requested
    }

    /// Records that the position is next and that the lock may be free.
    pub(in crate::lock) fn notify(&self) {
        self.0.lock().is_notified = true;
    }

    pub(in crate::lock) fn clear_notification(&self) {
        let mut place = self.0.lock();
        (place.is_notified, place.next_at) = (false, None);
    }

    /// Records for how long the lock stays taken, if the position is the head of the queue.
    ///
    /// `left` is `Duration::MAX` if the position is not the head, or if the time is not known.
    pub(in crate::lock) fn is_next_until(&self, now: Instant, left: Duration) {
        self.0.lock().next_at = (left != Duration::MAX).then(|| now + left);
    }

    /// Returns the time at which the waiter must try: at once after a notification, otherwise the
    /// end of the holder's lease.
    pub(in crate::lock) fn due(&self) -> Instant {
        let place = self.get();
        if place.is_notified { Instant::MIN } else { place.next_at.unwrap_or(Instant::MAX) }
    }
}

impl Table {
    /// Releases the position of a request that has ended.
    ///
    /// The release is sent at once, and again when no request for the position can execute any
    /// more.
    pub(in crate::lock) fn release_position(
        self: &Arc<Self>,
        protocol: &'static dyn LockProtocol,
        keys: &Arc<LockKeys>,
        request: &LocalRequest,
    ) {
        if request.position.left() {
            let (number, lease) = (request.position.get().number, request.options.lease.duration());
            let release = DeferredRelease::of(protocol, keys, number, lease, Some(request.may_execute_until()));
            self.schedule_cleanup(release);
        }
    }

    pub(in crate::lock) fn release_position_of(self: &Arc<Self>, lock: &LockState, request: &LocalRequest) {
        self.release_position(lock.protocol, &lock.keys, request);
    }
}

impl PendingAcquire {
    /// Returns a view of the position in the server's queue, for lock kinds that have one.
    pub fn queue_position(&self) -> QueuePositionView {
        QueuePositionView { client: self.table().core.id.clone(), request: Arc::clone(&self.request) }
    }
}

/// A view of a request's position in the server's queue.
#[derive(Clone)]
pub struct QueuePositionView {
    client: String,
    request: Arc<LocalRequest>,
}

impl QueuePositionView {
    /// Returns the holder field in the queue; `None` while the request is not queued.
    pub fn field(&self) -> Option<Bytes> {
        let place = self.request.position.get();
        place.is_queued.then(|| format!("{}:{}", self.client, place.number).into())
    }
}

crate::debug_fields!(QueuePositionView, |it| field: it.field());
