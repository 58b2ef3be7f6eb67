//! How much is kept, for how long, and how stale it may be.

use std::time::Duration;

use redgrid_core::object::{ObjectError, Place};

/// What a process keeps of a map. The first handle of a name in a client decides for all: they share one cache.
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
}

/// The shortest bound that can be asked for: 50 ms. Below it a pause of the process is longer.
const SHORTEST: Duration = Duration::from_millis(50);

/// The longest: an hour.
const LONGEST: Duration = Duration::from_secs(3600);

/// Of other times: a year.
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
        }
    }
}

impl Options {
    /// How many entries are kept at most; the least used go first. 100,000 unless set; 1 at least.
    #[doc(alias = "cacheSize")]
    pub fn max_entries(mut self, entries: usize) -> Self {
        self.max_entries = entries;
        self
    }

    /// How many bytes are kept at most: keys and values as their codecs write them, and 192 for each entry. 64 MiB unless set; 1 KiB at
    /// least. They are kept in up to 16 parts: an entry that takes nearly a sixteenth of it, or more, may have no room.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// How long an entry is kept at most, whatever happens. No bound unless set. It is what bounds the age of values that somebody
    /// writes without telling: by [`Map`](redgrid_map::Map), by a script or by hand.
    #[doc(alias = "timeToLive")]
    pub fn time_to_live(mut self, most: Duration) -> Self {
        self.time_to_live = Some(most);
        self
    }

    /// How long an entry is kept that nobody asks for. No bound unless set.
    #[doc(alias = "maxIdle")]
    pub fn max_idle(mut self, most: Duration) -> Self {
        self.max_idle = Some(most);
        self
    }

    /// How stale a cached value may be at most: 2 s unless set, from 50 ms to an hour.
    ///
    /// It is about changes that are told, by the methods of a [`LocalCachedMap`](crate::LocalCachedMap) or Redisson's; a primary that was
    /// replaced and does not know it is believed as long as the client believes it. Those of the first handle of the name in the client are
    /// in force.
    ///
    /// As long as messages come, a value goes when the message of its change arrives: within a network's delay. This is for the time in
    /// which they do not come and nobody knows. A smaller value costs more pulses: one small script in each fourth of it, for each map that is
    /// read; and the cache is passed by sooner when the server or the process stands still.
    pub fn max_stale(mut self, bound: Duration) -> Self {
        self.max_stale = bound;
        self
    }

    /// Whether it is kept, too, that a key is not in the map. It is not unless set.
    #[doc(alias = "storeCacheMiss")]
    pub fn keep_absent(mut self, keep: bool) -> Self {
        self.keep_absent = keep;
        self
    }

    /// Whether there can be such a cache.
    pub(crate) fn check(&self, place: &Place) -> Result<(), ObjectError> {
        if self.max_entries == 0 {
            return Err(place.invalid("max_entries", "1 or more", 0));
        }
        if self.max_bytes < 1024 {
            return Err(place.invalid("max_bytes", "1024 or more", self.max_bytes));
        }
        if !(SHORTEST..=LONGEST).contains(&self.max_stale) {
            return Err(place.invalid("max_stale", "50 ms to 1 h", format_args!("{:?}", self.max_stale)));
        }
        for (option, time) in [("time_to_live", self.time_to_live), ("max_idle", self.max_idle)] {
            let wrong = time.filter(|time| time.is_zero() || *time > YEAR);
            if let Some(time) = wrong {
                return Err(place.invalid(option, "more than 0 and at most 366 days", format_args!("{time:?}")));
            }
        }
        Ok(())
    }

    /// One that can be, for a cache that nobody will ask as the options are refused.
    pub(crate) fn possible(self) -> Options {
        Options { max_entries: self.max_entries.max(1), max_bytes: self.max_bytes.max(1024), ..self }
    }
}
