//! What several ask together: who stands behind others waits for them, and for his own answer, and no longer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redgrid_core::clock::{Clock, Instant};
use redgrid_core::{Client, Combine, Combiner, Config, Reply, Server, ServerError};
use redgrid_testkit::wait_until;
use redgrid_tests::SOON;
use redgrid_tests::made::Made;
use tokio::sync::Notify;

/// Its first batch is answered when it may be, and no other.
#[derive(Default)]
struct Slow {
    may: Arc<Notify>,
    batches: Arc<AtomicU64>,
}

impl Combine for Slow {
    type Ask = ();
    type Answer = ();

    fn fit<'a>(&self, asks: impl Iterator<Item = &'a ()>) -> usize {
        asks.count()
    }

    async fn carry_out(&self, batch: Vec<()>, _until: Instant) -> Vec<()> {
        if self.batches.fetch_add(1, Ordering::Relaxed) > 0 {
            std::future::pending::<()>().await;
        }
        self.may.notified().await;
        batch
    }
}

#[tokio::test]
async fn who_has_left_with_others_does_not_wait_as_long_as_they_may() {
    let server = Arc::new(Made::new("one:1", |_| Ok(Reply::Int(1))));
    let config = Config::single("one").unwrap().timeout(Duration::from_millis(500)).retries(3);
    let client = Client::over_one(Arc::clone(&server) as Arc<dyn Server>, config, Clock::boot()).unwrap();
    let slow = Slow::default();
    let (may, batches) = (Arc::clone(&slow.may), Arc::clone(&slow.batches));
    let combiner = Arc::new(Combiner::new(slow));
    let mut first = Box::pin(combiner.ask(&client, ()));
    assert!(futures_util::poll!(&mut first).is_pending());
    let mut behind = Box::pin(combiner.ask(&client, ()));
    assert!(futures_util::poll!(&mut behind).is_pending());
    may.notify_one();
    first.await.unwrap();
    wait_until(SOON, async || batches.load(Ordering::Relaxed) == 2).await;
    let told = tokio::time::timeout(SOON, behind).await.expect("its time is over");
    assert!(matches!(told, Err(ServerError::Unknown { .. })), "{told:?}");
}
