//! Reads the state of the subscriptions: how many there are, the subscription of this process to a
//! channel, and the last contact with a node.

use bytes::Bytes;

use super::channel::SubscriptionState;
use super::manager::SubscriptionManager;
use super::stream::ChannelSelector;
use crate::clock::Instant;
use crate::connection::NodeId;
use crate::error::ServerError;

/// Counts of the subscriptions at one node.
#[derive(Debug, Default)]
pub(crate) struct SubscriptionCounts {
    /// Number of channels with watchers.
    pub(crate) wanted: usize,
    /// Number of the wanted channels whose subscription the server has confirmed.
    pub(crate) confirmed: usize,
    /// Why one of the unconfirmed channels is not confirmed, if known.
    pub(crate) last_error: Option<ServerError>,
}

/// The subscription of this process to a channel.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
// Not `#[non_exhaustive]`: only redgrid-core uses it.
pub struct OwnSubscription {
    /// Number of received messages; `None` while the server has not confirmed the subscription.
    pub message_count: Option<u64>,
    /// Whether the server may count the subscription although it is not active, because it is not
    /// confirmed yet or is being ended.
    pub is_pending: bool,
}

impl OwnSubscription {
    /// Returns the subscription state to assume when a subscriber count of the server is evaluated.
    /// `self` is the state at the time of the request for the count. `after` is the state at the
    /// time of the reply.
    ///
    /// A subscription that began between request and reply may be part of the count, so
    /// `is_pending` is set in the result.
    pub fn counted_until(self, after: OwnSubscription) -> OwnSubscription {
        let has_begun = self.message_count.is_none() && after.message_count.is_some();
        OwnSubscription { is_pending: self.is_pending || has_begun || after.is_pending, ..self }
    }
}

impl SubscriptionManager {
    /// Returns the number of messages received on a channel; `None` while the subscription is not
    /// active.
    pub fn message_count(&self, channel: &Bytes) -> Option<u64> {
        self.own_subscription(channel).message_count
    }

    /// Returns the state of this process's subscription to a channel.
    pub fn own_subscription(&self, channel: &Bytes) -> OwnSubscription {
        let state = self.state.lock();
        match state.channels.get(channel).map(|channel| (channel.subscription, channel.message_count)) {
            Some((SubscriptionState::Active, message_count)) => {
                OwnSubscription { message_count: Some(message_count), is_pending: false }
            }
            Some((SubscriptionState::Pending | SubscriptionState::Retry, _)) => {
                OwnSubscription { message_count: None, is_pending: true }
            }
            Some((SubscriptionState::Denied, _)) => OwnSubscription::default(),
            None => OwnSubscription { message_count: None, is_pending: state.draining.contains_key(channel) },
        }
    }

    /// Returns the number of channels with watchers.
    pub(crate) fn channel_count(&self) -> usize {
        self.state.lock().channels.values().filter(|channel| !channel.watchers.is_empty()).count()
    }

    /// Counts the channels that are wanted at a node, and how many of these channels the server has
    /// confirmed there.
    pub(crate) fn counts_at(&self, node: &NodeId) -> SubscriptionCounts {
        let state = self.state.lock();
        let mut counts = SubscriptionCounts::default();
        let wanted = state.channels.iter().filter(|(_, channel)| channel.node == *node && !channel.watchers.is_empty());
        for (name, channel) in wanted {
            counts.wanted += 1;
            counts.confirmed += usize::from(channel.subscription == SubscriptionState::Active);
            if counts.last_error.is_none()
                && matches!(channel.subscription, SubscriptionState::Denied | SubscriptionState::Retry)
            {
                counts.last_error = state.denied.get(name).map(|denial| denial.error.clone());
            }
        }
        if counts.confirmed < counts.wanted && counts.last_error.is_none() {
            counts.last_error = state.node_tasks.get(node).and_then(|node_task| node_task.subscriptions.failure());
        }
        counts
    }

    /// Returns the number of streams that this client has open for these channels.
    pub fn stream_count(&self, channels: &ChannelSelector) -> usize {
        self.state.lock().channels.get(&channels.internal_name()).map_or(0, |channel| channel.watchers.len())
    }

    /// Returns the time at which the primary of a key last answered a poll.
    ///
    /// A primary is polled continually while waiters watch its keys.
    pub fn contact(&self, key: &[u8]) -> Instant {
        let primary = self.topology.primary(key);
        self.state
            .lock()
            .node_tasks
            .get(primary.id())
            .map_or(Instant::MIN, |node_task| node_task.subscriptions.last_contact())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_that_begins_during_a_request_may_be_counted_in_its_reply() {
        let none = OwnSubscription::default();
        let pending = OwnSubscription { message_count: None, is_pending: true };
        let active = |messages| OwnSubscription { message_count: Some(messages), is_pending: false };
        assert_eq!(none.counted_until(none), none);
        assert_eq!(none.counted_until(pending), pending);
        assert_eq!(none.counted_until(active(0)), pending);
        assert_eq!(pending.counted_until(active(0)), pending);
        assert_eq!(pending.counted_until(none), pending);
        // If the subscription was active at the request, the subscriber count certainly includes
        // it. The message count stays the one at the time of the request.
        assert_eq!(active(2).counted_until(active(3)), active(2));
    }
}
