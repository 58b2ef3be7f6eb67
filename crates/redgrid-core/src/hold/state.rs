//! One hold: what was granted, until when it is believed, and who is told when it ends.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use super::error::LostReason;
use super::holder::HolderId;
use super::kind::{Claim, HoldKind, Target};
use super::terms::{self, Lease, Wish};
use crate::clock::{Clock, Instant};
use crate::connection::Server;

/// Where a hold is in its life. It only goes forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    Held = 0,
    /// Its release was called; nothing is renewed, nothing believed.
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

pub(crate) struct Hold {
    /// The number in its field; unique in this client.
    pub(crate) id: u64,
    pub(crate) field: Bytes,
    pub(crate) target: Arc<Target>,
    pub(crate) kind: &'static dyn HoldKind,
    pub(crate) server: Arc<dyn Server>,
    pub(crate) clock: Clock,
    pub(crate) holder: Option<HolderId>,
    /// The server's time in microseconds when it granted.
    pub(crate) token: u64,
    /// When the grant was known here.
    pub(crate) granted: Instant,
    pub(crate) wish: Wish,
    /// Until when an unanswered copy of its acquire may still be carried out.
    pub(crate) unanswered_until: Option<Instant>,
    /// Guards that live; counted under the table's lock.
    pub(super) guards: AtomicUsize,
    forgotten: AtomicBool,
    phase: AtomicU8,
    deadline: AtomicU64,
    /// The lease in force, in nanoseconds: that of the last `extend`.
    lease: AtomicU64,
    /// Also the lock under which the deadline moves.
    shortenings: Mutex<Shortenings>,
    ended: Notify,
}

/// Extensions to a shorter lease that may be carried out late, and undo what a later request confirmed.
#[derive(Default)]
struct Shortenings {
    /// Until when those without an answer may be carried out; never over for those that have just begun.
    unanswered: Vec<Instant>,
    /// When the last of the others was answered: what left before it says nothing about what came after.
    settled: Instant,
}

impl Shortenings {
    /// From when on a request that leaves is certainly carried out after them.
    fn over(&self) -> Instant {
        self.unanswered.iter().copied().max().unwrap_or(Instant::PAST).max(self.settled)
    }
}

/// What a grant was, before it becomes a hold.
pub(crate) struct Granted {
    pub(crate) id: u64,
    pub(crate) field: Bytes,
    pub(crate) token: u64,
    pub(crate) sent: Instant,
    pub(crate) received: Instant,
    pub(crate) unanswered_until: Option<Instant>,
}

impl Hold {
    pub(crate) fn new(
        granted: Granted,
        target: Arc<Target>,
        kind: &'static dyn HoldKind,
        server: Arc<dyn Server>,
        clock: Clock,
        wish: Wish,
    ) -> Self {
        let first = wish.first_lease();
        // A fixed lease is believed as long as it was asked for, even where `at_least` keeps the key longer.
        let believed = if let Lease::Fixed(lease) = wish.lease { lease } else { first };
        Hold {
            id: granted.id,
            field: granted.field,
            target,
            kind,
            server,
            clock,
            holder: wish.holder,
            token: granted.token,
            granted: granted.received,
            unanswered_until: granted.unanswered_until,
            guards: AtomicUsize::new(0),
            forgotten: AtomicBool::new(false),
            phase: AtomicU8::new(Phase::Held as u8),
            deadline: AtomicU64::new(terms::deadline(granted.sent, believed).as_nanos()),
            lease: AtomicU64::new(nanos(wish.lease.duration())),
            shortenings: Mutex::default(),
            ended: Notify::new(),
            wish,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        Phase::of(self.phase.load(Ordering::Acquire))
    }

    pub(crate) fn deadline(&self) -> Instant {
        Instant::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    pub(crate) fn lease(&self) -> Duration {
        Duration::from_nanos(self.lease.load(Ordering::Acquire))
    }

    pub(crate) fn set_lease(&self, lease: Duration) {
        self.lease.store(nanos(lease), Ordering::Release);
    }

    /// Whether the engine lengthens its lease; otherwise it only looks whether the hold is still ours.
    pub(crate) fn is_renewed(&self) -> bool {
        let too_long = self.wish.max_hold.is_some_and(|longest| self.clock.now().since(self.granted) >= longest);
        matches!(self.wish.lease, Lease::Renewed(_)) && !too_long && !self.forgotten.load(Ordering::Acquire)
    }

    /// Whether it is left to its lease.
    pub(crate) fn is_forgotten(&self) -> bool {
        self.forgotten.load(Ordering::Acquire)
    }

    /// From here on it is left to its lease.
    pub(crate) fn forget(&self) {
        self.forgotten.store(true, Ordering::Release);
    }

    /// Whether the hold may be believed: by our own clock, without asking anybody.
    pub(crate) fn is_held(&self) -> bool {
        self.phase() == Phase::Held && self.clock.now() < self.deadline()
    }

    /// How it ended without us, if it did; a passed deadline counts although nobody has marked it yet.
    pub(crate) fn lost(&self) -> Option<LostReason> {
        match self.phase() {
            Phase::Held if self.clock.now() >= self.deadline() => Some(LostReason::Expired),
            phase => phase.lost(),
        }
    }

    /// Goes from `Held` to `to`; false when it was no longer held.
    pub(crate) fn end(&self, to: Phase) -> bool {
        let ended =
            self.phase.compare_exchange(Phase::Held as u8, to as u8, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if ended {
            self.ended.notify_waiters();
        }
        ended
    }

    /// Completes when the hold has ended, by release or loss.
    pub(crate) async fn ended(&self) {
        loop {
            let told = self.ended.notified();
            if !self.is_held() {
                return;
            }
            tokio::select! {
                () = told => {}
                // The engine marks the passing of the deadline; this is the same clock, in case it is late.
                () = self.clock.sleep_until(self.deadline()) => {}
            }
        }
    }

    /// A confirmation that left at `sent`: the deadline moves forward, unless a shortening may still come after it.
    pub(crate) fn confirmed(&self, sent: Instant, lease: Duration) -> Instant {
        let shortenings = self.shortenings();
        // Once it is over it stays over: somebody may have been told.
        let in_time = self.clock.now() < self.deadline();
        if in_time && sent >= shortenings.over() {
            self.deadline.fetch_max(terms::deadline(sent, lease).as_nanos(), Ordering::AcqRel);
        }
        self.deadline()
    }

    /// Lowers the deadline for a shortening that is about to leave, at `sent` or later.
    pub(crate) fn begin_shortening(&self, sent: Instant, lease: Duration) {
        self.shortenings().unanswered.push(Instant::NEVER);
        self.deadline.fetch_min(terms::deadline(sent, lease).as_nanos(), Ordering::AcqRel);
    }

    /// The shortening was answered by now, or may be carried out until `unanswered_until`. What leaves from then on counts
    /// again.
    pub(crate) fn end_shortening(&self, unanswered_until: Option<Instant>) {
        let now = self.clock.now();
        let mut shortenings = self.shortenings();
        let begun = shortenings.unanswered.iter().position(|until| *until == Instant::NEVER);
        if let Some(begun) = begun {
            shortenings.unanswered.swap_remove(begun);
        }
        match unanswered_until {
            Some(until) => shortenings.unanswered.push(until),
            None => shortenings.settled = now.max(shortenings.settled),
        }
    }

    fn shortenings(&self) -> MutexGuard<'_, Shortenings> {
        self.shortenings.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn claim(&self, lease: Duration) -> Claim<'_> {
        Claim { target: &self.target, field: &self.field, lease }
    }
}

fn nanos(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}
