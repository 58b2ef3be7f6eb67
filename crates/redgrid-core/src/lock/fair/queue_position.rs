//! A request's position in the server's queue: its holder field and its state.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;

use crate::clock::Instant;
use crate::lease::LeaseMode;
use crate::lock::acquire::{PendingAcquire, RequestStatus};
use crate::lock::attempt::Attempt;
use crate::lock::cleanup::DeferredRelease;
use crate::lock::protocol::{LockKeys, LockProtocol};
use crate::lock::table::{LockState, Table, Waiter};

/// The queue position of one acquire request. Its holder field stays the same until the grant. It
/// changes only if the field is released before the grant.
#[derive(Default)]
pub(in crate::lock) struct QueuePosition(Mutex<Place>);

#[derive(Default)]
struct Place {
    /// Number in the holder field, if it differs from the id of the request. A released field is
    /// never reused.
    number: Option<u64>,
    /// Whether a request for the position was sent. If so, the position may be queued, or may hold
    /// the lock.
    was_requested: bool,
    /// Whether a request for the position is in flight.
    has_request_in_flight: bool,
    /// Whether the position is in the server's queue.
    is_queued: bool,
    /// Whether a notification or a reply has shown that the position is next.
    is_notified: bool,
    /// When the holder's lease ends, if this position is the head of the queue.
    next_at: Option<Instant>,
}

impl QueuePosition {
    fn place(&self) -> MutexGuard<'_, Place> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns the number of the holder field; `request` is the id of the request.
    pub(in crate::lock) fn number(&self, request: u64) -> u64 {
        self.place().number.unwrap_or(request)
    }

    /// Gives the request a new position, with another holder field. The caller of this method
    /// releases the old field, and the request is enqueued again.
    pub(in crate::lock) fn moved(&self, number: u64) {
        *self.place() = Place { number: Some(number), ..Place::default() };
    }

    pub(in crate::lock) fn mark_requested(&self) {
        let mut place = self.place();
        (place.was_requested, place.has_request_in_flight, place.is_notified, place.next_at) =
            (true, true, false, None);
    }

    /// Records the end of a request for the position. `waits` says whether the waiter is queued
    /// now.
    ///
    /// If `waits` is false, the waiter has left or the outcome is unknown. If the waiter has left,
    /// the position may have been released before the request created it. So the position is marked
    /// as requested, and must be released again.
    pub(in crate::lock) fn request_ended(&self, waits: bool) {
        let mut place = self.place();
        place.is_queued = std::mem::take(&mut place.has_request_in_flight) && waits;
        place.was_requested |= !waits;
    }

    /// Records that the position is no longer in the queue: it was granted, removed, given up, or
    /// is about to be enqueued again. Returns whether a request for the position was sent.
    pub(in crate::lock) fn left(&self) -> bool {
        let mut place = self.place();
        let number = place.number;
        std::mem::replace(&mut *place, Place { number, ..Place::default() }).was_requested
    }

    pub(in crate::lock) fn is_queued(&self) -> bool {
        self.place().is_queued
    }

    pub(in crate::lock) fn was_requested(&self) -> bool {
        self.place().was_requested
    }

    pub(in crate::lock) fn has_request_in_flight(&self) -> bool {
        self.place().has_request_in_flight
    }

    /// Records that the position is next and that the lock may be free.
    pub(in crate::lock) fn notify(&self) {
        self.place().is_notified = true;
    }

    pub(in crate::lock) fn clear_notification(&self) {
        let mut place = self.place();
        (place.is_notified, place.next_at) = (false, None);
    }

    /// Records for how long the lock stays taken, if the position is the head of the queue.
    ///
    /// `left` is `Duration::MAX` if the position is not the head, or if the time is not known.
    pub(in crate::lock) fn is_next_until(&self, now: Instant, left: Duration) {
        self.place().next_at = (left != Duration::MAX).then(|| now + left);
    }

    /// Returns when the waiter must try: at once after a notification, otherwise when the holder's
    /// lease ends.
    pub(in crate::lock) fn due(&self) -> Instant {
        let place = self.place();
        if place.is_notified { Instant::MIN } else { place.next_at.unwrap_or(Instant::MAX) }
    }
}

impl Table {
    /// Releases the position of a request that has ended.
    ///
    /// The release is sent at once, and again when no request for the position can execute any
    /// more.
    fn release_position(
        self: &Arc<Self>,
        protocol: &'static dyn LockProtocol,
        keys: &Arc<LockKeys>,
        (waiter, status): (u64, &RequestStatus),
        lease: LeaseMode,
    ) {
        if status.position.left() {
            let (number, limit) = (status.position.number(waiter), status.may_execute_until());
            self.schedule_cleanup(DeferredRelease::of(protocol, keys, number, lease.duration(), Some(limit)));
        }
    }

    pub(in crate::lock) fn release_position_of(self: &Arc<Self>, lock: &LockState, waiter: &Waiter) {
        self.release_position(lock.protocol, &lock.keys, (waiter.id, &waiter.status), waiter.request.lease);
    }

    /// Releases the position of an attempt after its waiter has left.
    pub(in crate::lock) fn leave_queue(self: &Arc<Self>, attempt: &Attempt) {
        let Attempt { protocol, key, entry, status, request, .. } = attempt;
        self.release_position(*protocol, &key.keys, (*entry, status), request.lease);
    }
}

impl PendingAcquire {
    /// Returns a view of the position in the server's queue, for lock kinds that have one.
    pub fn queue_position(&self) -> QueuePositionView {
        let (client, status) = (self.table().core.id.clone(), Arc::clone(&self.status));
        QueuePositionView { client, waiter: self.id, status }
    }

    /// Releases the position of the request, for lock kinds that have one.
    pub(in crate::lock) fn release_position(&self) {
        self.table().release_position(self.kind, &self.key.keys, (self.id, &self.status), self.request.lease);
    }
}

/// A view of a request's position in the server's queue.
#[derive(Clone)]
pub struct QueuePositionView {
    client: String,
    waiter: u64,
    status: Arc<RequestStatus>,
}

impl QueuePositionView {
    /// Returns the holder field in the queue; `None` while the request is not queued.
    pub fn field(&self) -> Option<Bytes> {
        let Self { client, waiter, status } = self;
        status.position.is_queued().then(|| format!("{client}:{}", status.position.number(*waiter)).into())
    }
}

impl std::fmt::Debug for QueuePositionView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueuePositionView").field("field", &self.field()).finish()
    }
}
