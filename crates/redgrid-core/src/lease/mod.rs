//! Leases of locks and permits on the server.
//!
//! Locally, a lease begins just before its request is sent, and is shorter than on the server by a
//! [`margin`]. A lease is renewed after a third of its length. Each client has two renewal loops:
//! one for locks, one for permits. A loop sleeps until the first of its leases ends or is due for
//! renewal.

#[cfg(test)]
mod tests;
mod wakeup;

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

pub(crate) use redgrid_client::internal::LONGEST_WINDOW;
use redgrid_client::internal::shrink_if_sparse;

pub(crate) use self::wakeup::Wakeup;
use crate::clock::Instant;

/// How long a lock or a permit is granted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub enum LeaseMode {
    /// The lease is renewed while the guard lives. The duration is how long the lease lasts without
    /// a renewal.
    Renewed(Duration),
    /// The lease has this duration and is not renewed.
    Fixed(Duration),
}

impl LeaseMode {
    /// Returns how long the lease lasts without a renewal.
    pub fn duration(self) -> Duration {
        match self {
            LeaseMode::Renewed(lease) | LeaseMode::Fixed(lease) => lease,
        }
    }
}

/// Returns how much earlier a lease ends in this process than on the server.
///
/// The margin is a twentieth of the lease, and at least 20 ms. It covers the drift of clocks, the
/// granularity of timers, and the time until a `lost` notice reaches the task of the holder.
pub(crate) fn margin(lease: Duration) -> Duration {
    (lease / 20).max(Duration::from_millis(20))
}

/// Returns the lease to request from the server, so that it is valid locally for `validity`.
pub(crate) fn with_margin(validity: Duration) -> Duration {
    // The margin is a twentieth of the whole lease. So the lease is 20/19 of `validity`, rounded
    // up.
    (validity + validity / 19 + Duration::from_nanos(1)).max(validity + Duration::from_millis(20))
}

/// Returns the instant until which a confirmed lease is valid locally. `sent` is the time at which
/// its request was sent.
pub(crate) fn deadline(sent: Instant, lease: Duration) -> Instant {
    sent + lease.saturating_sub(margin(lease))
}

/// Returns the time of the next renewal or check of a lease. `from` is the time at which the last
/// request for the lease was sent.
///
/// Normally this is `from` plus a third of the lease, so that the lease survives one failed
/// renewal.
pub(crate) fn next_renewal(lease: Duration, deadline: Instant, from: Instant) -> Instant {
    // If less than two thirds of the lease are left, the renewal is due after half of the remaining
    // time.
    from + (lease / 3).min(deadline.since(from) / 2).max(SHORTEST_INTERVAL)
}

/// Returns the delay of a renewal that was confirmed at `now`: the time since the renewal was due,
/// or zero if it was not due yet. `deadline` is the deadline before that renewal.
pub(crate) fn renewal_lag(lease: Duration, deadline: Instant, now: Instant) -> Duration {
    now.since(deadline - lease.saturating_sub(margin(lease)) + lease / 3)
}

/// Whether an overdue renewal of a lease was counted since the last confirmation.
#[derive(Debug, Default)]
pub(crate) struct Overdue(AtomicBool);

impl Overdue {
    /// Returns whether a renewal is overdue at `now` and was not counted yet. It counts as overdue
    /// a response timeout after it was due, or a sixth of the lease if that is shorter. `deadline`
    /// is the deadline before that renewal.
    pub(crate) fn begins(&self, lease: Duration, deadline: Instant, now: Instant, response_timeout: Duration) -> bool {
        let is_overdue = renewal_lag(lease, deadline, now) >= response_timeout.min(lease / 6);
        is_overdue && !self.0.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn confirmed(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// The shortest time between two renewals or verifications, even near the end of the lease.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(20);

/// Returns the pause between a failed renewal and the next one.
///
/// The pause is a thirtieth of the lease, and at most 1 s.
pub(crate) fn retry_pause(lease: Duration) -> Duration {
    (lease / 30).min(Duration::from_secs(1))
}

/// The shortest hand-over window if none is configured: 10 ms.
///
/// With longer windows, throughput does not rise, and other processes wait longer. Measured with
/// three processes of 16 tasks each: 17,900 critical sections a second with a window of 5 ms,
/// 18,800 with 10 ms, and 18,300 with 20 ms.
const SHORTEST_WINDOW: Duration = Duration::from_millis(10);

/// Returns the length of a hand-over window: `set`, or ten round trips if `set` is `None`.
///
/// If ten round trips are shorter than [`SHORTEST_WINDOW`], the window lasts [`SHORTEST_WINDOW`].
/// No window is longer than [`LONGEST_WINDOW`].
///
/// After the window, the release and the next acquire take two more round trips. With a window of
/// ten round trips or more, these two are at most a sixth of the time between two acquires.
pub(crate) fn handover_window(set: Option<Duration>, round_trip: Duration) -> Duration {
    set.unwrap_or((round_trip * 10).max(SHORTEST_WINDOW)).min(LONGEST_WINDOW)
}

/// Bit that is set once an observer has found that the deadline has passed.
const PASSED: u64 = 1 << 63;

/// The largest instant that can be stored in the bits below `PASSED`. It stands for
/// [`Instant::MAX`].
const NEVER: u64 = PASSED - 1;

/// The instant until which something is valid.
///
/// One task extends the deadline while other tasks read it. The extending task may check the
/// deadline just before it passes, and store the extension just after it has passed. A reader in
/// between would see "passed", and later "not passed". So a reader that finds that the deadline has
/// passed marks it as passed, in the same atomic value. No extension moves a marked deadline.
pub(crate) struct Deadline(AtomicU64);

impl Deadline {
    pub(crate) fn new(at: Instant) -> Self {
        Deadline(AtomicU64::new(encoded(at)))
    }

    /// Returns the instant, even if the deadline is marked as passed.
    pub(crate) fn at(&self) -> Instant {
        decoded(self.0.load(Ordering::Acquire))
    }

    /// Returns whether the deadline has passed at `now`. Also returns true if an earlier call has
    /// returned true.
    pub(crate) fn has_passed(&self, now: Instant) -> bool {
        let mark = |bits| (bits & PASSED == 0 && now >= decoded(bits)).then_some(bits | PASSED);
        match self.0.load(Ordering::Acquire) {
            // Most deadlines are in the future, and one load is enough for them.
            bits if bits & PASSED == 0 && now < decoded(bits) => false,
            _ => match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, mark) {
                Ok(_) => true,
                Err(bits) => bits & PASSED != 0,
            },
        }
    }

    /// Moves the deadline to `to`, forwards or backwards. If the deadline has passed at `now`,
    /// changes nothing and returns false.
    pub(crate) fn set(&self, to: Instant, now: Instant) -> bool {
        self.update(now, |_| to)
    }

    /// If the deadline is earlier than `to`, moves it to `to`. If the deadline has passed at `now`,
    /// changes nothing and returns false.
    pub(crate) fn extend(&self, to: Instant, now: Instant) -> bool {
        self.update(now, |at| at.max(to))
    }

    /// If the deadline is later than `to`, moves it to `to`.
    pub(crate) fn lower(&self, to: Instant) {
        let earlier = |bits| Some(encoded(decoded(bits).min(to)) | (bits & PASSED));
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, earlier);
    }

    fn update(&self, now: Instant, to: impl Fn(Instant) -> Instant) -> bool {
        if self.has_passed(now) {
            return false;
        }
        let moved = |bits| (bits & PASSED == 0).then(|| encoded(to(decoded(bits))));
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, moved).is_ok()
    }
}

fn encoded(at: Instant) -> u64 {
    at.as_nanos().min(NEVER)
}

fn decoded(bits: u64) -> Instant {
    match bits & NEVER {
        NEVER => Instant::MAX,
        nanos => Instant::from_nanos(nanos),
    }
}

/// A lease that can be renewed or verified before it ends. A verification looks the lease up on the
/// server, and does not extend it.
pub(crate) trait Lease {
    /// Identifies a lease in its schedule.
    type Id: Copy + Ord + Hash;

    fn id(&self) -> Self::Id;

    /// Returns the earlier of two times: when the lease ends without a further renewal, and when
    /// the first of its holds runs out.
    fn next_end(&self) -> Instant;
}

pub(crate) struct Schedule<L: Lease> {
    leases: HashMap<L::Id, Registered<L>, foldhash::fast::RandomState>,
    due: BTreeSet<(Instant, L::Id)>,
    ends: BTreeSet<(Instant, L::Id)>,
}

struct Registered<L> {
    lease: Arc<L>,
    /// When the lease is renewed next; `Instant::MAX` while a renewal is in flight.
    due: Instant,
    /// When the end of the lease is checked next. After a renewal, the actual end may be later.
    end: Instant,
}

/// Adds an entry. Does nothing if its time is `Instant::MAX`.
fn note<Id: Ord>(set: &mut BTreeSet<(Instant, Id)>, at: Instant, id: Id) {
    if at != Instant::MAX {
        set.insert((at, id));
    }
}

fn strike<Id: Ord>(set: &mut BTreeSet<(Instant, Id)>, at: Instant, id: Id) {
    if at != Instant::MAX {
        set.remove(&(at, id));
    }
}

impl<L: Lease> Default for Schedule<L> {
    fn default() -> Self {
        Schedule { leases: HashMap::default(), due: BTreeSet::new(), ends: BTreeSet::new() }
    }
}

impl<L: Lease> Schedule<L> {
    pub(crate) fn insert(&mut self, lease: Arc<L>, due: Instant) {
        let (id, end) = (lease.id(), lease.next_end());
        note(&mut self.ends, end, id);
        note(&mut self.due, due, id);
        self.leases.insert(id, Registered { lease, due, end });
    }

    pub(crate) fn remove(&mut self, id: L::Id) -> Option<Arc<L>> {
        let registered = self.leases.remove(&id)?;
        shrink_if_sparse(&mut self.leases);
        strike(&mut self.ends, registered.end, id);
        strike(&mut self.due, registered.due, id);
        Some(registered.lease)
    }

    pub(crate) fn get(&self, id: L::Id) -> Option<&Arc<L>> {
        self.leases.get(&id).map(|registered| &registered.lease)
    }

    /// Schedules the next renewal of the lease at `due`. Also updates the recorded end of the
    /// lease, as [`Schedule::moved`] does. Unknown ids are ignored.
    pub(crate) fn reschedule(&mut self, id: L::Id, due: Instant) {
        self.moved(id);
        let Some(registered) = self.leases.get_mut(&id) else { return };
        strike(&mut self.due, registered.due, id);
        note(&mut self.due, due, id);
        registered.due = due;
    }

    /// Updates the recorded end of the lease if the actual end is earlier.
    ///
    /// If the actual end is later, as after a renewal, [`Schedule::ended`] updates the record.
    pub(crate) fn moved(&mut self, id: L::Id) {
        let Some(registered) = self.leases.get_mut(&id) else { return };
        let end = registered.lease.next_end();
        if end < registered.end {
            strike(&mut self.ends, registered.end, id);
            note(&mut self.ends, end, id);
            registered.end = end;
        }
    }

    /// Returns the time of the next renewal or of the next check of an end, whichever is earlier.
    pub(crate) fn next(&self) -> Instant {
        let due = self.due.first().map_or(Instant::MAX, |(due, _)| *due);
        let end = self.ends.first().map_or(Instant::MAX, |(end, _)| *end);
        due.min(end)
    }

    /// Returns the leases that have ended at `now`.
    ///
    /// A renewal changes only the actual end of a lease. The end that this schedule has recorded
    /// then is too early. This method corrects such records up to `soon`, so that one pass corrects
    /// those of many leases.
    pub(crate) fn ended(&mut self, now: Instant, soon: Instant) -> Vec<Arc<L>> {
        let mut out = Vec::new();
        while let Some((noted, id)) = self.ends.first().copied()
            && noted <= soon
        {
            let Some(registered) = self.leases.get_mut(&id) else {
                self.ends.pop_first();
                continue;
            };
            let end = registered.lease.next_end();
            let is_over = end <= now;
            if !is_over && end <= noted {
                break;
            }
            self.ends.pop_first();
            // The caller must remove or reschedule the lease. Until then, it is not returned again.
            registered.end = if is_over { Instant::MAX } else { end };
            note(&mut self.ends, registered.end, id);
            if is_over {
                out.push(Arc::clone(&registered.lease));
            }
        }
        out
    }

    /// Takes the leases that one request renews: the first ones whose renewal is due by `soon`, but
    /// at most `most` of them.
    ///
    /// If no renewal is due at `now`, no lease is taken, even if a renewal is due by `soon`. The
    /// next renewal of a taken lease must be set with `reschedule`.
    pub(crate) fn take_due(&mut self, now: Instant, soon: Instant, most: usize) -> Vec<Arc<L>> {
        let mut out = Vec::new();
        if self.due.first().is_none_or(|(due, _)| *due > now) {
            return out;
        }
        while out.len() < most {
            let Some((due, id)) = self.due.first().copied() else { break };
            if due > soon {
                break;
            }
            self.due.pop_first();
            if let Some(registered) = self.leases.get_mut(&id) {
                registered.due = Instant::MAX;
                out.push(Arc::clone(&registered.lease));
            }
        }
        out
    }

    /// Sets the next renewal of all leases that `concerned` selects to `due`.
    pub(crate) fn reschedule_all(&mut self, due: Instant, concerned: impl Fn(&L) -> bool) {
        let ids: Vec<_> = self.iter().filter(|lease| concerned(lease)).map(|lease| lease.id()).collect();
        ids.into_iter().for_each(|id| self.reschedule(id, due));
    }

    pub(crate) fn drain(&mut self) -> Vec<Arc<L>> {
        self.due.clear();
        self.ends.clear();
        self.leases.drain().map(|(_, registered)| registered.lease).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.leases.len()
    }

    /// Returns all leases, in any order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<L>> {
        self.leases.values().map(|registered| &registered.lease)
    }
}
