//! What is kept, within so many entries and bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use foldhash::fast::RandomState;
use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};
use redgrid_core::clock::Instant;

use super::Hash;
use crate::options::Options;

/// What an entry takes beside its bytes: itself, its place and what allocators add.
const BESIDES: u64 = 192;

/// In so many parts at most, each with a lock of its own; what is larger than a part has no room.
const PARTS: u64 = 16;

/// The least that a part has: 64 KiB and 32 entries. A cache that is smaller is one part.
const PART_BYTES: u64 = 64 * 1024;
const PART_ENTRIES: u64 = 32;

/// Of a part so much is for what is used most, and an entry has room if it has room there.
const HOT: f64 = 0.97;

/// More is nowhere to be had: 1 PiB. Sums of what entries count stay numbers.
const MOST_BYTES: u64 = 1 << 50;

/// A key and its value, as the server has them.
pub(crate) struct Entry {
    pub(crate) field: Bytes,
    /// `None` where the map does not have the key.
    pub(crate) value: Option<Bytes>,
    /// In which term of being in force it was read.
    pub(super) term: u64,
    kept: Instant,
    pub(super) used: AtomicU64,
}

/// An entry that was given out.
pub(crate) struct Found(pub(super) Arc<Entry>);

impl std::ops::Deref for Found {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        &self.0
    }
}

impl Entry {
    pub(super) fn new(field: Bytes, value: Option<Bytes>, term: u64, now: Instant) -> Entry {
        // As answers are read in large pieces, of which a small part would keep the whole.
        let (field, value) = (Bytes::copy_from_slice(&field), value.map(|value| Bytes::copy_from_slice(&value)));
        Entry { field, value, term, kept: now, used: AtomicU64::new(now.as_nanos()) }
    }

    fn size(&self) -> u64 {
        BESIDES + (self.field.len() + self.value.as_ref().map_or(0, Bytes::len)) as u64
    }
}

/// Whether one of its own times is over.
pub(super) fn is_over(entry: &Entry, options: &Options, now: Instant) -> bool {
    let used = Instant::from_nanos(entry.used.load(Ordering::Relaxed));
    options.time_to_live.is_some_and(|most| now >= entry.kept + most)
        || options.max_idle.is_some_and(|most| now >= used + most)
}

type Kept = Cache<Hash, Arc<Entry>, Weight, RandomState, Evictions>;

pub(super) struct Store {
    kept: Kept,
    evictions: Evictions,
    /// What counts more has no room.
    largest: u64,
}

#[derive(Clone)]
struct Weight {
    /// The least that an entry counts: so no more than so many have room.
    least: u64,
}

impl Weighter<Hash, Arc<Entry>> for Weight {
    fn weight(&self, _: &Hash, entry: &Arc<Entry>) -> u64 {
        entry.size().max(self.least)
    }
}

#[derive(Clone, Default)]
struct Evictions(Arc<AtomicU64>);

impl Lifecycle<Hash, Arc<Entry>> for Evictions {
    type RequestState = ();

    fn begin_request(&self) {}

    fn on_evict(&self, (): &mut (), _: Hash, _: Arc<Entry>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Store {
    pub(super) fn new(max_entries: usize, max_bytes: u64) -> Store {
        let bytes = max_bytes.min(MOST_BYTES);
        let entries = (max_entries as u64).min(bytes / BESIDES).max(1);
        let parts = PARTS.min(bytes / PART_BYTES).min(entries / PART_ENTRIES).max(1);
        // A power of two, as it would be rounded up.
        let parts = 1 << parts.ilog2();
        let part = bytes / parts;
        let largest = (part as f64 * HOT) as u64;
        // An only one may not count so much that it has no room, nor so little that two have.
        let least = part.div_ceil(entries / parts).min(largest);
        let evictions = Evictions::default();
        let mut options = OptionsBuilder::new();
        options.shards(parts as usize).hot_allocation(HOT);
        options.estimated_items_capacity(entries as usize).weight_capacity(part * parts);
        let options = options.build().expect("both capacities are set");
        let kept = Cache::with_options(options, Weight { least }, RandomState::default(), evictions.clone());
        Store { kept, evictions, largest }
    }

    pub(super) fn get(&self, hash: Hash) -> Option<Arc<Entry>> {
        self.kept.get(&hash)
    }

    /// Whether it has room.
    pub(super) fn keep(&self, hash: Hash, entry: Entry) -> bool {
        // One that is replaced would be counted as put out, and so would one that has no room.
        self.kept.remove(&hash);
        let has_room = entry.size() <= self.largest;
        if has_room {
            self.kept.insert(hash, Arc::new(entry));
        }
        has_room
    }

    pub(super) fn remove(&self, hash: Hash) -> bool {
        self.kept.remove(&hash).is_some()
    }

    /// Only if it is still this one.
    pub(super) fn remove_it(&self, hash: Hash, entry: &Arc<Entry>) {
        self.kept.remove_if(&hash, |kept| Arc::ptr_eq(kept, entry));
    }

    pub(super) fn clear(&self) {
        self.kept.clear();
    }

    pub(super) fn all(&self) -> Vec<Arc<Entry>> {
        self.kept.iter().map(|(_, entry)| entry).collect()
    }

    pub(super) fn len(&self) -> u64 {
        self.kept.len() as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        self.kept.iter().map(|(_, entry)| entry.size()).sum()
    }

    pub(super) fn evictions(&self) -> u64 {
        self.evictions.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(size: usize) -> Entry {
        Entry::new(Bytes::from(vec![0; size]), None, 1, Instant::MIN)
    }

    #[test]
    fn the_smallest_caches_keep_something_and_none_keeps_more_than_it_may() {
        for (entries, bytes) in [
            (1, 1024),
            (1, 64 << 20),
            (1, u64::MAX),
            (2, 1024),
            (7, 1 << 20),
            (100, 64 << 20),
            (1000, 1 << 20),
            (usize::MAX, 1024),
            (usize::MAX, 1 << 20),
        ] {
            let store = Store::new(entries, bytes);
            for hash in 0..8000_u128 {
                assert!(store.keep((hash << 64) | (hash * 7919), entry(8)), "{entries} {bytes}");
            }
            assert!(
                store.len() >= 1 && store.len() <= entries as u64 && store.bytes() <= bytes,
                "{entries} {bytes}: {}",
                store.len()
            );
            assert!(
                store.len() >= (entries as u64).min(bytes / 200).min(8000) / 2,
                "{entries} {bytes}: {}",
                store.len()
            );
        }
    }

    #[test]
    fn what_has_no_room_puts_nothing_out() {
        let store = Store::new(100, 2048);
        assert!(store.keep(1, entry(8)) && !store.keep(2, entry(2048)));
        assert_eq!((store.len(), store.evictions()), (1, 0));
        assert!(!store.keep(1, entry(2048)), "what it had is not right any more");
        assert_eq!(store.len(), 0);
    }
}
