//! One hold: a task's share in a server lease, its validity, and the notification of its end.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Notify;

use super::error::LostReason;
use super::holder::HolderId;
use super::server_lease::ServerLease;
use super::terms::{self, AcquireRequest, LeaseMode};
use crate::clock::Instant;
use crate::lease::Deadline;
use crate::observe::count;

/// Phase of a hold. It only goes forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    Held = 0,
    /// Its release was called: the hold is no longer renewed and no longer valid.
    Released = 1,
    Expired = 2,
    Gone = 3,
    Forced = 4,
    ShutDown = 5,
}

impl Phase {
    fn of(byte: u8) -> Phase {
        match byte {
            0 => Phase::Held,
            1 => Phase::Released,
            2 => Phase::Expired,
            3 => Phase::Gone,
            4 => Phase::Forced,
            _ => Phase::ShutDown,
        }
    }

    pub(crate) fn lost(self) -> Option<LostReason> {
        match self {
            Phase::Held | Phase::Released => None,
            Phase::Expired => Some(LostReason::Expired),
            Phase::Gone => Some(LostReason::Gone),
            Phase::Forced => Some(LostReason::Forced),
            Phase::ShutDown => Some(LostReason::ShutDown),
        }
    }
}

impl From<LostReason> for Phase {
    fn from(reason: LostReason) -> Phase {
        match reason {
            LostReason::Expired => Phase::Expired,
            LostReason::Gone => Phase::Gone,
            LostReason::Forced => Phase::Forced,
            LostReason::ShutDown => Phase::ShutDown,
        }
    }
}

/// How long a hold waits to be accepted by a request that is not polled: 1 s.
const UNCLAIMED_TIMEOUT: Duration = Duration::from_secs(1);

const OFFERED: u8 = 0;
const ACCEPTED: u8 = 1;
const REVOKED: u8 = 2;
/// Accepted for a multi-key acquire that is not complete: no caller has a guard of it yet.
const RESERVED: u8 = 3;

/// The share of one task, or of one holder, in a server lease.
pub(crate) struct Hold {
    pub(crate) server_lease: Arc<ServerLease>,
    pub(crate) token: u64,
    /// When the grant was known here.
    pub(crate) granted: Instant,
    pub(crate) request: Arc<AcquireRequest>,
    /// Number of guards that live; counted under the table's lock.
    pub(super) guards: AtomicU32,
    /// Index among the holds of its server lease; under the table's lock.
    pub(super) index: AtomicUsize,
    /// Another hold keeps the lock taken for this one's `at_least` by now.
    retained_elsewhere: AtomicBool,
    /// A caller was given a guard of it.
    given: AtomicBool,
    phase: AtomicU8,
    offer: AtomicU8,
    /// When a fixed lease ends; never, for one that is renewed.
    ends: AtomicU64,
    /// Until when the hold is valid by its own lease: a margin before it ends.
    deadline: Deadline,
    /// Notifies tasks that wait for the end of the hold; created by the first of them.
    ended: OnceLock<Box<Notify>>,
}

impl Hold {
    /// Creates a share in `server_lease` whose own lease counts from `from`.
    pub(crate) fn new(
        server_lease: Arc<ServerLease>,
        token: u64,
        from: Instant,
        now: Instant,
        wanted: Arc<AcquireRequest>,
    ) -> Self {
        let hold = Hold {
            server_lease,
            token,
            granted: now,
            guards: AtomicU32::new(0),
            index: AtomicUsize::new(0),
            retained_elsewhere: AtomicBool::new(false),
            given: AtomicBool::new(false),
            phase: AtomicU8::new(Phase::Held as u8),
            offer: AtomicU8::new(OFFERED),
            ends: AtomicU64::new(Instant::MAX.as_nanos()),
            deadline: Deadline::new(Instant::MAX),
            ended: OnceLock::new(),
            request: wanted,
        };
        count::held(hold.server_lease.protocol.name());
        if let LeaseMode::Fixed(lease) = hold.request.lease {
            hold.set_end(from, lease, now);
        }
        let renewed_until = hold.request.max_hold.map_or(Instant::MAX, |longest| now + longest);
        hold.server_lease.serve(
            hold.request.lease,
            hold.request.durability,
            renewed_until,
            hold.deadline_of_its_own().min(hold.offered_until()),
        );
        hold
    }

    /// Returns the holder, if the request named one.
    pub(crate) fn holder(&self) -> Option<HolderId> {
        self.request.holder
    }

    /// Returns until when the hold waits to be accepted.
    ///
    /// A request that is not polled for that long does not want it, while other waiters do.
    pub(crate) fn offered_until(&self) -> Instant {
        self.granted + UNCLAIMED_TIMEOUT
    }

    /// Accepts the first guard for the caller that it was given to; false when that comes too late.
    pub(crate) fn accept(&self) -> bool {
        let to = |from| self.offer.compare_exchange(from, ACCEPTED, Ordering::AcqRel, Ordering::Acquire);
        let claimed = to(OFFERED).or_else(|_| to(RESERVED)).map_or_else(|now| now == ACCEPTED, |_| true);
        if claimed {
            self.set_given();
        }
        claimed
    }

    /// Records that one of its guards has reached its caller.
    pub(crate) fn set_given(&self) {
        self.given.store(true, Ordering::Release);
    }

    fn is_given(&self) -> bool {
        self.given.load(Ordering::Acquire)
    }

    /// Reserves the first guard for a multi-key acquire; false when that comes too late.
    ///
    /// It is given to no caller before all members are granted.
    pub(crate) fn reserve(&self) -> bool {
        let reserved = self.offer.compare_exchange(OFFERED, RESERVED, Ordering::AcqRel, Ordering::Acquire);
        reserved != Err(REVOKED)
    }

    /// Revokes the first guard if no caller has accepted it; under the table's lock.
    pub(crate) fn revoke_offer(&self) -> bool {
        self.offer.compare_exchange(OFFERED, REVOKED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Counts off a guard that is dropped, under the table's lock, and returns how many are left.
    ///
    /// Returns `None` for a first guard that was revoked: it was counted off then.
    pub(super) fn count_off(&self, is_first: bool) -> Option<u32> {
        if is_first && !self.revoke_offer() && self.offer.load(Ordering::Acquire) == REVOKED {
            return None;
        }
        Some(self.guards.fetch_sub(1, Ordering::AcqRel) - 1)
    }

    /// Returns whether the hold waits to be accepted.
    pub(crate) fn is_offered(&self) -> bool {
        self.offer.load(Ordering::Acquire) == OFFERED
    }

    pub(crate) fn phase(&self) -> Phase {
        Phase::of(self.phase.load(Ordering::Acquire))
    }

    /// Returns until when the hold is valid.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline_of_its_own().min(self.server_lease.deadline())
    }

    pub(crate) fn deadline_of_its_own(&self) -> Instant {
        self.deadline.at()
    }

    /// Returns whether its own lease is no longer valid. From then on it stays so.
    pub(crate) fn has_run_out(&self, now: Instant) -> bool {
        self.deadline.has_passed(now)
    }

    /// Returns whether its own lease or the server lease is no longer valid.
    fn has_expired(&self, now: Instant) -> bool {
        self.has_run_out(now) || self.server_lease.has_expired(now)
    }

    /// Returns when its fixed lease ends and the lock becomes free for others.
    pub(crate) fn ends(&self) -> Instant {
        Instant::from_nanos(self.ends.load(Ordering::Acquire))
    }

    /// Sets a fixed lease, counted from `from`. A hold that has run out by `now` stays so.
    pub(crate) fn set_end(&self, from: Instant, lease: Duration, now: Instant) {
        if self.deadline.set(terms::deadline(from, lease), now) {
            self.ends.store((from + lease).as_nanos(), Ordering::Release);
        }
    }

    /// Returns whether the hold is valid by the local clock, without a request.
    pub(crate) fn is_held(&self) -> bool {
        self.phase() == Phase::Held && !self.has_expired(self.server_lease.clock.now())
    }

    /// Returns how the hold ended without being released, if it did.
    ///
    /// A passed deadline counts even if it is not marked yet.
    pub(crate) fn lost(&self) -> Option<LostReason> {
        self.lost_by(self.server_lease.clock.now())
    }

    /// Returns the same as [`lost`](Hold::lost), for a caller that has just read the clock.
    pub(crate) fn lost_by(&self, now: Instant) -> Option<LostReason> {
        match self.phase() {
            Phase::Held if self.has_expired(now) => Some(LostReason::Expired),
            phase => phase.lost(),
        }
    }

    /// Goes from `Held` to `to`. Returns false if the hold had ended before.
    pub(crate) fn end(&self, to: Phase) -> bool {
        let ended =
            self.phase.compare_exchange(Phase::Held as u8, to as u8, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if ended {
            self.count_end(to);
            // Either a new waiter for the end sees it, or its registration is seen here. Both check
            // after their own write.
            fence(Ordering::SeqCst);
            if let Some(ended) = self.ended.get() {
                ended.notify_waiters();
            }
        }
        ended
    }

    fn count_end(&self, to: Phase) {
        if !cfg!(feature = "metrics") {
            return;
        }
        let (kind, now) = (self.server_lease.protocol.name(), self.server_lease.clock.now());
        let held = now.since(self.granted);
        let is_forgotten = to != Phase::Released && self.guards.load(Ordering::Acquire) == 0;
        if !self.is_given() {
            count::never_held(kind);
        } else if is_forgotten {
            count::ended(kind, held, None);
        } else {
            // A hold that is released after its deadline had been lost before.
            let expired = (now >= self.deadline()).then_some(LostReason::Expired);
            count::ended(kind, held, Some(to.lost().or(expired).map_or(Ok(()), Err)));
        }
    }

    /// Returns until when the lock stays taken for `at_least`.
    ///
    /// A hold that no caller was given does not keep its lock taken.
    pub(crate) fn retained_until(&self) -> Instant {
        let is_its_own = self.is_given() && !self.retained_elsewhere.load(Ordering::Acquire);
        if is_its_own && !self.request.at_least.is_zero() { self.granted + self.request.at_least } else { Instant::MIN }
    }

    /// Returns until when the lock stays taken after a shutdown. A forgotten hold is left to its
    /// lease.
    pub(crate) fn retained_after_shutdown(&self) -> Instant {
        let is_forgotten = self.guards.load(Ordering::Acquire) == 0 && self.ends() != Instant::MAX;
        self.retained_until().max(if is_forgotten { self.ends() } else { Instant::MIN })
    }

    /// Records that another hold keeps the lock taken from here on.
    pub(super) fn drop_retention(&self) {
        self.retained_elsewhere.store(true, Ordering::Release);
    }

    /// Completes when the hold has ended, by release or loss.
    pub(crate) async fn ended(&self) {
        loop {
            let told = self.ended.get_or_init(Box::default).notified();
            fence(Ordering::SeqCst);
            if !self.is_held() {
                return;
            }
            tokio::select! {
                () = told => {}
                // The renewal loop marks a passed deadline. This timer uses the same clock, in case
                // that is late.
                () = self.server_lease.clock.sleep_until(self.deadline()) => {}
            }
        }
    }
}

/// Counts a hold that was still held when its client ended.
#[cfg(feature = "metrics")]
impl Drop for Hold {
    fn drop(&mut self) {
        if self.phase() == Phase::Held {
            count::never_held(self.server_lease.protocol.name());
        }
    }
}
