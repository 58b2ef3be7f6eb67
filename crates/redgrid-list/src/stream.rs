//! Streams of elements: one page at a time, with back-pressure.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt};
use redgrid_codecs::Decode;
use redgrid_core::author::{PageRequest, Paged, Pages};
use redgrid_core::object::{ObjectError, layouts};
use redgrid_core::{Name, Script};

use crate::index::server_int;
use crate::list::List;

static TAKE_PAGE: Script<2> =
    Script::new("list/take_page", concat!(include_str!("scripts/cursor.lua"), include_str!("scripts/take_page.lua")));
static RESTART: Script<1> =
    Script::new("list/restart", concat!(include_str!("scripts/cursor.lua"), include_str!("scripts/restart.lua")));

/// The default number of elements in a page.
const PAGE: u32 = 100;

/// A page: the index of its first element, the elements, and the next page, if there is one.
type Page = (u64, Vec<Bytes>, Option<NextPage>);

/// The page that is read next.
#[derive(Debug, Clone)]
enum NextPage {
    /// The page that starts at this index, towards the end.
    Forward(u64),
    /// The page that ends before this index, towards the front; without an index, the last page.
    Backward(Option<u64>),
    /// The page at a cursor that several readers share: the list's own cursor, or the cursor with
    /// this name.
    Shared(Option<String>),
}

/// A stream of elements; returned by [`List::stream`], [`List::stream_reversed`] and
/// [`List::shared_stream`]. A page is read when all elements of the previous page were returned.
///
/// Elements are read by index, page by page. If the list does not change, each element is returned
/// once, in order. If it changes, each page contains the elements that are stored when it is read:
///
/// - A forward stream returns elements that are appended to the list before the last page is read.
///   A reversed stream does not return them.
/// - A removal at a lower index moves later elements to the front. A forward stream misses as many
///   elements as were removed; a reversed stream returns as many twice.
/// - An insertion at a lower index moves later elements to the end. A forward stream returns as
///   many elements twice as were inserted; a reversed stream misses as many.
/// - Changes in the part that is still to be read are visible.
///
/// If an element cannot be decoded, the stream returns an error and continues. Any other error ends
/// the stream.
#[must_use = "streams do nothing unless polled"]
pub struct Elements<T> {
    pages: Pages<PageReader<T>>,
}

struct PageReader<T> {
    list: Box<dyn ListPages<T>>,
    page: u32,
    /// The next page; `None` at the end.
    next_page: Option<NextPage>,
}

/// A list, whatever its codec.
trait ListPages<T>: Send + Sync {
    fn read_page(&self, next_page: NextPage, size: u32) -> PageRequest<Page>;
    fn decode(&self, index: u64, bytes: &Bytes) -> Result<T, ObjectError>;
    fn name(&self) -> Option<&Name>;
}

impl<T: 'static, C: Decode<T>> ListPages<T> for List<T, C> {
    fn read_page(&self, next_page: NextPage, size: u32) -> PageRequest<Page> {
        let list = self.clone();
        Box::pin(async move {
            match next_page {
                NextPage::Forward(from) => list.page_forward(from, size).await,
                NextPage::Backward(before) => list.page_backward(before, size).await,
                NextPage::Shared(cursor) => list.page_shared(cursor, size).await,
            }
        })
    }

    fn decode(&self, index: u64, bytes: &Bytes) -> Result<T, ObjectError> {
        self.decode_at(index, bytes)
    }

    fn name(&self) -> Option<&Name> {
        self.object_ref.name()
    }
}

impl<T: 'static, C: Decode<T>> List<T, C> {
    /// Returns a stream of all elements, from the front to the end. [`Elements`] describes the
    /// effects of concurrent changes.
    #[doc(alias = "iterator")]
    #[doc(alias = "listIterator")]
    #[doc(alias = "forEach")]
    pub fn stream(&self) -> Elements<T> {
        self.stream_from(0)
    }

    /// Returns a stream of all elements from an index on.
    #[doc(alias = "listIterator")]
    pub fn stream_from(&self, index: u64) -> Elements<T> {
        Elements::new(self.clone(), NextPage::Forward(index))
    }

    /// Returns a stream of all elements, from the end to the front. It returns the elements that
    /// the list has when the stream is first polled. It needs one more request than a forward
    /// stream.
    #[doc(alias = "reversed")]
    pub fn stream_reversed(&self) -> Elements<T> {
        Elements::new(self.clone(), NextPage::Backward(None))
    }

    /// Returns a stream that several readers share, in this and in other processes: each page goes
    /// to one of them.
    ///
    /// The position is stored in a cursor key, until one hour after the last page. Redisson's
    /// iterators use the same key. After the last page, the stream is over for all readers until
    /// that hour ends, or until [`List::restart_shared`], even if the list has changed. If no page
    /// is read for an hour, the cursor expires, and the stream starts again with the first page.
    /// Each page must therefore be processed within an hour.
    ///
    /// If the reply with a page is lost, the page is lost: the stream returns
    /// [`Failure::OutcomeUnknown`](crate::Failure::OutcomeUnknown). A page is also lost if its
    /// stream is dropped.
    #[doc(alias = "distributedIterator")]
    pub fn shared_stream(&self) -> Elements<T> {
        Elements::new(self.clone(), NextPage::Shared(None))
    }

    /// Returns a shared stream with a cursor of this name, in the slot of the list. See
    /// [`List::shared_stream`].
    ///
    /// The name is a key, as the name of any object, and must not be used for anything else. If the
    /// key is not a cursor (an index with a lifetime), it is left unchanged, and the stream returns
    /// [`Failure::Refused`](crate::Failure::Refused). If the name is the list's own, the stream
    /// returns [`Failure::InvalidArgument`](crate::Failure::InvalidArgument).
    #[doc(alias = "distributedIterator")]
    pub fn shared_stream_by(&self, cursor: impl Into<String>) -> Elements<T> {
        Elements::new(self.clone(), NextPage::Shared(Some(cursor.into())))
    }

    /// Restarts the shared stream for future readers. Returns whether a reader had started it.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// A request that was already sent is executed even if the future is dropped.
    pub async fn restart_shared(&self) -> Result<bool, ObjectError> {
        self.restart(None).await
    }

    /// Restarts the shared stream with a cursor of this name, as [`List::restart_shared`].
    ///
    /// # Errors
    ///
    /// As [`List::restart_shared`]. [`Failure::InvalidArgument`](crate::Failure::InvalidArgument)
    /// for a name in another slot and for the list's own name.
    /// [`Failure::Refused`](crate::Failure::Refused) if the key of this name is not a cursor (an
    /// index with a lifetime); the key is left unchanged.
    ///
    /// # Cancel safety
    ///
    /// As [`List::restart_shared`].
    pub async fn restart_shared_by(&self, cursor: impl AsRef<str>) -> Result<bool, ObjectError> {
        self.restart(Some(cursor.as_ref())).await
    }

    async fn restart(&self, cursor: Option<&str>) -> Result<bool, ObjectError> {
        self.object_ref.change(RESTART.with([self.cursor(cursor)?])).await
    }

    async fn page_forward(&self, from: u64, size: u32) -> Result<Page, ObjectError> {
        let (name, _) = self.object_ref.name_and_key()?;
        let start = server_int(name, "index", from)?;
        let last = start.saturating_add(i64::from(size) - 1);
        // The primary is read, whatever the read mode: the indices of two replicas may differ.
        let elements: Vec<Bytes> =
            self.object_ref.read_primary(self.object_ref.command("LRANGE")?.int(start).int(last)).await?;
        let is_full = elements.len() as u64 == u64::from(size);
        Ok((from, elements, is_full.then(|| NextPage::Forward(from.saturating_add(size.into())))))
    }

    async fn page_backward(&self, before: Option<u64>, size: u32) -> Result<Page, ObjectError> {
        let before = match before {
            Some(before) => before,
            None => self.object_ref.read_primary(self.object_ref.command("LLEN")?).await?,
        };
        let (name, _) = self.object_ref.name_and_key()?;
        let first = before.saturating_sub(size.into());
        if before == 0 {
            return Ok((0, Vec::new(), None));
        }
        let request = self.object_ref.command("LRANGE")?.int(server_int(name, "index", first)?);
        let elements: Vec<Bytes> =
            self.object_ref.read_primary(request.int(server_int(name, "index", before - 1)?)).await?;
        Ok((first, elements, (first > 0).then_some(NextPage::Backward(Some(first)))))
    }

    async fn page_shared(&self, cursor: Option<String>, size: u32) -> Result<Page, ObjectError> {
        let (_, key) = self.object_ref.name_and_key()?;
        let request = TAKE_PAGE.with([key.clone(), self.cursor(cursor.as_deref())?]).int(size.into());
        let (first, elements): (i64, Vec<Bytes>) = self.object_ref.change(request).await?;
        let first = u64::try_from(first).ok();
        Ok((first.unwrap_or_default(), elements, first.map(|_| NextPage::Shared(cursor))))
    }

    /// Returns the key of a cursor. Without a name, it is Redisson's key of the list's cursor. In a
    /// cluster, that key is in another slot if the list's name has a hash tag; then it is a key of
    /// redgrid's own.
    fn cursor(&self, cursor_name: Option<&str>) -> Result<Bytes, ObjectError> {
        let (name, key) = self.object_ref.name_and_key()?;
        match cursor_name {
            Some(cursor) => match self.key_in_slot(key, name, "cursor", &Name::new(cursor)?)? {
                cursor if cursor == key => {
                    Err(ObjectError::invalid_argument(name, "cursor", "a name other than that of the list", name))
                }
                cursor => Ok(cursor),
            },
            None => {
                let client = self.object_ref.client();
                let redisson_key = [b"__redisson_list_cursor_{", &**key, b"}"].concat();
                if client.slot(&redisson_key) == client.slot(key) {
                    Ok(redisson_key.into())
                } else {
                    Ok(layouts::list_cursor(key))
                }
            }
        }
    }
}

impl<T> Elements<T> {
    fn new(list: impl ListPages<T> + 'static, next_page: NextPage) -> Self {
        Elements { pages: Pages::of(PageReader { list: Box::new(list), page: PAGE, next_page: Some(next_page) }) }
    }

    /// Sets the number of elements in a page, at least 1; the default is 100.
    ///
    /// Larger pages need fewer requests, but more memory in the client and on the server.
    pub fn page(mut self, elements: u32) -> Self {
        self.pages.position.page = elements.max(1);
        self
    }

    /// Returns the next element; `None` at the end.
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

    /// Collects all elements.
    ///
    /// # Errors
    ///
    /// The first error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not change the list. With a shared stream, pages that were read are
    /// lost for the other readers.
    pub async fn try_collect<B: Default + Extend<T>>(self) -> Result<B, ObjectError> {
        TryStreamExt::try_collect(self).await
    }
}

impl<T> Paged for PageReader<T> {
    type Page = Page;
    type Item = T;

    fn request_page(&self) -> Option<PageRequest<Page>> {
        Some(self.list.read_page(self.next_page.clone()?, self.page))
    }

    fn take(&mut self, (first, elements, next_page): Page, found: &mut VecDeque<Result<T, ObjectError>>) {
        let is_backward = matches!(self.next_page, Some(NextPage::Backward(_)));
        self.next_page = next_page;
        found.extend((first..).zip(&elements).map(|(index, bytes)| self.list.decode(index, bytes)));
        if is_backward {
            found.make_contiguous().reverse();
        }
    }

    fn end(&mut self) {
        self.next_page = None;
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
        let position = &self.pages.position;
        f.debug_struct("Elements")
            .field("name", &position.list.name())
            .field("next_page", &position.next_page)
            .finish_non_exhaustive()
    }
}
