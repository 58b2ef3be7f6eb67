//! Taking permits of a log: options, then await; and what was taken.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::error::LimitError;
use crate::limiter::RateLimiter;
use crate::log::{Entry, Log};
use crate::queue::{Granted, Limit, Queue, Wait};
use crate::rate::{MOST_AT_ONCE, MOST_AT_ONCE_EXPECTED};

pub(crate) fn checked(limit: &impl Limit, permits: u64) -> Result<u64, LimitError> {
    match (1..=MOST_AT_ONCE).contains(&permits) {
        true => Ok(permits),
        false => Err(LimitError::argument(limit.name(), "permits", MOST_AT_ONCE_EXPECTED, permits)),
    }
}

/// Takes permits when awaited, as soon as they can be had; made by [`RateLimiter::acquire`].
///
/// # Errors
///
/// [`LimitError`] says what is true then.
///
/// # Cancel safety
///
/// Dropped, it gives up its place, and takes none: those that were taken already go back in the background, or count until their time
/// is over where no answer comes.
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone, Debug)]
pub struct Acquire {
    limiter: RateLimiter,
    permits: u64,
    wait: Option<Duration>,
}

impl Acquire {
    pub(crate) fn new(limiter: RateLimiter) -> Self {
        Acquire { limiter, permits: 1, wait: None }
    }

    /// How many, all at once: 1 to 2^32 − 1, 1 unless set. Many wait long where others take few all the time: within a process nobody
    /// overtakes, from other processes all may.
    pub fn permits(mut self, permits: u64) -> Self {
        self.permits = permits;
        self
    }

    /// Waits at most this long, for the limit and for a server that can not be reached; as long as it takes unless set, but not
    /// without contact to the server for longer than `response_timeout × (retries + 1)`. Zero looks once, as
    /// [`try_acquire`](RateLimiter::try_acquire) does: which takes as long as that where no server can be reached.
    pub fn timeout(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    async fn run(self) -> Result<Taken, LimitError> {
        let queue = self.limiter.queue()?;
        let permits = checked(&queue.limit, self.permits)?;
        // Who waits at no time looks once.
        let looks_once = self.wait.is_some_and(|wait| wait.is_zero());
        let granted = queue.take(permits, if looks_once { Wait::No } else { Wait::For(self.wait) }).await?;
        let name = || queue.limit.name().clone();
        let granted = granted.ok_or_else(|| LimitError::TimedOut { name: name(), waited: Duration::ZERO })?;
        Ok(Taken::new(queue, permits, granted))
    }
}

impl IntoFuture for Acquire {
    type Output = Result<Taken, LimitError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// Permits that were taken. They are used up by time: dropping this changes nothing.
#[derive(Debug)]
pub struct Taken {
    queue: Arc<Queue<Log>>,
    permits: u64,
    entry: Option<Entry>,
}

impl Taken {
    pub(crate) fn new(queue: &Arc<Queue<Log>>, permits: u64, granted: Granted<Log>) -> Self {
        Taken { queue: Arc::clone(queue), permits, entry: granted.keep() }
    }

    /// How many.
    pub fn permits(&self) -> u64 {
        self.permits
    }

    /// Gives them back, as not used: these and no others. Tells how many are free again by it: none where they were over already, or
    /// others gave them back.
    ///
    /// # Errors
    ///
    /// [`LimitError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out, once, although nobody waits for it. Dropped before that, they stay taken.
    pub async fn release(self) -> Result<u64, LimitError> {
        let Taken { queue, permits, entry: Some(entry) } = self else { return Ok(0) };
        let given = queue.limit.take_back(&queue.client, &entry, permits).await;
        queue.nudge();
        let given = given.map_err(|source| queue.limit.failed(&queue.client, source))?;
        // Without a rate, nothing counts any more.
        Ok(given.unwrap_or(0))
    }
}
