//! How well it is kept.

/// What has become of the reads of a cached map in this process, since its first handle was made, and what is kept now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Keys that were answered from the cache.
    pub hits: u64,
    /// Keys that were not in it, or whose time was over, and were asked for.
    pub misses: u64,
    /// Keys that were asked for although they may have been in it: it was not certain that all changes are heard.
    pub bypassed: u64,
    /// Entries that went because their key was changed.
    pub invalidations: u64,
    /// How often all went: because the map was cleared or is not there, or somebody asked for it.
    pub clears: u64,
    /// Entries that went to make room.
    pub evictions: u64,
    /// Entries that are kept; some of them may be given out no more.
    pub entries: u64,
    /// What those take in memory, in bytes: their keys and values, and 192 for each.
    pub bytes: u64,
}

impl Stats {
    /// Which part of all asked keys was answered from the cache, from 0 to 1; 0 where none was asked.
    pub fn hit_ratio(&self) -> f64 {
        let asked = self.hits + self.misses + self.bypassed;
        if asked == 0 { 0.0 } else { self.hits as f64 / asked as f64 }
    }
}
