//! Drops futures at each of their suspension points.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future that is polled at most this many times; then it is dropped and `None` is returned.
pub struct AtMost<F> {
    inner: Option<Pin<Box<F>>>,
    polls: usize,
}

/// Wraps `future`, which is dropped after `polls` polls if it has not completed.
pub fn at_most<F: Future>(polls: usize, future: F) -> AtMost<F> {
    AtMost { inner: Some(Box::pin(future)), polls }
}

impl<F: Future> Future for AtMost<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            self.inner = None;
            return Poll::Ready(None);
        }
        self.polls -= 1;
        let done = match &mut self.inner {
            Some(inner) => inner.as_mut().poll(cx).map(Some),
            None => Poll::Ready(None),
        };
        if done.is_pending() && self.polls == 0 {
            self.inner = None;
            return Poll::Ready(None);
        }
        done
    }
}
