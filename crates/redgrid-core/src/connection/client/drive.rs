//! Acquires that consist of several steps.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Client;
use crate::author::ClientExt;
use crate::error::ServerError;
use crate::lock::InlineTask;
use crate::unpolled::Offer;

/// Why [`LockExt::drive_acquire`](crate::author::LockExt::drive_acquire) did not start an acquire again.
#[derive(Debug, Clone, PartialEq, Eq)]
// Exhaustive: only authors of objects use it.
pub enum NotDriven {
    /// The wait time has passed.
    TimedOut,
    /// The client or its runtime has ended; see [`ClientExt::ended`].
    Ended(ServerError),
}

impl Client {
    pub(crate) async fn drive<T, E, F>(
        &self,
        wait: Option<Duration>,
        mut start: impl FnMut(Option<Duration>) -> F,
    ) -> Result<Result<T, E>, NotDriven>
    where
        T: Send + 'static,
        E: Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let (began, mut left) = (self.clock().now(), wait);
        loop {
            let (mut answer, mut outcome) = oneshot::channel();
            let (acquire, core) = (start(left), Arc::clone(self.core()));
            let work = Box::pin(async move {
                tokio::select! {
                    biased;
                    () = answer.closed() => {}
                    outcome = acquire => {
                        let _ = answer.send(outcome.map(|granted| Offer::new(&core.unpolled, granted)));
                    }
                }
            });
            let flight = InlineTask::observed(&self.core().unpolled, work);
            let outcome = poll_fn(|cx| match flight.poll(cx) {
                true => Poll::Pending,
                false => Pin::new(&mut outcome).poll(cx),
            });
            match outcome.await {
                Ok(Ok(offer)) => {
                    if let Some(granted) = offer.take() {
                        return Ok(Ok(granted));
                    }
                }
                Ok(Err(error)) => return Ok(Err(error)),
                Err(_) => return Err(NotDriven::Ended(self.ended())),
            }
            left = wait.map(|wait| wait.saturating_sub(self.clock().now().since(began)));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(NotDriven::TimedOut);
            }
        }
    }
}
