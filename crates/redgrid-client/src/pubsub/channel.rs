//! One channel and its watchers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tokio::sync::mpsc;

use super::buffer::MessageBuffer;
use super::handles::{ChannelEvent, Generation, Signal};
use crate::clock::Instant;
use crate::connection::{ChannelKind, NodeId};
use crate::count::SubscriptionGauge;
use crate::error::{Code, ServerError};

pub(super) struct Channel {
    /// The key that determines where the channel is subscribed.
    pub(super) key: Bytes,
    /// The node where the channel is, or is to be, subscribed: the primary of the key, or a
    /// replica.
    pub(super) node: NodeId,
    /// The primary of the key, where the key is polled.
    pub(super) primary: NodeId,
    /// How the messages of the channel are published, and where they can be received.
    pub(super) scope: ChannelScope,
    pub(super) kind: ChannelKind,
    pub(super) watchers: HashMap<u64, Sink>,
    pub(super) subscription: SubscriptionState,
    /// Whether a SUBSCRIBE was sent to the channel's node, on any connection.
    pub(super) subscribe_sent: bool,
    /// Whether the node has ever confirmed the subscription, or the outcome of a SUBSCRIBE was
    /// unknown.
    ///
    /// In both cases the channel may be subscribed even if a later SUBSCRIBE was refused.
    pub(super) confirmed_or_unknown: bool,
    pub(super) poll: Option<KeyPoll>,
    pub(super) message_count: u64,
    /// Counts this channel in the metric of the number of subscriptions.
    gauge: SubscriptionGauge,
}

/// How messages of a channel are published, and where they can be received.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ChannelScope {
    /// Messages are published with PUBLISH at any node. The channel is subscribed at the primary of
    /// the key.
    Everywhere,
    /// Messages are published in the slot of the key. The channel is subscribed at the primary or,
    /// depending on `subscription_mode`, at a replica. Channels of waiters have this scope.
    Slot,
    /// Messages are published with SPUBLISH even if waiters use plain channels, because the user
    /// chose a sharded topic. The channel is subscribed at the primary of the slot.
    Sharded,
    /// Messages are published with PUBLISH at any node, on any channel that matches a pattern. The
    /// pattern is subscribed at the primary of the slot that the pattern would have as a key.
    Patterns,
    /// Messages are published in the slot of the key. The channel is always subscribed at the
    /// primary. So the primary includes this subscription when it counts the receivers of a
    /// message.
    SlotPrimary,
    /// Messages are published only at one node, where the channel is also subscribed. The id of
    /// that node is the `key` of the channel.
    Node,
}

/// The poll that belongs to a channel: it reads the channel's key.
pub(super) struct KeyPoll {
    pub(super) key: Bytes,
    /// The key that announces the waiters of this process to other processes. The poll sets this
    /// key while the subscription is not active.
    pub(super) waiter_flag: Option<Bytes>,
    pub(super) due: Instant,
}

pub(super) enum Sink {
    Signal(Arc<Signal>),
    /// An [`OrderedSubscription`]. `index` is the position of this channel among the channels of
    /// the subscription.
    Ordered {
        index: usize,
        sender: mpsc::UnboundedSender<ChannelEvent>,
        /// Whether a poll detects missed messages.
        polled: bool,
        generation: Generation,
    },
    /// A buffer for the messages of several channels. `channel_id` is the id of this channel in the
    /// buffer.
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
    /// Refused by a server that does not have the slot, or for another temporary reason. The
    /// subscription is tried again soon.
    Retry,
}

/// A remembered refusal of a channel. The channel is not tried again before `until`.
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

impl Sink {
    pub(super) fn deliver(&self, name: &Bytes, payload: &Bytes) {
        match self {
            Sink::Signal(signal) => {
                signal.deliver();
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
            gauge: SubscriptionGauge::default(),
        }
    }

    /// Returns whether the channel belongs to this node and has this kind.
    pub(super) fn is_at(&self, node: &NodeId, kind: ChannelKind) -> bool {
        self.node == *node && self.kind == kind
    }

    /// Returns whether the channel is possibly subscribed at its node. If so, the channel must be
    /// unsubscribed there once it has no watchers.
    ///
    /// The result can be true although the channel is not subscribed: the loss of a connection is
    /// reported a moment after it happens. Until then, subscriptions on the lost connection are
    /// still recorded as active.
    pub(super) fn may_be_subscribed(&self) -> bool {
        self.subscribe_sent
            && (self.confirmed_or_unknown
                || !matches!(self.subscription, SubscriptionState::Denied | SubscriptionState::Retry))
    }

    /// Updates the channel in the metrics, after a change of its watchers or of its subscription.
    pub(super) fn count(&mut self) {
        self.gauge.set(!self.watchers.is_empty(), self.subscription == SubscriptionState::Active);
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

    /// Returns whether some watcher relies on messages alone: no poll detects what it has missed.
    pub(super) fn has_no_poll(&self) -> bool {
        let polled = |sink: &Sink| matches!(sink, Sink::Ordered { polled: true, .. });
        self.poll.is_none() && !self.watchers.values().all(polled)
    }

    /// Makes the watchers check their keys. A message buffer has no key.
    pub(super) fn resync(&self) {
        for sink in self.watchers.values() {
            match sink {
                Sink::Signal(signal) => {
                    signal.resync();
                }
                Sink::Ordered { sender, .. } => {
                    let _ = sender.send(ChannelEvent::Resync);
                }
                Sink::Buffer { .. } => {}
            }
        }
    }

    /// Sets the state of the subscription, and reports it to the watchers. For a message buffer,
    /// each change to `Active` may end a gap.
    pub(super) fn set_subscription(&mut self, subscription: SubscriptionState) {
        self.subscription = subscription;
        self.count();
        for sink in self.watchers.values() {
            match sink {
                Sink::Signal(signal) => {
                    signal.active.store(subscription == SubscriptionState::Active, Ordering::Release)
                }
                Sink::Ordered { generation, .. } => generation.set_active(subscription == SubscriptionState::Active),
                Sink::Buffer { buffer, channel_id } => match subscription {
                    SubscriptionState::Active => buffer.channel_active(*channel_id),
                    _ => buffer.channel_interrupted(*channel_id),
                },
            }
        }
    }

    /// Notifies message buffers that the channel is not active on the current connection, even if
    /// it is recorded as active.
    pub(super) fn interrupt(&self) {
        for sink in self.watchers.values() {
            if let Sink::Buffer { buffer, channel_id } = sink {
                buffer.channel_interrupted(*channel_id);
            }
        }
    }

    /// Records that the server has refused the channel, and reports the refusal to the watchers.
    pub(super) fn deny(&mut self, denial: &Denial) {
        self.set_subscription(denial.subscription_state());
        for sink in self.watchers.values() {
            denial.report_to(sink);
        }
    }
}
