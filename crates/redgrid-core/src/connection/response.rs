//! The answer to one request, while it is not there yet.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use super::Reply;
use crate::error::ServerError;
use crate::pinned::pinned;

/// What one request was answered, once it is: what [`Server::ask`](super::Server::ask) returns.
///
/// ```
/// use redgrid_core::{Answering, Reply};
///
/// // As a server of a test's own making answers.
/// let answering = Answering::fetched(async || Ok(Reply::Int(1)));
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// assert_eq!(answering.await, Ok(Reply::Int(1)));
/// # });
/// ```
///
/// # Cancel safety
///
/// Dropping it gives the request up: what has left may be carried out, and what has not does not leave.
#[must_use = "nothing is certain to be sent until it is awaited"]
pub struct ResponseFuture<'a>(Inner<'a>);

enum Inner<'a> {
    Caller(Pin<Box<dyn Future<Output = Result<Reply, ServerError>> + Send + 'a>>),
    Others(oneshot::Receiver<Result<Reply, ServerError>>),
}

impl<'a> ResponseFuture<'a> {
    /// An answer that whoever awaits it fetches himself, by the future that is made here.
    pub fn inline<F>(make: impl FnOnce() -> F) -> Self
    where
        F: Future<Output = Result<Reply, ServerError>> + Send + 'a,
    {
        ResponseFuture(Inner::Caller(pinned(make)))
    }

    /// An answer that others fetch, and tell: that needs no more room than this.
    pub(super) fn queued(told: oneshot::Receiver<Result<Reply, ServerError>>) -> Self {
        ResponseFuture(Inner::Others(told))
    }
}

impl Future for ResponseFuture<'_> {
    type Output = Result<Reply, ServerError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Inner::Caller(fetched) => fetched.as_mut().poll(cx),
            // Perhaps it had left.
            Inner::Others(told) => Pin::new(told)
                .poll(cx)
                .map(|told| told.unwrap_or_else(|_| Err(ServerError::unknown("no answer came in time")))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_waits_for_others_that_are_gone_does_not_know() {
        let (tell, told) = oneshot::channel();
        tell.send(Ok(Reply::Int(7))).unwrap();
        assert_eq!(ResponseFuture::queued(told).await, Ok(Reply::Int(7)));
        let (gone, told) = oneshot::channel();
        drop(gone);
        assert!(ResponseFuture::queued(told).await.unwrap_err().is_unknown());
    }

    #[tokio::test]
    async fn others_see_that_nobody_waits_any_more() {
        let (tell, told) = oneshot::channel();
        let answering = ResponseFuture::queued(told);
        assert!(!tell.is_closed());
        drop(answering);
        assert!(tell.is_closed());
    }
}
