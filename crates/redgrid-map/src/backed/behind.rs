//! How changes wait for a store, and what is told of them.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

/// How changes wait for the store.
///
/// ```
/// use std::time::Duration;
/// use redgrid_map::WriteBehind;
///
/// let behind = WriteBehind { delay: Duration::from_millis(200), ..WriteBehind::default() };
/// # assert_eq!(behind.batch, 50);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteBehind {
    /// So many keys are written at a time, 1 to 100,000. 50, as Redisson's `writeBehindBatchSize`.
    pub batch: usize,
    /// The first change waits for this long for others to go with it, up to an hour; a full batch goes at once. 1 s, as Redisson's
    /// `writeBehindDelay`. With a longer one more is lost when the process dies.
    pub delay: Duration,
    /// So many keys may wait, those that are just written included, 1 to 10,000,000: it bounds what is lost when the process dies.
    /// Beyond it a change waits for room, as long as [`WriteBehind::room_within`]. 10,000.
    pub capacity: usize,
    /// How long a change waits for room before it ends [`BackedError::Full`](crate::BackedError::Full) and nothing is changed, up to an hour. 5 s.
    pub room_within: Duration,
    /// How long a shutdown of the client goes on writing what waits, up to an hour; what is left is told as lost. 10 s.
    pub flush_within: Duration,
}

impl Default for WriteBehind {
    fn default() -> Self {
        WriteBehind {
            batch: 50,
            delay: Duration::from_secs(1),
            capacity: 10_000,
            room_within: Duration::from_secs(5),
            flush_within: Duration::from_secs(10),
        }
    }
}

impl WriteBehind {
    /// The option that can not be, what it may be, and what it is.
    pub(super) fn unfit(&self) -> Option<(&'static str, &'static str, String)> {
        let hour = Duration::from_secs(3600);
        if !(1..=100_000).contains(&self.batch) {
            return Some(("batch", "1 to 100,000", self.batch.to_string()));
        }
        if !(1..=10_000_000).contains(&self.capacity) {
            return Some(("capacity", "1 to 10,000,000", self.capacity.to_string()));
        }
        let times = [("delay", self.delay), ("room_within", self.room_within), ("flush_within", self.flush_within)];
        let long = times.into_iter().find(|(_, time)| *time > hour);
        long.map(|(option, time)| (option, "up to an hour", format!("{time:?}")))
    }
}

/// What is to be written behind a map, and what became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Behind {
    /// Keys that wait or are just written.
    pub waiting: usize,
    /// Keys that were written; one that was changed several times while it waited counts once.
    pub written: u64,
    /// Keys that were not, and will not be.
    pub lost: u64,
}

/// Keys whose changes are in the map and will not be written to the store. Where a call of it was cut short, it may have them all the same.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Loss<K> {
    /// The keys.
    pub keys: Vec<K>,
    /// What the store said last, or that its time was over.
    pub error: Arc<dyn Error + Send + Sync>,
}
