//! Streams that request their items page by page.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::ObjectError;

/// The future of a request for a page.
pub type PageRequest<P> = Pin<Box<dyn Future<Output = Result<P, ObjectError>> + Send>>;

/// A paged collection, and the current position in it.
pub trait Paged {
    /// The reply of the request for a page.
    type Page;
    /// An item of a page.
    type Item;

    /// Returns the request for the next page; `None` at the end.
    fn request_page(&self) -> Option<PageRequest<Self::Page>>;

    /// Adds the items of a page to `found`, and moves the position to the next page.
    fn take(&mut self, page: Self::Page, found: &mut VecDeque<Result<Self::Item, ObjectError>>);

    /// Ends the stream: no further page is requested.
    fn end(&mut self);
}

/// A stream of items. It requests the next page when the previous one has been consumed.
///
/// The stream ends after a failed request.
pub struct Pages<W: Paged> {
    /// The current position.
    pub position: W,
    pending: Option<PageRequest<W::Page>>,
    found: VecDeque<Result<W::Item, ObjectError>>,
}

impl<W: Paged> Pages<W> {
    /// Creates a stream from this position. No request is sent until the stream is polled.
    pub fn of(position: W) -> Self {
        Pages { position, pending: None, found: VecDeque::new() }
    }

    /// Polls for the next item, as `Stream::poll_next` does.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<W::Item, ObjectError>>> {
        loop {
            if let Some(item) = self.found.pop_front() {
                return Poll::Ready(Some(item));
            }
            let Some(mut request) = self.pending.take().or_else(|| self.position.request_page()) else {
                return Poll::Ready(None);
            };
            match request.as_mut().poll(context) {
                Poll::Pending => {
                    self.pending = Some(request);
                    return Poll::Pending;
                }
                Poll::Ready(Ok(page)) => self.position.take(page, &mut self.found),
                Poll::Ready(Err(error)) => {
                    self.position.end();
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}
