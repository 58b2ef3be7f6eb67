//! Statistics of a cache.

/// Statistics of the cache of a map in this process, since its first handle was created, and its
/// present size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Number of key reads that were answered from the cache.
    pub hits: u64,
    /// Number of key reads that went to the server because the key was not cached, or its entry had
    /// expired.
    pub misses: u64,
    /// Number of key reads that bypassed the cache, because it was not certain that all changes are
    /// received.
    pub bypassed: u64,
    /// Number of entries that were removed because their key was changed.
    pub invalidations: u64,
    /// Number of times that the whole cache was cleared: because the map was cleared or does not
    /// exist, or by a call.
    pub clears: u64,
    /// Number of entries that were evicted.
    pub evictions: u64,
    /// Number of cached entries. Some of them may no longer be valid.
    pub entries: u64,
    /// Memory of these entries in bytes: their keys and values, and 192 for each.
    pub bytes: u64,
}

impl Stats {
    /// Returns the share of key reads that were answered from the cache, from 0 to 1; 0 if there
    /// were no reads.
    pub fn hit_ratio(&self) -> f64 {
        let reads = self.hits + self.misses + self.bypassed;
        if reads == 0 { 0.0 } else { self.hits as f64 / reads as f64 }
    }
}
