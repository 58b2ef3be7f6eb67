//! Waiting for a latch: options, then await.

use std::time::Duration;

use redgrid_core::ServerError;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::into_future;
use redgrid_core::wait_queue::WaitEnd;

use crate::error::WaitError;
use crate::latch::CountDownLatch;
use crate::waiters::LatchWaiters;

/// Waits for a latch when awaited; created by [`CountDownLatch::wait`].
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct Wait {
    latch: CountDownLatch,
    timeout: Option<Duration>,
}

impl Wait {
    pub(crate) fn new(latch: CountDownLatch) -> Self {
        Wait { latch, timeout: None }
    }

    /// Limits the wait, for the latch and for an unreachable server; zero polls once. Unbounded
    /// unless set. After a suspend of the machine, the wait may end late: by an eighth of the
    /// remaining time, at most 30 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    async fn run(self) -> Result<(), WaitError> {
        let client = self.latch.client();
        let keys = self.latch.keys()?;
        // If the client is shut down, the error names the shutdown as the reason.
        let failed = |source| {
            if client.is_shut_down() {
                WaitError::of(&keys.name, client.ended())
            } else {
                WaitError::of(&keys.name, source)
            }
        };
        let timed_out = |waited| WaitError::TimedOut { name: keys.name.clone(), waited };
        if client.is_shut_down() {
            return Err(WaitError::of(&keys.name, client.ended()));
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            // Boxed: a zero timeout is rare, and every wait would reserve room for this future.
            let state = Box::pin(keys.state(client)).await.map_err(failed)?;
            return if state.is_open { Ok(()) } else { Err(timed_out(Duration::ZERO)) };
        }
        let began = client.clock().now();
        let until = self.timeout.map_or(Instant::MAX, |timeout| began + timeout);
        let mut waiter = LatchWaiters::of(client, keys).enter(());
        match waiter.ended_by(until).await {
            WaitEnd::Completed(()) => Ok(()),
            WaitEnd::Failed(source) => Err(failed(source)),
            WaitEnd::TimedOut => Err(timed_out(client.clock().now().since(began))),
            WaitEnd::NoReply => Err(failed(ServerError::NotSent { reason: "no server was reached in time".into() })),
        }
    }
}

into_future!(Wait => Result<(), WaitError>, |this| this.run());
