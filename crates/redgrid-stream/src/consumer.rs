//! A consumer of a group as a stream of deliveries.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt;
use redgrid_codecs::Decode;

use crate::create::Start;
use crate::delivery::{Delivery, Origin};
use crate::error::StreamError;
use crate::group::Group;
use crate::outstanding::FetchedEntry;
use crate::pages::{ConsumerSource, Options, PageFuture, PageSource, State};
use crate::read::PAGE;

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Decode<V>> Group<K, V, KC, VC> {
    /// Returns a stream of the deliveries to the consumer with this name: see [`Consumer`].
    ///
    /// No request is sent until the stream is polled.
    ///
    /// A name must be used by only one consumer at a time. A second consumer, in this or another
    /// process, would receive the entries that the first has not acknowledged. A process that
    /// restarts with the same name continues with these entries. A process that uses a new name
    /// after each start leaves them to [`Consumer::claim_idle`]. It should then remove the old
    /// names with [`Group::remove_consumer`], when nothing is pending for them.
    pub fn consumer(&self, name: impl Into<String>) -> Consumer<K, V> {
        let options = Options { page: PAGE, claim: None, create: None };
        Consumer {
            source: Box::new(ConsumerSource { group: self.clone(), consumer: name.into().into() }),
            options,
            state: None,
            fetching: None,
            fetched: VecDeque::new(),
            ended: false,
        }
    }
}

/// A stream of the deliveries of a group to one of its consumers; made by [`Group::consumer`].
///
/// The consumer first returns the entries that are pending for it, for example from before a
/// restart. After that it returns new entries as they are added. Each entry is delivered at least
/// once, and is pending until [`Delivery::ack`]. The entries of a consumer that crashes are
/// delivered to it when it restarts under the same name, or to others by [`Consumer::claim_idle`].
/// The next page is requested when the current one has been consumed. So one page is in memory, and
/// at most one page and the unacknowledged deliveries are pending for the consumer.
///
/// After a lost reply, and once shortly after the start, the consumer reads all its pending entries
/// again, because a request in flight may have delivered entries without a reply. Entries that the
/// user holds as a [`Delivery`] are skipped. Entries that were dropped without an acknowledgement
/// are delivered again at this time.
///
/// A call that was started but is not polled any more counts as waiting until an entry is added,
/// and the client polls for entries once a second. Drop such a call if it is not needed.
///
/// The stream ends only if its name is invalid or the client shuts down. An error is an item of the
/// stream, which continues with the next call after a pause; the shutdown is reported by a last
/// error. An entry that cannot be decoded is [`StreamError::Undecodable`] and stays pending:
/// [`Group::ack`] discards it.
///
/// ```no_run
/// # #[cfg(feature = "json")]
/// # async fn demo(orders: redgrid_stream::Stream<String, String>) -> Result<(), redgrid_stream::StreamError> {
/// use std::time::Duration;
///
/// use redgrid_stream::Start;
///
/// let billing = orders.group("billing");
/// let consumer = billing.consumer("billing-1").create_if_missing(Start::Beginning);
/// let mut deliveries = consumer.claim_idle(Duration::from_secs(60));
/// while let Some(delivery) = deliveries.try_next().await? {
///     println!("{} for the {}th time: {:?}", delivery.id, delivery.attempt(), delivery.fields);
///     delivery.ack().await?;
/// }
/// # Ok(()) }
/// ```
#[must_use = "streams do nothing unless polled"]
pub struct Consumer<K, V> {
    source: Box<dyn PageSource<K, V>>,
    options: Options,
    /// The state between two pages; `None` before the first page and while a page is fetched.
    state: Option<State>,
    fetching: Option<PageFuture>,
    fetched: VecDeque<FetchedEntry>,
    ended: bool,
}

impl<K, V> Consumer<K, V> {
    /// Sets the number of entries of a page, at least 1. The default is 100.
    ///
    /// Larger pages need fewer requests. With smaller pages, a consumer that is slow or crashes
    /// delays fewer entries.
    pub fn page(mut self, entries: u32) -> Self {
        self.options.page = entries.max(1);
        self
    }

    /// Claims entries that were not delivered for this long, from other consumers and from this
    /// one. Claiming begins at the start, and again every half of that time. Entries are claimed a
    /// page at a time, before new entries are read. If the reply to a claim is lost and the claim
    /// is executed late, the claimed entries are idle for another such period. The time must be
    /// longer than the work on a page; otherwise the work is done twice. Without this option
    /// nothing is claimed. The smallest value is 10 ms.
    pub fn claim_idle(mut self, idle: Duration) -> Self {
        // The server counts milliseconds, and each check is a request.
        self.options.claim = Some(idle.max(Duration::from_millis(10)));
        self
    }

    /// Creates the group and the stream if they are missing.
    ///
    /// This applies at the start, after a failover that has lost the group, and after it was
    /// removed. With [`Start::Beginning`], no added entry is skipped; entries that were already
    /// delivered are delivered again. Without this option, a missing group is
    /// [`StreamError::NoGroup`].
    pub fn create_if_missing(mut self, start: Start) -> Self {
        self.options.create = Some(start);
        self
    }

    /// Returns the next delivery; `None` after the client has ended.
    ///
    /// # Errors
    ///
    /// [`StreamError`]. The stream continues with the next call.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, no entry is lost: the next call returns the entries that were
    /// requested. If the consumer is dropped, the entries that were not returned stay pending, and
    /// are delivered first to the next consumer with its name.
    pub async fn try_next(&mut self) -> Result<Option<Delivery<K, V>>, StreamError> {
        self.next().await.transpose()
    }
}

impl<K, V> futures_util::Stream for Consumer<K, V> {
    type Item = Result<Delivery<K, V>, StreamError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(FetchedEntry { raw, attempt, outstanding }) = this.fetched.pop_front() {
                let (entry, origin) = (this.source.decode(&raw), this.source.origin());
                return Poll::Ready(Some(entry.map(|entry| Delivery {
                    entry,
                    attempt,
                    origin,
                    _outstanding: outstanding,
                })));
            }
            if this.ended {
                return Poll::Ready(None);
            }
            let mut fetching =
                this.fetching.take().unwrap_or_else(|| this.source.fetch(this.options, this.state.take()));
            match fetching.as_mut().poll(cx) {
                Poll::Pending => {
                    this.fetching = Some(fetching);
                    return Poll::Pending;
                }
                Poll::Ready((state, page)) => {
                    (this.ended, this.state) = (state.is_none(), state);
                    match page {
                        Ok(page) => this.fetched.extend(page),
                        Err(error) => return Poll::Ready(Some(Err(error))),
                    }
                }
            }
        }
    }
}

impl<K, V> Unpin for Consumer<K, V> {}

impl<K, V> fmt::Debug for Consumer<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Origin { object_ref, group } = self.source.origin();
        let mut debug = f.debug_struct("Consumer");
        debug
            .field("name", &object_ref.name())
            .field("group", &group)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
