//! Metrics of a cache.
//!
//! A read from the cache takes a fraction of a microsecond, less than a metric. So reads are
//! counted in the cache, and the metrics get the differences with each heartbeat.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use redgrid_core::author::counts::{self, CacheResult, Removal, cache_read_many, cache_removed, cache_resized};
use redgrid_core::clock::Instant;

use super::NearCache;

/// The numbers of a cache that the metrics contain already.
#[derive(Debug, Default)]
pub(super) struct Published {
    hits: u64,
    misses: u64,
    bypassed: u64,
    evicted: u64,
    changed: u64,
    expired: u64,
    entries: i64,
    bytes: i64,
    /// When the entries and bytes were last measured.
    measured_at: Option<Instant>,
}

/// How often the entries are counted, because that reads all of them: every 10 s.
const MEASURED_EVERY: Duration = Duration::from_secs(10);

impl NearCache {
    /// Adds to the metrics what has changed since the last call. It measures the size if it is the
    /// last call for a while, or if the last measurement is old.
    pub(crate) fn publish(&self, is_last: bool) {
        if !counts::IS_ENABLED {
            return;
        }
        let now = self.clock.now();
        let last = self.published().measured_at.filter(|at| !is_last && now.since(*at) < MEASURED_EVERY);
        let size = match last {
            Some(_) => None,
            None => Some((self.store.len(), self.store.bytes())),
        };
        self.publish_with(size);
        if size.is_some() {
            self.published().measured_at = Some(now);
        }
    }

    fn published(&self) -> MutexGuard<'_, Published> {
        self.published.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes the counters, and the number of entries and bytes if they are given.
    fn publish_with(&self, size: Option<(u64, u64)>) {
        let (family, counters) = (self.options.family, &self.counters);
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut last = self.published();
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let size = size.map(|(entries, bytes)| (number(entries), number(bytes)));
        let (entries, bytes) = size.unwrap_or((last.entries, last.bytes));
        let now = Published {
            hits: load(&counters.hits),
            misses: load(&counters.misses),
            bypassed: load(&counters.bypassed),
            evicted: self.store.evictions(),
            changed: load(&counters.invalidated) + load(&counters.cleared_entries),
            expired: load(&counters.expired),
            entries,
            bytes,
            measured_at: last.measured_at,
        };
        cache_read_many(family, CacheResult::Hit, now.hits.saturating_sub(last.hits));
        cache_read_many(family, CacheResult::Miss, now.misses.saturating_sub(last.misses));
        cache_read_many(family, CacheResult::Bypassed, now.bypassed.saturating_sub(last.bypassed));
        cache_removed(family, Removal::Size, now.evicted.saturating_sub(last.evicted));
        cache_removed(family, Removal::Changed, now.changed.saturating_sub(last.changed));
        cache_removed(family, Removal::Expired, now.expired.saturating_sub(last.expired));
        cache_resized(family, now.entries - last.entries, now.bytes - last.bytes);
        *last = now;
    }
}

impl Drop for NearCache {
    fn drop(&mut self) {
        self.publish_with(Some((0, 0)));
    }
}
