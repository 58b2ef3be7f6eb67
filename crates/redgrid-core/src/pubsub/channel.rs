//! One channel, its watchers, and the events that they receive.

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
    /// Determines where the channel is subscribed.
    pub(super) key: Bytes,
    /// The node where it is, or is to be, subscribed: the primary, or a replica of it.
    pub(super) node: NodeId,
    /// The primary of the key, which is polled.
    pub(super) primary: NodeId,
    /// How its messages are published, and which nodes may deliver them.
    pub(super) scope: ChannelScope,
    pub(super) kind: ChannelKind,
    pub(super) watchers: HashMap<u64, Sink>,
    pub(super) subscription: SubscriptionState,
    /// Whether a SUBSCRIBE was sent to its node, on any connection.
    pub(super) subscribe_sent: bool,
    /// Whether the node confirmed the subscription once, or its outcome was unknown.
    ///
    /// The channel may then be subscribed even if a later SUBSCRIBE was refused.
    pub(super) confirmed_or_unknown: bool,
    /// The key to poll.
    pub(super) poll: Option<KeyPoll>,
    /// Number of messages received on it.
    pub(super) message_count: u64,
}

/// How messages of a channel are published, and where they may be received.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ChannelScope {
    /// PUBLISH at any node; subscribed at the primary of the key.
    Everywhere,
    /// Published in the slot of the key; subscribed where waiters of the key subscribe.
    Slot,
    /// SPUBLISH on every server that supports it, at the user's choice; subscribed at the primary
    /// of the slot.
    Sharded,
    /// PUBLISH at any node, to every channel of a pattern; subscribed at the primary.
    Patterns,
    /// Published in the slot of the key by a client that counts the subscribers; subscribed at the
    /// primary.
    SlotPrimary,
    /// Published and subscribed only at the node whose id is the key.
    Node,
}

/// The poll of a channel.
pub(super) struct KeyPoll {
    pub(super) key: Bytes,
    /// The flag that announces waiters here to other processes while no messages arrive.
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
        /// Whether a poll detects missed messages.
        polled: bool,
        generation: Generation,
    },
    /// A reader of several channels, by its id for this one.
    Buffer {
        buffer: Arc<MessageBuffer>,
        channel_id: u64,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SubscriptionState {
    /// Not subscribed on the current connection.
    Pending,
    /// Subscribed, and confirmed by the server.
    Active,
    Denied,
    /// Refused by a server that does not have the slot, or for another temporary reason. It is
    /// tried again soon.
    Retry,
}

/// A remembered refusal.
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

    /// Reports a lasting refusal to the reader of a message buffer.
    pub(super) fn report_to(&self, sink: &Sink) {
        if let (Sink::Buffer { buffer, .. }, SubscriptionState::Denied) = (sink, self.subscription_state()) {
            buffer.channel_denied(&self.error);
        }
    }
}

/// The number of the period in which a channel is active.
///
/// The number grows whenever the channel becomes active or inactive, and is odd while it is active.
/// It is read without a lock.
#[derive(Clone, Default, Debug)]
pub struct Generation(Arc<AtomicU64>);

impl Generation {
    /// Returns the number of the current active period; `None` while the channel is not active.
    ///
    /// If two calls return the same number, all messages published between them are received, in
    /// order.
    pub fn current(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|generation| generation % 2 == 1)
    }

    /// Records whether the channel is active. Must be called with the manager's state locked.
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

/// The reason why a waiter was woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
// Exhaustive: only authors of objects use it.
pub struct Wake {
    /// Number of messages since the last wake-up.
    pub messages: u64,
    /// Whether messages may have been missed, or the poll found the key gone: re-check.
    pub resync: bool,
}

impl Signal {
    /// Creates a signal that notifies `notify`.
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

    /// Returns whether the channel belongs to a node, as this kind.
    pub(super) fn is_at(&self, node: &NodeId, kind: ChannelKind) -> bool {
        self.node == *node && self.kind == kind
    }

    /// Returns whether the channel may be subscribed at its node.
    ///
    /// A gap is reported a moment after it happens. So a subscription that a lost connection
    /// confirmed, or none, may exist on the current one.
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

    /// Returns whether any watcher has no poll that detects missed messages.
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

    /// Notifies message buffers that the channel is not active on the current connection, whatever
    /// its recorded state.
    pub(super) fn interrupt(&self) {
        for sink in self.watchers.values() {
            if let Sink::Buffer { buffer, channel_id } = sink {
                buffer.channel_interrupted(*channel_id);
            }
        }
    }

    /// Records that the server has refused the channel, and reports it to the watchers.
    pub(super) fn deny(&mut self, denial: &Denial) {
        self.set_subscription(denial.subscription_state());
        for sink in self.watchers.values() {
            denial.report_to(sink);
        }
    }
}

/// The registration of a watcher. Dropping it removes the watcher.
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

/// A watched channel. Dropping it ends the subscription if there is no other watcher.
pub struct Watch {
    pub(super) registration: Registration,
    pub(super) signal: Arc<Signal>,
}

impl Watch {
    /// Waits for the next message or reason to re-check. Earlier ones are kept until this call.
    ///
    /// # Cancel safety
    ///
    /// No event is lost: a wake-up that was not returned is returned by the next call.
    pub async fn wake(&mut self) -> Wake {
        loop {
            if let Some(wake) = self.take() {
                return wake;
            }
            self.signal.notify.notified().await;
        }
    }

    /// Returns what has arrived since the last call, if anything.
    pub fn take(&mut self) -> Option<Wake> {
        let messages = self.signal.messages.swap(0, Ordering::AcqRel);
        let resync = self.signal.resync.swap(false, Ordering::AcqRel);
        (messages > 0 || resync).then_some(Wake { messages, resync })
    }

    /// Returns whether the server has confirmed the subscription on the current connection.
    pub fn is_active(&self) -> bool {
        self.signal.active.load(Ordering::Acquire)
    }

    /// Returns the name of the channel.
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
    /// Waits for the next message. `Some(None)` reports a gap; `None` means that no more messages
    /// follow.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no message.
    pub(crate) async fn next(&mut self) -> Option<Option<Bytes>> {
        self.receiver.recv().await
    }
}

/// The messages of several channels of one slot, in the order in which the server published them.
///
/// A message that is received after another one was published after it, whatever their channels.
/// Dropping the subscription unsubscribes the channels without other watchers.
pub struct OrderedSubscription {
    pub(super) registrations: Vec<Registration>,
    pub(super) receiver: mpsc::UnboundedReceiver<ChannelEvent>,
    /// The generation of the first channel.
    pub(super) generation: Generation,
}

/// An event of an [`OrderedSubscription`].
#[derive(Debug, Clone, PartialEq, Eq)]
// Exhaustive: only authors of objects use it.
pub enum ChannelEvent {
    /// A message of a channel.
    Message {
        /// The index of the channel among the subscribed ones.
        channel: usize,
        /// The published payload.
        payload: Bytes,
    },
    /// Messages may have been missed, or the poll found the key gone: re-check.
    Resync,
}

impl OrderedSubscription {
    /// Waits for the next event. After the client has ended, it never completes.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> ChannelEvent {
        match self.receiver.recv().await {
            Some(event) => event,
            None => std::future::pending().await,
        }
    }

    /// Returns the next event that has already arrived, if any.
    pub fn take(&mut self) -> Option<ChannelEvent> {
        self.receiver.try_recv().ok()
    }

    /// Returns a handle to the generation of the first channel.
    ///
    /// Use it to check often whether the channel is active.
    pub fn generation(&self) -> Generation {
        self.generation.clone()
    }

    /// Ends the subscription. The result still receives what the server publishes until it has
    /// unsubscribed the channels.
    pub fn drain(self) -> DrainingSubscription {
        for Registration { manager, channel, id } in &self.registrations {
            manager.drain_watcher(channel, *id);
        }
        DrainingSubscription { receiver: self.receiver }
    }

    /// Returns whether the server has confirmed the first channel on the current connection.
    pub fn is_active(&self) -> bool {
        let first = self.registrations.first();
        first.is_some_and(|first| first.manager.message_count(&first.channel).is_some())
    }
}

/// The remaining events of an [`OrderedSubscription`] after [`OrderedSubscription::drain`].
pub struct DrainingSubscription {
    receiver: mpsc::UnboundedReceiver<ChannelEvent>,
}

impl DrainingSubscription {
    /// Waits for the next event.
    ///
    /// `None` when the server has unsubscribed the channels, other watchers of this client keep
    /// them subscribed, or the connection was lost.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<ChannelEvent> {
        self.receiver.recv().await
    }
}
