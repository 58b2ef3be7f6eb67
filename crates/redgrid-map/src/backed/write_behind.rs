//! Options and statistics of writing behind.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

/// Options of the queue of changes that wait for the store.
///
/// ```
/// use std::time::Duration;
/// use redgrid_map::WriteBehind;
///
/// let options = WriteBehind { delay: Duration::from_millis(200), ..WriteBehind::default() };
/// # assert_eq!(options.batch, 50);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Not `#[non_exhaustive]`: users write `WriteBehind { delay, ..WriteBehind::default() }`.
pub struct WriteBehind {
    /// Number of keys in a batch, 1 to 100,000. The default is 50, as Redisson's
    /// `writeBehindBatchSize`.
    pub batch: usize,
    /// How long the first change of a batch waits for others, up to an hour. A full batch is
    /// written at once. The default is 1 s, as Redisson's `writeBehindDelay`.
    ///
    /// With a longer delay more changes are lost if the process dies.
    pub delay: Duration,
    /// Number of keys that may be pending or in flight, 1 to 10,000,000. It bounds the loss if the
    /// process dies. The default is 10,000.
    ///
    /// When it is reached, pending changes are written at once, and a new change waits for capacity
    /// up to [`WriteBehind::capacity_timeout`].
    pub capacity: usize,
    /// How long a change waits for capacity, up to an hour. The default is 5 s.
    ///
    /// After that it ends with [`BackedError::Full`](crate::BackedError::Full), and nothing is
    /// changed.
    pub capacity_timeout: Duration,
    /// How long a shutdown of the client continues to write pending changes, up to an hour. The
    /// default is 10 s. The rest is reported as lost.
    ///
    /// A shutdown with a shorter total time ends the writes shortly before that time is over. After
    /// the client's last handle is dropped, they end after 5 s.
    pub flush_timeout: Duration,
}

impl Default for WriteBehind {
    fn default() -> Self {
        WriteBehind {
            batch: 50,
            delay: Duration::from_secs(1),
            capacity: 10_000,
            capacity_timeout: Duration::from_secs(5),
            flush_timeout: Duration::from_secs(10),
        }
    }
}

impl WriteBehind {
    /// Returns the first option that is out of range, its range and its value.
    pub(super) fn first_invalid(&self) -> Option<(&'static str, &'static str, String)> {
        let hour = Duration::from_secs(3600);
        if !(1..=100_000).contains(&self.batch) {
            return Some(("batch", "1 to 100,000", self.batch.to_string()));
        }
        if !(1..=10_000_000).contains(&self.capacity) {
            return Some(("capacity", "1 to 10,000,000", self.capacity.to_string()));
        }
        let times =
            [("delay", self.delay), ("capacity_timeout", self.capacity_timeout), ("flush_timeout", self.flush_timeout)];
        let too_long = times.into_iter().find(|(_, time)| *time > hour);
        too_long.map(|(option, time)| (option, "up to an hour", format!("{time:?}")))
    }
}

/// Numbers of changes that are pending behind a map, written and lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WriteBehindStats {
    /// Number of keys that are pending or in flight.
    pub waiting: usize,
    /// Number of keys that were written. A key that was changed several times while it was pending
    /// counts once.
    pub written: u64,
    /// Number of keys whose changes will never be written.
    pub lost: u64,
}

/// Keys whose changes are in the map and will not be written to the store.
///
/// If a call to the store was cut short, the store may have them nevertheless.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Loss<K> {
    /// The keys.
    pub keys: Vec<K>,
    /// The store's last error, or the information that the time was over.
    pub error: Arc<dyn Error + Send + Sync>,
}
