//! Streams over hashes and sets. They request the next page only when the previous one has been
//! consumed.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt};
use redgrid_client::{ConnectionId, IntoArg, Request};

use super::pages::{PageRequest, Paged, Pages};
use super::{ObjectError, ObjectRef};
use crate::author::ClientExt;

/// Default for the approximate number of entries in a page.
const DEFAULT_PAGE: u32 = 100;

/// A page: the id of the connection on which it arrived, the cursor of the next page, and the
/// strings of the page's entries.
type Page = (Option<ConnectionId>, (Bytes, Vec<Bytes>));

/// A stream of the entries of a map or a set, in no particular order. It requests the next page
/// when the previous one has been consumed.
///
/// An entry that exists during the whole scan is returned at least once. An entry that is added or
/// removed during the scan may or may not be returned. While the object grows or shrinks, an entry
/// may be returned twice. If the connection or the server is replaced, the scan starts over and
/// returns entries again.
///
/// If an entry cannot be decoded, the stream returns an error and then continues. Any other error
/// ends the stream.
#[must_use = "streams do nothing unless polled"]
pub struct Scan<T> {
    pages: Pages<ScanPosition<T>>,
}

struct ScanPosition<T> {
    object_ref: ObjectRef,
    build_request: BuildRequest,
    /// Number of consecutive strings in a page that form one entry.
    width: usize,
    pattern: Option<Bytes>,
    page_size: u32,
    read_entry: ReadEntry<T>,
    /// The cursor of the next page; `None` at the end.
    at: Option<Bytes>,
    /// The id of the connection on which the previous page arrived; `None` before the first page.
    from: Option<Option<ConnectionId>>,
}

/// Creates the request for a page. The arguments are the object, the cursor of the page, the
/// approximate number of its entries, and the pattern.
type BuildRequest = Box<dyn Fn(&ObjectRef, Bytes, u32, Option<Bytes>) -> Result<Request, ObjectError> + Send + Sync>;

type ReadEntry<T> = Box<dyn Fn(&[Bytes]) -> Result<T, ObjectError> + Send + Sync>;

impl<T> Scan<T> {
    /// Creates a stream from the command HSCAN, SSCAN or ZSCAN, whose reply has `width` strings for
    /// each entry.
    ///
    /// `read` converts the strings of an entry to an item. For authors of object types.
    pub fn by(
        command: &'static str,
        width: usize,
        object_ref: ObjectRef,
        read: impl Fn(&[Bytes]) -> Result<T, ObjectError> + Send + Sync + 'static,
    ) -> Self {
        let request = move |object_ref: &ObjectRef, at, page: u32, pattern: Option<Bytes>| {
            let request = object_ref.command(command)?.arg(at).arg("COUNT").int(page.into());
            Ok(pattern.into_iter().fold(request, |request, pattern| request.arg("MATCH").arg(pattern)))
        };
        Scan::asking(width, object_ref, request, read)
    }

    /// Creates a stream from requests that `request` builds. Their replies must have the same form
    /// as the replies to HSCAN, SSCAN and ZSCAN.
    ///
    /// The arguments of `request` are the object, the cursor of the page, the approximate number of
    /// its entries, and the pattern, if there is one. For authors of object types.
    pub fn asking(
        width: usize,
        object_ref: ObjectRef,
        request: impl Fn(&ObjectRef, Bytes, u32, Option<Bytes>) -> Result<Request, ObjectError> + Send + Sync + 'static,
        read: impl Fn(&[Bytes]) -> Result<T, ObjectError> + Send + Sync + 'static,
    ) -> Self {
        let (build_request, read_entry, at) = (Box::new(request), Box::new(read), Some(Bytes::from_static(b"0")));
        let position = ScanPosition {
            object_ref,
            build_request,
            width,
            pattern: None,
            page_size: DEFAULT_PAGE,
            read_entry,
            at,
            from: None,
        };
        Scan { pages: Pages::of(position) }
    }

    /// Limits the stream to entries that match this pattern. For a map, the pattern applies to the
    /// keys of the entries; for a set, to the values.
    ///
    /// The server compares the pattern with the encoded bytes: `*` matches any bytes, `?` one byte,
    /// and `[ab]` an `a` or a `b`.
    pub fn matching(mut self, pattern: impl IntoArg) -> Self {
        self.pages.position.pattern = Some(pattern.into_arg());
        self
    }

    /// Sets the approximate number of entries in a page: 1 at least, 100 by default.
    ///
    /// The server always returns a small object in one page.
    pub fn page(mut self, entries: u32) -> Self {
        self.pages.position.page_size = entries.max(1);
        self
    }

    /// Returns the next entry; `None` at the end.
    ///
    /// # Errors
    ///
    /// The [`ObjectError`] of an entry that cannot be decoded, or of the request for a page.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: the next call continues.
    pub async fn try_next(&mut self) -> Result<Option<T>, ObjectError> {
        self.next().await.transpose()
    }

    /// Returns all entries.
    ///
    /// # Errors
    ///
    /// The first error of the stream.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing on the server.
    pub async fn try_collect<B: Default + Extend<T>>(self) -> Result<B, ObjectError> {
        TryStreamExt::try_collect(self).await
    }
}

impl<T> Paged for ScanPosition<T> {
    type Page = Page;
    type Item = T;

    fn request_page(&self) -> Option<PageRequest<Page>> {
        let (at, object_ref) = (self.at.clone()?, self.object_ref.clone());
        let request = (self.build_request)(&object_ref, at, self.page_size, self.pattern.clone());
        Some(Box::pin(async move {
            // In every read mode, pages are read from the primary, because each replica has its own
            // order of entries.
            let request = request?;
            let epoch = object_ref.client().epoch_of(object_ref.name_and_key()?.1);
            Ok((epoch, object_ref.read_primary(request).await?))
        }))
    }

    fn take(&mut self, (from, (next, page)): Page, found: &mut VecDeque<Result<T, ObjectError>>) {
        // Each server process has its own order of entries, so only the process that returned a
        // cursor can use it. If the connection is a new one, the scan therefore starts over.
        let has_started = self.from.is_some();
        if has_started && self.from.as_ref() != Some(&from) {
            self.from = None;
            self.at = Some(Bytes::from_static(b"0"));
            return;
        }
        self.from = Some(from);
        self.at = (&*next != b"0").then_some(next);
        found.extend(page.chunks_exact(self.width).map(|entry| (self.read_entry)(entry)));
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

crate::debug_fields!([T] Scan<T>, |it| name: it.pages.position.object_ref.name(), at: it.pages.position.at);
