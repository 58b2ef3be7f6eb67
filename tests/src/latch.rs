//! What tests of latches share.

use std::sync::Arc;
use std::time::Duration;

use redgrid_core::Failure;
use redgrid_countdown_latch::{Client, CountDownLatch, WaitError};
use redgrid_testkit::wait_until;
use tokio::sync::Barrier;
use tokio::task::JoinHandle;

use crate::SOON;

/// Tasks that wait for a latch; when this returns, all of them do. Which round they are in a look finds; [`placed`] waits for that.
pub async fn crowd(latch: &CountDownLatch, tasks: usize) -> Vec<JoinHandle<Result<(), WaitError>>> {
    let waiting = Arc::new(Barrier::new(tasks + 1));
    let one = |_| {
        let (latch, waiting) = (latch.clone(), Arc::clone(&waiting));
        tokio::spawn(async move {
            let mut wait = latch.wait().into_future();
            // In line by its first poll.
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

/// One task that waits through a client with which nobody waits for anything else; when this returns, it is in a round.
pub async fn waiter(client: &Client, latch: &CountDownLatch) -> JoinHandle<Result<(), WaitError>> {
    let task = tokio::spawn(latch.wait().into_future());
    // Channels are asked for when a look has found the latch closed.
    wait_until(SOON, async || client.stats().channels > 0).await;
    task
}

/// Completes when all who have come to wait through this client are in a round.
pub async fn placed(latch: &CountDownLatch) {
    // Whoever comes behind them is told that the latch is closed by a look that was answered in time, which was for them, too.
    let mut within = Duration::from_millis(5);
    while within < SOON {
        match latch.wait().timeout(within).await {
            Err(WaitError::TimedOut { .. }) => return,
            Err(WaitError::Failed(Failure::Unavailable { .. })) => within *= 2,
            over => panic!("nobody is let go: {over:?}"),
        }
    }
    panic!("no look was answered within {within:?}");
}

/// The hashes by which the scripts of a latch go over the wire.
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
