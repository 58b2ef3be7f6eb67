//! The entries that the user of a consumer holds as deliveries.
//!
//! A consumer that reads its pending entries again, to find those of a lost reply, skips these
//! entries.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use crate::entry::RawEntry;
use crate::id::EntryId;

/// An entry that was fetched for the user.
#[derive(Debug)]
pub(crate) struct FetchedEntry {
    pub(crate) raw: RawEntry,
    /// How often the entry was delivered, including this time.
    pub(crate) attempt: u64,
    /// Marks the entry as outstanding until it is dropped.
    pub(crate) outstanding: Arc<()>,
}

/// The set of outstanding entries. Dropped entries are removed from time to time.
#[derive(Debug, Default)]
pub(crate) struct OutstandingEntries {
    entries: BTreeMap<EntryId, Weak<()>>,
    /// The size at which dropped entries are removed.
    cleanup_size: usize,
}

impl OutstandingEntries {
    /// The smallest size at which dropped entries are removed.
    const MIN_CLEANUP_SIZE: usize = 1_000;

    pub(crate) fn contains(&self, id: EntryId) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.strong_count() > 0)
    }

    /// Marks an entry as outstanding.
    pub(crate) fn insert(&mut self, raw: RawEntry, attempt: u64) -> FetchedEntry {
        if self.entries.len() >= self.cleanup_size.max(Self::MIN_CLEANUP_SIZE) {
            self.entries.retain(|_, entry| entry.strong_count() > 0);
            self.cleanup_size = 2 * self.entries.len();
        }
        let outstanding = Arc::new(());
        self.entries.insert(raw.id, Arc::downgrade(&outstanding));
        FetchedEntry { raw, attempt, outstanding }
    }

    /// Removes all entries. Called when the group does not exist any more, to which the entries
    /// belonged.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_entries_are_not_outstanding_and_do_not_pile_up() {
        let raw = |ms| RawEntry { id: EntryId::new(ms, 0), fields: None };
        let mut outstanding = OutstandingEntries::default();
        let kept: Vec<_> = (0..3_000).map(|ms| outstanding.insert(raw(ms), 1)).collect();
        assert!(kept.iter().all(|entry| outstanding.contains(entry.raw.id)));
        for ms in 3_000..100_000 {
            drop(outstanding.insert(raw(ms), 1));
            assert!(!outstanding.contains(EntryId::new(ms, 0)));
        }
        assert!(
            outstanding.contains(EntryId::new(0, 0)) && outstanding.entries.len() <= 6_001,
            "{}",
            outstanding.entries.len()
        );
        drop(kept);
        assert!(!outstanding.contains(EntryId::new(0, 0)));
    }
}
