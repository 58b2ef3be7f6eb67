//! A consumer as a stream of deliveries.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::StreamExt;
use redgrid_codecs::{Codec, Decode};
use redgrid_core::clock::Instant;
use redgrid_core::object::ObjectError;

use crate::arrivals::{Waiter, shut_down};
use crate::create::Start;
use crate::delivery::{Delivery, Origin};
use crate::entry::{Entry, Raw};
use crate::error::StreamError;
use crate::group::Group;
use crate::hand::{Given, Hand};
use crate::id::EntryId;
use crate::read::PAGE;

/// The first pause behind an error, and the longest: doubled from one to the next.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Decode<V>> Group<K, V, KC, VC> {
    /// Consumes it under this name, as a stream of deliveries: see [`Consumer`]. Nothing is asked of the server until it is polled.
    ///
    /// A name is for one at a time: another who has it, in this or another process, would be given what this one has not acknowledged. A process that
    /// is started again under the same name goes on with that; who takes another name each time leaves it to [`Consumer::claim_idle`], and is to
    /// remove the names of those that have gone: [`Group::remove_consumer`], where nothing is pending for them.
    pub fn consumer(&self, name: impl Into<String>) -> Consumer<K, V> {
        let options = Options { page: PAGE, claim: None, create: None };
        Consumer {
            source: Box::new(Source { group: self.clone(), consumer: name.into().into() }),
            options,
            state: None,
            asking: None,
            found: VecDeque::new(),
            over: false,
        }
    }
}

/// Deliveries of a group to one of its consumers; made by [`Group::consumer`].
///
/// First come the entries that are pending for it, as after a restart, then new ones, as they are added. Each comes at least once, and is
/// pending until [`Delivery::ack`]: what is given to a consumer that dies comes to it when it is started again under the same name, or
/// to others by [`Consumer::claim_idle`]. A page is asked for when the one before has been taken, so that a page is in memory, and
/// no more is pending for it than a page and what its user has not acknowledged.
///
/// Where an answer is lost, and once a moment after it begins, it looks again for all that is pending for its name: a request that was on its
/// way may have given something unseen. What its user has as a [`Delivery`] is left out; what was let go without an acknowledgement comes
/// again then.
///
/// While one of its calls was begun and is not polled, it waits all the same, and the client asks for entries once a second: drop it when it is
/// not wanted.
///
/// It never ends by itself, but where the name of the stream can be none. An error is an item of the stream, which goes on behind it with the next call, a moment later; only when the client
/// is shut down it is over behind that. An entry that can not be decoded is [`StreamError::Undecodable`] and stays pending: [`Group::ack`] gives it up.
///
/// ```no_run
/// # #[cfg(feature = "json")]
/// # async fn demo(orders: redgrid_stream::Stream<String, String>) -> Result<(), redgrid_stream::StreamError> {
/// use std::time::Duration;
///
/// use redgrid_stream::Start;
///
/// let billing = orders.group("billing");
/// let mut deliveries =
///     billing.consumer("billing-1").create_if_missing(Start::Beginning).claim_idle(Duration::from_secs(60));
/// while let Some(delivery) = deliveries.try_next().await? {
///     println!("{} for the {}th time: {:?}", delivery.id, delivery.attempt(), delivery.fields);
///     delivery.ack().await?;
/// }
/// # Ok(()) }
/// ```
#[must_use = "nothing is consumed until this is polled"]
pub struct Consumer<K, V> {
    source: Box<dyn Ask<K, V>>,
    options: Options,
    /// Where it is; none while it is asking, and before it has begun.
    state: Option<State>,
    asking: Option<Asking>,
    found: VecDeque<Given>,
    over: bool,
}

#[derive(Debug, Clone, Copy)]
struct Options {
    page: u32,
    claim: Option<Duration>,
    create: Option<Start>,
}

/// What is read next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// What is pending for it behind this id.
    Pending(EntryId),
    New,
}

/// Where a consumer is between two pages.
#[derive(Debug)]
struct State {
    next: Next,
    /// When all that is pending is read once more: what was on its way before can give nothing any more then.
    again: Instant,
    hand: Hand,
    /// New entries come before what is taken over: that came the last time.
    news: bool,
    /// When it claims, and from where on.
    claims: (Instant, EntryId),
    /// Errors one behind the other.
    failures: u32,
    waiter: Waiter,
}

/// A page.
type Page = Result<Vec<Given>, StreamError>;

/// Where it is, but where it is over, and what was found.
type Asking = Pin<Box<dyn Future<Output = (Option<State>, Page)> + Send>>;

/// A consumer, whatever its codecs.
trait Ask<K, V>: Send + Sync {
    fn ask(&self, options: Options, state: Option<State>) -> Asking;
    fn read(&self, raw: &Raw) -> Result<Entry<K, V>, StreamError>;
    fn origin(&self) -> Origin;
}

struct Source<K, V, KC, VC> {
    group: Group<K, V, KC, VC>,
    consumer: Arc<str>,
}

impl<K, V, KC: Clone, VC: Clone> Clone for Source<K, V, KC, VC> {
    fn clone(&self) -> Self {
        Source { group: self.group.clone(), consumer: Arc::clone(&self.consumer) }
    }
}

impl<K: 'static, V: 'static, KC: Decode<K>, VC: Decode<V>> Ask<K, V> for Source<K, V, KC, VC> {
    fn ask(&self, options: Options, state: Option<State>) -> Asking {
        let source = self.clone();
        Box::pin(async move {
            let mut state = match state.map_or_else(|| source.begin(), Ok) {
                Ok(state) => state,
                Err(error) => return (None, Err(error.into())),
            };
            let page = source.page(options, &mut state).await;
            state.failures = if page.is_ok() { 0 } else { state.failures.saturating_add(1) };
            let over = page.is_err() && source.group.place().client().is_shut_down();
            ((!over).then_some(state), page)
        })
    }

    fn read(&self, raw: &Raw) -> Result<Entry<K, V>, StreamError> {
        self.group.stream.one(raw)
    }

    fn origin(&self) -> Origin {
        Origin { place: self.group.place().clone(), group: self.group.name.clone().into() }
    }
}

impl<K, V, KC: Codec, VC: Codec> Source<K, V, KC, VC> {
    fn begin(&self) -> Result<State, ObjectError> {
        let place = self.group.place();
        let (waiter, now) = (Waiter::new(place)?, place.client().clock().now());
        // One of this name before may have left with a request on its way.
        let (next, again) = (Next::Pending(EntryId::MIN), self.settled());
        let claims = (now, EntryId::MIN);
        Ok(State { next, again, hand: Hand::default(), news: false, claims, failures: 0, waiter })
    }

    /// When nothing is given any more by what has left until now: servers' clocks may run a little slower.
    fn settled(&self) -> Instant {
        let client = self.group.place().client();
        client.clock().now() + client.response_timeout() + client.response_timeout() / 100 + Duration::from_millis(1)
    }

    /// The next page that has entries.
    async fn page(&self, options: Options, state: &mut State) -> Page {
        let client = self.group.place().client();
        if state.failures > 0 {
            let pause = PAUSES.0.saturating_mul(1 << (state.failures - 1).min(10)).min(PAUSES.1);
            tokio::select! {
                biased;
                () = client.closing() => {}
                () = client.clock().sleep_until(client.clock().now() + pause) => {}
            }
        }
        loop {
            if client.is_shut_down() {
                return Err(shut_down(self.group.place()).into());
            }
            state.waiter.looks();
            let found = match self.look(options, state).await {
                Err(error) => {
                    self.after(options, state, error).await?;
                    continue;
                }
                Ok(found) => found,
            };
            match found {
                Some(found) if found.is_empty() => {}
                Some(found) => return Ok(found),
                None => {
                    let claims = options.claim.map_or(Instant::MAX, |_| state.claims.0);
                    tokio::select! {
                        () = state.waiter.woken() => {}
                        () = client.clock().sleep_until(claims.min(state.again)) => {}
                    }
                }
            }
        }
    }

    /// What comes next; an empty page where there is more to look at, and `None` where there is nothing.
    async fn look(&self, options: Options, state: &mut State) -> Result<Option<Vec<Given>>, StreamError> {
        let clock = self.group.place().client().clock();
        if state.next == Next::New && clock.now() >= state.again {
            (state.next, state.again) = (Next::Pending(EntryId::MIN), Instant::MAX);
        }
        if let Next::Pending(after) = state.next {
            let mut found = self.group.pending_behind(&self.consumer, after, options.page).await?;
            state.next = found.last().map_or(Next::New, |last| Next::Pending(last.id));
            found.retain(|raw| !state.hand.has(raw.id));
            return Ok(Some(self.attempted(&mut state.hand, found).await));
        }
        if let Some(idle) = options.claim.filter(|_| !state.news && clock.now() >= state.claims.0) {
            let claimed = self.group.auto_claimed(&self.consumer, idle, state.claims.1, options.page).await?;
            state.claims = match claimed.next {
                Some(next) => (state.claims.0, next),
                None => (clock.now() + idle / 2, EntryId::MIN),
            };
            // Between two pages new entries are given out, too.
            if !claimed.entries.is_empty() {
                state.news = true;
                return Ok(Some(self.attempted(&mut state.hand, claimed.entries).await));
            }
        }
        let found = self.group.given(&self.consumer, options.page, false).await?;
        state.news = false;
        let Some(last) = found.last().map(|last| last.id) else {
            let claims_on = options.claim.is_some() && state.claims.1 != EntryId::MIN;
            return Ok(claims_on.then(Vec::new));
        };
        state.waiter.saw(last);
        Ok(Some(found.into_iter().map(|raw| state.hand.take(raw, 1)).collect()))
    }

    /// How often each was given. What is not in the stream any more is not pending any more either.
    async fn attempted(&self, hand: &mut Hand, found: Vec<Raw>) -> Vec<Given> {
        let (found, gone): (Vec<_>, Vec<_>) = found.into_iter().partition(|raw| raw.fields.is_some());
        if !gone.is_empty() {
            // Where that fails it is tried when they come again; what was found besides is not to be kept from the user.
            let _ = self.group.ack(gone.into_iter().map(|raw| raw.id)).await;
        }
        let attempts = self.group.attempts(&self.consumer, &found).await.unwrap_or_default();
        // It has been given before, and now.
        let attempt = |raw: &Raw| attempts.get(&raw.id).copied().unwrap_or(2);
        found.into_iter().map(|raw| (attempt(&raw), raw)).map(|(attempt, raw)| hand.take(raw, attempt)).collect()
    }

    /// Goes on behind an error, or tells it.
    async fn after(&self, options: Options, state: &mut State, error: StreamError) -> Result<(), StreamError> {
        if error.is_no_group() {
            // With the group went what was pending; in another, the same ids may be other entries.
            state.hand.forget();
        }
        match (error, options.create) {
            // What it was given or took over is pending, wherever the group was, and no other is told of it: now, or a moment later where the
            // request is still on its way.
            (StreamError::Object(ObjectError::OutcomeUnknown { .. }), _) => {
                (state.next, state.again) = (Next::Pending(EntryId::MIN), self.settled());
                Ok(())
            }
            (StreamError::NoGroup { .. }, Some(start)) => match self.group.create().from(start).make_stream().await {
                // Others create it, too.
                Ok(()) | Err(StreamError::GroupExists { .. }) => Ok(()),
                Err(error) => Err(error),
            },
            (error, _) => Err(error),
        }
    }
}

impl<K, V> Consumer<K, V> {
    /// So many entries a page, 1 at least; 100 unless it is said. More are fewer requests; fewer leave less to wait for where a consumer is slow or
    /// dies.
    pub fn page(mut self, entries: u32) -> Self {
        self.options.page = entries.max(1);
        self
    }

    /// Takes over what was given to nobody for so long, of other consumers and its own, a page at a time in front of new entries: looked for when it begins
    /// and each half of that time; a request that took something over unseen, as its answer was lost, leaves that idle for so long once more where it
    /// comes late. It is to be longer than the work on a page takes, else that is done twice. Not unless it is said.
    pub fn claim_idle(mut self, idle: Duration) -> Self {
        // The server counts milliseconds; and each look is a request.
        self.options.claim = Some(idle.max(Duration::from_millis(10)));
        self
    }

    /// Creates the group where it is missing, and the stream: when it begins, after a failover that has lost it, or when somebody has removed it. Of
    /// an entry that was added and not given out by then, [`Start::Beginning`] loses none; those of before come once more. Unless it is
    /// said, a missing group is [`StreamError::NoGroup`].
    pub fn create_if_missing(mut self, start: Start) -> Self {
        self.options.create = Some(start);
        self
    }

    /// The next delivery; `None` behind the end of the client.
    ///
    /// # Errors
    ///
    /// [`StreamError`]; the next call goes on behind it.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: what was asked for is told by the next call. What is not taken when the consumer is dropped stays pending, and is given to the
    /// next of its name first.
    pub async fn try_next(&mut self) -> Result<Option<Delivery<K, V>>, StreamError> {
        self.next().await.transpose()
    }
}

impl<K, V> futures_util::Stream for Consumer<K, V> {
    type Item = Result<Delivery<K, V>, StreamError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            if let Some(Given { raw, attempt, held }) = this.found.pop_front() {
                let (entry, origin) = (this.source.read(&raw), this.source.origin());
                return Poll::Ready(Some(entry.map(|entry| Delivery { entry, attempt, origin, _held: held })));
            }
            if this.over {
                return Poll::Ready(None);
            }
            let mut asking = this.asking.take().unwrap_or_else(|| this.source.ask(this.options, this.state.take()));
            match asking.as_mut().poll(cx) {
                Poll::Pending => {
                    this.asking = Some(asking);
                    return Poll::Pending;
                }
                Poll::Ready((state, page)) => {
                    (this.over, this.state) = (state.is_none(), state);
                    match page {
                        Ok(page) => this.found.extend(page),
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
        let Origin { place, group } = self.source.origin();
        let mut shown = f.debug_struct("Consumer");
        shown
            .field("name", &place.name())
            .field("group", &group)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
