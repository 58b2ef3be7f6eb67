//! Drops futures at each of their waiting points.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Polls a future at most this many times; then returns `None`.
pub struct AtMost<F> {
    inner: Option<Pin<Box<F>>>,
    polls: usize,
}

/// Returns `future`, dropped after `polls` polls unless it has completed before.
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
