//! Names that others wait for, for a moment after we let go of them: the next request of ours obeys the order although nobody
//! of us waited when they were given back.

use super::slot::SlotKey;
use super::table::ByName;
use super::turn::Turn;
use crate::clock::Instant;

/// What is remembered, by name.
#[derive(Default)]
pub(super) struct Recents {
    names: ByName<Recent>,
    prune_at: usize,
}

#[derive(Clone, Copy)]
pub(super) struct Recent {
    /// What is to be waited for when the stretch has ended.
    pub(super) turn: Turn,
    /// When the name was given back.
    pub(super) since: Instant,
    pub(super) until: Instant,
    pub(super) stretch_ends: Instant,
}

impl Recent {
    /// Until when those who wait are just being told that the stretch is over, if they are.
    pub(super) fn others_turn(&self, now: Instant) -> Option<Instant> {
        let until = self.since + self.turn.silence(None);
        (now >= self.stretch_ends && now < until).then_some(until)
    }
}

impl Recents {
    pub(super) fn insert(&mut self, key: SlotKey, recent: Recent, now: Instant) {
        if self.names.len() >= self.prune_at.max(64) {
            self.names.retain(|_, recent| recent.until > now);
            self.prune_at = self.names.len() * 2;
        }
        self.names.insert(key, recent);
    }

    pub(super) fn get(&self, key: &SlotKey, now: Instant) -> Option<Recent> {
        self.names.get(key).copied().filter(|recent| recent.until > now)
    }

    pub(super) fn take(&mut self, key: &SlotKey, now: Instant) -> Option<Recent> {
        if self.names.is_empty() {
            return None;
        }
        self.names.remove(key).filter(|recent| recent.until > now)
    }
}
