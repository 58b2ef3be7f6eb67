//! The stream of the events of objects.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::BoxFuture;
use redgrid_client::PubSubEvent;
use redgrid_client::internal::{AllPrimariesSubscription, MessageBuffer, Registration, SubscriptionManager};

use super::notify_config::NotifyConfig;
use super::{Event, Gap, Kind, Kinds, ListenError, Notice};
use crate::pattern::matches;

/// A stream of the events of an object, or of all objects that match a pattern.
///
/// The stream is created by [`Object::events`](super::super::Object::events) and
/// [`Listen::to`](super::Listen::to). It is a `Stream` of [`Notice`]s, and ends when the client
/// ends. Dropping the stream ends the subscription. The stream does not keep the client alive.
pub struct Events {
    pub(super) subscriptions: Arc<SubscriptionManager>,
    pub(super) buffer: Arc<MessageBuffer>,
    /// The subscription to the channel of a key.
    pub(super) _of_key: Option<Registration>,
    /// The subscriptions to the channels of events.
    pub(super) _of_events: Vec<AllPrimariesSubscription>,
    pub(super) filter: Filter,
    /// The required setting of the servers, which is checked at the start and after each
    /// interruption. `None` if there are no checks.
    pub(super) notify_config: Option<NotifyConfig>,
    pub(super) check: Check,
}

/// The check of the servers after an interruption, and the reports that follow it.
#[derive(Default)]
pub(super) struct Check {
    running: Option<BoxFuture<'static, Result<(), ListenError>>>,
    /// A timer of [`GAP_DELAY`], which runs while the report of a gap waits for the end of a check.
    /// If the timer ends first, the gap is reported before the check has ended.
    delayed_gap: Option<BoxFuture<'static, ()>>,
    /// Whether a gap was reported while the check was still running. If so, the gap is reported
    /// again after the check, because the servers may publish nothing until their setting is
    /// corrected.
    repeat_gap: bool,
    uncertain: Option<ListenError>,
}

/// How long the report of a gap waits for the check of the servers: 1 s. A check usually takes much
/// less time.
const GAP_DELAY: Duration = Duration::from_secs(1);

/// The selection of the events in a stream.
pub(super) struct Filter {
    pub(super) kinds: Kinds,
    pub(super) names: Names,
}

/// The names whose events a stream contains.
pub(super) enum Names {
    /// The events of the key with this name, on the key's channel.
    One(String),
    /// The events of all keys whose names match `pattern`. The name of a channel is `prefix`,
    /// followed by the name of the event. The payload of a message is `name_prefix` (the
    /// namespace), followed by the name of the key.
    Matching { pattern: String, prefix: String, name_prefix: String },
}

impl Filter {
    fn event(&self, channel: &Bytes, payload: &Bytes) -> Option<Event> {
        let (name, command) = match &self.names {
            Names::One(name) => (name.clone(), text(payload)),
            Names::Matching { pattern, prefix, name_prefix } => {
                let name = payload.strip_prefix(name_prefix.as_bytes())?;
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
    /// Returns the next item; `None` when the client has ended.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: an item that was not returned is returned by the next call.
    pub async fn next(&mut self) -> Option<Notice> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for Events {
    type Item = Notice;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Notice>> {
        const INTERRUPTED: Notice = Notice::Gap(Gap::Interrupted);
        if let Some(why) = self.check.uncertain.take() {
            return Poll::Ready(Some(Notice::Uncertain(why)));
        }
        if let Some(running) = &mut self.check.running
            && let Poll::Ready(result) = running.as_mut().poll(context)
        {
            self.check.running = None;
            self.check.uncertain = result.err();
            if self.check.delayed_gap.take().is_some() || std::mem::take(&mut self.check.repeat_gap) {
                return Poll::Ready(Some(INTERRUPTED));
            }
        }
        // If a server does not answer the check, the events after the gap are delayed by at most
        // [`GAP_DELAY`].
        if let Some(delay) = &mut self.check.delayed_gap {
            std::task::ready!(delay.as_mut().poll(context));
            self.check.delayed_gap = None;
            self.check.repeat_gap = true;
            return Poll::Ready(Some(INTERRUPTED));
        }
        loop {
            return Poll::Ready(Some(match std::task::ready!(self.buffer.poll_next(context)) {
                None => return Poll::Ready(None),
                Some(PubSubEvent::Message { channel, payload }) => match self.filter.event(&channel, &payload) {
                    Some(event) => Notice::Event(event),
                    None => continue,
                },
                Some(PubSubEvent::Gap) => {
                    let Some(notify_config) = self.notify_config.clone() else { return Poll::Ready(Some(INTERRUPTED)) };
                    // The primary may be a different server now. If the setting of that server is
                    // incomplete, the server publishes nothing until the setting is corrected.
                    let (subscriptions, now) = (Arc::clone(&self.subscriptions), self.subscriptions.clock.now());
                    let (until, clock) = (now + subscriptions.settings.patience(), subscriptions.clock.clone());
                    self.check.running = Some(Box::pin(notify_config.ensure(subscriptions, until)));
                    self.check.delayed_gap = Some(Box::pin(async move { clock.sleep_until(now + GAP_DELAY).await }));
                    return self.poll_next(context);
                }
                Some(PubSubEvent::Missed(missed)) => Notice::Gap(Gap::Slow { missed }),
                // The remaining event is `Denied`.
                Some(_) => Notice::Uncertain(ListenError::Denied),
            }));
        }
    }
}

crate::debug_fields!(Events, |it| kinds: it.filter.kinds);
