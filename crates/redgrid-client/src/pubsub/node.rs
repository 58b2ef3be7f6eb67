//! Keeps the subscriptions at one node equal to the wanted ones.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;

use super::manager::SubscriptionManager;
use super::poll;
use super::reconcile::reconcile;
use crate::clock::Instant;
use crate::connection::{ChannelKind, NodeId, Push, Server, jittered};
use crate::error::ServerError;
use crate::sync::Mutex;

/// Longest pause (before jitter) after repeated failures to subscribe: 5 s. After each failure, the
/// client may have to replace the subscriber connection, which must not happen too often.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The subscriptions at one node.
pub(super) struct NodeSubscriptions {
    pub(super) server: Arc<dyn Server>,
    /// Notified when the set of wanted channels has changed.
    pub(super) desired_changed: Notify,
    /// Notified when a poll was added or rescheduled.
    pub(super) polls_changed: Notify,
    /// Notified when the subscriber connection is lost or re-established.
    pub(super) reconnected: Notify,
    /// The instant at which the node last answered a poll, in nanoseconds.
    last_contact: AtomicU64,
    pub(super) failures: Mutex<Failures>,
}

/// Consecutive failures to subscribe.
#[derive(Default)]
pub(super) struct Failures {
    /// Number of failures. An attempt that was not sent is not counted.
    count: u32,
    last: Option<ServerError>,
    /// Nothing is subscribed before this instant.
    paused_until: Option<Instant>,
}

impl Failures {
    /// Records a failure.
    ///
    /// The first failure usually comes from a lost connection, and causes no pause. After each
    /// further consecutive failure, the client may have to replace the subscriber connection. So
    /// each of these failures causes a pause that is twice as long as the previous one, up to
    /// [`LONGEST_PAUSE`].
    pub(super) fn add(&mut self, error: &ServerError, now: Instant, delay: Duration) {
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
    /// Returns why the last attempt to subscribe failed; `None` if that attempt succeeded.
    pub(super) fn failure(&self) -> Option<ServerError> {
        self.failures.lock().last.clone()
    }

    /// Returns the end of the current pause; `None` if there is no pause.
    pub(super) fn paused_until(&self, now: Instant) -> Option<Instant> {
        self.failures.lock().paused_until.filter(|until| *until > now)
    }

    pub(super) fn last_contact(&self) -> Instant {
        Instant::from_nanos(self.last_contact.load(Ordering::Acquire))
    }

    /// Records that the node has just answered a poll.
    pub(super) fn record_contact(&self, now: Instant) {
        self.last_contact.store(now.as_nanos(), Ordering::Release);
    }
}

/// The pending changes and polls at one node.
#[derive(Default)]
pub(super) struct Desired {
    /// Channels to subscribe, in chunks.
    pub(super) to_subscribe: BTreeSet<Bytes>,
    /// Channels to subscribe one by one, each by its own command. The server has denied each of
    /// them, or a command that contained it.
    pub(super) to_subscribe_alone: BTreeSet<Bytes>,
    /// Channels without watchers, to unsubscribe.
    pub(super) to_unsubscribe: BTreeSet<Bytes>,
    /// Channels that have moved to another node and are still subscribed at this one.
    pub(super) to_unsubscribe_moved: BTreeSet<(ChannelKind, Bytes)>,
    pub(super) polls: BTreeSet<(Instant, Bytes)>,
    /// Number of gaps. A subscription that was requested before a gap is not active after the gap.
    pub(super) gap_count: u64,
    /// Whether an active subscription was lost. [`Events::gap`](crate::connection::Events::gap) is
    /// called once all channels are subscribed again.
    pub(super) interrupted: bool,
}

impl Desired {
    /// Removes the pending changes of a channel that is no longer wanted at this node.
    pub(super) fn remove(&mut self, name: &Bytes) {
        self.to_subscribe.remove(name);
        self.to_subscribe_alone.remove(name);
        self.to_unsubscribe.remove(name);
    }
}

/// The subscriptions of a node, their pending changes, and the tasks that apply them. Dropping this
/// value ends the tasks.
pub(super) struct NodeTask {
    pub(super) subscriptions: Arc<NodeSubscriptions>,
    pub(super) desired: Desired,
    tasks: [AbortHandle; 3],
}

impl NodeTask {
    pub(super) fn start(manager: Arc<SubscriptionManager>, server: Arc<dyn Server>) -> NodeTask {
        // Open the stream before the tasks start. Otherwise `reconcile` might subscribe before the
        // stream is open, and messages after the confirmation would be lost without a gap.
        let pushes = server.pushes();
        let subscriptions = Arc::new(NodeSubscriptions {
            server,
            desired_changed: Notify::new(),
            polls_changed: Notify::new(),
            reconnected: Notify::new(),
            last_contact: AtomicU64::new(0),
            failures: Mutex::default(),
        });
        let tasks = [
            tokio::spawn(dispatch(Arc::clone(&manager), Arc::clone(&subscriptions), pushes)),
            tokio::spawn(reconcile(Arc::clone(&manager), Arc::clone(&subscriptions))),
            tokio::spawn(poll::poll_loop(manager, Arc::clone(&subscriptions))),
        ];
        NodeTask { subscriptions, desired: Desired::default(), tasks: tasks.map(|task| task.abort_handle()) }
    }
}

/// Returns the pending changes at the node of `subscriptions`; `None` if that node was removed, or
/// replaced by a new one with the same address.
pub(super) fn own_desired<'a>(
    node_tasks: &'a mut HashMap<NodeId, NodeTask>,
    subscriptions: &NodeSubscriptions,
) -> Option<&'a mut Desired> {
    let node_task = node_tasks.get_mut(subscriptions.server.id())?;
    std::ptr::eq(Arc::as_ptr(&node_task.subscriptions), subscriptions).then_some(&mut node_task.desired)
}

impl Drop for NodeTask {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

/// Delivers messages to their watchers, and handles gaps and ended subscriptions.
async fn dispatch(
    manager: Arc<SubscriptionManager>,
    subscriptions: Arc<NodeSubscriptions>,
    mut pushes: mpsc::UnboundedReceiver<Push>,
) {
    while let Some(push) = pushes.recv().await {
        match push {
            Push::Message { channel, payload } => {
                manager.deliver(&subscriptions, (ChannelKind::Plain, &channel), &channel, &payload);
            }
            Push::ShardedMessage { channel, payload } => {
                manager.deliver(&subscriptions, (ChannelKind::Sharded, &channel), &channel, &payload);
            }
            Push::PatternMessage { pattern, channel, payload } => {
                manager.deliver(&subscriptions, (ChannelKind::Patterns, &pattern), &channel, &payload);
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
