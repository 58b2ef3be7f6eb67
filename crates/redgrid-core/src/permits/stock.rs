//! Permits that this process has on the server: so many, and, where they have leases, which.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use super::exchange::on_server;
use crate::clock::{Clock, Instant};
use crate::config::Durability;
use crate::lock::{Deadline, LeaseMode, LostReason, deadline};

/// The id of one leased permit: 16 random bytes, shown as Redisson shows them, in hex.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PermitId([u8; 16]);

impl PermitId {
    pub(super) fn new() -> Self {
        PermitId(uuid::Uuid::new_v4().into_bytes())
    }

    /// The id as it is on the server.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PermitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Not the id of a permit: 32 hex digits are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the id of a permit: expected 32 hex digits")]
pub struct InvalidPermitId(String);

impl std::str::FromStr for PermitId {
    type Err = InvalidPermitId;

    fn from_str(text: &str) -> Result<Self, InvalidPermitId> {
        let refuse = || InvalidPermitId(text.chars().take(64).collect());
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(refuse());
        }
        u128::from_str_radix(text, 16).map(|id| PermitId(id.to_be_bytes())).map_err(|_| refuse())
    }
}

const HELD: u8 = 0;
const EXPIRED: u8 = 1;
const GONE: u8 = 2;
const SHUT_DOWN: u8 = 3;

/// One permit with a lease.
pub(super) struct Leased {
    pub(super) id: PermitId,
    /// What it was granted with, and what renewals write.
    pub(super) lease: LeaseMode,
    /// What it was granted with, and what a renewal has before it is believed.
    pub(super) durability: Durability,
    clock: Clock,
    /// Until when it is believed.
    deadline: Deadline,
    /// When it is next seen to, in nanoseconds.
    due: AtomicU64,
    shortened: AtomicU64,
    ended: AtomicU8,
}

impl Leased {
    /// One that was asked for at `sent`.
    pub(super) fn new(
        id: PermitId,
        (lease, durability): (LeaseMode, Durability),
        sent: Instant,
        clock: Clock,
    ) -> Arc<Self> {
        let deadline = Deadline::new(deadline(sent, on_server(lease)));
        let (due, shortened, ended) = (AtomicU64::default(), AtomicU64::default(), AtomicU8::new(HELD));
        let leased = Leased { id, lease, durability, clock, deadline, due, shortened, ended };
        leased.looked_at(sent);
        Arc::new(leased)
    }

    /// When it is next seen to: a third of it after the last time, or when it ends.
    pub(super) fn due(&self) -> Instant {
        Instant::from_nanos(self.due.load(Ordering::Acquire)).min(self.deadline())
    }

    /// It was asked about at `now`.
    pub(super) fn looked_at(&self, now: Instant) {
        let due = match self.lease {
            LeaseMode::Renewed(lease) => now + lease / 3,
            LeaseMode::Fixed(_) => Instant::MAX,
        };
        self.due.store(due.as_nanos(), Ordering::Release);
    }

    /// It is to be asked about at once.
    pub(super) fn look_now(&self) {
        self.due.store(Instant::MIN.as_nanos(), Ordering::Release);
    }

    pub(super) fn deadline(&self) -> Instant {
        self.deadline.at()
    }

    /// How it ended without us, if it did; a passed deadline counts although nobody has marked it yet.
    pub(super) fn lost(&self) -> Option<LostReason> {
        match self.ended.load(Ordering::Acquire) {
            HELD => self.deadline.has_passed(self.clock.now()).then_some(LostReason::Expired),
            EXPIRED => Some(LostReason::Expired),
            GONE => Some(LostReason::Gone),
            _ => Some(LostReason::ShutDown),
        }
    }

    pub(super) fn end(&self, reason: LostReason) {
        let ended = match reason {
            LostReason::Expired => EXPIRED,
            LostReason::ShutDown => SHUT_DOWN,
            _ => GONE,
        };
        let _ = self.ended.compare_exchange(HELD, ended, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Its lease was confirmed until `deadline`. Once it is over it stays over: somebody may have been told.
    pub(super) fn confirmed(&self, deadline: Instant) {
        if self.lost().is_none() {
            self.deadline.extend(deadline, self.clock.now());
        }
    }

    /// Its lease may end earlier from now on; what was asked about it before says nothing any more.
    pub(super) fn shorten(&self, deadline: Instant) {
        self.shortened.fetch_add(1, Ordering::AcqRel);
        self.deadline.lower(deadline);
    }

    /// How often it was.
    pub(super) fn shortened(&self) -> u64 {
        self.shortened.load(Ordering::Acquire)
    }

    pub(super) fn is_renewed(&self) -> bool {
        matches!(self.lease, LeaseMode::Renewed(_))
    }
}

/// So many permits. Where they have leases, each is named.
#[derive(Default)]
pub(super) struct Stock {
    pub(super) n: u64,
    pub(super) leased: Vec<Arc<Leased>>,
    /// How durable the grant of each of them is at least.
    pub(super) durability: Durability,
}

impl Stock {
    /// Takes `n` of them out, which there are.
    pub(super) fn split(&mut self, n: u64) -> Stock {
        self.n -= n;
        let keep = usize::try_from(self.n).unwrap_or(usize::MAX).min(self.leased.len());
        Stock { n, leased: self.leased.split_off(keep), durability: self.durability }
    }

    pub(super) fn merge(&mut self, mut other: Stock) {
        self.durability = match (self.durability, other.durability) {
            _ if other.is_empty() => self.durability,
            (_, theirs) if self.is_empty() => theirs,
            (ours, theirs) if ours.covers(theirs) => theirs,
            (ours, theirs) if theirs.covers(ours) => ours,
            _ => Durability::Primary,
        };
        self.n += other.n;
        self.leased.append(&mut other.leased);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Until when all of them are believed.
    pub(super) fn deadline(&self) -> Instant {
        self.leased.iter().map(|leased| leased.deadline()).min().unwrap_or(Instant::MAX)
    }

    /// How the first of them that was lost ended.
    pub(super) fn lost(&self) -> Option<LostReason> {
        self.leased.iter().find_map(|leased| leased.lost())
    }

    /// Whether they serve who asks for `lease` and `durability`, as they are: with a fixed lease, a new grant begins anew.
    pub(super) fn serves(&self, lease: Option<LeaseMode>, durability: Durability, now: Instant) -> bool {
        if !self.durability.covers(durability) {
            return false;
        }
        let Some(lease) = lease else { return self.leased.is_empty() };
        let serves = |leased: &Arc<Leased>| {
            let enough =
                leased.is_renewed() && leased.lost().is_none() && now + lease.duration() / 2 <= leased.deadline();
            leased.lease == lease && enough
        };
        self.leased.iter().all(serves)
    }
}

/// How long a lease is on the server, in whole milliseconds.
pub(super) fn millis(lease: Duration) -> i64 {
    i64::try_from(lease.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}
