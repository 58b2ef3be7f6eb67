//! The bits that are set, as a stream.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use redgrid_core::object::{ObjectError, Place};
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

type Asking = Pin<Box<dyn Future<Output = Result<Page, ObjectError>> + Send>>;

/// The indices of the bits that are set, from low to high; made by [`BitSet::ones`]. A page is asked for when the one before has been taken.
///
/// What is set from beginning to end comes exactly once; what is set or cleared meanwhile may come or not. Behind an error it is over.
#[must_use = "a stream asks nobody until it is polled"]
pub struct Ones {
    place: Place,
    /// The byte to go on at; nowhere at the end.
    at: Option<u64>,
    /// Bits before it are not wanted.
    from: u64,
    asking: Option<Asking>,
    found: VecDeque<u64>,
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
        Ones { place: self.place.clone(), at, from, asking: None, found: VecDeque::new() }
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
    pub async fn try_collect<B: Default + Extend<u64>>(mut self) -> Result<B, ObjectError> {
        let mut all = B::default();
        while let Some(one) = self.try_next().await? {
            all.extend([one]);
        }
        Ok(all)
    }

    fn ask(&self, at: u64) -> Asking {
        let place = self.place.clone();
        Box::pin(async move {
            let (_, key) = place.named()?;
            // From the primary, whatever the read mode: a replica may lack what was set before it began.
            place.ask(ONES.with([key.clone()]).arg(at.to_string()).arg(PAGE.to_string())).await
        })
    }

    fn take(&mut self, page: Page) {
        let Page(Some((begin, bytes))) = page else {
            self.at = None;
            return;
        };
        for (at, byte) in (begin..).zip(&bytes) {
            let set = (0..8).filter(|bit| byte & (0x80 >> bit) != 0).map(|bit| at * 8 + bit);
            self.found.extend(set.filter(|index| *index >= self.from));
        }
        let next = begin + PAGE;
        self.at = (next < BITS / 8).then_some(next);
    }
}

impl Stream for Ones {
    type Item = Result<u64, ObjectError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(one) = this.found.pop_front() {
                return Poll::Ready(Some(Ok(one)));
            }
            let Some(at) = this.at else { return Poll::Ready(None) };
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

impl fmt::Debug for Ones {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ones").field("name", &self.place.name()).field("at", &self.at).finish_non_exhaustive()
    }
}
