//! One hot name as several: who finds a segment taken, or empty, goes on to the next.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redgrid_core::Client;
use redgrid_core::clock::Instant;
use redgrid_core::lock::HoldGuard;

use crate::driven::driven;
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
///     segment.exhaust().await?; // this one is empty, for all of this process: on to the next
/// }
/// println!("sold out"); // every segment was held once, and was empty
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct SegmentedLock {
    segments: Arc<[Segment]>,
}

#[derive(Debug)]
struct Segment {
    lock: Lock,
    /// Whoever held it in this process found nothing in it, and nothing comes back.
    exhausted: AtomicBool,
}

/// How long a tour waits for a segment while there are others to go on to: 500 ms unless set. Waiting in line costs nothing, and
/// looking around makes processes compete for each other's segments: so it is for one whose holder hangs or is dead.
const PATIENCE: Duration = Duration::from_millis(500);

/// The shortest time in line for a segment after the first round: 50 ms. Looking costs a request.
const LEAST_PATIENCE: Duration = Duration::from_millis(50);

impl SegmentedLock {
    /// The lock with this name in so many segments, at least one. All who use it must say the same number.
    pub fn new(client: &Client, name: impl AsRef<str>, segments: usize) -> Self {
        let name = name.as_ref();
        let segment =
            |index| Segment { lock: Lock::new(client, format!("{name}:{index}")), exhausted: AtomicBool::new(false) };
        SegmentedLock { segments: (0..segments.max(1)).map(segment).collect() }
    }

    /// How many segments there are.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// The lock of one segment; `None` beyond the last.
    pub fn segment(&self, index: usize) -> Option<&Lock> {
        self.segments.get(index).map(|segment| &segment.lock)
    }

    /// A whole as parts, one for each segment: as equal as can be, and together the whole.
    pub fn shares(&self, whole: u64) -> Vec<u64> {
        let count = self.segments.len() as u64;
        (0..count).map(|index| whole / count + u64::from(index < whole % count)).collect()
    }

    /// A way through all segments that are not [exhausted](SegmentGuard::exhaust), each once, that begins where `by` has its own:
    /// a user, an order, a task.
    pub fn tour(&self, by: impl Hash) -> Tour {
        let mut hasher = DefaultHasher::new();
        by.hash(&mut hasher);
        self.tour_from(usize::try_from(hasher.finish() % self.segments.len() as u64).unwrap_or_default())
    }

    /// The same, beginning at this segment (modulo their number): for workers that are given segments. Where the workers of one
    /// process keep to some, and those of another to others, segments pass from task to task without the server.
    pub fn tour_from(&self, first: usize) -> Tour {
        let count = self.segments.len();
        let first = first % count;
        let ahead = (first..count).chain(0..first).collect();
        Tour { lock: self.clone(), ahead, patience: PATIENCE, wait: None, lease: None }
    }

    /// Nothing is known of any segment any more: tours go through all of them again. Each process has to be told for itself.
    pub fn refilled(&self) {
        self.segments.iter().for_each(|segment| segment.exhausted.store(false, Ordering::Relaxed));
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
        let first = &self.segments[0].lock;
        let all = driven(first.client(), &first.target()?.name, None, |_| {
            let steps: Vec<_> = self.segments.iter().map(|segment| segment.lock.options().in_scope()).collect();
            async move {
                let mut all = Vec::with_capacity(steps.len());
                for step in steps {
                    all.push(step.step().await?);
                }
                Ok::<_, AcquireError>(all)
            }
        });
        let all = all.await?;
        all.iter().for_each(HoldGuard::accept_member);
        Ok(all.into_iter().map(LockGuard::new).collect())
    }
}

/// A way through the segments of a lock; made by [`SegmentedLock::tour`].
#[derive(Debug)]
pub struct Tour {
    lock: SegmentedLock,
    /// The segments that it has not held yet.
    ahead: VecDeque<usize>,
    patience: Duration,
    wait: Option<Duration>,
    lease: Option<Duration>,
}

impl Tour {
    /// Waits this long for a segment before it goes on to the next one: 500 ms unless set, enough for those that wait in line
    /// where sections are short. With zero it looks once, and from the second round on waits 50 ms for each.
    pub fn segment_timeout(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Waits at most this long for a segment, each of those ahead looked at once however short it is; as long as it takes unless
    /// set.
    pub fn timeout(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Holds each segment for this long at most, renewed by nobody. See [`Acquire::lease`](crate::Acquire::lease).
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// The next segment: the first of those ahead that can be had within the [patience](Tour::segment_timeout), round after round while
    /// all are taken for longer. `None` when all were held once.
    ///
    /// Release the one before first: two that each wait while they hold can wait for each other.
    ///
    /// # Errors
    ///
    /// [`AcquireError`] says what is true then. The segment is still ahead.
    ///
    /// # Cancel safety
    ///
    /// As [`Lock::acquire`]; the segment is still ahead.
    pub async fn next(&mut self) -> Result<Option<SegmentGuard>, AcquireError> {
        let client = self.lock.segments[0].lock.client().clone();
        let clock = client.clock();
        let (mut contact, mut patience) = (clock.now(), self.patience);
        let until = self.wait.map_or(Instant::MAX, |wait| contact + wait);
        loop {
            self.leave_out();
            // With nothing to go on to, in line for what is left of the wait.
            let alone = self.ahead.len() == 1;
            let mut told = None;
            for at in 0..self.ahead.len() {
                let left = self.wait.map(|_| until.since(clock.now()));
                let within = if alone { left } else { Some(left.map_or(patience, |left| left.min(patience))) };
                match self.acquire(self.ahead[at], within).await {
                    Ok(guard) => return Ok(self.take(at, guard)),
                    Err(error @ AcquireError::TimedOut { .. }) => (contact, told) = (clock.now(), Some(error)),
                    // So little time may be over before any answer: nothing is held, or will not be for long.
                    Err(error @ (AcquireError::Unavailable { .. } | AcquireError::OutcomeUnknown { .. })) if !alone => {
                        told = Some(error);
                    }
                    Err(error) => return Err(error),
                }
            }
            let (Some(error), now) = (told, clock.now()) else { return Ok(None) };
            if now >= until || now.since(contact) >= client.patience() {
                return Err(error);
            }
            patience = patience.max(LEAST_PATIENCE);
        }
    }

    /// Segments in which nothing is left are not ahead any more.
    fn leave_out(&mut self) {
        let segments = Arc::clone(&self.lock.segments);
        self.ahead.retain(|index| !segments[*index].exhausted.load(Ordering::Relaxed));
    }

    async fn acquire(&self, index: usize, wait: Option<Duration>) -> Result<LockGuard, AcquireError> {
        let acquire = self.lock.segments[index].lock.acquire();
        let acquire = if let Some(lease) = self.lease { acquire.lease(lease) } else { acquire };
        if let Some(wait) = wait { acquire.timeout(wait).await } else { acquire.await }
    }

    fn take(&mut self, at: usize, guard: LockGuard) -> Option<SegmentGuard> {
        let index = self.ahead.remove(at)?;
        Some(SegmentGuard { index, guard, lock: self.lock.clone() })
    }
}

/// A held segment: a [`LockGuard`], and which one.
#[must_use = "dropping it gives the segment back"]
#[derive(Debug)]
pub struct SegmentGuard {
    index: usize,
    guard: LockGuard,
    lock: SegmentedLock,
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

    /// Gives back a segment in which nothing is left, and to which nothing comes back: tours of this [`SegmentedLock`] and its
    /// clones leave it out, until [`SegmentedLock::refilled`].
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Lost`] when it had ended before: then it is not left out.
    ///
    /// # Cancel safety
    ///
    /// Dropped early, the release goes on in the background.
    pub async fn exhaust(self) -> Result<(), ReleaseError> {
        if self.guard.is_held() {
            self.lock.segments[self.index].exhausted.store(true, Ordering::Relaxed);
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
