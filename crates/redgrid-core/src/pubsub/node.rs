//! What is subscribed at one node, kept equal to what is wanted there.

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

/// Channels subscribed by one command.
const CHUNK: usize = 256;

/// How long a denied channel is left alone before it is tried again: a minute. Permissions change by hand.
const DENIED_RETRY: Duration = Duration::from_secs(60);

/// The same for a sharded channel: it may have been denied because its slot is on its way.
const SHARDED_DENIED_RETRY: Duration = Duration::from_secs(1);

/// The longest pause between subscriptions that fail one after another: 5 s. Each may cost a connection.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Denied channels that are remembered; beyond that each new watcher of one tries again.
const MAX_DENIALS: usize = 10_000;

/// Whether a refusal may concern one channel of several: an access rule about channels. Any other
/// refusal concerns the command, and all of its channels.
fn is_about_a_channel(why: &ServerError) -> bool {
    matches!(why, ServerError::Refused { code: Code::NoPermission, message } if message.contains("channel"))
}

/// One node as the hub sees it.
pub(super) struct NodeSubscriptions {
    pub(super) server: Arc<dyn Server>,
    /// The set of wanted channels has changed.
    pub(super) desired_changed: Notify,
    /// There is something to poll for.
    pub(super) polls_changed: Notify,
    /// The subscriber connection is new.
    reconnected: Notify,
    /// When the node last answered a poll, in nanoseconds.
    last_contact: AtomicU64,
    failures: Mutex<Failures>,
}

/// Subscriptions that failed one after another.
#[derive(Default)]
struct Failures {
    /// How many failed on a connection that was up.
    count: u32,
    last: Option<ServerError>,
    /// Nothing is subscribed before this instant.
    paused_until: Option<Instant>,
}

impl Failures {
    /// Records one more. The first is usually a connection that was lost; from the second on each may
    /// cost a connection of its own, and the pause between them doubles.
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
    /// Why the last subscription failed, if none has succeeded since.
    pub(super) fn failure(&self) -> Option<ServerError> {
        self.failures().last.clone()
    }

    /// The end of a pause that lasts at `now`.
    fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.failures().paused_until.filter(|until| *until > now)
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// When the node last answered a poll.
    pub(super) fn last_contact(&self) -> Instant {
        Instant::from_nanos(self.last_contact.load(Ordering::Acquire))
    }

    /// The node has answered just now.
    pub(super) fn record_contact(&self, now: Instant) {
        self.last_contact.store(now.as_nanos(), Ordering::Release);
    }
}

/// What is wanted at one node, as far as it is not in force yet.
#[derive(Default)]
pub(super) struct Desired {
    /// Channels to subscribe, in chunks.
    pub(super) to_subscribe: BTreeSet<Bytes>,
    /// Channels to subscribe one by one, because they were part of a chunk that was denied.
    to_subscribe_alone: BTreeSet<Bytes>,
    /// Channels that nobody watches any more.
    pub(super) to_unsubscribe: BTreeSet<Bytes>,
    /// Channels that have moved elsewhere and are still subscribed here.
    pub(super) to_unsubscribe_moved: BTreeSet<(ChannelKind, Bytes)>,
    pub(super) polls: BTreeSet<(Instant, Bytes)>,
    /// Counts the gaps: what was subscribed before one is not in force after it.
    gap_count: u64,
    /// Something was in force and is so no more; told when all is again.
    pub(super) interrupted: bool,
}

impl Desired {
    /// The channel is wanted here no more.
    pub(super) fn remove(&mut self, name: &Bytes) {
        self.to_subscribe.remove(name);
        self.to_subscribe_alone.remove(name);
        self.to_unsubscribe.remove(name);
    }
}

/// Has the names looked at at another time.
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

/// The channel is to be subscribed anew.
fn schedule_resubscription(
    node_tasks: &mut HashMap<NodeId, NodeTask>,
    node: &NodeId,
    (name, channel): (&Bytes, &mut Channel),
    now: Instant,
) {
    // It may have been subscribed, and heard, and not be known so.
    channel.interrupt();
    if channel.subscription != SubscriptionState::Active {
        return;
    }
    channel.set_subscription(SubscriptionState::Pending);
    if let Some(NodeTask { desired, .. }) = node_tasks.get_mut(node) {
        desired.interrupted = true;
        desired.to_subscribe.insert(name.clone());
    }
    // Nobody will tell meanwhile: look soon, and often.
    reschedule_poll(node_tasks, channel, name, |due| due.min(now + UNSUBSCRIBED_POLL));
}

/// A lane with what is wanted there, and the tasks that see to it. Dropped, they end.
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

    /// Whether it is still that of `lane`, and not of another node that has appeared at the same address.
    fn belongs_to(&self, subscriptions: &NodeSubscriptions) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.subscriptions), subscriptions)
    }
}

impl Drop for NodeTask {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Hands messages to their watchers.
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

/// What is to be changed next.
#[derive(Default)]
struct Diff {
    removals: [Vec<Bytes>; KINDS.len()],
    additions: Vec<Bytes>,
    kind: Option<ChannelKind>,
    /// It was part of a denied chunk.
    alone: bool,
}

/// Keeps what is subscribed equal to what is wanted.
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

    /// All channels are to be subscribed anew, or only those of a kind.
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

    /// A sharded channel is to be subscribed anew, perhaps elsewhere.
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

    /// Has channels tried again that were denied long ago; returns when the next is due.
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
        // The server knows it by its name alone: while there is another one of that name it stays subscribed.
        for (kind, removals) in KINDS.into_iter().zip(&mut *removals) {
            removals.retain(|name| {
                let (mut still_used, mut has_watchers) = (false, false);
                for other in internal_names(&wire_name(name)).iter().filter(|other| *other != name) {
                    let other = channels.get_mut(other).filter(|other| other.is_at(subscriptions.server.id(), kind));
                    let Some(other) = other else { continue };
                    // Who is the last to go has it unsubscribed, whatever became of what was asked in his name.
                    (other.subscribe_sent, other.confirmed_or_unknown, still_used) = (true, true, true);
                    has_watchers |= !other.watchers.is_empty();
                }
                // Where nobody hears it, the end of the other one is told to those who do until then.
                if has_watchers {
                    draining.remove(name);
                }
                !still_used
            });
        }
        if subscriptions.paused_until(self.clock.now()).is_some() {
            return diff;
        }
        // One kind at a time; a command carries one. Those of events, which are first by their names, are last: a connection of
        // theirs that can not be had holds up no others.
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
        // More than a second's budget at once would be a storm; the poll reaches the rest.
        let mut resync_budget = self.settings.poll_budget;
        for name in chunk {
            let Some(NodeTask { desired, .. }) = node_tasks.get_mut(node) else { return };
            // Left by its last watcher meanwhile: `to_leave` has it.
            let Some(channel) = channels.get_mut(name).filter(|channel| channel.is_at(node, kind)) else {
                // Moved meanwhile, and not to be heard twice.
                if kind != ChannelKind::Sharded && channels.contains_key(name) {
                    desired.to_unsubscribe_moved.insert((kind, name.clone()));
                }
                continue;
            };
            channel.confirmed_or_unknown = true;
            if desired.gap_count != gap_count {
                // Confirmed by a connection that has gone since, or by the one that was told of late.
                desired.to_subscribe.insert(name.clone());
                continue;
            }
            channel.set_subscription(SubscriptionState::Active);
            // The first subscription is followed by a look of the waiter's own; a renewed one is a gap.
            if channel.has_no_poll() {
                // Nothing else tells those who listen, and they ask by themselves.
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

    /// Some of `chunk` were refused, the others are in force.
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
                    // The error may be about any of them.
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
            // Perhaps because their slot is elsewhere.
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
                // One that is tried alone stays so: in a chunk it could have the others denied again.
                let queue = if alone { &mut desired.to_subscribe_alone } else { &mut desired.to_subscribe };
                queue.insert(name.clone());
            }
        }
        tracing::debug!(%node, %error, channels = chunk.len(), "subscription failed");
        subscriptions.failures().add(error, self.clock.now(), self.settings.retry_delay);
        // A new connection tells its gap. The bound is for a node that keeps its connection.
        let _ = tokio::time::timeout(self.settings.retry_delay, subscriptions.reconnected.notified()).await;
    }

    /// Takes the names that are due for a look, at most `most`, and sets when they are due again.
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

    /// When the next name is due for a look.
    pub(super) fn next_poll_at(&self, subscriptions: &NodeSubscriptions) -> Option<Instant> {
        self.state().node_tasks.get(subscriptions.server.id())?.desired.polls.first().map(|(due, _)| *due)
    }
}
