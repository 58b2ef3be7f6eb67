//! Waiting for a latch: options, then await.

use std::pin::Pin;
use std::time::Duration;

use redgrid_core::ServerError;
use redgrid_core::author::ClientExt;
use redgrid_core::clock::Instant;
use redgrid_core::wait_queue::WaitEnd;

use crate::error::WaitError;
use crate::latch::CountDownLatch;
use crate::waiters::LatchWaiters;

/// Waits for a latch when awaited; made by [`CountDownLatch::wait`].
#[must_use = "does nothing until awaited"]
#[derive(Clone, Debug)]
pub struct Wait {
    latch: CountDownLatch,
    within: Option<Duration>,
}

impl Wait {
    pub(crate) fn new(latch: CountDownLatch) -> Self {
        Wait { latch, within: None }
    }

    /// Waits at most this long, for the latch and for a server that can not be reached; zero looks once. As long as it takes
    /// unless set. After a suspend of the machine it may end late, by an eighth of what was left and by 30 s at most.
    pub fn timeout(mut self, within: Duration) -> Self {
        self.within = Some(within);
        self
    }

    async fn run(self) -> Result<(), WaitError> {
        let (client, keys) = (self.latch.client(), self.latch.keys()?);
        // A request that fails during a shutdown fails because of it.
        let failed = |source| match client.is_shut_down() {
            true => WaitError::of(&keys.name, client.ended()),
            false => WaitError::of(&keys.name, source),
        };
        let timed_out = |waited| WaitError::TimedOut { name: keys.name.clone(), waited };
        if client.is_shut_down() {
            return Err(WaitError::of(&keys.name, client.ended()));
        }
        if self.within.is_some_and(|within| within.is_zero()) {
            // Boxed because it is rare: every wait would have room for it.
            let state = Box::pin(keys.state(client)).await.map_err(failed)?;
            return if state.is_open { Ok(()) } else { Err(timed_out(Duration::ZERO)) };
        }
        let began = client.clock().now();
        let until = self.within.map_or(Instant::MAX, |within| began + within);
        let mut waiter = LatchWaiters::of(client, keys).enter(());
        let end = tokio::select! {
            biased;
            end = waiter.ended() => end,
            () = client.clock().wait_until(until) => match waiter.is_current() {
                true => return Err(timed_out(client.clock().now().since(began))),
                false => WaitEnd::Failed(ServerError::NotSent { reason: "no server was reached in time".into() }),
            },
        };
        match end {
            WaitEnd::Completed(()) => Ok(()),
            WaitEnd::Failed(source) => Err(failed(source)),
            WaitEnd::ShuttingDown => Err(WaitError::of(&keys.name, client.ended())),
        }
    }
}

impl IntoFuture for Wait {
    type Output = Result<(), WaitError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
