//! A stream of the set bits.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt};
use redgrid_core::author::{PageRequest, Paged, Pages};
use redgrid_core::object::{ObjectError, ObjectRef};
use redgrid_core::{FromReply, Reply, Script, ServerError};

use crate::bit_set::{BitSet, MAX_BITS};

static ONES: Script<1> = Script::new("bits/ones", include_str!("scripts/ones.lua"));

/// The number of bytes in a page. A page has up to 8,192 indices in memory at a time.
const PAGE: u64 = 1024;

/// A page: the index of its first byte, and its bytes; `None` if no bit is set after the previous
/// page.
struct Page(Option<(u64, Bytes)>);

impl FromReply for Page {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        match reply {
            Reply::Array(parts) if parts.is_empty() => Ok(Page(None)),
            other => other.into_typed().map(|page| Page(Some(page))),
        }
    }
}

/// A stream of the indices of the set bits, from low to high; returned by [`BitSet::ones`]. A page
/// is read when all indices of the previous page were returned.
///
/// A bit that is set during the whole stream is returned exactly once. Bits that are set or cleared
/// meanwhile may be returned or not. An error ends the stream.
#[must_use = "streams do nothing unless polled"]
pub struct Ones {
    pages: Pages<PageReader>,
}

struct PageReader {
    object_ref: ObjectRef,
    /// The first byte of the next page; `None` at the end.
    next_byte: Option<u64>,
    /// The first bit to return.
    from: u64,
}

impl BitSet {
    /// Returns a stream of the set bits.
    #[doc(alias = "stream")]
    pub fn ones(&self) -> Ones {
        self.ones_from(0)
    }

    /// Returns a stream of the set bits, starting at this index.
    pub fn ones_from(&self, from: u64) -> Ones {
        let next_byte = (from < MAX_BITS).then_some(from / 8);
        Ones { pages: Pages::of(PageReader { object_ref: self.object_ref.clone(), next_byte, from }) }
    }
}

impl Ones {
    /// Returns the next index; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing.
    pub async fn try_next(&mut self) -> Result<Option<u64>, ObjectError> {
        self.next().await.transpose()
    }

    /// Collects all indices.
    ///
    /// # Errors
    ///
    /// The first error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing on the server.
    pub async fn try_collect<B: Default + Extend<u64>>(self) -> Result<B, ObjectError> {
        TryStreamExt::try_collect(self).await
    }
}

impl Paged for PageReader {
    type Page = Page;
    type Item = u64;

    fn request_page(&self) -> Option<PageRequest<Page>> {
        let (next_byte, object_ref) = (self.next_byte?, self.object_ref.clone());
        Some(Box::pin(async move {
            let (_, key) = object_ref.name_and_key()?;
            // The primary is read, whatever the read mode: a replica may lack bits that were set
            // before the stream began.
            object_ref.read_primary(ONES.with([key.clone()]).arg(next_byte.to_string()).arg(PAGE.to_string())).await
        }))
    }

    fn take(&mut self, page: Page, found: &mut VecDeque<Result<u64, ObjectError>>) {
        let Page(Some((first_byte, bytes))) = page else { return self.end() };
        for (byte_index, byte) in (first_byte..).zip(&bytes) {
            let set = (0..8).filter(|bit| byte & (0x80 >> bit) != 0).map(|bit| byte_index * 8 + bit);
            found.extend(set.filter(|index| *index >= self.from).map(Ok));
        }
        let next = first_byte + PAGE;
        self.next_byte = (next < MAX_BITS / 8).then_some(next);
    }

    fn end(&mut self) {
        self.next_byte = None;
    }
}

impl Stream for Ones {
    type Item = Result<u64, ObjectError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().pages.poll_next(cx)
    }
}

impl fmt::Debug for Ones {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let position = &self.pages.position;
        f.debug_struct("Ones")
            .field("name", &position.object_ref.name())
            .field("next_byte", &position.next_byte)
            .finish_non_exhaustive()
    }
}
