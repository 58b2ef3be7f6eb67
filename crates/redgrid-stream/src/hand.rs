//! What the user of a consumer has in hand, so that it is not given a second time where the consumer looks for what it was given unseen.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use crate::entry::Raw;
use crate::id::EntryId;

/// An entry on its way to the user: how often it was given, and what is held while somebody has it.
#[derive(Debug)]
pub(crate) struct Given {
    pub(crate) raw: Raw,
    pub(crate) attempt: u64,
    pub(crate) held: Arc<()>,
}

/// Which entries somebody has. Those that were let go are forgotten from time to time.
#[derive(Debug, Default)]
pub(crate) struct Hand {
    held: BTreeMap<EntryId, Weak<()>>,
    /// How many there are to be when those that were let go are forgotten.
    full: usize,
}

impl Hand {
    /// The least number that is looked through.
    const LEAST: usize = 1_000;

    pub(crate) fn has(&self, id: EntryId) -> bool {
        self.held.get(&id).is_some_and(|held| held.strong_count() > 0)
    }

    /// An entry is given.
    pub(crate) fn take(&mut self, raw: Raw, attempt: u64) -> Given {
        if self.held.len() >= self.full.max(Self::LEAST) {
            self.held.retain(|_, held| held.strong_count() > 0);
            self.full = 2 * self.held.len();
        }
        let held = Arc::new(());
        self.held.insert(raw.id, Arc::downgrade(&held));
        Given { raw, attempt, held }
    }

    /// Whoever has what, it is of another stream.
    pub(crate) fn forget(&mut self) {
        self.held.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_let_go_is_in_no_hand_and_does_not_pile_up() {
        let raw = |ms| Raw { id: EntryId::new(ms, 0), fields: None };
        let mut hand = Hand::default();
        let kept: Vec<_> = (0..3_000).map(|ms| hand.take(raw(ms), 1)).collect();
        assert!(kept.iter().all(|one| hand.has(one.raw.id)));
        for ms in 3_000..100_000 {
            drop(hand.take(raw(ms), 1));
            assert!(!hand.has(EntryId::new(ms, 0)));
        }
        assert!(hand.has(EntryId::new(0, 0)) && hand.held.len() <= 6_001, "{}", hand.held.len());
        drop(kept);
        assert!(!hand.has(EntryId::new(0, 0)));
    }
}
