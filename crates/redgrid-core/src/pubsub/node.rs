//! Keeps the subscriptions at one node equal to the wanted ones.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use super::all_primaries::wire_name;
use super::channel::{Channel, Denial, SubscriptionState};
use super::manager::{State, SubscriptionManager};
use super::poll::{self, DuePoll, UNSUBSCRIBED_POLL};
use super::stream::internal_names;
use crate::clock::Instant;
use crate::connection::{ChannelKind, NodeId, Push, Refused, Server, TopologyHint, jittered};
use crate::error::{Code, ServerError};
use crate::shrink::shrink_if_sparse;

/// Maximum number of channels that are subscribed at once.
const CHUNK: usize = 256;

/// How long a denied channel is not tried again: a minute. Permissions are changed by hand.
const DENIED_RETRY: Duration = Duration::from_secs(60);

/// How long a denied sharded channel is not tried again: 1 s. It may have been denied because its
/// slot is moving.
const SHARDED_DENIED_RETRY: Duration = Duration::from_secs(1);

/// Longest pause (before jitter) between consecutive failures to subscribe: 5 s. Each failure may
/// cost a connection.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Maximum number of remembered denials. Beyond it, each new watcher of a denied channel tries
/// again.
const MAX_DENIALS: usize = 10_000;

/// Returns whether a refusal may concern one channel of several: an access rule about channels.
///
/// Any other refusal concerns the command, and with it all channels.
fn is_about_a_channel(why: &ServerError) -> bool {
    matches!(why, ServerError::Refused { code: Code::NoPermission, message } if message.contains("channel"))
}

/// The subscriptions at one node.
pub(super) struct NodeSubscriptions {
    pub(super) server: Arc<dyn Server>,
    /// Notified when the set of wanted channels has changed.
    pub(super) desired_changed: Notify,
    /// Notified when a poll was added or rescheduled.
    pub(super) polls_changed: Notify,
    /// Notified when the subscriber connection was lost or is new.
    reconnected: Notify,
    /// When the node last answered a poll, in nanoseconds.
    last_contact: AtomicU64,
    failures: Mutex<Failures>,
}

/// Consecutive failures to subscribe.
#[derive(Default)]
struct Failures {
    /// Number of failures on a connection that was up.
    count: u32,
    last: Option<ServerError>,
    /// Nothing is subscribed before this instant.
    paused_until: Option<Instant>,
}

impl Failures {
    /// Records a failure.
    ///
    /// The first one is usually a lost connection. Each further one may cost a connection of its
    /// own, so the pause between them doubles.
    fn add(&mut self, error: &ServerError, now: Instant, delay: Duration) {
        self.last = Some(error.clone());
        if matches!(error, ServerError::NotSent { .. }) {
            return;
        }
        self.count = self.count.saturating_add(1);
        self.paused_until = self.count.checked_sub(2).map(|doubled| {
            let pause = delay.saturating_mul(1 << doubled.min(16)).min(LONGEST_PAUSE);
            now + jittered(pause)
        });
    }
}

impl NodeSubscriptions {
    /// Returns why the last subscription failed, if none has succeeded since.
    pub(super) fn failure(&self) -> Option<ServerError> {
        self.failures().last.clone()
    }

    /// Returns the end of the pause that applies at `now`.
    fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.failures().paused_until.filter(|until| *until > now)
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns when the node last answered a poll.
    pub(super) fn last_contact(&self) -> Instant {
        Instant::from_nanos(self.last_contact.load(Ordering::Acquire))
    }

    /// Records that the node has just answered.
    pub(super) fn record_contact(&self, now: Instant) {
        self.last_contact.store(now.as_nanos(), Ordering::Release);
    }
}

/// The pending changes and polls at one node.
#[derive(Default)]
pub(super) struct Desired {
    /// Channels to subscribe, in chunks.
    pub(super) to_subscribe: BTreeSet<Bytes>,
    /// Channels to subscribe one by one, because they or their chunk were denied.
    to_subscribe_alone: BTreeSet<Bytes>,
    /// Channels without watchers, to unsubscribe.
    pub(super) to_unsubscribe: BTreeSet<Bytes>,
    /// Channels that have moved to another node and are still subscribed at this one.
    pub(super) to_unsubscribe_moved: BTreeSet<(ChannelKind, Bytes)>,
    pub(super) polls: BTreeSet<(Instant, Bytes)>,
    /// Number of gaps. A subscription from before a gap is not active after it.
    gap_count: u64,
    /// Whether an active subscription was lost. The gap is reported once all channels are
    /// subscribed again.
    pub(super) interrupted: bool,
}

impl Desired {
    /// Removes the pending changes of a channel that is no longer wanted here.
    pub(super) fn remove(&mut self, name: &Bytes) {
        self.to_subscribe.remove(name);
        self.to_subscribe_alone.remove(name);
        self.to_unsubscribe.remove(name);
    }
}

/// Changes when the key of a channel is polled next.
fn reschedule_poll(
    node_tasks: &mut HashMap<NodeId, NodeTask>,
    channel: &mut Channel,
    name: &Bytes,
    at: impl FnOnce(Instant) -> Instant,
) {
    let Some((poll, node_task)) = channel.poll.as_mut().zip(node_tasks.get_mut(&channel.primary)) else { return };
    node_task.desired.polls.remove(&(poll.due, name.clone()));
    poll.due = at(poll.due);
    node_task.desired.polls.insert((poll.due, name.clone()));
    node_task.subscriptions.polls_changed.notify_one();
}

/// Schedules a new subscription of a channel.
fn schedule_resubscription(
    node_tasks: &mut HashMap<NodeId, NodeTask>,
    node: &NodeId,
    (name, channel): (&Bytes, &mut Channel),
    now: Instant,
) {
    // The channel may have been subscribed, and may have delivered messages, before its
    // confirmation.
    channel.interrupt();
    if channel.subscription != SubscriptionState::Active {
        return;
    }
    channel.set_subscription(SubscriptionState::Pending);
    if let Some(NodeTask { desired, .. }) = node_tasks.get_mut(node) {
        desired.interrupted = true;
        desired.to_subscribe.insert(name.clone());
    }
    // No messages arrive meanwhile: poll soon, and often.
    reschedule_poll(node_tasks, channel, name, |due| due.min(now + UNSUBSCRIBED_POLL));
}

/// The subscriptions of a node, their pending changes, and the tasks that apply them. Dropping it
/// ends the tasks.
pub(super) struct NodeTask {
    pub(super) subscriptions: Arc<NodeSubscriptions>,
    pub(super) desired: Desired,
    tasks: [AbortHandle; 3],
}

impl NodeTask {
    pub(super) fn start(manager: Arc<SubscriptionManager>, server: Arc<dyn Server>) -> NodeTask {
        let subscriptions = Arc::new(NodeSubscriptions {
            server,
            desired_changed: Notify::new(),
            polls_changed: Notify::new(),
            reconnected: Notify::new(),
            last_contact: AtomicU64::new(0),
            failures: Mutex::default(),
        });
        let tasks = [
            tokio::spawn(dispatch(Arc::clone(&manager), Arc::clone(&subscriptions))),
            tokio::spawn(reconcile(Arc::clone(&manager), Arc::clone(&subscriptions))),
            tokio::spawn(poll::poll_loop(manager, Arc::clone(&subscriptions))),
        ];
        NodeTask { subscriptions, desired: Desired::default(), tasks: tasks.map(|task| task.abort_handle()) }
    }

    /// Returns whether this task is that of `subscriptions`, and not of a newer node at the same
    /// address.
    fn belongs_to(&self, subscriptions: &NodeSubscriptions) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.subscriptions), subscriptions)
    }
}

impl Drop for NodeTask {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Delivers messages to their watchers, and handles gaps and ended subscriptions.
async fn dispatch(manager: Arc<SubscriptionManager>, subscriptions: Arc<NodeSubscriptions>) {
    let mut pushes = subscriptions.server.pushes();
    while let Some(push) = pushes.recv().await {
        match push {
            Push::Message { channel, payload } => manager.deliver(&subscriptions, &channel, &payload),
            Push::ShardedMessage { channel, payload } => manager.deliver_sharded(&subscriptions, &channel, &payload),
            Push::PatternMessage { pattern, channel, payload } => {
                manager.deliver_pattern(&subscriptions, &pattern, &channel, &payload);
            }
            Push::Ended { channels } => manager.finish_draining(&subscriptions, |name| channels.contains(name)),
            Push::Lost { channel } => {
                manager.finish_draining(&subscriptions, |name| *name == channel);
                manager.sharded_channel_lost(&subscriptions, &channel);
                subscriptions.desired_changed.notify_one();
            }
            Push::Gap | Push::EventsGap | Push::PatternsGap => {
                let kind = match push {
                    Push::EventsGap => Some(ChannelKind::Events),
                    Push::PatternsGap => Some(ChannelKind::Patterns),
                    _ => None,
                };
                if kind.is_none() {
                    manager.finish_draining(&subscriptions, |_| true);
                }
                manager.schedule_resubscriptions(&subscriptions, kind);
                subscriptions.reconnected.notify_one();
                subscriptions.desired_changed.notify_one();
            }
        }
    }
}

const KINDS: [ChannelKind; 4] = [ChannelKind::Plain, ChannelKind::Sharded, ChannelKind::Events, ChannelKind::Patterns];

/// The changes to make next.
#[derive(Default)]
struct Diff {
    removals: [Vec<Bytes>; KINDS.len()],
    additions: Vec<Bytes>,
    kind: Option<ChannelKind>,
    /// Whether the channel is subscribed alone, because it or its chunk was denied.
    alone: bool,
}

/// Keeps the subscriptions equal to the wanted channels.
async fn reconcile(manager: Arc<SubscriptionManager>, subscriptions: Arc<NodeSubscriptions>) {
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
            let gap_count = manager.gap_count(&subscriptions);
            match subscriptions.server.subscribe(kind, additions.iter().map(wire_name).collect()).await {
                Ok(refused) => {
                    *subscriptions.failures() = Failures::default();
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

impl SubscriptionManager {
    fn gap_count(&self, subscriptions: &NodeSubscriptions) -> u64 {
        self.state().desired(subscriptions.server.id()).map_or(0, |desired| desired.gap_count)
    }

    /// Schedules new subscriptions of all channels, or of those of one kind.
    fn schedule_resubscriptions(&self, subscriptions: &NodeSubscriptions, kind: Option<ChannelKind>) {
        let now = self.clock.now();
        let node = subscriptions.server.id();
        let mut state = self.state();
        let State { channels, node_tasks, .. } = &mut *state;
        let Some(NodeTask { desired, .. }) =
            node_tasks.get_mut(node).filter(|node_task| node_task.belongs_to(subscriptions))
        else {
            return;
        };
        desired.gap_count += 1;
        let is_meant = |channel: &Channel| kind.is_none_or(|kind| channel.kind == kind);
        let is_here = |channel: &Channel| channel.node == *node && is_meant(channel);
        for (name, channel) in channels.iter_mut().filter(|(_, channel)| is_here(channel)) {
            schedule_resubscription(node_tasks, node, (name, channel), now);
        }
    }

    /// Schedules a new subscription, perhaps at another node, of a sharded channel that the server
    /// has ended.
    fn sharded_channel_lost(&self, subscriptions: &NodeSubscriptions, wire_name: &Bytes) {
        let now = self.clock.now();
        let node = subscriptions.server.id();
        {
            let mut state = self.state();
            let State { channels, node_tasks, .. } = &mut *state;
            let Some(NodeTask { desired, .. }) =
                node_tasks.get_mut(node).filter(|node_task| node_task.belongs_to(subscriptions))
            else {
                return;
            };
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

    /// Schedules another try of channels whose denial has expired; returns when the next denial
    /// expires.
    fn retry_denied(&self) -> Instant {
        let now = self.clock.now();
        let mut state = self.state();
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
        let mut state = self.state();
        let State { channels, node_tasks, draining, .. } = &mut *state;
        let node_task =
            node_tasks.get_mut(subscriptions.server.id()).filter(|node_task| node_task.belongs_to(subscriptions));
        let Some(NodeTask { desired, .. }) = node_task else { return Diff::default() };
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
        // Several channels may have one name on the wire. The server subscription stays while
        // another of them is subscribed here.
        for (kind, removals) in KINDS.into_iter().zip(&mut *removals) {
            removals.retain(|name| {
                let (mut still_used, mut has_watchers) = (false, false);
                for other in internal_names(&wire_name(name)).iter().filter(|other| *other != name) {
                    let other = channels.get_mut(other).filter(|other| other.is_at(subscriptions.server.id(), kind));
                    let Some(other) = other else { continue };
                    // The last one of them is unsubscribed, whatever the outcome of its own
                    // SUBSCRIBE.
                    (other.subscribe_sent, other.confirmed_or_unknown, still_used) = (true, true, true);
                    has_watchers |= !other.watchers.is_empty();
                }
                // While another one has watchers, no unsubscription follows, so the draining sinks
                // end now. Otherwise they end when the last channel of the name does.
                if has_watchers {
                    draining.remove(name);
                }
                !still_used
            });
        }
        if subscriptions.paused_until(self.clock.now()).is_some() {
            return diff;
        }
        // One kind at a time, because a command carries only one. Names of event channels sort
        // before those of waiters' channels, so they are taken later. A connection for events that
        // cannot be opened then does not delay waiters.
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
        let mut state = self.state();
        let State { channels, node_tasks, .. } = &mut *state;
        if !node_tasks.get(node).is_some_and(|node_task| node_task.belongs_to(subscriptions)) {
            return;
        }
        // Re-checks beyond the poll budget of a second would be a storm; the poll reaches the rest.
        let mut resync_budget = self.settings.poll_budget;
        for name in chunk {
            let Some(NodeTask { desired, .. }) = node_tasks.get_mut(node) else { return };
            // The last watcher may have left meanwhile: then the channel is in `to_unsubscribe`.
            let Some(channel) = channels.get_mut(name).filter(|channel| channel.is_at(node, kind)) else {
                // The channel has moved, and must not be received twice.
                if kind != ChannelKind::Sharded && channels.contains_key(name) {
                    desired.to_unsubscribe_moved.insert((kind, name.clone()));
                }
                continue;
            };
            channel.confirmed_or_unknown = true;
            if desired.gap_count != gap_count {
                // The confirmation came from a connection that has been lost since, or from the new
                // one before its gap was reported.
                desired.to_subscribe.insert(name.clone());
                continue;
            }
            channel.set_subscription(SubscriptionState::Active);
            // A waiter must check its key after the first confirmation. A later confirmation ends a
            // gap, in which messages may be lost.
            if channel.has_no_poll() {
                // These watchers have no poll, and each re-checks by itself.
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

    /// Records the denials of the refused channels of `chunk`, and marks the others as active.
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
            let mut state = self.state();
            let State { channels, denied, node_tasks, .. } = &mut *state;
            let Some(NodeTask { desired, .. }) =
                node_tasks.get_mut(node).filter(|node_task| node_task.belongs_to(subscriptions))
            else {
                return;
            };
            for (name, why) in &refused {
                let Some(channel) = channels.get_mut(name).filter(|channel| channel.is_at(node, kind)) else {
                    continue;
                };
                if kind != ChannelKind::Sharded && names > 1 && is_about_a_channel(why) {
                    // The error may concern any channel of the command.
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
            // Their slot may have moved.
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
            let mut state = self.state();
            let State { channels, node_tasks, .. } = &mut *state;
            let Some(NodeTask { desired, .. }) =
                node_tasks.get_mut(node).filter(|node_task| node_task.belongs_to(subscriptions))
            else {
                return;
            };
            for name in chunk {
                let Some(channel) = channels.get_mut(name).filter(|channel| channel.is_at(node, kind)) else {
                    continue;
                };
                channel.confirmed_or_unknown = true;
                // A channel that was tried alone stays alone: in a chunk it could get the others
                // denied again.
                let queue = if alone { &mut desired.to_subscribe_alone } else { &mut desired.to_subscribe };
                queue.insert(name.clone());
            }
        }
        tracing::debug!(%node, %error, channels = chunk.len(), "subscription failed");
        subscriptions.failures().add(error, self.clock.now(), self.settings.retry_delay);
        // A new connection reports a gap. The timeout is for a node that keeps its connection.
        let _ = tokio::time::timeout(self.settings.retry_delay, subscriptions.reconnected.notified()).await;
    }

    /// Takes at most `limit` polls that are due, and schedules the next poll of each.
    pub(super) fn take_due_polls(&self, subscriptions: &NodeSubscriptions, limit: usize) -> Vec<DuePoll> {
        let now = self.clock.now();
        let mut state = self.state();
        let State { channels, node_tasks, .. } = &mut *state;
        let Some(NodeTask { desired: Desired { polls, .. }, .. }) = node_tasks.get_mut(subscriptions.server.id())
        else {
            return Vec::new();
        };
        let mut due_polls = Vec::new();
        while due_polls.len() < limit {
            let Some((due, name)) = polls.first().cloned() else { break };
            if due > now {
                break;
            }
            polls.pop_first();
            let Some(channel) = channels.get_mut(&name) else { continue };
            let active = channel.subscription == SubscriptionState::Active;
            let interval = if active { self.settings.poll_interval } else { UNSUBSCRIBED_POLL };
            let Channel { poll: Some(poll), .. } = channel else { continue };
            poll.due = now + interval;
            let waiter_flag = poll.waiter_flag.clone().filter(|_| !active);
            due_polls.push(DuePoll { channel: name.clone(), key: poll.key.clone(), waiter_flag });
            polls.insert((poll.due, name));
        }
        due_polls
    }

    /// Returns when the next poll is due.
    pub(super) fn next_poll_at(&self, subscriptions: &NodeSubscriptions) -> Option<Instant> {
        self.state().node_tasks.get(subscriptions.server.id())?.desired.polls.first().map(|(due, _)| *due)
    }
}
