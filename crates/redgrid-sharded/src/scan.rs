//! Streams over all parts, one after another.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::{BoxStream, StreamExt, TryStreamExt};
use redgrid_core::object::{ObjectError, Scan};

use crate::spread::{Part, Spread};
use crate::through::through;

type Begin<T> = Box<dyn FnOnce(Option<Bytes>, Option<u32>) -> BoxStream<'static, Result<T, ObjectError>> + Send>;

/// A stream over a sharded map or set, in no order: part by part, a page of one part in memory at a time.
///
/// What is there from beginning to end comes at least once; what is added or removed meanwhile may come or not. An entry may come twice, as in a
/// stream over a part. An entry that can not be decoded is an error, and the stream goes on behind it; where a part can not be asked that is an
/// error about it, and the stream goes on with the next part.
#[must_use = "a stream asks nobody until it is polled"]
pub struct ShardedScan<T> {
    begin: Option<Begin<T>>,
    pattern: Option<Bytes>,
    page: Option<u32>,
    under_way: Option<BoxStream<'static, Result<T, ObjectError>>>,
}

impl<T: Send + 'static> ShardedScan<T> {
    pub(crate) fn of<P>(spread: &Spread<P>, scan: impl Fn(&P) -> Scan<T> + Send + 'static) -> ShardedScan<T>
    where
        P: Part + Send + Sync + 'static,
        P::With: Send + Sync,
    {
        let spread = spread.clone();
        let begin: Begin<T> = Box::new(move |pattern, page| {
            through(spread, move |_, _, part| {
                let scan = pattern.iter().cloned().fold(scan(part), Scan::matching);
                page.into_iter().fold(scan, Scan::page)
            })
        });
        ShardedScan { begin: Some(begin), pattern: None, page: None, under_way: None }
    }
}

impl<T> ShardedScan<T> {
    /// Only those whose keys, of a set the values, match this pattern of the server as their codec writes them: `*` anything, `?` one byte,
    /// `[ab]` one of these.
    pub fn matching(mut self, pattern: impl Into<Bytes>) -> Self {
        self.pattern = Some(pattern.into());
        self
    }

    /// About so many entries a page, 1 at least; 100 unless it is said. What is small comes in one page whatever is said.
    pub fn page(mut self, entries: u32) -> Self {
        self.page = Some(entries);
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

impl<T> Stream for ShardedScan<T> {
    type Item = Result<T, ObjectError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if let Some(begin) = this.begin.take() {
            this.under_way = Some(begin(this.pattern.take(), this.page));
        }
        match &mut this.under_way {
            Some(under_way) => under_way.poll_next_unpin(cx),
            None => Poll::Ready(None),
        }
    }
}

impl<T> Unpin for ShardedScan<T> {}

impl<T> fmt::Debug for ShardedScan<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedScan").field("begun", &self.begin.is_none()).finish_non_exhaustive()
    }
}
