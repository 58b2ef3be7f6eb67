//! A request's position in the server's queue: its holder field and its state.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;

use crate::clock::Instant;
use crate::lease::LeaseMode;
use crate::lock::acquire::{PendingAcquire, RequestStatus};
use crate::lock::attempt::Attempt;
use crate::lock::cleanup::DeferredRelease;
use crate::lock::protocol::{LockKeys, LockProtocol};
use crate::lock::table::{LockState, Table, Waiter};

/// State of one request's position. The holder field is constant from the first request to the
/// grant.
#[derive(Default)]
pub(in crate::lock) struct QueuePosition {
    /// Number of the holder field, if not the id of the request: a released field is never reused.
    number: AtomicU64,
    /// A request for it was sent: it may be queued, or hold the lock.
    asked: AtomicBool,
    /// A request for it is in flight.
    asking: AtomicBool,
    /// The server has the position in its queue.
    inside: AtomicBool,
    /// A notification or a reply said that it is next.
    called: AtomicBool,
    /// When the holder's lease ends, in nanoseconds, if this position is the head; otherwise 0.
    next_at: AtomicU64,
}

impl QueuePosition {
    /// Returns the number of the holder field; `request` is the id of the request.
    pub(in crate::lock) fn number(&self, request: u64) -> u64 {
        match self.number.load(Ordering::Acquire) {
            0 => request,
            number => number,
        }
    }

    /// Moves the position to another holder field; the old one is released and the request enqueues
    /// again.
    pub(in crate::lock) fn moved(&self, number: u64) {
        self.number.store(number, Ordering::Release);
        self.left();
    }

    pub(in crate::lock) fn asked(&self) {
        self.asking.store(true, Ordering::Release);
        self.asked.store(true, Ordering::Release);
        self.called.store(false, Ordering::Release);
        self.next_at.store(0, Ordering::Release);
    }

    /// Records that the server enqueued the position, behind others.
    ///
    /// If the request was cancelled meanwhile, the position may have been created after its
    /// release.
    pub(in crate::lock) fn landed(&self, waits: bool) {
        let asked = self.asking.swap(false, Ordering::AcqRel);
        self.inside.store(waits && asked, Ordering::Release);
        if !waits {
            self.asked.store(true, Ordering::Release);
        }
    }

    /// Records that the position left the queue: it was granted, removed, or is about to be
    /// enqueued again.
    pub(in crate::lock) fn left(&self) {
        for flag in [&self.asked, &self.asking, &self.inside, &self.called] {
            flag.store(false, Ordering::Release);
        }
        self.next_at.store(0, Ordering::Release);
    }

    /// Gives the position up. Returns `false` if no request for it was sent.
    fn give_up(&self) -> bool {
        let asked = self.asked.load(Ordering::Acquire);
        self.left();
        asked
    }

    pub(in crate::lock) fn is_inside(&self) -> bool {
        self.inside.load(Ordering::Acquire)
    }

    pub(in crate::lock) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    pub(in crate::lock) fn is_asking(&self) -> bool {
        self.asking.load(Ordering::Acquire)
    }

    /// Records that the position is next and the lock may be free.
    pub(in crate::lock) fn notify(&self) {
        self.called.store(true, Ordering::Release);
    }

    pub(in crate::lock) fn clear_notification(&self) {
        self.called.store(false, Ordering::Release);
        self.next_at.store(0, Ordering::Release);
    }

    /// Records that the position is the head and the lock is taken for `left`.
    ///
    /// `left` is `Duration::MAX` if it is not the head, or if the time is unknown.
    pub(in crate::lock) fn is_next_until(&self, now: Instant, left: Duration) {
        let at = if left == Duration::MAX { 0 } else { (now + left).as_nanos() };
        self.next_at.store(at, Ordering::Release);
    }

    /// Returns when to try: at once after a notification, otherwise when the holder's lease ends.
    pub(in crate::lock) fn due(&self) -> Instant {
        match (self.called.load(Ordering::Acquire), self.next_at.load(Ordering::Acquire)) {
            (true, _) => Instant::MIN,
            (false, 0) => Instant::MAX,
            (false, at) => Instant::from_nanos(at),
        }
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
        if status.position.give_up() {
            let (number, limit) = (status.position.number(waiter), status.may_execute_until());
            self.schedule_cleanup(DeferredRelease::of(protocol, keys, number, lease.duration(), Some(limit)));
        }
    }

    pub(in crate::lock) fn release_position_of(self: &Arc<Self>, lock: &LockState, waiter: &Waiter) {
        self.release_position(lock.protocol, &lock.keys, (waiter.id, &waiter.status), waiter.request.lease);
    }

    /// Releases the position of an attempt whose waiter has left.
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
        status.position.is_inside().then(|| format!("{client}:{}", status.position.number(*waiter)).into())
    }
}

impl std::fmt::Debug for QueuePositionView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueuePositionView").field("field", &self.field()).finish()
    }
}
