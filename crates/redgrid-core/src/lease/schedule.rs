//! When each lease is renewed or verified, and when it ends.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use crate::clock::Instant;
use crate::shrink::shrink_if_sparse;

/// A lease that is renewed or verified, and that ends.
pub(crate) trait Lease {
    /// What distinguishes it from other leases of its schedule.
    type Id: Copy + Ord + Hash;

    fn id(&self) -> Self::Id;

    /// Returns when it ends by the clock, or a part of it does.
    fn next_end(&self) -> Instant;
}

pub(crate) struct Schedule<L: Lease> {
    leases: HashMap<L::Id, Registered<L>, foldhash::fast::RandomState>,
    due: BTreeSet<(Instant, L::Id)>,
    ends: BTreeSet<(Instant, L::Id)>,
}

struct Registered<L> {
    lease: Arc<L>,
    /// When it is renewed next; `Instant::MAX` while a renewal is in flight.
    due: Instant,
    /// When its end is checked; the actual end may have moved to later.
    end: Instant,
}

/// Adds an entry, unless its time is `Instant::MAX`.
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

    /// Updates the end of the lease and schedules its next renewal. Unknown ids are ignored.
    pub(crate) fn reschedule(&mut self, id: L::Id, due: Instant) {
        self.moved(id);
        let Some(registered) = self.leases.get_mut(&id) else { return };
        strike(&mut self.due, registered.due, id);
        note(&mut self.due, due, id);
        registered.due = due;
    }

    /// Updates the end of the lease if it is earlier now.
    ///
    /// A later end is found when the scheduled one is checked, because each renewal moves it.
    pub(crate) fn moved(&mut self, id: L::Id) {
        let Some(registered) = self.leases.get_mut(&id) else { return };
        let end = registered.lease.next_end();
        if end < registered.end {
            strike(&mut self.ends, registered.end, id);
            note(&mut self.ends, end, id);
            registered.end = end;
        }
    }

    /// Returns when something is due next.
    pub(crate) fn next(&self) -> Instant {
        let due = self.due.first().map_or(Instant::MAX, |(due, _)| *due);
        let end = self.ends.first().map_or(Instant::MAX, |(end, _)| *end);
        due.min(end)
    }

    /// Returns the leases of which an end has passed.
    ///
    /// Ends that have moved to later are updated, including those that would be checked by `soon`:
    /// one pass serves many.
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
            // The caller removes or reschedules it; until then it is not returned again.
            registered.end = if is_over { Instant::MAX } else { end };
            note(&mut self.ends, registered.end, id);
            if is_over {
                out.push(Arc::clone(&registered.lease));
            }
        }
        out
    }

    /// Takes the leases for one renewal.
    ///
    /// If any is due at `now`, these are the first `most` of those due by `soon`. They are due
    /// again only after `reschedule`.
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

    /// Makes all leases that `concerned` selects due at `due`.
    pub(crate) fn reschedule_all(&mut self, due: Instant, concerned: impl Fn(&L) -> bool) {
        let leases = self.leases.values().map(|registered| &registered.lease);
        let ids: Vec<_> = leases.filter(|lease| concerned(lease)).map(|lease| lease.id()).collect();
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
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;

    struct Ending(u32, Mutex<Instant>);

    impl Lease for Ending {
        type Id = u32;

        fn id(&self) -> u32 {
            self.0
        }

        fn next_end(&self) -> Instant {
            *self.1.lock().unwrap()
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant::MIN + Duration::from_secs(seconds)
    }

    fn schedule(ends: [u64; 3]) -> (Schedule<Ending>, [Arc<Ending>; 3]) {
        let mut schedule = Schedule::default();
        let mut id = 0;
        let leases = ends.map(|end| {
            id += 1;
            Arc::new(Ending(id, Mutex::new(at(end))))
        });
        leases.iter().for_each(|lease| schedule.insert(Arc::clone(lease), at(u64::from(lease.0) * 10)));
        (schedule, leases)
    }

    fn ids(leases: Vec<Arc<Ending>>) -> Vec<u32> {
        leases.iter().map(|lease| lease.0).collect()
    }

    #[test]
    fn what_is_due_is_taken_once_with_what_is_due_soon() {
        let (mut schedule, _) = schedule([100, 100, 100]);
        assert_eq!(schedule.next(), at(10));
        assert_eq!(ids(schedule.take_due(at(9), at(25), 9)), [0; 0], "none is due yet");
        assert_eq!(ids(schedule.take_due(at(10), at(25), 9)), [1, 2]);
        assert_eq!(schedule.next(), at(30), "those in flight are not due");
        schedule.reschedule(1, at(12));
        schedule.reschedule(7, at(1));
        assert_eq!(ids(schedule.take_due(at(40), at(40), 1)), [1], "the first one, and no more than asked");
        assert!(schedule.remove(3).is_some() && schedule.remove(3).is_none());
        assert_eq!((schedule.len(), schedule.next()), (2, at(100)));
    }

    #[test]
    fn an_end_that_has_moved_is_found_where_it_is_now() {
        let (mut schedule, leases) = schedule([40, 50, 60]);
        *leases[0].1.lock().unwrap() = at(70);
        *leases[2].1.lock().unwrap() = at(45);
        schedule.moved(3);
        assert_eq!(ids(schedule.ended(at(44), at(44))), [0; 0]);
        assert_eq!(ids(schedule.ended(at(50), at(50))), [3, 2]);
        assert_eq!(ids(schedule.ended(at(69), at(69))), [0; 0], "each is returned once");
        assert_eq!(ids(schedule.ended(at(70), at(70))), [1]);
    }
}
