//! Polls keys, in case a message to their waiters was lost. One script call polls many keys. A
//! budget limits the polls at each node.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::channel::{Channel, SubscriptionState};
use super::manager::{State, SubscriptionManager};
use super::node::{Desired, NodeSubscriptions, NodeTask};
use crate::clock::Instant;
use crate::connection::{NodeId, Request, once};
use crate::script::BulkScript;

static TTL: BulkScript = BulkScript::new("pubsub/ttl", include_str!("ttl.lua"));
static SET_WAITING: BulkScript = BulkScript::new("pubsub/set-waiting", include_str!("set_waiting.lua"));

/// TTL of a waiter flag: 300 ms, the time of three polls. Each poll sets the flag anew.
const FLAG_TTL: Duration = Duration::from_millis(300);

pub(super) struct DuePoll {
    pub(super) channel: Bytes,
    pub(super) key: Bytes,
    /// The waiter flag to set; `None` if the channel has no flag, or if its subscription is active.
    pub(super) waiter_flag: Option<Bytes>,
}

/// Interval between two rounds of polls while keys are due: 100 ms. Each round polls at most a
/// tenth of the keys that `poll_budget` allows per second.
const TICK: Duration = Duration::from_millis(100);

/// Interval between two polls of a key whose channel is not active: 100 ms. This interval also
/// applies to waiters that poll by themselves.
pub const UNSUBSCRIBED_POLL: Duration = Duration::from_millis(100);

/// Result of `ttl.lua` for an absent key.
const ABSENT: i64 = -2;
/// Result of `ttl.lua` for a key that cannot be read. The waiter is woken. The reply to its own
/// request then shows why the key cannot be read.
const UNREADABLE: i64 = -3;

/// Polls due keys until the tasks of the node are ended.
pub(super) async fn poll_loop(manager: Arc<SubscriptionManager>, subscriptions: Arc<NodeSubscriptions>) {
    let per_tick = usize::try_from(manager.settings.poll_budget.div_ceil(10)).unwrap_or(usize::MAX);
    loop {
        match manager.next_poll_at(&subscriptions) {
            None => subscriptions.polls_changed.notified().await,
            Some(due) => {
                tokio::select! {
                    () = manager.clock.sleep_until(due) => {}
                    // A new key may be due before the key that the other branch waits for.
                    () = subscriptions.polls_changed.notified(), if due > manager.clock.now() + TICK => continue,
                }
                let due_polls = manager.take_due_polls(&subscriptions, per_tick);
                if !due_polls.is_empty() {
                    poll_keys(&manager, &subscriptions, due_polls).await;
                    tokio::time::sleep(TICK).await;
                }
            }
        }
    }
}

/// Polls keys. For each slot, one script reads the keys, and another one sets their waiter flags.
///
/// Outside a cluster, one script reads all keys.
async fn poll_keys(manager: &SubscriptionManager, subscriptions: &NodeSubscriptions, mut due_polls: Vec<DuePoll>) {
    let limit: Instant = manager.clock.now() + manager.settings.response_timeout;
    let slot = |due_poll: &DuePoll| manager.topology.slot(&due_poll.key);
    due_polls.sort_by_key(slot);
    let groups: Vec<&[DuePoll]> = due_polls.chunk_by(|one, other| slot(one) == slot(other)).collect();
    let mut requests: Vec<_> = groups
        .iter()
        .map(|group| TTL.with(group.iter().map(|due_poll| due_poll.key.clone())).idempotent().not_after(limit))
        .collect();
    for group in &groups {
        let waiter_flags: Vec<_> = group.iter().filter_map(|due_poll| due_poll.waiter_flag.clone()).collect();
        if !waiter_flags.is_empty() {
            // If the user has no permission to write the flags, the keys are polled nevertheless,
            // but the waiters are not announced to other processes.
            requests.push(set_waiting_request(waiter_flags).not_after(limit));
        }
    }
    let answers = subscriptions.server.call(requests).await;
    for (group, answer) in groups.iter().zip(answers) {
        if !matches!(&answer, Err(error) if error.is_not_sent() || error.is_unknown()) {
            subscriptions.record_contact(manager.clock.now());
        }
        match answer.and_then(|reply| reply.into_typed::<Vec<i64>>()) {
            Ok(left) => {
                for (due_poll, left) in group.iter().zip(left) {
                    if matches!(left, ABSENT | UNREADABLE) {
                        manager.resync(&due_poll.channel);
                    }
                }
            }
            // If the user has no permission to read one of the keys, the whole call fails. So all
            // waiters are woken, and each sends its own request. If the slot has moved, these
            // requests go to the new node.
            Err(error) if error.code().is_some() => group.iter().for_each(|due_poll| manager.resync(&due_poll.channel)),
            // No usable reply has arrived, so no waiter is woken.
            Err(_) => {}
        }
    }
}

fn set_waiting_request(waiter_flags: impl IntoIterator<Item = Bytes>) -> Request {
    let lifetime = i64::try_from(FLAG_TTL.as_millis()).unwrap_or(i64::MAX);
    SET_WAITING.with(waiter_flags).int(lifetime).idempotent()
}

/// Reschedules the next poll of a channel's key.
pub(super) fn reschedule_poll(
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

impl SubscriptionManager {
    /// Announces to other processes that a waiter of this process receives no messages. The flag
    /// expires after the time of three polls.
    ///
    /// If the user has no permission to write the flag, the waiter is not announced.
    pub async fn set_waiter_flag(&self, waiter_flag: &Bytes) {
        let limit = self.clock.now() + self.settings.response_timeout;
        let _ = once(&*self.topology, set_waiting_request([waiter_flag.clone()]).not_after(limit), limit).await;
    }

    /// Returns the TTL of a key; `None` if the key is absent or cannot be read. In both cases the
    /// reply to the caller's next request shows the state of the key.
    pub async fn key_ttl(&self, key: &Bytes) -> Option<Duration> {
        let request = TTL.with([key.clone()]).idempotent();
        let answer = once(&*self.topology, request, self.clock.now() + self.settings.response_timeout).await;
        let left = answer.result.and_then(|reply| reply.into_typed::<Vec<i64>>()).ok()?.first().copied()?;
        match left {
            ABSENT | UNREADABLE => None,
            // The key has no TTL, so only a message or the poll shows a change.
            ..0 => Some(Duration::MAX),
            left => Some(Duration::from_millis(left.unsigned_abs())),
        }
    }

    /// Takes at most `limit` polls that are due, and schedules the next poll of each key.
    fn take_due_polls(&self, subscriptions: &NodeSubscriptions, limit: usize) -> Vec<DuePoll> {
        let now = self.clock.now();
        let mut state = self.state.lock();
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

    fn next_poll_at(&self, subscriptions: &NodeSubscriptions) -> Option<Instant> {
        self.state.lock().node_tasks.get(subscriptions.server.id())?.desired.polls.first().map(|(due, _)| *due)
    }
}
