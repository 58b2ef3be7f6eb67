//! Helpers of the tests of latches.

use std::sync::Arc;
use std::time::Duration;

use redgrid_core::Failure;
use redgrid_countdown_latch::{Client, CountDownLatch, WaitError};
use redgrid_testkit::wait_until;
use tokio::sync::Barrier;
use tokio::task::JoinHandle;

use crate::SOON;

/// Starts tasks that wait for a latch, and returns when all of them wait. The round of each waiter
/// is assigned by a later poll; use [`placed`] to wait for it.
pub async fn crowd(latch: &CountDownLatch, tasks: usize) -> Vec<JoinHandle<Result<(), WaitError>>> {
    let waiting = Arc::new(Barrier::new(tasks + 1));
    let one = |_| {
        let (latch, waiting) = (latch.clone(), Arc::clone(&waiting));
        tokio::spawn(async move {
            let mut wait = latch.wait().into_future();
            // The first poll puts the wait into the queue.
            match futures_util::poll!(&mut wait) {
                std::task::Poll::Ready(over) => over,
                std::task::Poll::Pending => {
                    waiting.wait().await;
                    wait.await
                }
            }
        })
    };
    let tasks = (0..tasks).map(one).collect();
    waiting.wait().await;
    tasks
}

/// Starts one task that waits through an otherwise idle client, and returns when the task is in a
/// round.
pub async fn waiter(client: &Client, latch: &CountDownLatch) -> JoinHandle<Result<(), WaitError>> {
    let task = tokio::spawn(latch.wait().into_future());
    // The client subscribes after a poll has found the latch closed.
    wait_until(SOON, async || client.stats().channels > 0).await;
    task
}

/// Waits until all waiters of this client are in a round.
pub async fn placed(latch: &CountDownLatch) {
    // A new waiter that times out shows that a poll was answered after the earlier waiters joined,
    // so that poll served them too.
    let mut within = Duration::from_millis(5);
    while within < SOON {
        match latch.wait().timeout(within).await {
            Err(WaitError::TimedOut { .. }) => return,
            Err(WaitError::Failed(Failure::Unavailable { .. })) => within *= 2,
            over => panic!("unexpected result of a wait: {over:?}"),
        }
    }
    panic!("no poll was answered within {within:?}");
}

/// Returns the hashes of the scripts of a latch.
pub fn scripts() -> [String; 4] {
    const ONCE: &str = include_str!("../../crates/redgrid-core/src/exactly_once/dedup.lua");
    macro_rules! text {
        ($name:literal) => {
            include_str!(concat!("../../crates/redgrid-countdown-latch/src/scripts/", $name, ".lua"))
        };
    }
    let once = |text| crate::sha(&[ONCE, text].concat());
    [once(text!("set")), once(text!("count_down")), once(text!("delete")), crate::sha(text!("state"))]
}
