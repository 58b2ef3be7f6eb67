//! Reading entries by their ids, and waiting for new ones.

use std::collections::VecDeque;
use std::ops::RangeBounds;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt;
use redgrid_codecs::{Codec, Decode};

use redgrid_core::into_future;

use crate::entry::{Entry, RawEntries, RawEntry, SingleStreamReply};
use crate::error::StreamError;
use crate::id::{EntryId, range_ends};
use crate::new_entries::{poll_until_found, read_after_request};
use crate::stream::Stream;

/// The default number of entries of a page.
pub(crate) const PAGE: u32 = 100;

/// The first and last id to read, or `None` if the range is empty, and the direction.
#[derive(Debug, Clone, Copy)]
struct IdRange {
    ends: Option<(EntryId, EntryId)>,
    reversed: bool,
}

impl<K, V, KC: Codec, VC: Codec> Stream<K, V, KC, VC> {
    /// Reads the entries with ids in a range, when awaited.
    ///
    /// All of them are returned in one reply, unless [`Range::limit`] is set. [`Stream::entries`]
    /// reads any number of them in pages.
    pub fn range(&self, ids: impl RangeBounds<EntryId>) -> Range<K, V, KC, VC> {
        Range { stream: self.clone(), range: IdRange { ends: range_ends(&ids), reversed: false }, limit: None }
    }

    /// Reads the entries with ids in a range, from the last to the first, when awaited.
    #[doc(alias = "rangeReversed")]
    pub fn rev_range(&self, ids: impl RangeBounds<EntryId>) -> Range<K, V, KC, VC> {
        Range { stream: self.clone(), range: IdRange { ends: range_ends(&ids), reversed: true }, limit: None }
    }

    /// Reads up to 100 entries after an id from the primary, when awaited.
    ///
    /// [`Read::limit`] changes the number. The call returns at once, unless [`Read::timeout`] is
    /// set.
    pub fn read(&self, after: EntryId) -> Read<K, V, KC, VC> {
        Read { stream: self.clone(), after, limit: PAGE, timeout: None }
    }

    /// Returns a stream over the entries with ids in a range, read in pages: see [`Entries`].
    pub fn entries(&self, ids: impl RangeBounds<EntryId>) -> Entries<K, V>
    where
        K: 'static,
        V: 'static,
        KC: Decode<K>,
        VC: Decode<V>,
    {
        let remaining = Some(IdRange { ends: range_ends(&ids), reversed: false });
        Entries { source: Box::new(self.clone()), page: PAGE, remaining, fetching: None, fetched: VecDeque::new() }
    }

    async fn read_range(&self, range: IdRange, limit: Option<u32>) -> Result<Vec<RawEntry>, StreamError> {
        let Some((first, last)) = range.ends else {
            self.object_ref.name_and_key()?;
            return Ok(Vec::new());
        };
        let request = if range.reversed {
            self.object_ref.command("XREVRANGE")?.arg(last.to_bytes()).arg(first.to_bytes())
        } else {
            self.object_ref.command("XRANGE")?.arg(first.to_bytes()).arg(last.to_bytes())
        };
        let request = match limit {
            Some(limit) => request.arg("COUNT").int(limit.max(1).into()),
            None => request,
        };
        let entries: RawEntries = self.object_ref.read(request).await?;
        Ok(entries.0)
    }
}

/// Reads a range of entries when awaited; made by [`Stream::range`] and [`Stream::rev_range`].
#[must_use = "does nothing until awaited"]
#[derive(Clone)]
#[doc(alias = "StreamRangeArgs")]
pub struct Range<K, V, KC, VC> {
    stream: Stream<K, V, KC, VC>,
    range: IdRange,
    limit: Option<u32>,
}

impl<K, V, KC, VC> Range<K, V, KC, VC> {
    /// Limits the number of entries, 1 or more. The default is no limit.
    pub fn limit(self, entries: u32) -> Self {
        Range { limit: Some(entries), ..self }
    }
}

into_future!(
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    [K: 'static, V: 'static, KC: Decode<K>, VC: Decode<V>] Range<K, V, KC, VC> => Result<Vec<Entry<K, V>>, StreamError>,
    |this| async move {
        let found = this.stream.read_range(this.range, this.limit).await?;
        this.stream.decode_all(&found)
    }
);

/// Reads the entries after an id when awaited; made by [`Stream::read`].
#[must_use = "does nothing until awaited"]
#[derive(Clone)]
#[doc(alias = "StreamReadArgs")]
pub struct Read<K, V, KC, VC> {
    stream: Stream<K, V, KC, VC>,
    after: EntryId,
    limit: u32,
    timeout: Option<Duration>,
}

impl<K, V, KC, VC> Read<K, V, KC, VC> {
    /// Limits the number of entries, 1 or more. The default is 100.
    #[doc(alias = "count")]
    pub fn limit(self, entries: u32) -> Self {
        Read { limit: entries, ..self }
    }

    /// Waits up to this long for an entry if there is none, and then returns no entries.
    ///
    /// No connection is blocked while the call waits. An entry that is added through this library
    /// wakes the call; entries that others add are found within a second.
    pub fn timeout(self, time: Duration) -> Self {
        Read { timeout: Some(time), ..self }
    }
}

into_future!(
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing.
    [K: 'static, V: 'static, KC: Decode<K>, VC: Decode<V>] Read<K, V, KC, VC> => Result<Vec<Entry<K, V>>, StreamError>,
    |this| async move {
        let Read { stream, after, limit, timeout } = this;
        let request = read_after_request(&stream.object_ref, after, limit)?;
        let poll = || async { Ok(stream.object_ref.read_primary::<SingleStreamReply>(request.clone()).await?.0) };
        stream.decode_all(&poll_until_found(&stream.object_ref, timeout, poll).await?)
    }
);

/// A stream over entries, read in pages; made by [`Stream::entries`].
///
/// The next page is requested when the current one has been consumed. Only one page is in memory,
/// however long the stream is.
///
/// Entries that are added meanwhile are also returned, if they are in the range and the last page
/// has not been requested yet. If an entry cannot be decoded, the stream returns an error and
/// continues. Any other error ends it.
#[must_use = "streams do nothing unless polled"]
pub struct Entries<K, V> {
    source: Box<dyn PageSource<K, V>>,
    page: u32,
    /// The range that is still to be read; `None` at the end.
    remaining: Option<IdRange>,
    fetching: Option<PageFuture>,
    fetched: VecDeque<Result<Entry<K, V>, StreamError>>,
}

type PageFuture = Pin<Box<dyn Future<Output = Result<Vec<RawEntry>, StreamError>> + Send>>;

/// A stream with erased codec types.
trait PageSource<K, V>: Send + Sync {
    fn fetch(&self, range: IdRange, page: u32) -> PageFuture;
    fn decode(&self, raw: &RawEntry) -> Result<Entry<K, V>, StreamError>;
}

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Decode<V>> PageSource<K, V> for Stream<K, V, KC, VC> {
    fn fetch(&self, range: IdRange, page: u32) -> PageFuture {
        let stream = self.clone();
        Box::pin(async move { stream.read_range(range, Some(page)).await })
    }

    fn decode(&self, raw: &RawEntry) -> Result<Entry<K, V>, StreamError> {
        self.decode_entry(raw)
    }
}

impl<K, V> Entries<K, V> {
    /// Sets the number of entries of a page, at least 1. The default is 100.
    ///
    /// Larger pages need fewer requests, but more memory in this process and on the server.
    pub fn page(mut self, entries: u32) -> Self {
        self.page = entries.max(1);
        self
    }

    /// Reads from the last entry to the first.
    pub fn reversed(mut self) -> Self {
        self.remaining = self.remaining.map(|range| IdRange { reversed: true, ..range });
        self
    }

    /// Returns the next entry; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`StreamError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no entry is lost.
    pub async fn try_next(&mut self) -> Result<Option<Entry<K, V>>, StreamError> {
        self.next().await.transpose()
    }

    /// Stores a page of `range`, and computes the remaining range.
    fn take(&mut self, range: IdRange, page: &[RawEntry]) {
        let is_full = page.len() as u64 >= u64::from(self.page);
        let rest = range.ends.zip(page.last()).and_then(|((first, end), last)| match range.reversed {
            false => last.id.next().map(|next| (next, end)),
            true => last.id.previous().map(|previous| (first, previous)),
        });
        let rest = rest.filter(|(first, last)| is_full && first <= last);
        self.remaining = rest.map(|ends| IdRange { ends: Some(ends), ..range });
        self.fetched.extend(page.iter().map(|raw| self.source.decode(raw)));
    }
}

impl<K, V> futures_util::Stream for Entries<K, V> {
    type Item = Result<Entry<K, V>, StreamError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(entry) = this.fetched.pop_front() {
                return Poll::Ready(Some(entry));
            }
            let Some(range) = this.remaining else { return Poll::Ready(None) };
            let mut fetching = this.fetching.take().unwrap_or_else(|| this.source.fetch(range, this.page));
            match fetching.as_mut().poll(cx) {
                Poll::Pending => {
                    this.fetching = Some(fetching);
                    return Poll::Pending;
                }
                Poll::Ready(Ok(page)) => this.take(range, &page),
                Poll::Ready(Err(error)) => {
                    this.remaining = None;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

impl<K, V> Unpin for Entries<K, V> {}

redgrid_core::debug_fields!([K, V] Entries<K, V>, |it| page: it.page, remaining: it.remaining);
