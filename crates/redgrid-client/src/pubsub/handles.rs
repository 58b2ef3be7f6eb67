//! The handles of subscribers. A handle receives events. Dropping it ends the subscription.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};

use super::manager::SubscriptionManager;

/// Numbers the periods in which a channel is active.
///
/// The number grows whenever the channel becomes active or inactive, and is odd while the channel
/// is active. Reading the number locks no mutex.
#[derive(Clone, Default, Debug)]
pub struct Generation(Arc<AtomicU64>);

impl Generation {
    /// Returns the number of the current active period; `None` while the channel is not active.
    ///
    /// If two calls return the same number, all messages that are published between the two calls
    /// are received, in order.
    pub fn current(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|generation| generation % 2 == 1)
    }

    /// Records whether the channel is active. The caller must have locked the manager's state.
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
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub struct Wake {
    /// Number of messages since the last wake-up.
    pub messages: u64,
    /// Whether the waiter must check its key again: messages may have been missed, or a poll found
    /// that the key is absent or cannot be read.
    pub resync: bool,
}

impl Signal {
    /// Creates a signal that notifies `notify`.
    pub(super) fn with_notify(notify: Arc<Notify>) -> Signal {
        Signal { notify, ..Signal::default() }
    }

    /// Notifies the waiter of a message.
    pub(super) fn deliver(&self) {
        self.messages.fetch_add(1, Ordering::Release);
        self.notify.notify_one();
    }

    /// Makes the waiter check its key again.
    pub(super) fn resync(&self) {
        self.resync.store(true, Ordering::Release);
        self.notify.notify_one();
    }
}

/// The registration of a watcher. Dropping it removes the watcher.
pub struct Registration {
    pub(super) manager: Arc<SubscriptionManager>,
    pub(super) channel: Bytes,
    pub(super) id: u64,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.manager.remove_watcher(&self.channel, self.id);
    }
}

/// A watched channel. Dropping this value ends the subscription if the channel has no other
/// watcher.
pub struct Watch {
    pub(super) registration: Registration,
    pub(super) signal: Arc<Signal>,
}

impl Watch {
    /// Waits for the next message, or for a reason to check the key again. Events that arrived
    /// before this call are returned at once.
    ///
    /// # Cancel safety
    ///
    /// No event is lost: the next call returns the events that this call did not return.
    pub async fn wake(&mut self) -> Wake {
        loop {
            if let Some(wake) = self.take() {
                return wake;
            }
            self.signal.notify.notified().await;
        }
    }

    /// Returns the events that arrived since the last call; `None` if there were none.
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

/// The messages of several channels of one slot, in the order in which the server published them.
///
/// Messages of different channels keep this order, too. Dropping the subscription unsubscribes
/// those channels that have no other watchers.
pub struct OrderedSubscription {
    pub(super) registrations: Vec<Registration>,
    pub(super) receiver: mpsc::UnboundedReceiver<ChannelEvent>,
    /// The generation of the first channel.
    pub(super) generation: Generation,
}

/// An event of an [`OrderedSubscription`].
#[derive(Debug, Clone, PartialEq, Eq)]
// Not `#[non_exhaustive]`: only implementations of object types use it.
pub enum ChannelEvent {
    /// A message of a channel.
    Message {
        /// The index of the channel among the subscribed ones.
        channel: usize,
        /// The published payload.
        payload: Bytes,
    },
    /// The subscriber must check its key again: messages may have been missed, or a poll found that
    /// the key is absent or cannot be read.
    Resync,
}

impl OrderedSubscription {
    /// Waits for the next event. After the client has ended, the future never completes.
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
    /// Use it for frequent checks of whether the channel is active.
    pub fn generation(&self) -> Generation {
        self.generation.clone()
    }

    /// Ends the subscription. The returned value still receives the messages that the server
    /// publishes before it unsubscribes the channels.
    pub fn drain(self) -> DrainingSubscription {
        for Registration { manager, channel, id } in &self.registrations {
            manager.drain_watcher(channel, *id);
        }
        DrainingSubscription { receiver: self.receiver }
    }

    /// Returns whether the server has confirmed the subscription of the first channel on the
    /// current connection.
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
    /// Returns `None` after the last event. The events of a channel end when the server has
    /// unsubscribed the channel, or when the connection is lost. If other watchers of this client
    /// keep the channel subscribed, its events end at once.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses no event.
    pub async fn next(&mut self) -> Option<ChannelEvent> {
        self.receiver.recv().await
    }
}
