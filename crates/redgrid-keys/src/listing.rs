//! Streams of keys.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt, TryStreamExt};
use redgrid_core::{Client, IntoArg};
use tokio::time::Instant;

use crate::KeysError;
use crate::glob::Glob;
use crate::key::{Key, Kind};
use crate::scan::{Include, Scan, ScanOptions};

/// The default number of keys that a server examines for a page.
const PAGE: u32 = 500;

/// The longest rest between two pages. The stream cannot know how long its consumer paused.
const MAX_REST: Duration = Duration::from_secs(2);

/// Receives the duration of each page.
type OnPage = Box<dyn FnMut(Duration) + Send>;

/// A stream over the keys of all primaries, one after the other; made by
/// [`Keys::objects`](crate::Keys::objects) and [`Keys::all`](crate::Keys::all).
///
/// The next page is requested when the current one has been consumed. A key that exists during the
/// whole stream is returned at least once. A key that is created or deleted meanwhile may be
/// returned or not. A key may be returned twice:
///
/// - while a server's table of keys grows or shrinks;
/// - if a server was restarted or replaced, because the scan of its node starts again;
/// - if its slot moves, because such slots are scanned again, first at the source and then at the
///   target.
///
/// If slots move or servers are replaced so often that the scan cannot complete, the stream ends
/// with [`KeysError::Moving`]. It ends after any error.
///
/// A slot that moves to a node and back again during one pass over all nodes may be missed. Keys of
/// a moving slot may also be missed if the user has no permission for CLUSTER NODES.
#[must_use = "streams do nothing unless polled"]
pub struct Listing {
    client: Client,
    options: Result<ScanOptions, KeysError>,
    on_page: Option<OnPage>,
    pages: Option<BoxStream<'static, Result<Vec<Key>, KeysError>>>,
    fetched: VecDeque<Key>,
    ended: bool,
}

impl Listing {
    pub(crate) fn new(client: &Client, include: Include) -> Self {
        let options = ScanOptions { include, pattern: None, kind: None, page: PAGE, rest: 0 };
        let (client, options) = (client.clone(), Ok(options));
        Listing { client, options, on_page: None, pages: None, fetched: VecDeque::new(), ended: false }
    }

    /// Returns only keys of objects with names that, without the namespace, match this pattern.
    ///
    /// `*` matches anything, `?` one byte, `[a-c]` one of these bytes, `[^a]` any other byte, and
    /// `\*` the star itself. An incomplete pattern (`[a`, `a\`) is reported as
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) by the first item.
    pub fn matching(mut self, pattern: impl IntoArg) -> Self {
        let pattern = pattern.into_arg();
        match Glob::new(pattern.clone()) {
            Ok(glob) => {
                if let Ok(options) = &mut self.options {
                    options.pattern = Some(glob);
                }
            }
            Err(expected) => {
                self.options = Err(KeysError::invalid("pattern", expected, format!("`{}`", pattern.escape_ascii())));
            }
        }
        self
    }

    /// Returns only keys of this type.
    ///
    /// [`Kind::Other`] is not possible, and is reported as
    /// [`Failure::InvalidArgument`](crate::Failure::InvalidArgument) by the first item.
    #[doc(alias = "type")]
    pub fn of_kind(mut self, kind: Kind) -> Self {
        match (kind.type_name(), &mut self.options) {
            (Some(_), Ok(options)) => options.kind = Some(kind),
            (None, Ok(_)) => {
                self.options = Err(KeysError::invalid("kind", "a type that every server has", format!("{kind:?}")));
            }
            (_, Err(_)) => {}
        }
        self
    }

    /// Sets the approximate number of keys that a server examines for a page, at least 1. The
    /// default is 500.
    ///
    /// Larger pages need fewer requests, but each request blocks the server longer.
    #[doc(alias = "chunkSize")]
    pub fn page(mut self, keys: u32) -> Self {
        if let Ok(options) = &mut self.options {
            options.page = keys.max(1);
        }
        self
    }

    /// Rests after each page, for so many times the duration of the page. The default is 0.
    ///
    /// The duration is the time until the next page is requested, so it includes requests about the
    /// keys of the page. A rest is at most 2 s. So with 49, listing takes at most 2 % of a node's
    /// time while a page takes up to 40 ms, and otherwise the time of a page each 2 s.
    pub fn rest(mut self, factor: u32) -> Self {
        if let Ok(options) = &mut self.options {
            options.rest = factor;
        }
        self
    }

    /// Calls a function with the duration of each page: the time from its request to that of the
    /// next page, without the [rest](Listing::rest). It is called before the rest.
    pub fn on_page(mut self, report: impl FnMut(Duration) + Send + 'static) -> Self {
        self.on_page = Some(Box::new(report));
        self
    }

    /// Returns the next key; `None` at the end.
    ///
    /// # Errors
    ///
    /// [`KeysError`] states what failed and whether anything may have changed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no key is lost.
    pub async fn try_next(&mut self) -> Result<Option<Key>, KeysError> {
        self.next().await.transpose()
    }

    /// Collects all keys. A set contains each of them once.
    ///
    /// # Errors
    ///
    /// The first error of the stream.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future changes nothing on the server.
    pub async fn try_collect<B: Default + Extend<Key>>(self) -> Result<B, KeysError> {
        TryStreamExt::try_collect(self).await
    }

    /// Converts the listing to a scan, which holds one page in memory at a time.
    pub(crate) fn into_scan(self) -> Result<Scan, KeysError> {
        self.options.map(|options| Scan::new(&self.client, options))
    }
}

fn pages(
    client: &Client,
    options: Result<ScanOptions, KeysError>,
    on_page: Option<OnPage>,
) -> BoxStream<'static, Result<Vec<Key>, KeysError>> {
    let scan = options.map(|options| Scan::new(client, options));
    stream::unfold(Some((scan, on_page, None::<Instant>)), async |state| {
        let (scan, mut on_page, last) = state?;
        let mut scan = match scan {
            Ok(scan) => scan,
            Err(error) => return Some((Err(error), None)),
        };
        if let Some(worked) = last.map(|began| began.elapsed()) {
            if let Some(report) = &mut on_page {
                report(worked);
            }
            let rest = worked.saturating_mul(scan.rest()).min(MAX_REST);
            if !rest.is_zero() {
                tokio::time::sleep(rest).await;
            }
        }
        let began = Instant::now();
        match scan.next_page().await {
            Ok(page) => page.map(|page| (Ok(page), Some((Ok(scan), on_page, Some(began))))),
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
            if let Some(key) = this.fetched.pop_front() {
                return Poll::Ready(Some(Ok(key)));
            }
            if this.ended {
                return Poll::Ready(None);
            }
            let pages =
                this.pages.get_or_insert_with(|| pages(&this.client, this.options.clone(), this.on_page.take()));
            match std::task::ready!(pages.poll_next_unpin(cx)) {
                Some(Ok(page)) => this.fetched.extend(page),
                Some(Err(error)) => {
                    this.ended = true;
                    return Poll::Ready(Some(Err(error)));
                }
                None => this.ended = true,
            }
        }
    }
}

redgrid_core::debug_fields!(Listing, |it| options: it.options);
