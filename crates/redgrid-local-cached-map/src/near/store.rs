//! The stored entries, limited in number and bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use foldhash::fast::RandomState;
use quick_cache::sync::Cache;
use quick_cache::{Lifecycle, OptionsBuilder, Weighter};
use redgrid_core::clock::Instant;

use super::Hash;
use crate::options::Options;

/// Memory of an entry in addition to its bytes: the entry itself, its slot in the cache and the
/// overhead of the allocator.
const ENTRY_OVERHEAD: u64 = 192;

/// Maximum number of shards, each with its own lock. An entry larger than a shard is not cached.
const MAX_SHARDS: u64 = 16;

/// Minimum size of a shard: 64 KiB and 32 entries. A smaller cache has one shard.
const MIN_SHARD_BYTES: u64 = 64 * 1024;
const MIN_SHARD_ENTRIES: u64 = 32;

/// Share of a shard for the most used entries. An entry is cached only if it fits in this share.
const HOT_SHARE: f64 = 0.97;

/// Upper limit of the size, 1 PiB, so that sums of entry weights do not overflow.
const MAX_BYTES: u64 = 1 << 50;

/// A key and its value, as on the server.
pub(crate) struct Entry {
    pub(crate) field: Bytes,
    /// `None` if the key is not in the map.
    pub(crate) value: Option<Bytes>,
    /// The generation of the subscription in which it was read.
    pub(super) generation: u64,
    cached_at: Instant,
    pub(super) last_used: AtomicU64,
}

/// An entry that the cache returned.
pub(crate) struct CachedEntry(pub(super) Arc<Entry>);

impl std::ops::Deref for CachedEntry {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        &self.0
    }
}

impl Entry {
    pub(super) fn new(field: Bytes, value: Option<Bytes>, generation: u64, now: Instant) -> Entry {
        // The bytes are copied: replies are read into large buffers, which a small slice would keep
        // alive.
        let (field, value) = (Bytes::copy_from_slice(&field), value.map(|value| Bytes::copy_from_slice(&value)));
        Entry { field, value, generation, cached_at: now, last_used: AtomicU64::new(now.as_nanos()) }
    }

    fn size(&self) -> u64 {
        ENTRY_OVERHEAD + (self.field.len() + self.value.as_ref().map_or(0, Bytes::len)) as u64
    }
}

/// Returns whether the entry's lifetime or idle time is over.
pub(super) fn is_expired(entry: &Entry, options: &Options, now: Instant) -> bool {
    let last_used = Instant::from_nanos(entry.last_used.load(Ordering::Relaxed));
    options.time_to_live.is_some_and(|limit| now >= entry.cached_at + limit)
        || options.max_idle.is_some_and(|limit| now >= last_used + limit)
}

type EntryCache = Cache<Hash, Arc<Entry>, EntryWeighter, RandomState, EvictionCounter>;

pub(super) struct Store {
    cache: EntryCache,
    evictions: EvictionCounter,
    /// Larger entries are not cached.
    max_entry_size: u64,
}

#[derive(Clone)]
struct EntryWeighter {
    /// The minimum weight of an entry, which limits the number of entries.
    min_weight: u64,
}

impl Weighter<Hash, Arc<Entry>> for EntryWeighter {
    fn weight(&self, _: &Hash, entry: &Arc<Entry>) -> u64 {
        entry.size().max(self.min_weight)
    }
}

#[derive(Clone, Default)]
struct EvictionCounter(Arc<AtomicU64>);

impl Lifecycle<Hash, Arc<Entry>> for EvictionCounter {
    type RequestState = ();

    fn begin_request(&self) {}

    fn on_evict(&self, (): &mut (), _: Hash, _: Arc<Entry>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Store {
    pub(super) fn new(max_entries: usize, max_bytes: u64) -> Store {
        let bytes = max_bytes.min(MAX_BYTES);
        let entries = (max_entries as u64).min(bytes / ENTRY_OVERHEAD).max(1);
        let shards = MAX_SHARDS.min(bytes / MIN_SHARD_BYTES).min(entries / MIN_SHARD_ENTRIES).max(1);
        // The number is a power of two: the cache would round any other number up.
        let shards = 1 << shards.ilog2();
        let shard_bytes = bytes / shards;
        let max_entry_size = (shard_bytes as f64 * HOT_SHARE) as u64;
        // Each entry weighs at least its share of the shard, so that the number of entries is
        // limited. If a shard may hold one entry only, that share exceeds the largest entry that
        // fits. The weight is then the size of that entry: one entry fits, and a second one does
        // not.
        let min_weight = shard_bytes.div_ceil(entries / shards).min(max_entry_size);
        let evictions = EvictionCounter::default();
        let mut options = OptionsBuilder::new();
        options.shards(shards as usize).hot_allocation(HOT_SHARE);
        options.estimated_items_capacity(entries as usize).weight_capacity(shard_bytes * shards);
        let options = options.build().expect("both capacities are set");
        let weighter = EntryWeighter { min_weight };
        let cache = Cache::with_options(options, weighter, RandomState::default(), evictions.clone());
        Store { cache, evictions, max_entry_size }
    }

    pub(super) fn get(&self, hash: Hash) -> Option<Arc<Entry>> {
        self.cache.get(&hash)
    }

    /// Inserts an entry. Returns whether it fits.
    pub(super) fn insert(&self, hash: Hash, entry: Entry) -> bool {
        // A previous entry is removed first. Otherwise the cache would count it as evicted, and
        // likewise a new entry that does not fit.
        self.cache.remove(&hash);
        let fits = entry.size() <= self.max_entry_size;
        if fits {
            self.cache.insert(hash, Arc::new(entry));
        }
        fits
    }

    pub(super) fn remove(&self, hash: Hash) -> bool {
        self.cache.remove(&hash).is_some()
    }

    /// Removes an entry if it is still this one.
    pub(super) fn remove_same(&self, hash: Hash, entry: &Arc<Entry>) {
        self.cache.remove_if(&hash, |cached| Arc::ptr_eq(cached, entry));
    }

    pub(super) fn clear(&self) {
        self.cache.clear();
    }

    pub(super) fn all(&self) -> Vec<Arc<Entry>> {
        self.cache.iter().map(|(_, entry)| entry).collect()
    }

    pub(super) fn len(&self) -> u64 {
        self.cache.len() as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        self.cache.iter().map(|(_, entry)| entry.size()).sum()
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
    fn the_smallest_stores_hold_an_entry_and_none_exceeds_its_limits() {
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
                assert!(store.insert((hash << 64) | (hash * 7919), entry(8)), "{entries} {bytes}");
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
    fn an_entry_that_does_not_fit_evicts_nothing() {
        let store = Store::new(100, 2048);
        assert!(store.insert(1, entry(8)) && !store.insert(2, entry(2048)));
        assert_eq!((store.len(), store.evictions()), (1, 0));
        assert!(!store.insert(1, entry(2048)), "the previous value is outdated");
        assert_eq!(store.len(), 0);
    }
}
