//! The cache of one map in this process: what is cached, and when entries are valid. It uses no
//! connection; messages and the times of heartbeats come from `listen`.
//!
//! An entry is returned only if all of this holds:
//!
//! - The map's channels have been active without a break since before the entry was read (its
//!   *generation*).
//! - No message has invalidated the entry since then.
//! - A heartbeat that was sent within the staleness bound was received after all messages before
//!   it.
//! - The entry's own lifetime and idle time are not over.
//!
//! If a message invalidates a key during its read, the value is returned to the caller and not
//! cached.

mod count;
mod pending_reads;
mod staleness;
mod store;

use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use redgrid_core::clock::{Clock, Instant};
use tokio::sync::Notify;

use self::count::Published;
pub(crate) use self::pending_reads::PendingRead;
use self::pending_reads::PendingReads;
use self::staleness::Staleness;
pub(crate) use self::staleness::{Heartbeats, MapState};
pub(crate) use self::store::{CachedEntry, Entry};
use self::store::{Store, is_expired};
use crate::options::Options;
use crate::stats::Stats;

/// Redisson's hash of an encoded key. The first byte in a message is the most significant.
pub(crate) type Hash = u128;

pub(crate) fn hash(field: &[u8]) -> Hash {
    let [high, low] = redgrid_codecs::hash128(field);
    (u128::from(high) << 64) | u128::from(low)
}

/// The near cache of one map and client.
pub(crate) struct NearCache {
    pub(crate) options: Options,
    clock: Clock,
    store: Store,
    pending_reads: Mutex<PendingReads>,
    staleness: Staleness,
    counters: Counters,
    /// The numbers that the metrics contain already.
    published: Mutex<Published>,
    /// Whether the cache has been read since the last heartbeat.
    read_since_heartbeat: AtomicBool,
    /// Whether no handle is left.
    handles_dropped: AtomicBool,
    /// Wakes the listener task when either flag is set.
    pub(crate) wake: Notify,
    /// Wakes waiters when a heartbeat has been received.
    heartbeat: Notify,
}

#[derive(Default)]
struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
    bypassed: AtomicU64,
    invalidated: AtomicU64,
    cleared: AtomicU64,
    /// Number of entries that were removed by clears.
    cleared_entries: AtomicU64,
    expired: AtomicU64,
}

impl NearCache {
    pub(crate) fn new(options: Options, clock: Clock) -> NearCache {
        let store = Store::new(options.max_entries, options.max_bytes);
        NearCache {
            options,
            clock,
            store,
            pending_reads: Mutex::default(),
            staleness: Staleness::default(),
            counters: Counters::default(),
            published: Mutex::default(),
            read_since_heartbeat: AtomicBool::new(false),
            handles_dropped: AtomicBool::new(false),
            wake: Notify::new(),
            heartbeat: Notify::new(),
        }
    }

    /// Returns the cached entry of a key if it is valid.
    pub(crate) fn get(&self, field: &[u8]) -> Option<CachedEntry> {
        self.mark_read();
        let now = self.clock.now();
        let Some(generation) = self.staleness.valid_generation(now) else {
            self.counters.bypassed.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let hash = hash(field);
        let cached = self.store.get(hash).filter(|entry| entry.generation == generation && entry.field == field);
        match cached {
            Some(entry) if is_expired(&entry, &self.options, now) => {
                self.store.remove_same(hash, &entry);
                self.counters.expired.fetch_add(1, Ordering::Relaxed);
                self.counters.misses.fetch_add(1, Ordering::Relaxed);
                None
            }
            Some(entry) => {
                entry.last_used.store(now.as_nanos(), Ordering::Relaxed);
                self.counters.hits.fetch_add(1, Ordering::Relaxed);
                Some(CachedEntry(entry))
            }
            None => {
                self.counters.misses.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    /// Returns all valid entries that have a value. The hit statistics and the times of the last
    /// use stay unchanged.
    pub(crate) fn all(&self) -> Vec<CachedEntry> {
        self.mark_read();
        let now = self.clock.now();
        let Some(generation) = self.staleness.valid_generation(now) else { return Vec::new() };
        let is_valid = |entry: &Entry| {
            entry.generation == generation && entry.value.is_some() && !is_expired(entry, &self.options, now)
        };
        self.store.all().into_iter().filter(|entry| is_valid(entry)).map(CachedEntry).collect()
    }

    /// Begins a read with a result that may be cached. Must be called before the request is sent.
    pub(crate) fn begin_read(&self) -> PendingRead<'_> {
        let generation = self.staleness.current_generation();
        let start = self.pending_reads().begin();
        PendingRead { near: self, generation, start }
    }

    /// Caches the result of a read, unless the key was invalidated since the read began. Returns
    /// whether it was cached.
    fn cache(&self, read: &PendingRead<'_>, field: &Bytes, value: Option<Bytes>) -> bool {
        let Some(generation) = read.generation else { return false };
        if value.is_none() && !self.options.keep_absent {
            return false;
        }
        let (now, hash) = (self.clock.now(), hash(field));
        let mut pending_reads = self.pending_reads();
        self.staleness.current_generation() == read.generation
            && pending_reads.may_cache(hash, read.start, now)
            && self.store.insert(hash, Entry::new(field.clone(), value, generation, now))
    }

    /// Invalidates these keys: after this call, values that were read before it are not returned.
    pub(crate) fn invalidate(&self, hashes: impl IntoIterator<Item = Hash>) {
        let mut pending_reads = self.pending_reads();
        for hash in hashes {
            pending_reads.invalidate(hash);
            if self.store.remove(hash) {
                self.counters.invalidated.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Clears the cache: after this call, values that were read before it are not returned.
    pub(crate) fn clear(&self) {
        let mut pending_reads = self.pending_reads();
        pending_reads.invalidate_all();
        self.counters.cleared_entries.fetch_add(self.store.len(), Ordering::Relaxed);
        self.store.clear();
        self.counters.cleared.fetch_add(1, Ordering::Relaxed);
    }

    /// Clears the cache of a map that does not exist, unless it holds only absent keys.
    pub(crate) fn map_is_absent(&self) {
        // A read in flight may return a value of the former map.
        self.pending_reads().invalidate_all();
        if self.store.all().iter().any(|entry| entry.value.is_some()) {
            self.clear();
        }
    }

    /// Stops caching these keys until `until`, or until they are enabled: another client is
    /// changing several of them in one step.
    pub(crate) fn disable(&self, hashes: &[Hash], all: bool, until: Instant) {
        self.pending_reads().disable(hashes, all, until, self.clock.now());
        if all {
            self.clear();
        }
        self.invalidate(hashes.iter().copied());
    }

    /// Allows these keys to be cached again.
    pub(crate) fn enable(&self, hashes: &[Hash], all: bool) {
        self.pending_reads().enable(hashes, all);
        if all {
            self.clear();
        }
        self.invalidate(hashes.iter().copied());
    }

    /// Returns the number of evictions.
    pub(crate) fn evictions(&self) -> u64 {
        self.store.evictions()
    }

    /// Wakes waiters: a heartbeat has been received.
    pub(crate) fn heartbeat_received(&self) {
        self.heartbeat.notify_waiters();
    }

    /// Waits until the cache is active, at most until `until`. Returns whether it is.
    pub(crate) async fn wait_until_active(&self, until: Instant) -> bool {
        loop {
            let mut heartbeat = pin!(self.heartbeat.notified());
            heartbeat.as_mut().enable();
            self.mark_read();
            if self.is_active() {
                return true;
            }
            tokio::select! {
                () = heartbeat => {}
                () = self.clock.sleep_until(until) => return self.is_active(),
            }
        }
    }

    pub(crate) fn staleness(&self) -> &Staleness {
        &self.staleness
    }

    /// Returns whether entries may be returned now.
    pub(crate) fn is_active(&self) -> bool {
        self.staleness.valid_generation(self.clock.now()).is_some()
    }

    pub(crate) fn stats(&self) -> Stats {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Stats {
            hits: load(&self.counters.hits),
            misses: load(&self.counters.misses),
            bypassed: load(&self.counters.bypassed),
            invalidations: load(&self.counters.invalidated),
            clears: load(&self.counters.cleared),
            evictions: self.store.evictions(),
            entries: self.store.len(),
            bytes: self.store.bytes(),
        }
    }

    fn mark_read(&self) {
        if !self.read_since_heartbeat.load(Ordering::Relaxed) {
            self.read_since_heartbeat.store(true, Ordering::Release);
            self.wake.notify_one();
        }
    }

    /// Returns whether the cache has been read since the last call of this function.
    pub(crate) fn take_was_read(&self) -> bool {
        self.read_since_heartbeat.swap(false, Ordering::AcqRel)
    }

    /// Ends the listener task.
    pub(crate) fn stop(&self) {
        self.handles_dropped.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.handles_dropped.load(Ordering::Acquire)
    }

    fn pending_reads(&self) -> std::sync::MutexGuard<'_, PendingReads> {
        self.pending_reads.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl PendingRead<'_> {
    /// Caches a value that the read returned. Returns whether it was cached.
    pub(crate) fn cache(&self, field: &Bytes, value: Option<Bytes>) -> bool {
        self.near.cache(self, field, value)
    }
}

impl Drop for PendingRead<'_> {
    fn drop(&mut self) {
        self.near.pending_reads().end(self.start);
    }
}

/// A change in flight. When it ends, in any way, values of these keys that were read before that
/// become invalid.
pub(crate) struct InvalidateOnDrop<'a> {
    pub(crate) near: &'a NearCache,
    pub(crate) hashes: Vec<Hash>,
}

impl Drop for InvalidateOnDrop<'_> {
    fn drop(&mut self) {
        self.near.invalidate(self.hashes.drain(..));
    }
}

/// A change of all keys in flight. When it ends, in any way, all values that were read before that
/// become invalid.
pub(crate) struct ClearOnDrop<'a>(pub(crate) &'a NearCache);

impl Drop for ClearOnDrop<'_> {
    fn drop(&mut self) {
        self.0.clear();
    }
}
