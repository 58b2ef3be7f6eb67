//! The subscription manager of a client: the wanted channels, their watchers, and the node where
//! each channel is subscribed.
//!
//! A channel is subscribed at the primary of its key or, depending on `subscription_mode`, at a
//! replica of that primary. Keys are polled at the primary. A channel moves when its node or the
//! primary of its key changes. This happens when a primary is replaced, a slot moves, or a replica
//! becomes unusable. The watchers of a moved channel check their keys again.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::all_primaries::{AllPrimariesState, name_at_node};
use super::channel::{Channel, ChannelScope, Denial, KeyPoll, Sink, SubscriptionState};
use super::handles::{ChannelEvent, Registration};
use super::node::{NodeSubscriptions, NodeTask};
use super::poll::UNSUBSCRIBED_POLL;
use crate::clock::Clock;
use crate::config::Settings;
use crate::connection::{ChannelKind, Events, NodeId, Server, Topology, is_same};
use crate::pubsub::stream::{pattern_name, plain_name, sharded_name};
use crate::sync::Mutex;

/// The subscription manager of a client.
pub struct SubscriptionManager {
    /// The client's view of the servers.
    pub topology: Arc<dyn Topology>,
    /// The clock of the client.
    pub clock: Clock,
    /// The settings of the client.
    pub settings: Settings,
    pub(super) events: Arc<Events>,
    pub(super) state: Mutex<State>,
    /// Subscriptions at all primaries. If both mutexes are needed, this one must be locked first,
    /// before `state`.
    pub(super) all_primaries: Mutex<HashMap<u64, AllPrimariesState>>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) channels: HashMap<Bytes, Channel, foldhash::fast::RandomState>,
    /// For each node: the pending changes and polls, and the tasks that apply them.
    pub(super) node_tasks: HashMap<NodeId, NodeTask>,
    /// Denied channels, each with the time of the next attempt.
    pub(super) denied: HashMap<Bytes, Denial>,
    /// The sinks of removed watchers, for each channel that is being unsubscribed at a node. The
    /// messages of a watcher go to its sink. These sinks receive messages until the server has
    /// confirmed the end of the subscription (see [`SubscriptionManager::drain_watcher`]).
    pub(super) draining: HashMap<Bytes, Vec<(NodeId, Sink)>>,
    next_id: u64,
    pub(super) closed: bool,
}

impl State {
    /// Returns the task of a node, and starts it if there is none.
    ///
    /// Tasks are found by address. If another node now has the address, a new task starts, and
    /// takes over all channels and polls of the former task.
    pub(super) fn ensure_node_task(
        &mut self,
        manager: &Arc<SubscriptionManager>,
        server: &Arc<dyn Server>,
    ) -> &mut NodeTask {
        let start = || NodeTask::start(Arc::clone(manager), Arc::clone(server));
        let node_task = self.node_tasks.entry(server.id().clone()).or_insert_with(start);
        if !is_same(&node_task.subscriptions.server, server) {
            let interrupted = node_task.desired.interrupted;
            *node_task = start();
            node_task.desired.interrupted = interrupted;
            // The former node sends no more messages of the channels in `draining`.
            self.draining.retain(|_, sinks| {
                sinks.retain(|(at, _)| at != server.id());
                !sinks.is_empty()
            });
            for (name, channel) in &mut self.channels {
                if channel.primary == *server.id() {
                    node_task.desired.polls.extend(channel.poll.as_ref().map(|poll| (poll.due, name.clone())));
                }
                if channel.node != *server.id() {
                    continue;
                }
                node_task.desired.interrupted |= channel.subscription == SubscriptionState::Active;
                // Nothing is subscribed on the connections of the new node.
                (channel.subscribe_sent, channel.confirmed_or_unknown) = (false, false);
                channel.set_subscription(SubscriptionState::Pending);
                node_task.desired.to_subscribe.insert(name.clone());
                if channel.watchers.is_empty() {
                    node_task.desired.to_unsubscribe.insert(name.clone());
                }
            }
        }
        node_task
    }
}

impl SubscriptionManager {
    pub(crate) fn new(topology: Arc<dyn Topology>, clock: Clock, settings: Settings, events: Arc<Events>) -> Arc<Self> {
        let (state, all_primaries) = (Mutex::default(), Mutex::default());
        Arc::new(SubscriptionManager { topology, clock, settings, events, state, all_primaries })
    }

    /// Returns an id that no watcher has.
    pub(super) fn next_id(&self) -> u64 {
        let mut state = self.state.lock();
        state.next_id += 1;
        state.next_id
    }

    pub(super) fn add_watcher(
        self: &Arc<Self>,
        name: Bytes,
        key: &Bytes,
        scope: ChannelScope,
        sink: Sink,
        poll: Option<KeyPoll>,
    ) -> Registration {
        let now = self.clock.now();
        let registration = Registration { manager: Arc::clone(self), channel: name, id: self.next_id() };
        let Registration { channel: name, id, .. } = &registration;
        let mut state = self.state.lock();
        if !state.channels.contains_key(name) {
            let (server, primary) = self.nodes_for(key, scope).unzip();
            if !state.closed {
                server.iter().chain(&primary).for_each(|node| {
                    state.ensure_node_task(self, node);
                });
            }
            // A denial is remembered even after the channel's last watcher has left. So a new
            // watcher does not cause another SUBSCRIBE.
            let subscription = state.denied.get(name).map_or(SubscriptionState::Pending, Denial::subscription_state);
            let kind = self.kind_of(scope);
            // The id is empty if the node is gone. In that case the channel's watchers are removed
            // soon.
            let id = |node: Option<Arc<dyn Server>>| node.map_or(NodeId("".into()), |node| node.id().clone());
            let mut channel = Channel::new(key.clone(), id(server), id(primary), scope, kind);
            channel.subscription = subscription;
            state.channels.insert(name.clone(), channel);
        }
        let State { channels, node_tasks, draining, denied, .. } = &mut *state;
        let Some(channel) = channels.get_mut(name) else { return registration };
        // Between the caller's last check of the key and this registration, messages may have been
        // published and missed. So the watcher must check its key once more: at once if the
        // subscription is active, and otherwise when it is confirmed.
        match (&sink, channel.subscription) {
            (Sink::Signal(signal), SubscriptionState::Active) => {
                signal.active.store(true, Ordering::Release);
                signal.resync.store(true, Ordering::Release);
            }
            (Sink::Ordered { sender, generation, .. }, SubscriptionState::Active) => {
                generation.set_active(true);
                let _ = sender.send(ChannelEvent::Resync);
            }
            (Sink::Buffer { buffer, channel_id }, SubscriptionState::Active) => buffer.channel_active(*channel_id),
            (sink, SubscriptionState::Denied) => {
                if let Some(denial) = denied.get(name) {
                    denial.report_to(sink);
                }
            }
            _ => {}
        }
        channel.watchers.insert(*id, sink);
        channel.count();
        match (poll, &mut channel.poll, node_tasks.get_mut(&channel.primary)) {
            (Some(poll), Some(existing), _) => existing.waiter_flag = existing.waiter_flag.take().or(poll.waiter_flag),
            (Some(poll), vacant, Some(node_task)) => {
                let due = now + UNSUBSCRIBED_POLL;
                *vacant = Some(KeyPoll { due, ..poll });
                node_task.desired.polls.insert((due, name.clone()));
                node_task.subscriptions.polls_changed.notify_one();
            }
            (None, ..) | (_, None, None) => {}
        }
        let is_new = channel.subscription == SubscriptionState::Pending && channel.watchers.len() == 1;
        let Some(node_task) = node_tasks.get_mut(&channel.node) else { return registration };
        if node_task.desired.to_unsubscribe.remove(name) {
            draining.remove(name);
        }
        if is_new {
            node_task.desired.to_subscribe.insert(name.clone());
            node_task.subscriptions.desired_changed.notify_one();
        }
        drop(state);
        registration
    }

    pub(super) fn remove_watcher(&self, name: &Bytes, id: u64) {
        take_watcher(&mut self.state.lock(), name, id);
    }

    /// Removes a watcher. If the channel now has no watcher, the channel is unsubscribed. Until the
    /// server has confirmed this, the sink of the removed watcher still receives messages.
    ///
    /// If the channel has other watchers, the channel stays subscribed, and no such confirmation
    /// follows. So the sink of the removed watcher ends at once.
    pub(super) fn drain_watcher(&self, name: &Bytes, id: u64) {
        let mut state = self.state.lock();
        let Some((node, sink)) = take_watcher(&mut state, name, id) else { return };
        state.draining.entry(name.clone()).or_default().push((node, sink));
    }

    /// Drops the sinks of each channel in `draining` whose subscription at the node has ended.
    pub(super) fn finish_draining(&self, subscriptions: &NodeSubscriptions, is_ended: impl Fn(&Bytes) -> bool) {
        let node = subscriptions.server.id();
        self.state.lock().draining.retain(|name, sinks| {
            sinks.retain(|(at, _)| at != node || !is_ended(name));
            !sinks.is_empty()
        });
    }

    /// Makes the watchers of a channel check their keys again.
    pub(super) fn resync(&self, name: &Bytes) {
        if let Some(channel) = self.state.lock().channels.get(name) {
            channel.resync();
        }
    }

    /// Delivers a message to the watchers of its channel. If the channel has moved to another node,
    /// its watchers do not get the message. `matched` is the channel, or the pattern that the
    /// channel's name matches.
    ///
    /// The channel of a waiter is plain or sharded. A message of the other kind belongs to another
    /// channel of the same name, so the waiter does not get it.
    pub(super) fn deliver(
        &self,
        subscriptions: &NodeSubscriptions,
        (kind, matched): (ChannelKind, &Bytes),
        name: &Bytes,
        payload: &Bytes,
    ) {
        let mut state = self.state.lock();
        let State { channels, draining, .. } = &mut *state;
        let node = subscriptions.server.id();
        let internal_name = match kind {
            ChannelKind::Plain | ChannelKind::Events => plain_name(matched),
            ChannelKind::Sharded => sharded_name(matched),
            ChannelKind::Patterns => pattern_name(matched),
        };
        if let Some(channel) = channels.get_mut(&internal_name).filter(|channel| channel.node == *node) {
            channel.deliver(name, payload);
        }
        let is_sharded = kind == ChannelKind::Sharded;
        let is_another = |channel: &Channel| (channel.kind == ChannelKind::Sharded) != is_sharded;
        if kind == ChannelKind::Patterns || channels.get(name).is_some_and(is_another) {
            return;
        }
        if let Some(channel) = channels.get_mut(name).filter(|channel| channel.node == *node) {
            channel.deliver(name, payload);
        } else if let Some(channel) = channels.get_mut(&name_at_node(node, name)) {
            channel.deliver(name, payload);
        }
        let draining = draining.get(name).into_iter().flatten();
        draining.filter(|(at, _)| at == node).for_each(|(_, sink)| sink.deliver(name, payload));
    }

    /// Ends all tasks and closes all message buffers.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.node_tasks.clear();
        state.draining.clear();
        let sinks = state.channels.values().flat_map(|channel| channel.watchers.values());
        sinks.for_each(|sink| {
            if let Sink::Buffer { buffer, .. } = sink {
                buffer.close();
            }
        });
    }
}

/// Removes a watcher of a channel. If the channel has no other watchers, schedules the
/// unsubscription.
///
/// If the unsubscription is scheduled and the channel may still be subscribed at its node, returns
/// that node and the sink of the watcher. Otherwise returns `None`.
fn take_watcher(state: &mut State, name: &Bytes, id: u64) -> Option<(NodeId, Sink)> {
    let State { channels, node_tasks, .. } = state;
    let channel = channels.get_mut(name)?;
    let sink = channel.watchers.remove(&id);
    channel.count();
    if let Some(Sink::Buffer { buffer, channel_id }) = &sink {
        buffer.channel_removed(*channel_id);
    }
    if !channel.watchers.is_empty() {
        return None;
    }
    if let Some((poll, node_task)) = channel.poll.take().zip(node_tasks.get_mut(&channel.primary)) {
        node_task.desired.polls.remove(&(poll.due, name.clone()));
    }
    let Some(node_task) = node_tasks.get_mut(&channel.node) else {
        // The node is gone, and all of its subscriptions have ended.
        channels.remove(name);
        return None;
    };
    node_task.desired.to_unsubscribe.insert(name.clone());
    node_task.subscriptions.desired_changed.notify_one();
    channel.may_be_subscribed().then(|| channel.node.clone()).zip(sink)
}
