//! One channel, those who watch it, and what they see of it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};

use super::buffer::MessageBuffer;
use super::manager::SubscriptionManager;
use crate::clock::Instant;
use crate::connection::{ChannelKind, NodeId};
use crate::error::{Code, ServerError};

pub(super) struct Channel {
    /// What decides where it is subscribed.
    pub(super) key: Bytes,
    /// Where it is, or is to be, subscribed: the primary, or a replica of it.
    pub(super) node: NodeId,
    /// Who decides for the key, and is polled.
    pub(super) primary: NodeId,
    /// How it is published, and who may pass it on.
    pub(super) scope: ChannelScope,
    pub(super) kind: ChannelKind,
    pub(super) watchers: HashMap<u64, Sink>,
    pub(super) subscription: SubscriptionState,
    /// It was sent to its home to be subscribed, at whatever connection.
    pub(super) subscribe_sent: bool,
    /// It was confirmed there once, or what became of it was not told: then it may be subscribed, although it was asked for again
    /// and refused.
    pub(super) confirmed_or_unknown: bool,
    /// What to look at when polling.
    pub(super) poll: Option<KeyPoll>,
    /// Messages heard on it.
    pub(super) message_count: u64,
}

/// How messages of a channel are published, and where they may be heard.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ChannelScope {
    /// Plainly, from whatever node; heard at the primary.
    Everywhere,
    /// In the slot of its key; heard where waiters of that listen.
    Slot,
    /// By SPUBLISH wherever servers have that, for whoever wants it so; heard at the primary of its slot.
    Sharded,
    /// Plainly, to every channel of a pattern, from whatever node; heard at the primary.
    Patterns,
    /// In the slot of its key, by who counts who hears it: heard at the primary.
    SlotPrimary,
    /// At the node whose id is the key, and at no other.
    Node,
}

/// What a poll looks at for a channel.
pub(super) struct KeyPoll {
    pub(super) key: Bytes,
    /// The key by which those are told of us whose messages we do not get.
    pub(super) waiter_flag: Option<Bytes>,
    pub(super) due: Instant,
}

pub(super) enum Sink {
    Signal(Arc<Signal>),
    Stream(mpsc::UnboundedSender<Option<Bytes>>),
    /// One of the channels of an [`OrderedSubscription`], by its index among them.
    Ordered {
        index: usize,
        sender: mpsc::UnboundedSender<ChannelEvent>,
        /// A poll finds out what this one misses.
        polled: bool,
        generation: Generation,
    },
    /// Of a reader who hears several, by the number it has for this one.
    Buffer {
        buffer: Arc<MessageBuffer>,
        channel_id: u64,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SubscriptionState {
    /// Not subscribed on the present connection.
    Pending,
    /// Subscribed, and confirmed by the server.
    Active,
    Denied,
    /// Refused by a server that does not have its slot, or for another reason that passes: it is tried again soon.
    Retry,
}

/// A refusal that is remembered.
pub(super) struct Denial {
    pub(super) until: Instant,
    pub(super) error: ServerError,
}

impl Denial {
    pub(super) fn subscription_state(&self) -> SubscriptionState {
        if self.error.code().is_some_and(Code::is_passing) {
            SubscriptionState::Retry
        } else {
            SubscriptionState::Denied
        }
    }

    /// Whoever reads what is heard is told why it is not.
    pub(super) fn report_to(&self, sink: &Sink) {
        if let (Sink::Buffer { buffer, .. }, SubscriptionState::Denied) = (sink, self.subscription_state()) {
            buffer.channel_denied(&self.error);
        }
    }
}

/// Whether a channel is in force, and since when: a number that grows whenever that changes, and is odd while it is. Read without a lock.
#[derive(Clone, Default, Debug)]
pub struct Generation(Arc<AtomicU64>);

impl Generation {
    /// The present time of being in force. All that is published while two calls give the same is heard, in order.
    pub fn current(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|generation| generation % 2 == 1)
    }

    /// Called under the hub's state only.
    pub(super) fn set_active(&self, active: bool) {
        if self.current().is_some() != active {
            self.0.fetch_add(1, Ordering::AcqRel);
        }
    }
}

#[derive(Default)]
pub(super) struct Signal {
    messages: AtomicU64,
    pub(super) resync: AtomicBool,
    pub(super) active: AtomicBool,
    notify: Arc<Notify>,
}

/// What woke a waiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wake {
    /// Messages since the last wake.
    pub messages: u64,
    /// Messages may have been missed, or the poll saw the key gone: look.
    pub resync: bool,
}

impl Signal {
    /// One that wakes whoever waits for `notify`.
    pub(super) fn with_notify(notify: Arc<Notify>) -> Signal {
        Signal { notify, ..Signal::default() }
    }
}

impl Sink {
    pub(super) fn deliver(&self, name: &Bytes, payload: &Bytes) {
        match self {
            Sink::Signal(signal) => {
                signal.messages.fetch_add(1, Ordering::Release);
                signal.notify.notify_one();
            }
            Sink::Stream(sender) => {
                let _ = sender.send(Some(payload.clone()));
            }
            Sink::Ordered { index, sender, .. } => {
                let _ = sender.send(ChannelEvent::Message { channel: *index, payload: payload.clone() });
            }
            Sink::Buffer { buffer, .. } => buffer.push(name, payload),
        }
    }
}

impl Channel {
    pub(super) fn new(key: Bytes, node: NodeId, primary: NodeId, scope: ChannelScope, kind: ChannelKind) -> Channel {
        let watchers = HashMap::new();
        Channel {
            key,
            node,
            primary,
            scope,
            kind,
            watchers,
            subscription: SubscriptionState::Pending,
            subscribe_sent: false,
            confirmed_or_unknown: false,
            poll: None,
            message_count: 0,
        }
    }

    /// Whether it is wanted at a node, as this kind.
    pub(super) fn is_at(&self, node: &NodeId, kind: ChannelKind) -> bool {
        self.node == *node && self.kind == kind
    }

    /// Whether it may be subscribed at its home. What was confirmed by a connection that has gone, or not confirmed, may be
    /// so on the present one: a gap is told of a moment after it.
    pub(super) fn may_be_subscribed(&self) -> bool {
        self.subscribe_sent
            && (self.confirmed_or_unknown
                || !matches!(self.subscription, SubscriptionState::Denied | SubscriptionState::Retry))
    }

    pub(super) fn deliver(&mut self, name: &Bytes, payload: &Bytes) {
        self.message_count += 1;
        for sink in self.watchers.values() {
            match sink {
                Sink::Buffer { buffer, channel_id } if self.subscription != SubscriptionState::Active => {
                    buffer.push_unconfirmed(*channel_id, name, payload)
                }
                sink => sink.deliver(name, payload),
            }
        }
    }

    /// Whether somebody listens of whom no poll finds out what was missed.
    pub(super) fn has_no_poll(&self) -> bool {
        let polled = |sink: &Sink| matches!(sink, Sink::Ordered { polled: true, .. });
        self.poll.is_none() && !self.watchers.values().all(polled)
    }

    pub(super) fn resync(&self) {
        for sink in self.watchers.values() {
            match sink {
                Sink::Signal(signal) => {
                    signal.resync.store(true, Ordering::Release);
                    signal.notify.notify_one();
                }
                Sink::Stream(sender) => {
                    let _ = sender.send(None);
                }
                Sink::Ordered { sender, .. } => {
                    let _ = sender.send(ChannelEvent::Resync);
                }
                Sink::Buffer { buffer, channel_id } => buffer.channel_active(*channel_id),
            }
        }
    }

    pub(super) fn set_subscription(&mut self, subscription: SubscriptionState) {
        self.subscription = subscription;
        for sink in self.watchers.values() {
            match sink {
                Sink::Signal(signal) => {
                    signal.active.store(subscription == SubscriptionState::Active, Ordering::Release)
                }
                Sink::Ordered { generation, .. } => generation.set_active(subscription == SubscriptionState::Active),
                Sink::Buffer { buffer, channel_id } if subscription != SubscriptionState::Active => {
                    buffer.channel_interrupted(*channel_id)
                }
                _ => {}
            }
        }
    }

    /// Nothing of it is in force on the connection there is now, whatever is known of it.
    pub(super) fn interrupt(&self) {
        for sink in self.watchers.values() {
            if let Sink::Buffer { buffer, channel_id } = sink {
                buffer.channel_interrupted(*channel_id);
            }
        }
    }

    /// The server has refused it.
    pub(super) fn deny(&mut self, denial: &Denial) {
        self.set_subscription(denial.subscription_state());
        for sink in self.watchers.values() {
            denial.report_to(sink);
        }
    }
}

/// A place among those who hear a channel. Dropped, it is given up.
pub(crate) struct Registration {
    pub(super) manager: Arc<SubscriptionManager>,
    pub(super) channel: Bytes,
    pub(super) id: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.manager.remove_watcher(&self.channel, self.id);
    }
}

/// A watched channel. Dropping it ends the subscription when nobody else watches.
pub struct Watch {
    pub(super) registration: Registration,
    pub(super) signal: Arc<Signal>,
}

impl Watch {
    /// Completes at the next message or reason to look; what came before is kept until asked for.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost: a wake that was not returned is returned by the next call.
    pub async fn wake(&mut self) -> Wake {
        loop {
            if let Some(wake) = self.take() {
                return wake;
            }
            self.signal.notify.notified().await;
        }
    }

    /// What has come since the last call, if anything.
    pub fn take(&mut self) -> Option<Wake> {
        let messages = self.signal.messages.swap(0, Ordering::AcqRel);
        let resync = self.signal.resync.swap(false, Ordering::AcqRel);
        (messages > 0 || resync).then_some(Wake { messages, resync })
    }

    /// Whether the server has confirmed the subscription on the present connection.
    pub fn is_active(&self) -> bool {
        self.signal.active.load(Ordering::Acquire)
    }

    /// The channel.
    pub fn channel(&self) -> &Bytes {
        &self.registration.channel
    }
}

/// The messages of a channel.
pub(crate) struct Listener {
    pub(super) _registration: Registration,
    pub(super) receiver: mpsc::UnboundedReceiver<Option<Bytes>>,
}

impl Listener {
    /// The next message; `None` in it tells a gap. `None` when the hub has ended.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub(crate) async fn next(&mut self) -> Option<Option<Bytes>> {
        self.receiver.recv().await
    }
}

/// The messages of several channels of one slot, in the order in which the server published them: what is heard behind
/// another message was published after it, whatever their channels. Dropping it ends the subscriptions when nobody else
/// has them.
pub struct OrderedSubscription {
    pub(super) registrations: Vec<Registration>,
    pub(super) receiver: mpsc::UnboundedReceiver<ChannelEvent>,
    /// Of the first channel.
    pub(super) generation: Generation,
}

/// What came of a [`OrderedSubscription`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChannelEvent {
    /// A message, and the place of its channel among those that were asked for.
    Message {
        /// The place of its channel.
        channel: usize,
        /// What was published.
        payload: Bytes,
    },
    /// Messages may have been missed, or the poll saw the key gone: look.
    Resync,
}

impl OrderedSubscription {
    /// What comes next. Completes never again when the client has ended.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn next(&mut self) -> ChannelEvent {
        match self.receiver.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    /// What has come and was not taken yet.
    pub fn take(&mut self) -> Option<ChannelEvent> {
        self.receiver.try_recv().ok()
    }

    /// Since when the first channel is in force, for who asks often.
    pub fn generation(&self) -> Generation {
        self.generation.clone()
    }

    /// Ends it in order: what the server publishes until it has unsubscribed the channels is still heard.
    pub fn drain(self) -> DrainingSubscription {
        for Registration { manager, channel, id } in &self.registrations {
            manager.drain_watcher(channel, *id);
        }
        DrainingSubscription { receiver: self.receiver }
    }

    /// Whether the server has confirmed the first channel on the present connection.
    pub fn is_active(&self) -> bool {
        let first = self.registrations.first();
        first.is_some_and(|first| first.manager.message_count(&first.channel).is_some())
    }
}

/// What comes of a [`OrderedSubscription`] after its end was asked for.
pub struct DrainingSubscription {
    receiver: mpsc::UnboundedReceiver<ChannelEvent>,
}

impl DrainingSubscription {
    /// What comes next; `None` when the server has unsubscribed the channels, others of this client hear them, or the connection has
    /// gone.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<ChannelEvent> {
        self.receiver.recv().await
    }
}
