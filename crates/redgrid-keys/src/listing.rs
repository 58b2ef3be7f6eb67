//! Streams of keys.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt, TryStreamExt};
use redgrid_core::Client;

use crate::KeysError;
use crate::glob::Glob;
use crate::key::{Key, Kind};
use crate::walk::{Shown, Walk, Wanted};

/// How many keys a server looks at for a page, unless it is said.
const PAGE: u32 = 500;

/// A stream over the keys of all primaries, one after the other; made by [`Keys::objects`](crate::Keys::objects) and
/// [`Keys::all`](crate::Keys::all). A page is asked for when the one before has been taken.
///
/// What is there from beginning to end comes at least once; what is made or deleted meanwhile may come or not. A key may come twice:
/// while a server's table of keys grows or shrinks, when a server was restarted or replaced, as then its node begins anew, and when
/// its slot moves: those slots are looked for again, first where they were and then where they went. Where slots move, or servers are
/// replaced, so often that this does not come to an end, the stream ends with [`KeysError::Moving`]. It is over behind any error.
///
/// A slot that goes to a node and back again within one page over all nodes may be missed. So may be what is in a slot that moves,
/// where the user may not ask for CLUSTER NODES.
#[must_use = "a stream asks nobody until it is polled"]
pub struct Listing {
    client: Client,
    wanted: Result<Wanted, KeysError>,
    pages: Option<BoxStream<'static, Result<Vec<Key>, KeysError>>>,
    found: VecDeque<Key>,
    over: bool,
}

impl Listing {
    pub(crate) fn new(client: &Client, shown: Shown) -> Self {
        let wanted = Wanted { shown, pattern: None, kind: None, page: PAGE };
        Listing { client: client.clone(), wanted: Ok(wanted), pages: None, found: VecDeque::new(), over: false }
    }

    /// Only those whose object's name, without the namespace, matches this pattern: `*` anything, `?` one byte, `[a-c]` one of these,
    /// `[^a]` any other, `\*` the star itself.
    ///
    /// One that is open at its end (`[a`, `a\`) is told as [`KeysError::InvalidArgument`] by the first item.
    pub fn matching(mut self, pattern: impl Into<Bytes>) -> Self {
        let pattern = pattern.into();
        match Glob::new(pattern.clone()) {
            Ok(glob) => {
                if let Ok(wanted) = &mut self.wanted {
                    wanted.pattern = Some(glob);
                }
            }
            Err(expected) => {
                self.wanted = Err(KeysError::invalid("pattern", expected, format!("`{}`", pattern.escape_ascii())));
            }
        }
        self
    }

    /// Only keys of this type. [`Kind::Other`] can not be asked for, and is told as [`KeysError::InvalidArgument`] by the first item.
    #[doc(alias = "type")]
    pub fn of_kind(mut self, kind: Kind) -> Self {
        match (kind.word(), &mut self.wanted) {
            (Some(_), Ok(wanted)) => wanted.kind = Some(kind),
            (None, Ok(_)) => {
                self.wanted = Err(KeysError::invalid("kind", "a type that every server knows", format!("{kind:?}")));
            }
            (_, Err(_)) => {}
        }
        self
    }

    /// A server looks at about so many keys for a page, 1 at least; 500 unless it is said. More is fewer requests, each of which keeps
    /// the server longer from others.
    #[doc(alias = "chunkSize")]
    pub fn page(mut self, keys: u32) -> Self {
        if let Ok(wanted) = &mut self.wanted {
            wanted.page = keys.max(1);
        }
        self
    }

    /// The next one; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`KeysError`] says what is true then.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn try_next(&mut self) -> Result<Option<Key>, KeysError> {
        self.next().await.transpose()
    }

    /// All of them; in a set each is once.
    ///
    /// # Errors
    ///
    /// The first one.
    ///
    /// # Cancel safety
    ///
    /// Dropping it changes nothing on the server.
    pub async fn try_collect<B: Default + Extend<Key>>(self) -> Result<B, KeysError> {
        TryStreamExt::try_collect(self).await
    }

    /// Its pages, of which no more than one is there at a time.
    pub(crate) fn into_walk(self) -> Result<Walk, KeysError> {
        self.wanted.map(|wanted| Walk::new(&self.client, wanted))
    }
}

fn pages(client: &Client, wanted: Result<Wanted, KeysError>) -> BoxStream<'static, Result<Vec<Key>, KeysError>> {
    let walk = wanted.map(|wanted| Walk::new(client, wanted));
    stream::unfold(Some(walk), async |walk| {
        let mut walk = match walk? {
            Ok(walk) => walk,
            Err(error) => return Some((Err(error), None)),
        };
        match walk.page().await {
            Ok(page) => page.map(|page| (Ok(page), Some(Ok(walk)))),
            Err(error) => Some((Err(error), None)),
        }
    })
    .boxed()
}

impl Stream for Listing {
    type Item = Result<Key, KeysError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(key) = this.found.pop_front() {
                return Poll::Ready(Some(Ok(key)));
            }
            if this.over {
                return Poll::Ready(None);
            }
            let pages = this.pages.get_or_insert_with(|| pages(&this.client, this.wanted.clone()));
            match std::task::ready!(pages.poll_next_unpin(cx)) {
                Some(Ok(page)) => this.found.extend(page),
                Some(Err(error)) => {
                    this.over = true;
                    return Poll::Ready(Some(Err(error)));
                }
                None => this.over = true,
            }
        }
    }
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listing").field("wanted", &self.wanted).finish_non_exhaustive()
    }
}
