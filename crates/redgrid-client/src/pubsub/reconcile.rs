//! Applies the pending subscription changes of a node, and processes the server's replies.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::all_primaries::wire_name;
use super::channel::{Channel, Denial, SubscriptionState};
use super::manager::{State, SubscriptionManager};
use super::node::{Desired, Failures, NodeSubscriptions, NodeTask, own_desired};
use super::poll::{UNSUBSCRIBED_POLL, reschedule_poll};
use super::stream::internal_names;
use crate::clock::Instant;
use crate::connection::{ChannelKind, NodeId, Refused, TopologyHint};
use crate::error::{Code, ServerError};
use crate::shrink::shrink_if_sparse;

/// Maximum number of channels that one command subscribes.
const CHUNK: usize = 256;

/// Time before a denied channel is tried again: 1 minute. Permissions are changed by hand, so
/// frequent attempts are useless.
const DENIED_RETRY: Duration = Duration::from_secs(60);

/// Time before a denied sharded channel is tried again: 1 s. The server may have denied the channel
/// because its slot is moving.
const SHARDED_DENIED_RETRY: Duration = Duration::from_secs(1);

/// Maximum number of remembered denials. If a denial is not remembered, each new watcher of the
/// channel causes another SUBSCRIBE.
const MAX_DENIALS: usize = 10_000;

/// Returns whether a refusal was caused by an access rule about channels. Such a refusal may
/// concern only one of the command's channels.
///
/// Any other refusal concerns all channels of the command.
fn is_about_a_channel(why: &ServerError) -> bool {
    matches!(why, ServerError::Refused { code: Code::NoPermission, message } if message.contains("channel"))
}

const KINDS: [ChannelKind; 4] = [ChannelKind::Plain, ChannelKind::Sharded, ChannelKind::Events, ChannelKind::Patterns];

/// The channels to unsubscribe and to subscribe next.
#[derive(Default)]
struct Diff {
    removals: [Vec<Bytes>; KINDS.len()],
    additions: Vec<Bytes>,
    kind: Option<ChannelKind>,
    /// Whether `additions` is a single channel that must have its own command. The server has
    /// denied this channel, or a command that contained it.
    alone: bool,
}

/// Applies the pending subscription changes of a node until the tasks of the node are ended.
pub(super) async fn reconcile(manager: Arc<SubscriptionManager>, subscriptions: Arc<NodeSubscriptions>) {
    loop {
        let Diff { removals, additions, kind, alone } = manager.diff(&subscriptions);
        if additions.is_empty() && removals.iter().all(Vec::is_empty) {
            let due =
                manager.retry_denied().min(subscriptions.paused_until(manager.clock.now()).unwrap_or(Instant::MAX));
            tokio::select! {
                () = subscriptions.desired_changed.notified() => {}
                () = manager.clock.sleep_until(due) => {}
            }
            continue;
        }
        for (kind, removals) in KINDS.into_iter().zip(removals) {
            if !removals.is_empty() {
                subscriptions.server.unsubscribe(kind, removals.iter().map(wire_name).collect()).await;
            }
        }
        if let Some(kind) = kind {
            let gap_count = match manager.state.lock().node_tasks.get(subscriptions.server.id()) {
                Some(node_task) => node_task.desired.gap_count,
                None => 0,
            };
            match subscriptions.server.subscribe(kind, additions.iter().map(wire_name).collect()).await {
                Ok(refused) => {
                    *subscriptions.failures.lock() = Failures::default();
                    match refused.is_empty() {
                        true => manager.mark_active(&subscriptions, kind, &additions, gap_count),
                        false => manager.handle_refusals(&subscriptions, kind, (additions, gap_count), refused),
                    }
                }
                Err(error) => manager.subscription_failed(&subscriptions, kind, &additions, alone, &error).await,
            }
        }
    }
}

/// Schedules a new subscription of a channel, if the channel was active.
fn schedule_resubscription(
    node_tasks: &mut HashMap<NodeId, NodeTask>,
    node: &NodeId,
    (name, channel): (&Bytes, &mut Channel),
    now: Instant,
) {
    // Even without a confirmation, the channel may have been subscribed and may have delivered
    // messages. So its buffers are always notified of the interruption.
    channel.interrupt();
    if channel.subscription != SubscriptionState::Active {
        return;
    }
    channel.set_subscription(SubscriptionState::Pending);
    if let Some(NodeTask { desired, .. }) = node_tasks.get_mut(node) {
        desired.interrupted = true;
        desired.to_subscribe.insert(name.clone());
    }
    // The key is polled soon and often, because no messages arrive until the channel is active
    // again.
    reschedule_poll(node_tasks, channel, name, |due| due.min(now + UNSUBSCRIBED_POLL));
}

impl SubscriptionManager {
    /// Schedules new subscriptions of all channels of a node, or of its channels of one kind.
    pub(super) fn schedule_resubscriptions(&self, subscriptions: &NodeSubscriptions, kind: Option<ChannelKind>) {
        let now = self.clock.now();
        let node = subscriptions.server.id();
        let mut state = self.state.lock();
        let State { channels, node_tasks, .. } = &mut *state;
        let Some(desired) = own_desired(node_tasks, subscriptions) else { return };
        desired.gap_count += 1;
        let is_meant = |channel: &Channel| kind.is_none_or(|kind| channel.kind == kind);
        let is_here = |channel: &Channel| channel.node == *node && is_meant(channel);
        for (name, channel) in channels.iter_mut().filter(|(_, channel)| is_here(channel)) {
            schedule_resubscription(node_tasks, node, (name, channel), now);
        }
    }

    /// Schedules a new subscription of a sharded channel whose subscription the server has ended.
    /// The new subscription may be at another node.
    pub(super) fn sharded_channel_lost(&self, subscriptions: &NodeSubscriptions, wire_name: &Bytes) {
        let now = self.clock.now();
        let node = subscriptions.server.id();
        {
            let mut state = self.state.lock();
            let State { channels, node_tasks, .. } = &mut *state;
            let Some(desired) = own_desired(node_tasks, subscriptions) else { return };
            desired.gap_count += 1;
            for name in internal_names(wire_name) {
                let channel = channels.get_mut(&name).filter(|channel| channel.is_at(node, ChannelKind::Sharded));
                if let Some(channel) = channel {
                    schedule_resubscription(node_tasks, node, (&name, channel), now);
                }
            }
        }
        self.topology.suspect(TopologyHint::Node(node.clone()));
    }

    /// Schedules another attempt for channels with an expired denial. Returns the time at which the
    /// next denial expires.
    fn retry_denied(&self) -> Instant {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let State { channels, denied, node_tasks, .. } = &mut *state;
        let mut next = Instant::MAX;
        denied.retain(|name, denial| {
            if denial.until > now {
                next = next.min(denial.until);
                return true;
            }
            if let Some(channel) = channels.get_mut(name)
                && let Some(node_task) = node_tasks.get_mut(&channel.node)
            {
                channel.set_subscription(SubscriptionState::Pending);
                node_task.desired.to_subscribe_alone.insert(name.clone());
                node_task.subscriptions.desired_changed.notify_one();
            }
            false
        });
        next
    }

    fn diff(&self, subscriptions: &NodeSubscriptions) -> Diff {
        let mut state = self.state.lock();
        let State { channels, node_tasks, draining, .. } = &mut *state;
        let Some(desired) = own_desired(node_tasks, subscriptions) else { return Diff::default() };
        let Desired { to_subscribe, to_subscribe_alone, to_unsubscribe, to_unsubscribe_moved, .. } = desired;
        let mut diff = Diff::default();
        let removals = &mut diff.removals;
        let kind_index = |kind| KINDS.iter().position(|known| *known == kind).unwrap_or_default();
        while removals.iter().map(Vec::len).sum::<usize>() < CHUNK {
            let Some(name) = to_unsubscribe.pop_first() else { break };
            to_subscribe.remove(&name);
            to_subscribe_alone.remove(&name);
            let Some(channel) = channels.remove(&name) else { continue };
            shrink_if_sparse(channels);
            if channel.may_be_subscribed() {
                removals[kind_index(channel.kind)].push(name);
            }
        }
        for (kind, name) in std::mem::take(to_unsubscribe_moved) {
            removals[kind_index(kind)].push(name);
        }
        // Several channels can have the same name on the wire. The name stays subscribed while
        // another of these channels needs it at this node.
        for (kind, removals) in KINDS.into_iter().zip(&mut *removals) {
            removals.retain(|name| {
                let (mut still_used, mut has_watchers) = (false, false);
                for other in internal_names(&wire_name(name)).iter().filter(|other| *other != name) {
                    let other = channels.get_mut(other).filter(|other| other.is_at(subscriptions.server.id(), kind));
                    let Some(other) = other else { continue };
                    // With these flags, the name is unsubscribed when the last of these channels is
                    // removed, even if that channel's own SUBSCRIBE was refused.
                    (other.subscribe_sent, other.confirmed_or_unknown, still_used) = (true, true, true);
                    has_watchers |= !other.watchers.is_empty();
                }
                // The sinks in `draining` are normally kept until the name is unsubscribed. If
                // another channel with the same wire name has watchers, the name stays subscribed,
                // so the sinks are dropped now. Otherwise they are kept until the last channel with
                // this wire name is removed, and the name is unsubscribed.
                if has_watchers {
                    draining.remove(name);
                }
                !still_used
            });
        }
        if subscriptions.paused_until(self.clock.now()).is_some() {
            return diff;
        }
        // Only channels of one kind are taken, because a command carries only one kind. Names are
        // taken from the end of the sorted set. The internal names of event channels are at its
        // beginning, so the channels of waiters are subscribed first, and are not delayed if no
        // connection for events can be opened.
        let mut others = Vec::new();
        while diff.additions.len() < CHUNK {
            let Some(name) = to_subscribe.pop_last() else { break };
            let Some(channel) = channels.get_mut(&name).filter(|channel| channel.node == *subscriptions.server.id())
            else {
                continue;
            };
            if *diff.kind.get_or_insert(channel.kind) == channel.kind {
                channel.subscribe_sent = true;
                diff.additions.push(name);
            } else {
                others.push(name);
            }
        }
        to_subscribe.extend(others);
        if diff.additions.is_empty() {
            diff.alone = true;
            if let Some(name) = to_subscribe_alone.pop_last()
                && let Some(channel) = channels.get_mut(&name)
            {
                channel.subscribe_sent = true;
                diff.kind = Some(channel.kind);
                diff.additions.push(name);
            }
        }
        diff
    }

    fn mark_active(&self, subscriptions: &NodeSubscriptions, kind: ChannelKind, chunk: &[Bytes], gap_count: u64) {
        let node = subscriptions.server.id();
        let mut state = self.state.lock();
        let State { channels, node_tasks, .. } = &mut *state;
        if own_desired(node_tasks, subscriptions).is_none() {
            return;
        }
        // To avoid a burst of requests, only the waiters of a limited number of channels are woken
        // at once: of `poll_budget` channels. The keys of the other channels are polled soon.
        let mut resync_budget = self.settings.poll_budget;
        for name in chunk {
            let Some(NodeTask { desired, .. }) = node_tasks.get_mut(node) else { return };
            // If the last watcher has left meanwhile, the channel is still found, and is in
            // `to_unsubscribe`.
            let Some(channel) = channels.get_mut(name).filter(|channel| channel.is_at(node, kind)) else {
                // The channel has moved. The channel is unsubscribed here, so that no message is
                // received twice.
                if kind != ChannelKind::Sharded && channels.contains_key(name) {
                    desired.to_unsubscribe_moved.insert((kind, name.clone()));
                }
                continue;
            };
            channel.confirmed_or_unknown = true;
            if desired.gap_count != gap_count {
                // The loss of a connection was reported after this request was sent. The
                // confirmation may come from that connection, so the channel is subscribed again.
                desired.to_subscribe.insert(name.clone());
                continue;
            }
            channel.set_subscription(SubscriptionState::Active);
            // A waiter must check its key after each confirmation: messages may have been lost
            // between its registration and the first confirmation, or in the gap that a later
            // confirmation ends.
            if channel.has_no_poll() {
                // No poll wakes these watchers, so all of them are woken now.
                channel.resync();
            } else if resync_budget > 0 {
                resync_budget -= 1;
                channel.resync();
            } else {
                reschedule_poll(node_tasks, channel, name, |_| Instant::MIN);
            }
        }
        let Some(NodeTask { desired, .. }) = node_tasks.get_mut(node) else { return };
        if desired.to_subscribe.is_empty() && std::mem::take(&mut desired.interrupted) {
            drop(state);
            self.events.gap(node);
        }
    }

    /// Records the denials of the refused channels of `chunk`, and marks the other channels as
    /// active.
    fn handle_refusals(
        &self,
        subscriptions: &NodeSubscriptions,
        kind: ChannelKind,
        (mut chunk, gap_count): (Vec<Bytes>, u64),
        refused: Refused,
    ) {
        let why = |name: &Bytes| refused.iter().find(|(of, _)| wire_name(name) == *of).map(|(_, why)| why.clone());
        let refused: Refused = chunk.iter().filter_map(|name| why(name).map(|why| (name.clone(), why))).collect();
        let is_refused = |name: &Bytes| refused.iter().any(|(of, _)| of == name);
        let (names, node) = (chunk.len(), subscriptions.server.id());
        chunk.retain(|name| !is_refused(name));
        self.mark_active(subscriptions, kind, &chunk, gap_count);
        let retry_after = if kind == ChannelKind::Sharded { SHARDED_DENIED_RETRY } else { DENIED_RETRY };
        let until = self.clock.now() + retry_after;
        {
            let mut state = self.state.lock();
            let State { channels, denied, node_tasks, .. } = &mut *state;
            let Some(desired) = own_desired(node_tasks, subscriptions) else { return };
            for (name, why) in &refused {
                let Some(channel) = channels.get_mut(name).filter(|channel| channel.is_at(node, kind)) else {
                    continue;
                };
                if kind != ChannelKind::Sharded && names > 1 && is_about_a_channel(why) {
                    // The error may concern any channel of the command, so each channel is tried
                    // alone.
                    desired.to_subscribe_alone.insert(name.clone());
                    continue;
                }
                let denial = Denial { until, error: why.clone() };
                channel.deny(&denial);
                if denied.len() < MAX_DENIALS {
                    denied.insert(name.clone(), denial);
                }
            }
        }
        if kind == ChannelKind::Sharded {
            // The slots of these channels may have moved.
            self.topology.suspect(TopologyHint::Node(node.clone()));
        }
        let why = refused.first().map(|(_, error)| error.to_string());
        tracing::debug!(%node, why, channels = refused.len(), "subscription refused");
    }

    async fn subscription_failed(
        &self,
        subscriptions: &NodeSubscriptions,
        kind: ChannelKind,
        chunk: &[Bytes],
        alone: bool,
        error: &ServerError,
    ) {
        let node = subscriptions.server.id();
        {
            let mut state = self.state.lock();
            let State { channels, node_tasks, .. } = &mut *state;
            let Some(desired) = own_desired(node_tasks, subscriptions) else { return };
            for name in chunk {
                let Some(channel) = channels.get_mut(name).filter(|channel| channel.is_at(node, kind)) else {
                    continue;
                };
                channel.confirmed_or_unknown = true;
                // A channel that was tried alone is tried alone again. In a chunk it could cause
                // another denial of all channels of the chunk.
                let queue = if alone { &mut desired.to_subscribe_alone } else { &mut desired.to_subscribe };
                queue.insert(name.clone());
            }
        }
        tracing::debug!(%node, %error, channels = chunk.len(), "subscription failed");
        subscriptions.failures.lock().add(error, self.clock.now(), self.settings.retry_delay);
        // Before the next attempt, wait for a new connection. The gap that a new connection reports
        // (`Push::Gap`) notifies `reconnected`. If the node keeps its connection, the timeout ends
        // the wait.
        let _ = tokio::time::timeout(self.settings.retry_delay, subscriptions.reconnected.notified()).await;
    }
}
