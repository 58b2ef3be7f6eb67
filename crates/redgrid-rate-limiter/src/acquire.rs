//! Taking permits of a log: the builder, and the permits that were taken.

use std::sync::Arc;
use std::time::Duration;

use redgrid_core::into_future;

use crate::error::LimitError;
use crate::limiter::RateLimiter;
use crate::log::{Entry, Log};
use crate::take::acquire;
use crate::waiters::{Granted, LimitQueue};

/// Takes permits when awaited, as soon as they are available; made by [`RateLimiter::acquire`].
///
/// # Errors
///
/// [`LimitError`] if the permits were not taken.
///
/// # Cancel safety
///
/// A dropped future leaves the queue and takes nothing. Permits that were taken for it already are
/// given back in the background. If the reply is lost, they count until they expire.
#[must_use = "does nothing until it is awaited"]
#[derive(Clone, Debug)]
pub struct Acquire {
    limiter: RateLimiter,
    permits: u64,
    timeout: Option<Duration>,
}

impl Acquire {
    pub(crate) fn new(limiter: RateLimiter) -> Self {
        Acquire { limiter, permits: 1, timeout: None }
    }

    /// Sets the number of permits, taken all at once: 1 to 2^32 − 1. Default: 1.
    ///
    /// A call for many permits may wait long while others take few all the time. Callers of the
    /// same client do not overtake it; those of other clients do.
    pub fn permits(mut self, permits: u64) -> Self {
        self.permits = permits;
        self
    }

    /// Waits at most this long, for permits and for a server that cannot be reached.
    ///
    /// By default, the wait for permits has no bound. Without contact to the server it ends after
    /// `response_timeout × (retries + 1)`. With zero, the call does not wait for permits, as
    /// [`try_acquire`](RateLimiter::try_acquire). Without contact, it ends after the same time.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    async fn run(self) -> Result<Taken, LimitError> {
        let queue = self.limiter.queue()?;
        let granted = acquire(queue, self.limiter.family, self.permits, self.timeout).await?;
        Ok(Taken::new(queue, self.permits, granted))
    }
}

into_future!(Acquire => Result<Taken, LimitError>, |this| this.run());

/// Permits that were taken. They expire when the period of the rate has passed; dropping this value
/// changes nothing.
#[derive(Debug)]
pub struct Taken {
    queue: Arc<LimitQueue<Log>>,
    permits: u64,
    entry: Option<Entry>,
}

impl Taken {
    pub(crate) fn new(queue: &Arc<LimitQueue<Log>>, permits: u64, granted: Granted<Log>) -> Self {
        Taken { queue: Arc::clone(queue), permits, entry: granted.keep() }
    }

    /// Returns the number of permits.
    pub fn permits(&self) -> u64 {
        self.permits
    }

    /// Gives these permits back unused. Returns how many became free: 0 if they had expired, or if
    /// another call had given them back.
    ///
    /// # Errors
    ///
    /// [`LimitError`] if the permits were not given back.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is executed once, even if the future is dropped. If it is dropped
    /// before that, the permits stay taken.
    pub async fn release(self) -> Result<u64, LimitError> {
        let Taken { queue, permits, entry: Some(entry) } = self else { return Ok(0) };
        let (client, log) = (queue.client(), &queue.resource().limit);
        let released = log.release_entry(client, &entry, permits).await;
        queue.poll_soon();
        let released = released.map_err(|source| LimitError::of(client, &log.keys.name, source))?;
        // Without a rate, no permits are counted, so none became free.
        Ok(released.unwrap_or(0))
    }
}
