//! Streams over the shards, one after another.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::{BoxStream, StreamExt, TryStreamExt};
use redgrid_core::IntoArg;
use redgrid_core::object::{ObjectError, Scan};

use crate::concat_streams::concat_streams;
use crate::sharded::{Shard, Sharded};

type Start<T> = Box<dyn FnOnce(Option<Bytes>, Option<u32>) -> BoxStream<'static, Result<T, ObjectError>> + Send>;

/// A stream over a sharded map or set, in no order: shard by shard, with one page in memory at a
/// time.
///
/// An entry that exists during the whole stream is returned at least once. Entries that are added
/// or removed meanwhile may be returned or not. An entry may be returned twice, as in a stream over
/// one shard. If an entry cannot be decoded, the stream returns an error and continues. If a shard
/// fails, the stream returns its error and continues with the next shard.
#[must_use = "streams do nothing unless polled"]
pub struct ShardedScan<T> {
    start: Option<Start<T>>,
    pattern: Option<Bytes>,
    page: Option<u32>,
    stream: Option<BoxStream<'static, Result<T, ObjectError>>>,
}

impl<T: Send + 'static> ShardedScan<T> {
    pub(crate) fn new<P>(sharded: &Sharded<P>, scan: impl Fn(&P) -> Scan<T> + Send + 'static) -> ShardedScan<T>
    where
        P: Shard + Send + Sync + 'static,
        P::Options: Send + Sync,
    {
        let sharded = sharded.clone();
        let start: Start<T> = Box::new(move |pattern, page| {
            concat_streams(sharded, move |_, _, shard| {
                let scan = pattern.iter().cloned().fold(scan(shard), Scan::matching);
                page.into_iter().fold(scan, Scan::page)
            })
        });
        ShardedScan { start: Some(start), pattern: None, page: None, stream: None }
    }
}

impl<T> ShardedScan<T> {
    /// Returns only entries whose encoded keys (for a set: values) match a pattern of the server:
    /// `*` matches anything, `?` one byte, `[ab]` one of these bytes.
    pub fn matching(mut self, pattern: impl IntoArg) -> Self {
        self.pattern = Some(pattern.into_arg());
        self
    }

    /// Sets the approximate number of entries in a page, at least 1; the default is 100.
    ///
    /// Small shards are returned in one page in any case.
    pub fn page(mut self, entries: u32) -> Self {
        self.page = Some(entries);
        self
    }

    /// Returns the next entry; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn try_next(&mut self) -> Result<Option<T>, ObjectError> {
        self.next().await.transpose()
    }

    /// Collects all entries.
    ///
    /// # Errors
    ///
    /// The first error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing on the server.
    pub async fn try_collect<B: Default + Extend<T>>(self) -> Result<B, ObjectError> {
        TryStreamExt::try_collect(self).await
    }
}

impl<T> Stream for ShardedScan<T> {
    type Item = Result<T, ObjectError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if let Some(start) = this.start.take() {
            this.stream = Some(start(this.pattern.take(), this.page));
        }
        match &mut this.stream {
            Some(stream) => stream.poll_next_unpin(cx),
            None => Poll::Ready(None),
        }
    }
}

impl<T> Unpin for ShardedScan<T> {}

redgrid_core::debug_fields!([T] ShardedScan<T>, |it| started: it.start.is_none());
