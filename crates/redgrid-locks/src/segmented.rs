//! Splits a contended lock into segments. A caller that finds one taken, or empty, tries the next.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::lock::HoldGuard;
use redgrid_core::{Client, Failure};

use crate::drive::drive;
use crate::lock::Lock;
use crate::lock::LockGuard;
use crate::{AcquireError, ReleaseError};

/// A lock in segments, for contended data that can be divided: a stock, a budget, a quota.
///
/// Each segment guards its own part of the data. So there can be as many holders at a time as
/// segments.
///
/// Segment `n` of `stock:7` is the [`Lock`] named `stock:7:n`. The application divides the data
/// ([`SegmentedLock::shares`]). The holder of a segment may access its part and no other. In a
/// cluster the segments are spread over the nodes, unless the name has a hash tag.
///
/// ```no_run
/// # async fn demo(client: &redgrid_locks::Client, user: u64) -> Result<(), Box<dyn std::error::Error>> {
/// use redgrid_locks::SegmentedLock;
///
/// let hot = SegmentedLock::new(client, "stock:7", 8);
/// let mut segments = hot.segments_for(user); // starts at a segment that depends on the user
/// while let Some(segment) = segments.next().await? {
///     let stock = format!("stock:7:{}:left", segment.index());
///     let left: Option<i64> = client.command("GET").key(&stock)?.query().await?;
///     if left > Some(0) {
///         // … sell one of this segment's part …
///         return Ok(segment.release().await?);
///     }
///     segment.mark_empty().await?; // releases it; `hot` skips it from now on
/// }
/// println!("sold out"); // every segment is empty
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct SegmentedLock {
    segments: Arc<[Segment]>,
}

#[derive(Debug)]
struct Segment {
    lock: Lock,
    /// Whether a holder marked the segment as permanently empty, through this [`SegmentedLock`] or
    /// a clone.
    is_empty: AtomicBool,
}

/// Default wait for a segment while there are others to try: 500 ms.
///
/// Waiting in the queue costs nothing. Trying other segments makes processes compete for each
/// other's segments. So the timeout is long, and meant for a segment with a holder that hangs or is
/// dead.
const SEGMENT_TIMEOUT: Duration = Duration::from_millis(500);

/// Shortest wait for a segment after the first round: 50 ms. Each attempt costs a request.
const MIN_SEGMENT_TIMEOUT: Duration = Duration::from_millis(50);

impl SegmentedLock {
    /// Returns the lock with this name and number of segments, at least one.
    ///
    /// All users of the lock must specify the same number.
    pub fn new(client: &Client, name: impl AsRef<str>, segments: usize) -> Self {
        let name = name.as_ref();
        let segment =
            |index| Segment { lock: Lock::new(client, format!("{name}:{index}")), is_empty: AtomicBool::new(false) };
        SegmentedLock { segments: (0..segments.max(1)).map(segment).collect() }
    }

    /// Returns the same lock with the label `family` in metrics and spans, as [`Lock::family`].
    ///
    /// Call it before the lock is cloned: segments that a clone marks as empty later are not
    /// skipped here.
    #[must_use]
    pub fn family(self, family: &'static str) -> Self {
        let segment = |segment: &Segment| Segment {
            lock: segment.lock.clone().family(family),
            is_empty: AtomicBool::new(segment.is_empty.load(Ordering::Acquire)),
        };
        SegmentedLock { segments: self.segments.iter().map(segment).collect() }
    }

    /// Returns the number of segments.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Returns the lock of one segment; `None` beyond the last.
    pub fn segment(&self, index: usize) -> Option<&Lock> {
        self.segments.get(index).map(|segment| &segment.lock)
    }

    /// Divides a number into parts, one for each segment.
    ///
    /// The parts are as equal as possible, and their sum is the number.
    pub fn shares(&self, whole: u64) -> Vec<u64> {
        let count = self.segments.len() as u64;
        (0..count).map(|index| whole / count + u64::from(index < whole % count)).collect()
    }

    /// Returns an iterator over the segments that starts at the segment to which `key` hashes.
    ///
    /// The key is a user, an order, or a task, for example. Each segment is returned
    /// once. Segments that are [marked as empty](SegmentGuard::mark_empty) are skipped.
    pub fn segments_for(&self, key: impl Hash) -> SegmentIter {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        self.segments_from(usize::try_from(hasher.finish() % self.segments.len() as u64).unwrap_or_default())
    }

    /// Returns an iterator over the segments that starts at this index, modulo their number.
    ///
    /// It is for workers with assigned segments. If the workers of different processes use
    /// different segments, a segment is handed over from task to task without a request.
    pub fn segments_from(&self, first: usize) -> SegmentIter {
        let count = self.segments.len();
        let first = first % count;
        let remaining = (first..count).chain(0..first).collect();
        SegmentIter { lock: self.clone(), remaining, segment_timeout: SEGMENT_TIMEOUT, wait: None, lease: None }
    }

    /// Marks all segments as not empty, so that iterators return them again.
    ///
    /// It applies to this [`SegmentedLock`] and its clones. Call it in each process.
    pub fn reset(&self) {
        self.segments.iter().for_each(|segment| segment.is_empty.store(false, Ordering::Relaxed));
    }

    /// Acquires all segments, for work on the whole: counting, filling up, dividing anew.
    ///
    /// The segments are acquired in order, so that two callers do not block each other. A caller
    /// that already holds a segment may wait for itself.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] of the first segment that was not acquired. The segments acquired before it
    /// are released.
    ///
    /// # Cancel safety
    ///
    /// That of [`Lock::acquire`]. Acquired segments are released.
    pub async fn acquire_all(&self) -> Result<Vec<LockGuard>, AcquireError> {
        let first = &self.segments[0].lock;
        let acquire = drive(first.client(), &first.target()?.name, None, |_| {
            let builders: Vec<_> =
                self.segments.iter().map(|segment| segment.lock.acquire_builder().in_scope()).collect();
            async move {
                let mut grants = Vec::with_capacity(builders.len());
                for builder in builders {
                    grants.push(builder.acquire_member().await?);
                }
                Ok::<_, AcquireError>(grants)
            }
        });
        let grants = acquire.await?;
        grants.iter().for_each(HoldGuard::accept_member);
        Ok(grants.into_iter().map(LockGuard::new).collect())
    }
}

/// An asynchronous iterator over the segments of a lock; made by [`SegmentedLock::segments_for`].
#[derive(Debug)]
pub struct SegmentIter {
    lock: SegmentedLock,
    /// Indices of the segments that it has not returned yet.
    remaining: VecDeque<usize>,
    segment_timeout: Duration,
    wait: Option<Duration>,
    lease: Option<Duration>,
}

impl SegmentIter {
    /// Limits the wait for each segment, before the next one is tried; 500 ms unless set.
    ///
    /// The default suffices for the waiters of short critical sections. With zero, the first round
    /// makes one attempt for each segment, and later rounds wait 50 ms for each.
    pub fn segment_timeout(mut self, timeout: Duration) -> Self {
        self.segment_timeout = timeout;
        self
    }

    /// Limits the wait for the next segment; unlimited unless set.
    ///
    /// However short it is, each remaining segment is tried once.
    pub fn timeout(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Sets a fixed lease for each segment. See [`Acquire::lease`](crate::Acquire::lease).
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Acquires the next segment. `None` means that each segment was returned once or is marked as
    /// [empty](SegmentGuard::mark_empty).
    ///
    /// It is the first of the remaining segments that can be acquired within the
    /// [segment timeout](SegmentIter::segment_timeout). If all are taken for longer, they are tried
    /// again, round after round.
    ///
    /// Release the previous segment first: two callers that wait while they hold one can deadlock.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] describes the state for each error. The iterator keeps the segment.
    ///
    /// # Cancel safety
    ///
    /// That of [`Lock::acquire`]. The iterator keeps the segment.
    pub async fn next(&mut self) -> Result<Option<SegmentGuard>, AcquireError> {
        let client = self.lock.segments[0].lock.client().clone();
        let clock = client.clock();
        let (mut contact, mut segment_timeout) = (clock.now(), self.segment_timeout);
        let until = self.wait.map_or(Instant::MAX, |wait| contact + wait);
        loop {
            self.skip_empty();
            // If no other segment remains, wait for this one until the timeout of the iterator.
            let is_last = self.remaining.len() == 1;
            let mut last_error = None;
            for at in 0..self.remaining.len() {
                let left = self.wait.map(|_| until.since(clock.now()));
                let wait =
                    if is_last { left } else { Some(left.map_or(segment_timeout, |left| left.min(segment_timeout))) };
                match self.acquire(self.remaining[at], wait).await {
                    Ok(guard) => return Ok(self.take(at, guard)),
                    Err(error @ AcquireError::TimedOut { .. }) => {
                        contact = clock.now();
                        last_error = Some(error);
                    }
                    // The short timeout may pass before any reply. If the server grants the lock
                    // nevertheless, the grant is released at once.
                    Err(error @ AcquireError::Failed(Failure::Unavailable { .. } | Failure::OutcomeUnknown { .. }))
                        if !is_last =>
                    {
                        last_error = Some(error);
                    }
                    Err(error) => return Err(error),
                }
            }
            let (Some(error), now) = (last_error, clock.now()) else { return Ok(None) };
            if now >= until || now.since(contact) >= client.patience() {
                return Err(error);
            }
            segment_timeout = segment_timeout.max(MIN_SEGMENT_TIMEOUT);
        }
    }

    /// Removes empty segments from the iterator.
    fn skip_empty(&mut self) {
        let segments = Arc::clone(&self.lock.segments);
        self.remaining.retain(|index| !segments[*index].is_empty.load(Ordering::Relaxed));
    }

    async fn acquire(&self, index: usize, wait: Option<Duration>) -> Result<LockGuard, AcquireError> {
        let acquire = self.lock.segments[index].lock.acquire();
        let acquire = if let Some(lease) = self.lease { acquire.lease(lease) } else { acquire };
        if let Some(wait) = wait { acquire.timeout(wait).await } else { acquire.await }
    }

    fn take(&mut self, at: usize, guard: LockGuard) -> Option<SegmentGuard> {
        let index = self.remaining.remove(at)?;
        Some(SegmentGuard { index, guard, lock: self.lock.clone() })
    }
}

/// A held segment: a [`LockGuard`] and the index of the segment.
#[must_use = "dropping it releases the segment"]
#[derive(Debug)]
pub struct SegmentGuard {
    index: usize,
    guard: LockGuard,
    lock: SegmentedLock,
}

impl SegmentGuard {
    /// Returns the index of the segment, from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Releases the segment and waits for the reply of the server. See [`LockGuard::release`].
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] when the hold had ended before.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the release goes on in the background.
    pub async fn release(self) -> Result<(), ReleaseError> {
        self.guard.release().await
    }

    /// Releases a segment and marks it as permanently empty.
    ///
    /// Iterators of this [`SegmentedLock`] and its clones skip it until [`SegmentedLock::reset`].
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] when the hold had ended before. The segment is not marked if the
    /// loss was known before the release.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped early, the release goes on in the background.
    pub async fn mark_empty(self) -> Result<(), ReleaseError> {
        if self.guard.is_held() {
            self.lock.segments[self.index].is_empty.store(true, Ordering::Relaxed);
        }
        self.guard.release().await
    }
}

impl Deref for SegmentGuard {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.guard
    }
}
