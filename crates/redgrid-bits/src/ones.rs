//! The bits that are set, as a stream.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt};
use redgrid_core::object::{Asking, ObjectError, Paged, Pages, Place};
use redgrid_core::{FromReply, Reply, Script, ServerError};

use crate::bit_set::{BITS, BitSet};

static ONES: Script<1> = Script::new("bits/ones", include_str!("scripts/ones.lua"));

/// How many bytes a page has: 8,192 indices at most are in memory at a time.
const PAGE: u64 = 1024;

/// A page: the byte it begins at, and its bytes; nothing behind the last bit that is set.
struct Page(Option<(u64, Bytes)>);

impl FromReply for Page {
    fn from_reply(reply: Reply) -> Result<Self, ServerError> {
        match reply {
            Reply::Array(parts) if parts.is_empty() => Ok(Page(None)),
            other => other.into_typed().map(|page| Page(Some(page))),
        }
    }
}

/// The indices of the bits that are set, from low to high; made by [`BitSet::ones`]. A page is asked for when the one before has been taken.
///
/// What is set from beginning to end comes exactly once; what is set or cleared meanwhile may come or not. Behind an error it is over.
#[must_use = "a stream asks nobody until it is polled"]
pub struct Ones {
    pages: Pages<Walk>,
}

struct Walk {
    place: Place,
    /// The byte to go on at; nowhere at the end.
    at: Option<u64>,
    /// Bits before it are not wanted.
    from: u64,
}

impl BitSet {
    /// The bits that are set, as a stream.
    #[doc(alias = "stream")]
    pub fn ones(&self) -> Ones {
        self.ones_from(0)
    }

    /// The same from this bit on.
    pub fn ones_from(&self, from: u64) -> Ones {
        let at = (from < BITS).then_some(from / 8);
        Ones { pages: Pages::of(Walk { place: self.place.clone(), at, from }) }
    }
}

impl Ones {
    /// The next one; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn try_next(&mut self) -> Result<Option<u64>, ObjectError> {
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
    pub async fn try_collect<B: Default + Extend<u64>>(self) -> Result<B, ObjectError> {
        TryStreamExt::try_collect(self).await
    }
}

impl Paged for Walk {
    type Page = Page;
    type Item = u64;

    fn ask(&self) -> Option<Asking<Page>> {
        let (at, place) = (self.at?, self.place.clone());
        Some(Box::pin(async move {
            let (_, key) = place.named()?;
            // From the primary, whatever the read mode: a replica may lack what was set before it began.
            place.ask(ONES.with([key.clone()]).arg(at.to_string()).arg(PAGE.to_string())).await
        }))
    }

    fn take(&mut self, page: Page, found: &mut VecDeque<Result<u64, ObjectError>>) {
        let Page(Some((begin, bytes))) = page else { return self.end() };
        for (at, byte) in (begin..).zip(&bytes) {
            let set = (0..8).filter(|bit| byte & (0x80 >> bit) != 0).map(|bit| at * 8 + bit);
            found.extend(set.filter(|index| *index >= self.from).map(Ok));
        }
        let next = begin + PAGE;
        self.at = (next < BITS / 8).then_some(next);
    }

    fn end(&mut self) {
        self.at = None;
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
        let walk = &self.pages.walk;
        f.debug_struct("Ones").field("name", &walk.place.name()).field("at", &walk.at).finish_non_exhaustive()
    }
}
