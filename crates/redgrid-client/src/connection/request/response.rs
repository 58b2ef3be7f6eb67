//! The future of the reply to one request.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::connection::Reply;
use crate::error::ServerError;
use crate::pinned::pinned;

/// The future of the reply to one request, returned by
/// [`Server::ask`](crate::connection::Server::ask).
///
/// ```
/// use redgrid_client::{Reply, ResponseFuture};
///
/// // What the `ask` of a test's own `Server` may return.
/// let response = ResponseFuture::inline(async || Ok(Reply::Int(1)));
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// assert_eq!(response.await, Ok(Reply::Int(1)));
/// # });
/// ```
///
/// # Cancel safety
///
/// Dropping the future cancels the request. A request that was sent may still be executed. A
/// request that was not sent yet is never sent.
#[must_use = "the request may not be sent until awaited"]
pub struct ResponseFuture<'a>(Inner<'a>);

enum Inner<'a> {
    Caller(Pin<Box<dyn Future<Output = Result<Reply, ServerError>> + Send + 'a>>),
    Others(oneshot::Receiver<Result<Reply, ServerError>>),
}

impl<'a> ResponseFuture<'a> {
    /// Creates a response from the future that `make` returns. The caller polls that future itself.
    pub fn inline<F>(make: impl FnOnce() -> F) -> Self
    where
        F: Future<Output = Result<Reply, ServerError>> + Send + 'a,
    {
        ResponseFuture(Inner::Caller(pinned(make)))
    }

    /// Creates a response that arrives through a channel, from the task that sends the request.
    /// Such a response needs only the channel's receiver, and no boxed future.
    pub(in crate::connection) fn queued(receiver: oneshot::Receiver<Result<Reply, ServerError>>) -> Self {
        ResponseFuture(Inner::Others(receiver))
    }
}

impl Future for ResponseFuture<'_> {
    type Output = Result<Reply, ServerError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Inner::Caller(fetched) => fetched.as_mut().poll(cx),
            // If the channel was closed without a reply, the request may have been sent.
            Inner::Others(receiver) => Pin::new(receiver)
                .poll(cx)
                .map(|receiver| receiver.unwrap_or_else(|_| Err(ServerError::unknown("no answer came in time")))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_response_without_its_sender_is_unknown() {
        let (sender, receiver) = oneshot::channel();
        sender.send(Ok(Reply::Int(7))).unwrap();
        assert_eq!(ResponseFuture::queued(receiver).await, Ok(Reply::Int(7)));
        let (sender, receiver) = oneshot::channel();
        drop(sender);
        assert!(ResponseFuture::queued(receiver).await.unwrap_err().is_unknown());
    }

    #[tokio::test]
    async fn the_sender_sees_that_the_future_was_dropped() {
        let (sender, receiver) = oneshot::channel();
        let response = ResponseFuture::queued(receiver);
        assert!(!sender.is_closed());
        drop(response);
        assert!(sender.is_closed());
    }
}
