//! When each server lease is renewed or verified, and when it or its owner's lease ends.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::server_lease::ServerLease;
use crate::clock::Instant;
use crate::shrink::shrink_if_sparse;

#[derive(Default)]
pub(super) struct Schedule {
    server_leases: HashMap<u64, Registered, foldhash::fast::RandomState>,
    due: BTreeSet<(Instant, u64)>,
    ends: BTreeSet<(Instant, u64)>,
}

struct Registered {
    server_lease: Arc<ServerLease>,
    /// When it is renewed next; `Instant::MAX` while a renewal is in flight.
    due: Instant,
    /// When its end is checked; the actual end may have moved to later.
    end: Instant,
}

/// Adds an entry, unless its time is `Instant::MAX`.
fn note(set: &mut BTreeSet<(Instant, u64)>, at: Instant, id: u64) {
    if at != Instant::MAX {
        set.insert((at, id));
    }
}

fn strike(set: &mut BTreeSet<(Instant, u64)>, at: Instant, id: u64) {
    if at != Instant::MAX {
        set.remove(&(at, id));
    }
}

impl Schedule {
    pub(super) fn insert(&mut self, server_lease: Arc<ServerLease>, due: Instant) {
        let (id, end) = (server_lease.id, server_lease.next_end());
        note(&mut self.ends, end, id);
        note(&mut self.due, due, id);
        self.server_leases.insert(id, Registered { server_lease, due, end });
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Arc<ServerLease>> {
        let registered = self.server_leases.remove(&id)?;
        shrink_if_sparse(&mut self.server_leases);
        strike(&mut self.ends, registered.end, id);
        strike(&mut self.due, registered.due, id);
        Some(registered.server_lease)
    }

    pub(super) fn get(&self, id: u64) -> Option<&Arc<ServerLease>> {
        self.server_leases.get(&id).map(|registered| &registered.server_lease)
    }

    /// Updates the end of the server lease and schedules its next renewal. Unknown ids are ignored.
    pub(super) fn reschedule(&mut self, id: u64, due: Instant) {
        self.moved(id);
        let Some(registered) = self.server_leases.get_mut(&id) else { return };
        strike(&mut self.due, registered.due, id);
        note(&mut self.due, due, id);
        registered.due = due;
    }

    /// Updates the end of the server lease if it is earlier now.
    ///
    /// A later end is found when the scheduled one is checked, because each renewal moves it.
    pub(super) fn moved(&mut self, id: u64) {
        let Some(registered) = self.server_leases.get_mut(&id) else { return };
        let end = registered.server_lease.next_end();
        if end < registered.end {
            strike(&mut self.ends, registered.end, id);
            note(&mut self.ends, end, id);
            registered.end = end;
        }
    }

    /// Returns when something is due next.
    pub(super) fn next(&self) -> Instant {
        let due = self.due.first().map_or(Instant::MAX, |(due, _)| *due);
        let end = self.ends.first().map_or(Instant::MAX, |(end, _)| *end);
        due.min(end)
    }

    /// Returns the server leases of which an end has passed.
    ///
    /// Ends that have moved to later are updated, including those that would be checked by `soon`:
    /// one pass serves many.
    pub(super) fn ended(&mut self, now: Instant, soon: Instant) -> Vec<Arc<ServerLease>> {
        let mut out = Vec::new();
        while let Some((noted, id)) = self.ends.first().copied()
            && noted <= soon
        {
            let Some(registered) = self.server_leases.get_mut(&id) else {
                self.ends.pop_first();
                continue;
            };
            let end = registered.server_lease.next_end();
            let is_over = end <= now;
            if !is_over && end <= noted {
                break;
            }
            self.ends.pop_first();
            // The caller removes or reschedules it; until then it is not returned again.
            registered.end = if is_over { Instant::MAX } else { end };
            note(&mut self.ends, registered.end, id);
            if is_over {
                out.push(Arc::clone(&registered.server_lease));
            }
        }
        out
    }

    /// Takes the server leases for one renewal.
    ///
    /// If any is due at `now`, these are the first `most` of those due by `soon`. They are due
    /// again only after `reschedule`.
    pub(super) fn take_due(&mut self, now: Instant, soon: Instant, most: usize) -> Vec<Arc<ServerLease>> {
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
            if let Some(registered) = self.server_leases.get_mut(&id) {
                registered.due = Instant::MAX;
                out.push(Arc::clone(&registered.server_lease));
            }
        }
        out
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<ServerLease>> {
        self.server_leases.values().map(|registered| &registered.server_lease)
    }

    pub(super) fn drain(&mut self) -> Vec<Arc<ServerLease>> {
        self.due.clear();
        self.ends.clear();
        self.server_leases.drain().map(|(_, registered)| registered.server_lease).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.server_leases.len()
    }
}
