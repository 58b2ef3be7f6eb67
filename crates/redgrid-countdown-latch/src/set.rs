//! Setting a latch: options, then await.

use std::time::Duration;

use redgrid_core::LIFETIMES;
use redgrid_core::into_future;

use crate::error::LatchError;
use crate::latch::CountDownLatch;

/// Sets the count of a latch when awaited; created by [`CountDownLatch::try_set_count`].
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct TrySetCount {
    latch: CountDownLatch,
    count: u64,
    lifetime: Option<Duration>,
}

impl TrySetCount {
    pub(crate) fn new(latch: CountDownLatch, count: u64) -> Self {
        TrySetCount { latch, count, lifetime: None }
    }

    /// Ends the round after this time, whatever its count: 1 ms to 3,650 days, unlimited unless
    /// set. Waits then complete as at a count of 0. Redisson's waiters are not notified, and
    /// keep waiting.
    pub fn expires_in(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    async fn run(self) -> Result<bool, LatchError> {
        let keys = self.latch.keys()?;
        let count = keys.checked_count(self.count)?;
        if let Some(got) = self.lifetime.filter(|it| !LIFETIMES.contains(it)) {
            return Err(LatchError::InvalidLifetime { name: keys.name.clone(), got });
        }
        let set = keys.set(self.latch.client(), count, self.lifetime).await;
        set.map_err(|source| LatchError::of_change(&keys.name, source))
    }
}

into_future!(TrySetCount => Result<bool, LatchError>, |this| this.run());
