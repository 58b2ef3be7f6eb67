//! Reading entries by their ids, and waiting for what comes behind.

use std::collections::VecDeque;
use std::fmt;
use std::future::IntoFuture;
use std::ops::RangeBounds;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt;
use redgrid_codecs::{Codec, Decode};

use crate::arrivals::{Waiter, looked};
use crate::entry::{Entry, OfOne, Raw, Raws};
use crate::error::StreamError;
use crate::id::{EntryId, ends};
use crate::stream::Stream;

/// How many entries a page has unless it is said.
pub(crate) const PAGE: u32 = 100;

/// The ends of a range where something can be in it, and whether it goes from the end to the front.
#[derive(Debug, Clone, Copy)]
struct Way {
    ends: Option<(EntryId, EntryId)>,
    reversed: bool,
}

impl<K, V, KC: Codec, VC: Codec> Stream<K, V, KC, VC> {
    /// The entries whose ids are in a range, when awaited: all of them in one answer, unless [`Range::limit`] says how many.
    /// [`Stream::entries`] has any number of them by pages.
    pub fn range(&self, ids: impl RangeBounds<EntryId>) -> Range<K, V, KC, VC> {
        Range { stream: self.clone(), way: Way { ends: ends(&ids), reversed: false }, limit: None }
    }

    /// The same from the last to the first.
    #[doc(alias = "rangeReversed")]
    pub fn rev_range(&self, ids: impl RangeBounds<EntryId>) -> Range<K, V, KC, VC> {
        Range { stream: self.clone(), way: Way { ends: ends(&ids), reversed: true }, limit: None }
    }

    /// The entries behind an id, 100 at the most unless [`Read::limit`] says so, when awaited: from the primary, and at once, unless
    /// [`Read::timeout`] says to wait for some.
    pub fn read(&self, after: EntryId) -> Read<K, V, KC, VC> {
        Read { stream: self.clone(), after, limit: PAGE, within: None }
    }

    /// The entries whose ids are in a range, a page at a time: see [`Entries`].
    pub fn entries(&self, ids: impl RangeBounds<EntryId>) -> Entries<K, V>
    where
        K: 'static,
        V: 'static,
        KC: Decode<K>,
        VC: Decode<V>,
    {
        let way = Some(Way { ends: ends(&ids), reversed: false });
        Entries { stream: Box::new(self.clone()), page: PAGE, way, asking: None, found: VecDeque::new() }
    }

    async fn asked(&self, way: Way, limit: Option<u32>) -> Result<Vec<Raw>, StreamError> {
        let Some((first, last)) = way.ends else {
            self.place.named()?;
            return Ok(Vec::new());
        };
        let request = match way.reversed {
            false => self.place.command("XRANGE")?.arg(first.bytes()).arg(last.bytes()),
            true => self.place.command("XREVRANGE")?.arg(last.bytes()).arg(first.bytes()),
        };
        let request = match limit {
            Some(limit) => request.arg("COUNT").int(limit.max(1).into()),
            None => request,
        };
        let entries: Raws = self.place.read(request).await?;
        Ok(entries.0)
    }
}

/// Reads a range when awaited; made by [`Stream::range`] and [`Stream::rev_range`].
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone)]
#[doc(alias = "StreamRangeArgs")]
pub struct Range<K, V, KC, VC> {
    stream: Stream<K, V, KC, VC>,
    way: Way,
    limit: Option<u32>,
}

impl<K, V, KC, VC> Range<K, V, KC, VC> {
    /// So many at the most, 1 or more; all unless set.
    pub fn limit(self, entries: u32) -> Self {
        Range { limit: Some(entries), ..self }
    }
}

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Decode<V>> IntoFuture for Range<K, V, KC, VC> {
    type Output = Result<Vec<Entry<K, V>>, StreamError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let found = self.stream.asked(self.way, self.limit).await?;
            self.stream.all(&found)
        })
    }
}

/// Reads what is behind an id when awaited; made by [`Stream::read`].
#[must_use = "nothing is asked of the server until this is awaited"]
#[derive(Clone)]
#[doc(alias = "StreamReadArgs")]
pub struct Read<K, V, KC, VC> {
    stream: Stream<K, V, KC, VC>,
    after: EntryId,
    limit: u32,
    within: Option<Duration>,
}

impl<K, V, KC, VC> Read<K, V, KC, VC> {
    /// So many at the most, 1 or more; 100 unless set.
    #[doc(alias = "count")]
    pub fn limit(self, entries: u32) -> Self {
        Read { limit: entries, ..self }
    }

    /// Waits for an entry at most this long where there is none; then none is told. No connection waits meanwhile: who adds through this
    /// library tells of it, and what others add is found within a second.
    pub fn timeout(self, time: Duration) -> Self {
        Read { within: Some(time), ..self }
    }
}

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Decode<V>> IntoFuture for Read<K, V, KC, VC> {
    type Output = Result<Vec<Entry<K, V>>, StreamError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// # Cancel safety
    ///
    /// Dropping it changes nothing.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Read { stream, after, limit, within } = self;
            let request = Waiter::behind(&stream.place, after, limit)?;
            let look = || async { Ok(stream.place.ask::<OfOne>(request.clone()).await?.0) };
            stream.all(&looked(&stream.place, within, look).await?)
        })
    }
}

/// Entries by pages; made by [`Stream::entries`]. A page is asked for when the one before has been taken, so that a page is in memory,
/// however long the stream is.
///
/// What is added meanwhile comes too where it is in the range and the last page was not asked for yet. An entry that can not be decoded is an
/// error, and it goes on behind it; behind any other error it is over.
#[must_use = "a stream asks nobody until it is polled"]
pub struct Entries<K, V> {
    stream: Box<dyn Ask<K, V>>,
    page: u32,
    /// What is to be read yet; nothing at the end.
    way: Option<Way>,
    asking: Option<Asking>,
    found: VecDeque<Result<Entry<K, V>, StreamError>>,
}

type Asking = Pin<Box<dyn Future<Output = Result<Vec<Raw>, StreamError>> + Send>>;

/// A stream, whatever its codecs.
trait Ask<K, V>: Send + Sync {
    fn ask(&self, way: Way, page: u32) -> Asking;
    fn read(&self, raw: &Raw) -> Result<Entry<K, V>, StreamError>;
}

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Decode<V>> Ask<K, V> for Stream<K, V, KC, VC> {
    fn ask(&self, way: Way, page: u32) -> Asking {
        let stream = self.clone();
        Box::pin(async move { stream.asked(way, Some(page)).await })
    }

    fn read(&self, raw: &Raw) -> Result<Entry<K, V>, StreamError> {
        self.one(raw)
    }
}

impl<K, V> Entries<K, V> {
    /// So many entries a page, 1 at least; 100 unless it is said. More are fewer requests, and more in memory here and there.
    pub fn page(mut self, entries: u32) -> Self {
        self.page = entries.max(1);
        self
    }

    /// From the last to the first.
    pub fn reversed(mut self) -> Self {
        self.way = self.way.map(|way| Way { reversed: true, ..way });
        self
    }

    /// The next one; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`StreamError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn try_next(&mut self) -> Result<Option<Entry<K, V>>, StreamError> {
        self.next().await.transpose()
    }

    fn take(&mut self, way: Way, page: &[Raw]) {
        let is_full = page.len() as u64 >= u64::from(self.page);
        let rest = way.ends.zip(page.last()).and_then(|((first, end), last)| match way.reversed {
            false => last.id.next().map(|next| (next, end)),
            true => last.id.previous().map(|previous| (first, previous)),
        });
        let rest = rest.filter(|(first, last)| is_full && first <= last);
        self.way = rest.map(|ends| Way { ends: Some(ends), ..way });
        self.found.extend(page.iter().map(|raw| self.stream.read(raw)));
    }
}

impl<K, V> futures_util::Stream for Entries<K, V> {
    type Item = Result<Entry<K, V>, StreamError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(one) = this.found.pop_front() {
                return Poll::Ready(Some(one));
            }
            let Some(way) = this.way else { return Poll::Ready(None) };
            let mut asking = this.asking.take().unwrap_or_else(|| this.stream.ask(way, this.page));
            match asking.as_mut().poll(cx) {
                Poll::Pending => {
                    this.asking = Some(asking);
                    return Poll::Pending;
                }
                Poll::Ready(Ok(page)) => this.take(way, &page),
                Poll::Ready(Err(error)) => {
                    this.way = None;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

impl<K, V> Unpin for Entries<K, V> {}

impl<K, V> fmt::Debug for Entries<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entries").field("page", &self.page).field("way", &self.way).finish_non_exhaustive()
    }
}
