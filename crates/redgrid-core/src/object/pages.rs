//! Streams of what is asked for page by page.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::ObjectError;

/// A page that was asked for.
pub type Asking<P> = Pin<Box<dyn Future<Output = Result<P, ObjectError>> + Send>>;

/// What has pages, and where in it one is.
pub trait Paged {
    /// What an answer is read as.
    type Page;
    /// What is on a page.
    type Item;

    /// Asks for the next page; `None` at the end.
    fn ask(&self) -> Option<Asking<Self::Page>>;

    /// Tells what is on a page, and goes on behind it.
    fn take(&mut self, page: Self::Page, found: &mut VecDeque<Result<Self::Item, ObjectError>>);

    /// There is no next page.
    fn end(&mut self);
}

/// A stream page by page: one is asked for when the one before has been taken. Behind an error of a whole page it is over.
pub struct Pages<W: Paged> {
    /// Where it is.
    pub walk: W,
    asking: Option<Asking<W::Page>>,
    found: VecDeque<Result<W::Item, ObjectError>>,
}

impl<W: Paged> Pages<W> {
    /// From there on. Nobody is asked until it is polled.
    pub fn of(walk: W) -> Self {
        Pages { walk, asking: None, found: VecDeque::new() }
    }

    /// What comes next, as of a stream.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<W::Item, ObjectError>>> {
        loop {
            if let Some(one) = self.found.pop_front() {
                return Poll::Ready(Some(one));
            }
            let Some(mut asking) = self.asking.take().or_else(|| self.walk.ask()) else { return Poll::Ready(None) };
            match asking.as_mut().poll(context) {
                Poll::Pending => {
                    self.asking = Some(asking);
                    return Poll::Pending;
                }
                Poll::Ready(Ok(page)) => self.walk.take(page, &mut self.found),
                Poll::Ready(Err(error)) => {
                    self.walk.end();
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}
