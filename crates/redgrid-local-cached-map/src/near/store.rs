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

/// In so many parts, each with a lock of its own; what is larger than a part has no room.
const PARTS: usize = 16;

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
    /// The least that an entry counts: so no more than so many have room.
    least: u64,
    most: u64,
}

#[derive(Clone)]
struct Weight {
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
        let least = max_bytes.div_ceil(max_entries as u64);
        let evictions = Evictions::default();
        let mut parts = OptionsBuilder::new();
        parts.shards(PARTS).estimated_items_capacity(max_entries).weight_capacity(max_bytes);
        let parts = parts.build().expect("both capacities are set");
        let kept = Cache::with_options(parts, Weight { least }, RandomState::default(), evictions.clone());
        Store { kept, evictions, least, most: max_bytes }
    }

    pub(super) fn get(&self, hash: Hash) -> Option<Arc<Entry>> {
        self.kept.get(&hash)
    }

    pub(super) fn keep(&self, hash: Hash, entry: Entry) {
        // One that is replaced would be counted as put out.
        self.kept.remove(&hash);
        self.kept.insert(hash, Arc::new(entry));
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

    pub(super) fn is_full(&self) -> bool {
        self.kept.weight() + self.least > self.most
    }

    pub(super) fn evictions(&self) -> u64 {
        self.evictions.0.load(Ordering::Relaxed)
    }
}
