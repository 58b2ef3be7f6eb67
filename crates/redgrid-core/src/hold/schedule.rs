//! Which hold is renewed or verified when, and when which is no longer believed.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::state::Hold;
use crate::clock::Instant;

#[derive(Default)]
pub(super) struct Schedule {
    holds: HashMap<u64, Registered>,
    due: BTreeSet<(Instant, u64)>,
    deadlines: BTreeSet<(Instant, u64)>,
}

struct Registered {
    hold: Arc<Hold>,
    due: Option<Instant>,
    deadline: Instant,
}

impl Schedule {
    pub(super) fn insert(&mut self, hold: Arc<Hold>, due: Option<Instant>) {
        let (id, deadline) = (hold.id, hold.deadline());
        self.deadlines.insert((deadline, id));
        self.due.extend(due.map(|due| (due, id)));
        self.holds.insert(id, Registered { hold, due, deadline });
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<Arc<Hold>> {
        let registered = self.holds.remove(&id)?;
        self.deadlines.remove(&(registered.deadline, id));
        if let Some(due) = registered.due {
            self.due.remove(&(due, id));
        }
        Some(registered.hold)
    }

    pub(super) fn get(&self, id: u64) -> Option<&Arc<Hold>> {
        self.holds.get(&id).map(|registered| &registered.hold)
    }

    /// Takes in the hold's present deadline, and when it is due next. Nothing for a hold that is no longer here.
    pub(super) fn reschedule(&mut self, id: u64, due: Option<Instant>) {
        let Some(registered) = self.holds.get_mut(&id) else { return };
        self.deadlines.remove(&(registered.deadline, id));
        registered.deadline = registered.hold.deadline();
        self.deadlines.insert((registered.deadline, id));
        if let Some(due) = registered.due {
            self.due.remove(&(due, id));
        }
        registered.due = due;
        self.due.extend(due.map(|due| (due, id)));
    }

    /// When something is to be done next.
    pub(super) fn next(&self) -> Instant {
        let due = self.due.first().map_or(Instant::NEVER, |(due, _)| *due);
        let deadline = self.deadlines.first().map_or(Instant::NEVER, |(deadline, _)| *deadline);
        due.min(deadline)
    }

    /// Removes the holds whose deadline has passed.
    pub(super) fn expired(&mut self, now: Instant) -> Vec<Arc<Hold>> {
        let mut out = Vec::new();
        while let Some((deadline, id)) = self.deadlines.first().copied() {
            if deadline > now {
                break;
            }
            self.deadlines.pop_first();
            out.extend(self.remove(id));
        }
        out
    }

    /// The holds to renew in one go: if any is due at `now`, the first `most` of those that are due by `soon`. They are
    /// due again only when rescheduled.
    pub(super) fn take_due(&mut self, now: Instant, soon: Instant, most: usize) -> Vec<Arc<Hold>> {
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
            if let Some(registered) = self.holds.get_mut(&id) {
                registered.due = None;
                out.push(Arc::clone(&registered.hold));
            }
        }
        out
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Hold>> {
        self.holds.values().map(|registered| &registered.hold)
    }

    pub(super) fn drain(&mut self) -> Vec<Arc<Hold>> {
        self.due.clear();
        self.deadlines.clear();
        self.holds.drain().map(|(_, registered)| registered.hold).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.holds.len()
    }
}
