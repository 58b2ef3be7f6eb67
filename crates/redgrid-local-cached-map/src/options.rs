//! Options of a cache: size, lifetimes and staleness.

use std::time::Duration;

use redgrid_core::object::{ObjectError, ObjectRef};

/// Options of the cache of a map in a process. All handles of a name in a client share one cache,
/// with the options of the first handle.
///
/// ```
/// use std::time::Duration;
/// use redgrid_local_cached_map::Options;
///
/// let options = Options::default().max_entries(10_000).time_to_live(Duration::from_secs(60));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[doc(alias = "LocalCachedMapOptions")]
pub struct Options {
    pub(crate) max_entries: usize,
    pub(crate) max_bytes: u64,
    pub(crate) time_to_live: Option<Duration>,
    pub(crate) max_idle: Option<Duration>,
    pub(crate) max_stale: Duration,
    pub(crate) keep_absent: bool,
    pub(crate) family: &'static str,
}

/// The minimum of `max_stale`: 50 ms. With a smaller bound, short pauses of the process would often
/// invalidate the cache.
const MIN_STALE: Duration = Duration::from_millis(50);

/// The maximum of `max_stale`: an hour.
const MAX_STALE: Duration = Duration::from_secs(3600);

/// The maximum of the other times: a year.
const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);

impl Default for Options {
    fn default() -> Self {
        Options {
            max_entries: 100_000,
            max_bytes: 64 * 1024 * 1024,
            time_to_live: None,
            max_idle: None,
            max_stale: Duration::from_secs(2),
            keep_absent: false,
            family: "",
        }
    }
}

impl Options {
    /// Sets the maximum number of entries, at least 1. The least used entries are evicted first.
    /// The default is 100,000.
    #[doc(alias = "cacheSize")]
    pub fn max_entries(mut self, entries: usize) -> Self {
        self.max_entries = entries;
        self
    }

    /// Sets the maximum size in bytes, at least 1 KiB: encoded keys and values, and 192 for each
    /// entry. The default is 64 MiB.
    ///
    /// The cache has up to 16 shards. An entry that takes nearly a sixteenth of the size, or more,
    /// may not fit.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Sets the longest time that an entry is cached. There is no limit by default.
    ///
    /// It bounds the age of values if their changes are not published: changes with
    /// [`Map`](redgrid_map::Map), by a script or by hand.
    #[doc(alias = "timeToLive")]
    pub fn time_to_live(mut self, limit: Duration) -> Self {
        self.time_to_live = Some(limit);
        self
    }

    /// Sets how long an entry is cached without being read. There is no limit by default.
    #[doc(alias = "maxIdle")]
    pub fn max_idle(mut self, limit: Duration) -> Self {
        self.max_idle = Some(limit);
        self
    }

    /// Sets the bound of the staleness of a cached value, from 50 ms to an hour. The default is 2
    /// s.
    ///
    /// The bound applies to changes that are published: those by the methods of a
    /// [`LocalCachedMap`](crate::LocalCachedMap) or of Redisson. One exception: until the client
    /// detects that a primary was replaced, it may read older values from the former primary. The
    /// bound of the first handle of the name in the client applies.
    ///
    /// As long as messages arrive, a value is invalidated when the message of its change arrives:
    /// within the delay of the network. The bound limits the time in which messages fail to arrive
    /// without this being detected.
    ///
    /// A smaller bound costs more heartbeats: one small script in each fourth of it, for each map
    /// that is read. The cache is also bypassed sooner when the server or the process pauses.
    pub fn max_stale(mut self, bound: Duration) -> Self {
        self.max_stale = bound;
        self
    }

    /// Sets whether absent keys are cached as well (negative caching). By default they are not.
    #[doc(alias = "storeCacheMiss")]
    pub fn keep_absent(mut self, keep: bool) -> Self {
        self.keep_absent = keep;
        self
    }

    /// Sets the label `family` in metrics: a constant that groups maps that belong together. The
    /// default is the empty text.
    pub fn family(mut self, family: &'static str) -> Self {
        self.family = family;
        self
    }

    /// Checks that the options are in range.
    pub(crate) fn check(&self, object_ref: &ObjectRef) -> Result<(), ObjectError> {
        if self.max_entries == 0 {
            return Err(object_ref.invalid("max_entries", "1 or more", 0));
        }
        if self.max_bytes < 1024 {
            return Err(object_ref.invalid("max_bytes", "1024 or more", self.max_bytes));
        }
        if !(MIN_STALE..=MAX_STALE).contains(&self.max_stale) {
            return Err(object_ref.invalid("max_stale", "50 ms to 1 h", format_args!("{:?}", self.max_stale)));
        }
        for (option, time) in [("time_to_live", self.time_to_live), ("max_idle", self.max_idle)] {
            let invalid = time.filter(|time| time.is_zero() || *time > YEAR);
            if let Some(time) = invalid {
                return Err(object_ref.invalid(option, "more than 0 and at most 366 days", format_args!("{time:?}")));
            }
        }
        Ok(())
    }

    /// Returns options that are in range, for a cache that is never used because the options are
    /// invalid.
    pub(crate) fn clamped(self) -> Options {
        Options { max_entries: self.max_entries.max(1), max_bytes: self.max_bytes.max(1024), ..self }
    }
}
