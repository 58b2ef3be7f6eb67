//! Streams of elements: a page at a time, with back-pressure.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt};
use redgrid_codecs::Decode;
use redgrid_core::object::{Asking, ObjectError, Paged, Pages, layouts};
use redgrid_core::{Name, Script};

use crate::list::List;
use crate::place::number;

static TAKE_PAGE: Script<2> =
    Script::new("list/take_page", concat!(include_str!("scripts/cursor.lua"), include_str!("scripts/take_page.lua")));
static RESTART: Script<1> =
    Script::new("list/restart", concat!(include_str!("scripts/cursor.lua"), include_str!("scripts/restart.lua")));

/// How many elements a page has unless it is said.
const PAGE: u32 = 100;

/// A page: the index of its first element, the elements, and where to go on, if anywhere.
type Page = (u64, Vec<Bytes>, Option<Way>);

/// Which page is next.
#[derive(Debug, Clone)]
enum Way {
    /// From this index on, to the end.
    On(u64),
    /// Those in front of this index, to the front; from the end where there is none yet.
    Back(Option<u64>),
    /// What the cursor says that several share: the list's own, or of this name.
    Shared(Option<String>),
}

/// A stream over a list; made by [`List::stream`], [`List::stream_reversed`] and [`List::shared_stream`]. A page is asked for when the
/// one before has been taken.
///
/// It goes by index, page by page. Where nobody changes the list each element comes once, in order. Where others do, each page is what is there
/// when it is asked for:
///
/// - what is added at the end comes to a stream that goes on, if it is there before the last page is asked for, and not to one that is reversed;
/// - what is removed in front of where it is has as many others move up: so many are missed by one that goes on, and come twice to one that
///   is reversed;
/// - what is inserted in front of where it is has as many others move on: so many come twice to one that goes on, and are missed by one
///   that is reversed;
/// - what is removed, inserted or set behind where it is comes as it is then.
///
/// An element that can not be decoded is an error, and the stream goes on behind it; behind any other error it is over.
#[must_use = "a stream asks nobody until it is polled"]
pub struct Elements<T> {
    pages: Pages<Walk<T>>,
}

struct Walk<T> {
    list: Box<dyn Ask<T>>,
    page: u32,
    /// Where to go on; nowhere at the end.
    way: Option<Way>,
}

/// A list, whatever its codec.
trait Ask<T>: Send + Sync {
    fn ask(&self, way: Way, page: u32) -> Asking<Page>;
    fn read(&self, index: u64, bytes: &Bytes) -> Result<T, ObjectError>;
    fn name(&self) -> Option<&Name>;
}

impl<T: 'static, C: Decode<T>> Ask<T> for List<T, C> {
    fn ask(&self, way: Way, page: u32) -> Asking<Page> {
        let list = self.clone();
        Box::pin(async move {
            match way {
                Way::On(from) => list.page_on(from, page).await,
                Way::Back(before) => list.page_back(before, page).await,
                Way::Shared(cursor) => list.page_shared(cursor, page).await,
            }
        })
    }

    fn read(&self, index: u64, bytes: &Bytes) -> Result<T, ObjectError> {
        self.at(index, bytes)
    }

    fn name(&self) -> Option<&Name> {
        self.place.name()
    }
}

impl<T: 'static, C: Decode<T>> List<T, C> {
    /// All elements from the front to the end, as a stream. [`Elements`] says what comes while others change the list.
    #[doc(alias = "iterator")]
    #[doc(alias = "listIterator")]
    #[doc(alias = "forEach")]
    pub fn stream(&self) -> Elements<T> {
        self.stream_from(0)
    }

    /// All elements from an index on, as a stream.
    #[doc(alias = "listIterator")]
    pub fn stream_from(&self, index: u64) -> Elements<T> {
        Elements::new(self.clone(), Way::On(index))
    }

    /// All elements from the end to the front, as a stream: those that are there when it is first polled. One request more.
    #[doc(alias = "reversed")]
    pub fn stream_reversed(&self) -> Elements<T> {
        Elements::new(self.clone(), Way::Back(None))
    }

    /// Elements for several who share a stream, in this and in other processes: each page goes to one of them. Where it goes on is stored
    /// beside the list for an hour behind the last page, Redisson's iterators included; behind the last page it is over for all of them until then, or until
    /// [`List::restart_shared`], also where the list is another by then. Where nobody asks for a page for an hour, the cursor is gone and the
    /// next page is the first again: each page is to be done with within that hour.
    ///
    /// A page whose answer is lost is nobody's: the stream ends [`ObjectError::OutcomeUnknown`]. So is one whose stream is dropped.
    #[doc(alias = "distributedIterator")]
    pub fn shared_stream(&self) -> Elements<T> {
        Elements::new(self.clone(), Way::Shared(None))
    }

    /// The same with a cursor of this name, in the slot of the list. The name is a key like that of any object: it is to be nobody else's. What
    /// is not an index with a lifetime is left as it is, and the stream ends [`ObjectError::Refused`]; so does the list's own name, with
    /// [`ObjectError::InvalidArgument`].
    #[doc(alias = "distributedIterator")]
    pub fn shared_stream_by(&self, cursor: impl Into<String>) -> Elements<T> {
        Elements::new(self.clone(), Way::Shared(Some(cursor.into())))
    }

    /// Has the shared stream, or that with a cursor of this name, begin anew for those who come; tells whether it had begun.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then; [`ObjectError::InvalidArgument`] of a name in another slot and of the list's own,
    /// [`ObjectError::Refused`] where what has this name is no cursor: an index with a lifetime. It stays as it is.
    ///
    /// # Cancel safety
    ///
    /// What has left is carried out although nobody waits for it.
    pub async fn restart_shared(&self, cursor: Option<&str>) -> Result<bool, ObjectError> {
        self.place.change(RESTART.with([self.cursor(cursor)?])).await
    }

    async fn page_on(&self, from: u64, page: u32) -> Result<Page, ObjectError> {
        let (name, _) = self.place.named()?;
        let start = number(name, "index", from)?;
        let last = start.saturating_add(i64::from(page) - 1);
        // From the primary, whatever the read mode: one replica may have other indices than the next.
        let elements: Vec<Bytes> = self.place.ask(self.place.command("LRANGE")?.int(start).int(last)).await?;
        let is_full = elements.len() as u64 == u64::from(page);
        Ok((from, elements, is_full.then(|| Way::On(from.saturating_add(page.into())))))
    }

    async fn page_back(&self, before: Option<u64>, page: u32) -> Result<Page, ObjectError> {
        let before = match before {
            Some(before) => before,
            None => self.place.ask(self.place.command("LLEN")?).await?,
        };
        let (name, _) = self.place.named()?;
        let first = before.saturating_sub(page.into());
        if before == 0 {
            return Ok((0, Vec::new(), None));
        }
        let request = self.place.command("LRANGE")?.int(number(name, "index", first)?);
        let elements: Vec<Bytes> = self.place.ask(request.int(number(name, "index", before - 1)?)).await?;
        Ok((first, elements, (first > 0).then_some(Way::Back(Some(first)))))
    }

    async fn page_shared(&self, cursor: Option<String>, page: u32) -> Result<Page, ObjectError> {
        let (_, key) = self.place.named()?;
        let request = TAKE_PAGE.with([key.clone(), self.cursor(cursor.as_deref())?]).int(page.into());
        let (first, elements): (i64, Vec<Bytes>) = self.place.change(request).await?;
        let first = u64::try_from(first).ok();
        Ok((first.unwrap_or_default(), elements, first.map(|_| Way::Shared(cursor))))
    }

    /// The key of a cursor; where none is named Redisson's, which in a cluster is in another slot where the list's name has a hash tag.
    fn cursor(&self, named: Option<&str>) -> Result<Bytes, ObjectError> {
        let (name, key) = self.place.named()?;
        match named {
            Some(cursor) => match self.beside(key, name, "cursor", &Name::new(cursor)?)? {
                cursor if cursor == key => Err(ObjectError::InvalidArgument {
                    name: name.clone(),
                    option: "cursor",
                    expected: "another name than the list's".to_owned(),
                    got: name.to_string(),
                }),
                cursor => Ok(cursor),
            },
            None => {
                let client = self.place.client();
                let redissons = [b"__redisson_list_cursor_{", &**key, b"}"].concat();
                Ok(match client.slot(&redissons) == client.slot(key) {
                    true => redissons.into(),
                    false => layouts::list_cursor(key),
                })
            }
        }
    }
}

impl<T> Elements<T> {
    fn new(list: impl Ask<T> + 'static, way: Way) -> Self {
        Elements { pages: Pages::of(Walk { list: Box::new(list), page: PAGE, way: Some(way) }) }
    }

    /// So many elements a page, 1 at least; 100 unless it is said. More are fewer requests, and more in memory here and there.
    pub fn page(mut self, elements: u32) -> Self {
        self.pages.walk.page = elements.max(1);
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
    /// Dropping it changes nothing of the list; of a shared stream, what was taken is gone for the others.
    pub async fn try_collect<B: Default + Extend<T>>(self) -> Result<B, ObjectError> {
        TryStreamExt::try_collect(self).await
    }
}

impl<T> Paged for Walk<T> {
    type Page = Page;
    type Item = T;

    fn ask(&self) -> Option<Asking<Page>> {
        Some(self.list.ask(self.way.clone()?, self.page))
    }

    fn take(&mut self, (first, elements, way): Page, found: &mut VecDeque<Result<T, ObjectError>>) {
        let back = matches!(self.way, Some(Way::Back(_)));
        self.way = way;
        found.extend((first..).zip(&elements).map(|(index, bytes)| self.list.read(index, bytes)));
        if back {
            found.make_contiguous().reverse();
        }
    }

    fn end(&mut self) {
        self.way = None;
    }
}

impl<T> Stream for Elements<T> {
    type Item = Result<T, ObjectError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().pages.poll_next(cx)
    }
}

impl<T> Unpin for Elements<T> {}

impl<T> fmt::Debug for Elements<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let walk = &self.pages.walk;
        f.debug_struct("Elements").field("name", &walk.list.name()).field("way", &walk.way).finish_non_exhaustive()
    }
}
