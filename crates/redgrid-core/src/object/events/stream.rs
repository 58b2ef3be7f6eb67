//! Events as they come.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::BoxFuture;

use super::setting::Needed;
use super::{Event, Gap, Kind, Kinds, ListenError, Notice};
use crate::pattern::matches;
use crate::pubsub::{AllPrimariesSubscription, BufferEvent, MessageBuffer, Registration, SubscriptionManager};

/// What happens to an object, or to all of a pattern; made by [`Object::events`](super::super::Object::events) and
/// [`Listen::to`](super::Listen::to). A `Stream` of [`Notice`]s; it ends with the client.
///
/// Dropped, nothing is listened to any more. It does not keep the client.
pub struct Events {
    hub: Arc<SubscriptionManager>,
    tap: Arc<MessageBuffer>,
    _heard: Heard,
    filter: Filter,
    /// What is asked of servers at the beginning, and behind each interruption; nothing where they are not to be asked.
    needed: Option<Needed>,
    asking: Option<BoxFuture<'static, Result<(), ListenError>>>,
    /// A gap is held back until they have answered, or this is over.
    held: Option<BoxFuture<'static, ()>>,
    /// A gap was told before they had answered: it is told once more behind that, as they may have told nothing until then.
    again: bool,
    uncertain: Option<ListenError>,
}

/// How long a gap is held back while servers are asked what they tell: 1 s, many times what it takes.
const HELD: Duration = Duration::from_secs(1);

/// What is subscribed.
pub(super) enum Heard {
    One { _place: Registration },
    All { _places: Vec<AllPrimariesSubscription> },
}

/// What of that is wanted.
pub(super) struct Filter {
    kinds: Kinds,
    of: Of,
}

enum Of {
    /// The channel is that of the key.
    One(String),
    /// The channel is that of the event, behind this prefix; names are behind the namespace.
    Pattern { pattern: String, prefix: String, before: String },
}

impl Filter {
    pub(super) fn of_one(name: String, kinds: Kinds) -> Filter {
        Filter { kinds, of: Of::One(name) }
    }

    pub(super) fn of_pattern(pattern: String, prefix: String, before: String, kinds: Kinds) -> Filter {
        Filter { kinds, of: Of::Pattern { pattern, prefix, before } }
    }

    fn event(&self, channel: &Bytes, payload: &Bytes) -> Option<Event> {
        let (name, command) = match &self.of {
            Of::One(name) => (name.clone(), text(payload)),
            Of::Pattern { pattern, prefix, before } => {
                let name = payload.strip_prefix(before.as_bytes())?;
                let command = channel.strip_prefix(prefix.as_bytes())?;
                if !matches(pattern.as_bytes(), name) {
                    return None;
                }
                (text(name), text(command))
            }
        };
        self.kinds.has(&command).then(|| Event { name, kind: Kind::of(&command), command })
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Events {
    pub(super) fn new(
        hub: Arc<SubscriptionManager>,
        tap: Arc<MessageBuffer>,
        heard: Heard,
        filter: Filter,
        needed: Option<Needed>,
    ) -> Events {
        Events { hub, tap, _heard: heard, filter, needed, asking: None, held: None, again: false, uncertain: None }
    }

    /// What comes next; `None` when the client has ended.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: what was not returned is returned by the next call.
    pub async fn next(&mut self) -> Option<Notice> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for Events {
    type Item = Notice;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Notice>> {
        const INTERRUPTED: Notice = Notice::Gap(Gap::Interrupted);
        if let Some(why) = self.uncertain.take() {
            return Poll::Ready(Some(Notice::Uncertain(why)));
        }
        if let Some(asking) = &mut self.asking
            && let Poll::Ready(answer) = asking.as_mut().poll(context)
        {
            self.asking = None;
            self.uncertain = answer.err();
            if self.held.take().is_some() || std::mem::take(&mut self.again) {
                return Poll::Ready(Some(INTERRUPTED));
            }
        }
        // Events are not held up for long by a server that does not answer.
        if let Some(held) = &mut self.held {
            std::task::ready!(held.as_mut().poll(context));
            (self.held, self.again) = (None, true);
            return Poll::Ready(Some(INTERRUPTED));
        }
        loop {
            return Poll::Ready(Some(match std::task::ready!(self.tap.poll_next(context)) {
                None => return Poll::Ready(None),
                Some(BufferEvent::Message { channel, payload }) => match self.filter.event(&channel, &payload) {
                    Some(event) => Notice::Event(event),
                    None => continue,
                },
                Some(BufferEvent::Gap) => {
                    let Some(needed) = self.needed.clone() else { return Poll::Ready(Some(INTERRUPTED)) };
                    // A server may be another one, with settings of its own: until it was asked, and set, it may tell nothing.
                    let (hub, now) = (Arc::clone(&self.hub), self.hub.clock().now());
                    let (until, clock) = (now + hub.settings().patience(), hub.clock().clone());
                    self.asking = Some(Box::pin(needed.ensure(hub, until)));
                    self.held = Some(Box::pin(async move { clock.sleep_until(now + HELD).await }));
                    return self.poll_next(context);
                }
                Some(BufferEvent::Missed(missed)) => Notice::Gap(Gap::Slow { missed }),
                Some(BufferEvent::Denied(_)) => Notice::Uncertain(ListenError::Denied),
            }));
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("kinds", &self.filter.kinds).finish_non_exhaustive()
    }
}
