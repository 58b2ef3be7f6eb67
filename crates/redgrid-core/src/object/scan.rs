//! Streams of what hashes and sets have: a page at a time, with back-pressure.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt};

use super::{Asking, ObjectError, Paged, Pages, Place};
use crate::connection::{ConnectionId, Request};

/// How many entries a page has, about, unless it is said.
const PAGE: u32 = 100;

/// A page: where to go on, and what is on it.
type Page = (Option<ConnectionId>, (Bytes, Vec<Bytes>));

/// A stream over a map or a set, in no order. A page is asked for when the one before has been taken.
///
/// What is there from beginning to end comes at least once; what is added or removed meanwhile may come or not. An entry may
/// come twice: while it grows or shrinks, and when the connection was made anew or another server answers, as then it begins anew.
/// An entry that can not be decoded is an error, and the stream goes on behind it; behind any other error it is over.
#[must_use = "a stream asks nobody until it is polled"]
pub struct Scan<T> {
    pages: Pages<Walk<T>>,
}

struct Walk<T> {
    place: Place,
    request: Ask,
    /// How many strings of a page are one entry.
    width: usize,
    pattern: Option<Bytes>,
    page: u32,
    read: Read<T>,
    /// Where to go on; nowhere at the end.
    at: Option<Bytes>,
    /// Where the page before came from.
    from: Option<Option<ConnectionId>>,
}

/// The request for a page: where it begins, how many entries it is to have, and the pattern of what is wanted.
type Ask = Box<dyn Fn(&Place, Bytes, u32, Option<Bytes>) -> Result<Request, ObjectError> + Send + Sync>;

type Read<T> = Box<dyn Fn(&[Bytes]) -> Result<T, ObjectError> + Send + Sync>;

impl<T> Scan<T> {
    /// By HSCAN, SSCAN or ZSCAN, of which an entry is so many strings; for types of objects.
    pub fn by(
        command: &'static str,
        width: usize,
        place: Place,
        read: impl Fn(&[Bytes]) -> Result<T, ObjectError> + Send + Sync + 'static,
    ) -> Self {
        let request = move |place: &Place, at, page: u32, pattern: Option<Bytes>| {
            let request = place.command(command)?.arg(at).arg("COUNT").int(page.into());
            Ok(pattern.into_iter().fold(request, |request, pattern| request.arg("MATCH").arg(pattern)))
        };
        Scan::asking(width, place, request, read)
    }

    /// The same by a request of its own, told where the page begins, about how many entries it is to have, and the pattern, if there is one. What it
    /// answers is as those commands answer; for types of objects.
    pub fn asking(
        width: usize,
        place: Place,
        request: impl Fn(&Place, Bytes, u32, Option<Bytes>) -> Result<Request, ObjectError> + Send + Sync + 'static,
        read: impl Fn(&[Bytes]) -> Result<T, ObjectError> + Send + Sync + 'static,
    ) -> Self {
        let (request, read, at) = (Box::new(request), Box::new(read), Some(Bytes::from_static(b"0")));
        let walk = Walk { place, request, width, pattern: None, page: PAGE, read, at, from: None };
        Scan { pages: Pages::of(walk) }
    }

    /// Only those whose keys, of a set the values, match this pattern of the server as their codec writes them: `*` anything, `?` one byte,
    /// `[ab]` one of these.
    pub fn matching(mut self, pattern: impl Into<Bytes>) -> Self {
        self.pages.walk.pattern = Some(pattern.into());
        self
    }

    /// About so many entries a page, 1 at least; 100 unless it is said. What is small comes in one page whatever is said.
    pub fn page(mut self, entries: u32) -> Self {
        self.pages.walk.page = entries.max(1);
        self
    }

    /// The next one; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn try_next(&mut self) -> Result<Option<T>, ObjectError> {
        self.next().await.transpose()
    }

    /// All of them.
    ///
    /// # Errors
    ///
    /// The first one.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing on the server.
    pub async fn try_collect<B: Default + Extend<T>>(self) -> Result<B, ObjectError> {
        TryStreamExt::try_collect(self).await
    }
}

impl<T> Paged for Walk<T> {
    type Page = Page;
    type Item = T;

    fn ask(&self) -> Option<Asking<Page>> {
        let (at, place) = (self.at.clone()?, self.place.clone());
        let request = (self.request)(&place, at, self.page, self.pattern.clone());
        Some(Box::pin(async move {
            // From the primary, whatever the read mode: each replica has an order of its own.
            let request = request?;
            let epoch = place.client().epoch_of(place.named()?.1);
            Ok((epoch, place.ask(request).await?))
        }))
    }

    fn take(&mut self, (from, (next, page)): Page, found: &mut VecDeque<Result<T, ObjectError>>) {
        // Another process has another order: of its own a cursor of the former says nothing.
        let began = self.from.is_some();
        if began && self.from.as_ref() != Some(&from) {
            self.from = None;
            self.at = Some(Bytes::from_static(b"0"));
            return;
        }
        self.from = Some(from);
        self.at = (&*next != b"0").then_some(next);
        found.extend(page.chunks_exact(self.width).map(|entry| (self.read)(entry)));
    }

    fn end(&mut self) {
        self.at = None;
    }
}

impl<T> Stream for Scan<T> {
    type Item = Result<T, ObjectError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().pages.poll_next(cx)
    }
}

impl<T> Unpin for Scan<T> {}

impl<T> fmt::Debug for Scan<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let walk = &self.pages.walk;
        f.debug_struct("Scan").field("name", &walk.place.name()).field("at", &walk.at).finish_non_exhaustive()
    }
}
