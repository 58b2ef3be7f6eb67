//! Streams of keys, values and entries: a page at a time, with back-pressure.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use redgrid_codecs::{Codec, Decode};
use redgrid_core::Epoch;
use redgrid_core::object::{ObjectError, Place};

use crate::map::Map;
use crate::read::shown;

/// How many entries a page has, about, unless it is said.
const PAGE: u32 = 100;

/// A page: where to go on, and the fields and values of it.
type Page = (Option<Epoch>, (Bytes, Vec<Bytes>));

type Asking = Pin<Box<dyn Future<Output = Result<Page, ObjectError>> + Send>>;

/// A stream over a map; made by [`Map::entries`], [`Map::keys`] and [`Map::values`]. A page is asked for when the one before has been taken.
///
/// What is in the map from beginning to end comes at least once; what is added or removed meanwhile may come or not. An entry may
/// come twice: while the map grows or shrinks, and when the connection was made anew or another server answers, as then it begins anew.
/// An entry that can not be decoded is an error, and the stream goes on behind it; behind any other error it is over.
#[must_use = "a stream asks nobody until it is polled"]
pub struct Scan<T> {
    place: Place,
    pattern: Option<Bytes>,
    page: u32,
    read: Read<T>,
    /// Where to go on; nowhere at the end.
    at: Option<Bytes>,
    /// Where the page before came from.
    from: Option<Option<Epoch>>,
    asking: Option<Asking>,
    found: VecDeque<Result<T, ObjectError>>,
}

type Read<T> = Box<dyn Fn(&Bytes, &Bytes) -> Result<T, ObjectError> + Send + Sync>;

impl<T> Scan<T> {
    fn new(place: Place, read: Read<T>) -> Self {
        let (at, found) = (Some(Bytes::from_static(b"0")), VecDeque::new());
        Scan { place, pattern: None, page: PAGE, read, at, from: None, asking: None, found }
    }

    /// Only keys that, as their codec writes them, match this pattern of the server: `*` anything, `?` one byte, `[ab]` one of these.
    pub fn matching(mut self, pattern: impl Into<Bytes>) -> Self {
        self.pattern = Some(pattern.into());
        self
    }

    /// About so many entries a page, 1 at least; 100 unless it is said. Small maps come in one page whatever is said.
    pub fn page(mut self, entries: u32) -> Self {
        self.page = entries.max(1);
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
    pub async fn try_collect<B: Default + Extend<T>>(mut self) -> Result<B, ObjectError> {
        let mut all = B::default();
        while let Some(one) = self.try_next().await? {
            all.extend([one]);
        }
        Ok(all)
    }

    fn ask(&self, at: Bytes) -> Asking {
        let (place, pattern, page) = (self.place.clone(), self.pattern.clone(), self.page);
        Box::pin(async move {
            // From the primary, whatever the read mode: each replica has an order of its own.
            let mut request = place.command("HSCAN")?.arg(at).arg("COUNT").int(page.into());
            if let Some(pattern) = pattern {
                request = request.arg("MATCH").arg(pattern);
            }
            let epoch = place.client().epoch_of(place.named()?.1);
            Ok((epoch, place.ask(request).await?))
        })
    }

    /// Takes a page.
    fn take(&mut self, (from, (next, page)): Page) {
        // Another process has another order: of its own a cursor of the former says nothing.
        let began = self.from.is_some();
        if began && self.from.as_ref() != Some(&from) {
            self.from = None;
            self.at = Some(Bytes::from_static(b"0"));
            return;
        }
        self.from = Some(from);
        self.at = (&*next != b"0").then_some(next);
        self.found.extend(page.chunks_exact(2).map(|pair| (self.read)(&pair[0], &pair[1])));
    }
}

impl<T> Stream for Scan<T> {
    type Item = Result<T, ObjectError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(one) = this.found.pop_front() {
                return Poll::Ready(Some(one));
            }
            let Some(at) = this.at.clone() else { return Poll::Ready(None) };
            let mut asking = this.asking.take().unwrap_or_else(|| this.ask(at));
            match asking.as_mut().poll(cx) {
                Poll::Pending => {
                    this.asking = Some(asking);
                    return Poll::Pending;
                }
                Poll::Ready(Ok(page)) => this.take(page),
                Poll::Ready(Err(error)) => {
                    this.at = None;
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
    }
}

impl<T> Unpin for Scan<T> {}

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Decode<V>> Map<K, V, KC, VC> {
    /// All entries, as a stream.
    #[doc(alias = "entrySet")]
    #[doc(alias = "forEach")]
    pub fn entries(&self) -> Scan<(K, V)> {
        let map = self.clone();
        Scan::new(self.place.clone(), Box::new(move |field, value| map.entry(field, value)))
    }
}

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Codec> Map<K, V, KC, VC> {
    /// All keys, as a stream. The server sends the values, too, as it has no other way before Redis 7.4.
    #[doc(alias = "keySet")]
    pub fn keys(&self) -> Scan<K> {
        let map = self.clone();
        Scan::new(self.place.clone(), Box::new(move |field, _| map.key(field)))
    }
}

impl<K: 'static, V: 'static, KC: Codec, VC: Decode<V>> Map<K, V, KC, VC> {
    /// All values, as a stream.
    pub fn values(&self) -> Scan<V> {
        let map = self.clone();
        let read = move |field: &Bytes, value: &Bytes| map.place.decoded(&map.values, value, || shown(field));
        Scan::new(self.place.clone(), Box::new(read))
    }
}

impl<T> fmt::Debug for Scan<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").field("name", &self.place.name()).field("at", &self.at).finish_non_exhaustive()
    }
}
