//! One hot name as several: who finds a segment taken, or empty, goes on to the next.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use redgrid_core::Client;

use crate::guard::LockGuard;
use crate::lock::Lock;
use crate::{AcquireError, ReleaseError};

/// A lock in segments, for one hot thing that can be divided: a stock, a budget, a quota. Each segment guards its own part,
/// so as many holders work at a time as there are segments.
///
/// Segment `n` of `stock:7` is the [`Lock`] named `stock:7:n`. What it guards is yours to divide ([`SegmentedLock::shares`]):
/// whoever holds a segment may touch its part and no other. In a cluster the segments are spread over the nodes, unless the
/// name has a hash tag.
///
/// ```no_run
/// # async fn demo(client: &redgrid_locks::Client, user: u64) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_locks::SegmentedLock;
///
/// let hot = SegmentedLock::new(client, "stock:7", 8);
/// let mut tour = hot.tour(user); // where it begins depends on the user: they spread by themselves
/// while let Some(segment) = tour.next().await? {
///     let stock = format!("stock:7:{}:left", segment.index());
///     let left: Option<i64> = client.command("GET").key(&stock)?.query().await?;
///     if left > Some(0) {
///         // … sell one of this segment's part …
///         return Ok(segment.release().await?);
///     }
///     // This one is empty: dropped, and on to the next.
/// }
/// println!("sold out"); // every segment was held once, and was empty
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct SegmentedLock {
    segments: Arc<[Lock]>,
}

impl SegmentedLock {
    /// The lock with this name in so many segments, at least one. All who use it must say the same number.
    pub fn new(client: &Client, name: impl AsRef<str>, segments: usize) -> Self {
        let name = name.as_ref();
        let segments = (0..segments.max(1)).map(|index| Lock::new(client, format!("{name}:{index}"))).collect();
        SegmentedLock { segments }
    }

    /// How many segments there are.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// The lock of one segment; `None` beyond the last.
    pub fn segment(&self, index: usize) -> Option<&Lock> {
        self.segments.get(index)
    }

    /// A whole as parts, one for each segment: as equal as can be, and together the whole.
    pub fn shares(&self, whole: u64) -> Vec<u64> {
        let count = self.segments.len() as u64;
        (0..count).map(|index| whole / count + u64::from(index < whole % count)).collect()
    }

    /// A way through all segments, each once, that begins where `by` has its own: a user, an order, a task.
    pub fn tour(&self, by: impl Hash) -> Tour {
        let mut hasher = DefaultHasher::new();
        by.hash(&mut hasher);
        let count = self.segments.len();
        let first = usize::try_from(hasher.finish() % count as u64).unwrap_or_default();
        Tour { lock: self.clone(), ahead: (first..count).chain(0..first).collect(), wait: None, lease: None }
    }

    /// Holds all segments at a time, for what concerns the whole: counting, filling up, dividing anew. They are taken in
    /// their order, so two that take all do not block each other; who takes all while it holds one may wait for itself.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] of the first that could not be had; what was taken before it is given back.
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`]; what was taken is given back.
    pub async fn acquire_all(&self) -> Result<Vec<LockGuard>, AcquireError> {
        let mut all = Vec::with_capacity(self.segments.len());
        for segment in &*self.segments {
            all.push(segment.acquire().await?);
        }
        Ok(all)
    }
}

/// A way through the segments of a lock; made by [`SegmentedLock::tour`].
#[derive(Debug)]
pub struct Tour {
    lock: SegmentedLock,
    /// The segments that it has not held yet.
    ahead: VecDeque<usize>,
    wait: Option<Duration>,
    lease: Option<Duration>,
}

impl Tour {
    /// Waits at most this long for a segment where all that are ahead are taken; as long as it takes unless set.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Holds each segment for this long at most, renewed by nobody. See [`Acquire::lease`](crate::Acquire::lease).
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// The next segment: the first of those ahead that is free; where all are taken, the first of them as soon as it is
    /// released. `None` when all were held once.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] says what is true then. The segment is still ahead.
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`]; the segment is still ahead.
    pub async fn next(&mut self) -> Result<Option<SegmentGuard>, AcquireError> {
        for at in 0..self.ahead.len() {
            let index = self.ahead[at];
            let look = self.lock.segments[index].try_acquire();
            let look = if let Some(lease) = self.lease { look.lease(lease) } else { look };
            if let Some(guard) = look.await? {
                self.ahead.remove(at);
                return Ok(Some(SegmentGuard { index, guard }));
            }
        }
        let Some(&index) = self.ahead.front() else { return Ok(None) };
        let acquire = self.lock.segments[index].acquire();
        let acquire = if let Some(lease) = self.lease { acquire.lease(lease) } else { acquire };
        let acquire = if let Some(wait) = self.wait { acquire.wait(wait) } else { acquire };
        let guard = acquire.await?;
        self.ahead.pop_front();
        Ok(Some(SegmentGuard { index, guard }))
    }
}

/// A held segment: a [`LockGuard`], and which one.
#[must_use = "dropping it gives the segment back"]
#[derive(Debug)]
pub struct SegmentGuard {
    index: usize,
    guard: LockGuard,
}

impl SegmentGuard {
    /// Which segment it is, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Gives the segment back and waits for the server's answer. See [`LockGuard::release`].
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] when it had ended before.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the release goes on in the background.
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.guard.release().await
    }
}

impl Deref for SegmentGuard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}
