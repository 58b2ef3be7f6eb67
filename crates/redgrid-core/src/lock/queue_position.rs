//! A request's place in a queue on the server: under which holder field, and what is known of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;

use super::cleanup::DeferredRelease;
use super::lock_state::RequestStatus;
use super::protocol::{LockKeys, LockProtocol};
use super::table::Table;
use super::terms::AcquireRequest;
use crate::clock::Instant;

/// What is known of the place of one request. Its field stays the same from its first word to the server until it is granted.
#[derive(Default)]
pub(super) struct QueuePosition {
    /// The number in its field where that is not the request's own: one that was given back is not used again.
    number: AtomicU64,
    /// A word for it has left: it may be in the queue, or hold.
    asked: AtomicBool,
    /// A word for it is under way.
    asking: AtomicBool,
    /// The server has it in the queue.
    inside: AtomicBool,
    /// It was told, or seen, that it is next.
    called: AtomicBool,
    /// When the present holder's lease ends, in nanoseconds, where this place is the head; otherwise 0.
    next_at: AtomicU64,
}

impl QueuePosition {
    /// The number in its field; `request` is the request's.
    pub(super) fn number(&self, request: u64) -> u64 {
        match self.number.load(Ordering::Acquire) {
            0 => request,
            number => number,
        }
    }

    /// Its field is given back, and it lines up anew under another.
    pub(super) fn moved(&self, number: u64) {
        self.number.store(number, Ordering::Release);
        self.left();
    }

    /// A word for it leaves.
    pub(super) fn asked(&self) {
        self.asking.store(true, Ordering::Release);
        self.asked.store(true, Ordering::Release);
        self.called.store(false, Ordering::Release);
        self.next_at.store(0, Ordering::Release);
    }

    /// The server has others before it. Who does not wait any more may have got the place after it was given up.
    pub(super) fn landed(&self, waits: bool) {
        let asked = self.asking.swap(false, Ordering::AcqRel);
        self.inside.store(waits && asked, Ordering::Release);
        if !waits {
            self.asked.store(true, Ordering::Release);
        }
    }

    /// It is out of the queue: granted, thrown out, or about to line up anew.
    pub(super) fn left(&self) {
        for flag in [&self.asked, &self.asking, &self.inside, &self.called] {
            flag.store(false, Ordering::Release);
        }
        self.next_at.store(0, Ordering::Release);
    }

    /// It is given up; false when there is nothing to give up.
    fn give_up(&self) -> bool {
        let asked = self.asked.load(Ordering::Acquire);
        self.left();
        asked
    }

    pub(super) fn is_inside(&self) -> bool {
        self.inside.load(Ordering::Acquire)
    }

    pub(super) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    pub(super) fn is_asking(&self) -> bool {
        self.asking.load(Ordering::Acquire)
    }

    /// It is next, and the name may be free.
    pub(super) fn notify(&self) {
        self.called.store(true, Ordering::Release);
    }

    /// What called it has been dealt with.
    pub(super) fn clear_notification(&self) {
        self.called.store(false, Ordering::Release);
        self.next_at.store(0, Ordering::Release);
    }

    /// It is the head of the queue, and the name is taken for `left`; `Duration::MAX` where it is not, or nobody knows.
    pub(super) fn is_next_until(&self, now: Instant, left: Duration) {
        let at = if left == Duration::MAX { 0 } else { (now + left).as_nanos() };
        self.next_at.store(at, Ordering::Release);
    }

    /// When it is to try: at once when it was called, otherwise when the present holder's lease ends.
    pub(super) fn due(&self) -> Instant {
        match (self.called.load(Ordering::Acquire), self.next_at.load(Ordering::Acquire)) {
            (true, _) => Instant::PAST,
            (false, 0) => Instant::NEVER,
            (false, at) => Instant::from_nanos(at),
        }
    }
}

impl Table {
    /// Gives up the place of a request that has ended: at once, and once more when no word for it can be carried out late.
    pub(super) fn release_position(
        self: &Arc<Self>,
        kind: &'static dyn LockProtocol,
        target: &Arc<LockKeys>,
        (request, seen): (u64, &RequestStatus),
        wish: &AcquireRequest,
    ) {
        if !seen.position.give_up() {
            return;
        }
        let (field, limit) = (self.core.field(seen.position.number(request)), seen.may_execute_until());
        let (target, lease) = (Arc::clone(target), wish.lease.duration());
        self.schedule_cleanup(DeferredRelease {
            kind,
            target,
            field,
            limit,
            at_once: true,
            keep_until: Instant::PAST,
            lease,
        });
    }
}

/// A request's place in a queue on the server, to look at.
#[derive(Clone)]
pub struct QueuePositionView {
    client: String,
    request: u64,
    seen: Arc<RequestStatus>,
}

impl QueuePositionView {
    pub(super) fn new(client: String, request: u64, seen: &Arc<RequestStatus>) -> Self {
        QueuePositionView { client, request, seen: Arc::clone(seen) }
    }

    /// The holder field under which it stands in the queue; `None` while it does not.
    pub fn field(&self) -> Option<Bytes> {
        let Self { client, request, seen } = self;
        seen.position.is_inside().then(|| format!("{client}:{}", seen.position.number(*request)).into())
    }
}

impl std::fmt::Debug for QueuePositionView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlaceView").field("field", &self.field()).finish()
    }
}
