//! Looking at keys for waiters whose message may have been lost: many names in one script, under a budget per node.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::manager::SubscriptionManager;
use super::node::NodeSubscriptions;
use crate::clock::Instant;
use crate::connection::{Request, once};
use crate::script::BulkScript;

static TTL: BulkScript = BulkScript::new("pubsub/ttl", include_str!("ttl.lua"));
static SET_WAITING: BulkScript = BulkScript::new("pubsub/set-waiting", include_str!("set_waiting.lua"));

/// How long a mark says that somebody waits: three looks. It is set anew at each.
const FLAG_TTL: Duration = Duration::from_millis(300);

/// One look at a name.
pub(super) struct DuePoll {
    pub(super) channel: Bytes,
    pub(super) key: Bytes,
    /// Where to leave word of it, as no message reaches us.
    pub(super) waiter_flag: Option<Bytes>,
}

/// How often the poll runs while names are due. The budget of a second is spent in ten parts.
const TICK: Duration = Duration::from_millis(100);

/// How often names are looked at while their channel is not in force: every 100 ms.
pub(super) const UNSUBSCRIBED_POLL: Duration = Duration::from_millis(100);

/// What `peek.lua` answers for a key that is gone.
const ABSENT: i64 = -2;
/// What it answers for a key that can not be read; the waiter is to find out itself.
const UNREADABLE: i64 = -3;

/// Runs for as long as the post at its node.
pub(super) async fn poll_loop(manager: Arc<SubscriptionManager>, subscriptions: Arc<NodeSubscriptions>) {
    let per_tick = usize::try_from(manager.settings.poll_budget.div_ceil(10)).unwrap_or(usize::MAX);
    loop {
        match manager.next_poll_at(&subscriptions) {
            None => subscriptions.polls_changed.notified().await,
            Some(due) => {
                tokio::select! {
                    () = manager.clock.sleep_until(due) => {}
                    // A new name may be due earlier than the one this sleeps for.
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

/// One script for the names of a slot (all, where there are no slots), and one for their marks.
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
            // A user who may not write them polls without being waited for.
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
            // One key that the user may not read refuses the whole call: let each waiter find out itself. So it is where
            // the slot has moved: the try follows it.
            Err(error) if error.code().is_some() => group.iter().for_each(|due_poll| manager.resync(&due_poll.channel)),
            // Without contact there is nothing to tell.
            Err(_) => {}
        }
    }
}

/// Leaves word that somebody waits. A user who may not write it is not waited for.
pub(super) async fn set_waiter_flag(manager: &SubscriptionManager, waiter_flag: &Bytes) {
    let limit = manager.clock.now() + manager.settings.response_timeout;
    let _ = once(&*manager.topology, set_waiting_request([waiter_flag.clone()]).not_after(limit), limit).await;
}

fn set_waiting_request(waiter_flags: impl IntoIterator<Item = Bytes>) -> Request {
    let lifetime = i64::try_from(FLAG_TTL.as_millis()).unwrap_or(i64::MAX);
    SET_WAITING.with(waiter_flags).int(lifetime).idempotent()
}

/// One look at one key, now.
pub(super) async fn key_ttl(manager: &SubscriptionManager, key: &Bytes) -> Option<Duration> {
    let request = TTL.with([key.clone()]).idempotent();
    let answer = once(&*manager.topology, request, manager.clock.now() + manager.settings.response_timeout).await;
    let left = answer.result.and_then(|reply| reply.into_typed::<Vec<i64>>()).ok()?.first().copied()?;
    match left {
        ABSENT | UNREADABLE => None,
        // No lifetime: only a message or the poll will tell.
        ..0 => Some(Duration::MAX),
        left => Some(Duration::from_millis(left.unsigned_abs())),
    }
}
