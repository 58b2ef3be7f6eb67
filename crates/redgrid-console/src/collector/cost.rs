//! How long the requests of the collector took.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// The time of all requests since the console started, in nanoseconds. All clones count together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cost(Arc<AtomicU64>);

impl Cost {
    /// Waits for requests, and counts the time until they end, or until the future is dropped.
    /// Requests that are passed together count once.
    pub(super) async fn of<T>(&self, requests: impl Future<Output = T>) -> T {
        let _until_dropped = Running { cost: self, began: Instant::now() };
        requests.await
    }

    pub(super) fn add(&self, took: Duration) {
        self.0.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn total(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// Requests that have not ended.
struct Running<'a> {
    cost: &'a Cost,
    began: Instant,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.cost.add(self.began.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_time_of_requests_counts_also_if_their_future_is_dropped() {
        let cost = Cost::default();
        let total = || cost.total().as_millis();
        cost.of(tokio::time::sleep(Duration::from_secs(3))).await;
        assert!((3_000..3_010).contains(&total()), "{}", total());
        let unanswered = cost.of(std::future::pending::<()>());
        assert!(tokio::time::timeout(Duration::from_secs(2), unanswered).await.is_err());
        tokio::time::advance(Duration::from_secs(60)).await;
        assert!((5_000..5_020).contains(&total()), "{}", total());
        cost.clone().add(Duration::from_secs(1));
        assert!((6_000..6_020).contains(&total()), "{}", total());
    }
}
