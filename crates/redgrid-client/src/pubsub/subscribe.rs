//! The ways to subscribe to channels.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};

use super::buffer::MessageBuffer;
use super::channel::{ChannelScope, KeyPoll, Sink};
use super::handles::{Generation, OrderedSubscription, Registration, Signal, Watch};
use super::manager::SubscriptionManager;
use crate::clock::Instant;

impl SubscriptionManager {
    /// Watches `channel` until the returned value is dropped, and polls `key` meanwhile.
    pub fn watch(self: &Arc<Self>, channel: Bytes, key: Bytes) -> Watch {
        self.watch_polling(channel, KeyPoll { key, waiter_flag: None, due: Instant::MAX })
    }

    /// Watches `channel` for a waiter of a contended key, and polls `key` meanwhile.
    ///
    /// While the subscription is not active, the poll sets the key `waiter_flag`. This key
    /// announces the waiter to other processes.
    pub fn watch_contended(self: &Arc<Self>, channel: Bytes, key: Bytes, waiter_flag: Bytes) -> Watch {
        self.watch_polling(channel, KeyPoll { key, waiter_flag: Some(waiter_flag), due: Instant::MAX })
    }

    fn watch_polling(self: &Arc<Self>, channel: Bytes, poll: KeyPoll) -> Watch {
        let (signal, key) = (Arc::new(Signal::default()), poll.key.clone());
        let sink = Sink::Signal(Arc::clone(&signal));
        Watch { registration: self.add_watcher(channel, &key, ChannelScope::Slot, sink, Some(poll)), signal }
    }

    /// Watches `channel` in the slot of `key` without a poll. `notify` is notified of each message,
    /// and of each reason to check the key again.
    ///
    /// A notified waiter must call [`Watch::take`].
    pub fn watch_with_notify(self: &Arc<Self>, channel: Bytes, key: &Bytes, notify: Arc<Notify>) -> Watch {
        let signal = Arc::new(Signal::with_notify(notify));
        let sink = Sink::Signal(Arc::clone(&signal));
        Watch { registration: self.add_watcher(channel, key, ChannelScope::Slot, sink, None), signal }
    }

    /// Subscribes to a channel whose messages are published with PUBLISH, at any node.
    pub(crate) fn subscribe_everywhere(self: &Arc<Self>, channel: Bytes) -> OrderedSubscription {
        self.subscribe_ordered_in_scope(ChannelScope::Everywhere, [channel.clone()], &channel, false)
    }

    /// Subscribes to `channels` in the slot of `key`, and receives their messages in the order of
    /// publication.
    ///
    /// If `polls` is true, `key` is polled meanwhile.
    pub fn subscribe_ordered(
        self: &Arc<Self>,
        channels: impl IntoIterator<Item = Bytes>,
        key: &Bytes,
        polls: bool,
    ) -> OrderedSubscription {
        self.subscribe_ordered_in_scope(ChannelScope::Slot, channels, key, polls)
    }

    /// Subscribes to channels in the slot of `key` at the primary of that slot, even if waiters
    /// subscribe at a replica.
    ///
    /// So the primary includes this subscription when it counts the receivers of a message.
    pub fn subscribe_ordered_at_primary(
        self: &Arc<Self>,
        channels: impl IntoIterator<Item = Bytes>,
        key: &Bytes,
    ) -> OrderedSubscription {
        self.subscribe_ordered_in_scope(ChannelScope::SlotPrimary, channels, key, false)
    }

    fn subscribe_ordered_in_scope(
        self: &Arc<Self>,
        scope: ChannelScope,
        channels: impl IntoIterator<Item = Bytes>,
        key: &Bytes,
        polls: bool,
    ) -> OrderedSubscription {
        let (sender, receiver) = mpsc::unbounded_channel();
        let first = Generation::default();
        let subscribe = |(index, channel): (usize, Bytes)| {
            let poll =
                (polls && index == 0).then(|| KeyPoll { key: key.clone(), waiter_flag: None, due: Instant::MAX });
            let generation = if index == 0 { first.clone() } else { Generation::default() };
            let sink = Sink::Ordered { index, sender: sender.clone(), polled: polls, generation };
            self.add_watcher(channel, key, scope, sink, poll)
        };
        let registrations = channels.into_iter().enumerate().map(subscribe).collect();
        OrderedSubscription { registrations, receiver, generation: first }
    }

    /// Subscribes to a channel on which only the primary of `key` publishes. Its messages go into
    /// `buffer`. The subscription ends when the returned value is dropped.
    pub fn subscribe_buffered(
        self: &Arc<Self>,
        buffer: &Arc<MessageBuffer>,
        channel: Bytes,
        key: &[u8],
    ) -> Registration {
        self.subscribe_buffered_in_scope(buffer, channel, &Bytes::copy_from_slice(key), ChannelScope::Everywhere)
    }

    /// Subscribes to a channel. Its messages go into `buffer`.
    pub(super) fn subscribe_buffered_in_scope(
        self: &Arc<Self>,
        buffer: &Arc<MessageBuffer>,
        channel: Bytes,
        key: &Bytes,
        scope: ChannelScope,
    ) -> Registration {
        let sink = Sink::Buffer { buffer: Arc::clone(buffer), channel_id: buffer.add_channel() };
        self.add_watcher(channel, key, scope, sink, None)
    }
}
