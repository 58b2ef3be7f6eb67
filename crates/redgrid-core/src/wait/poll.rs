//! Looking at keys for waiters whose message may have been lost: many names in one script, under a budget per node.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::hub::Hub;
use super::lane::Lane;
use crate::clock::Instant;
use crate::connection::{Request, once};
use crate::script::BulkScript;

static PEEK: BulkScript = BulkScript::new("wait/peek", include_str!("peek.lua"));
static MARK: BulkScript = BulkScript::new("wait/mark", include_str!("mark.lua"));

/// How long a mark says that somebody waits: three looks. It is set anew at each.
const MARKED: Duration = Duration::from_millis(300);

/// One look at a name.
pub(super) struct Look {
    pub(super) channel: Bytes,
    pub(super) key: Bytes,
    /// Where to leave word of it, as no message reaches us.
    pub(super) mark: Option<Bytes>,
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
pub(super) async fn run(hub: Arc<Hub>, lane: Arc<Lane>) {
    let part = usize::try_from(hub.settings.poll_budget.div_ceil(10)).unwrap_or(usize::MAX);
    loop {
        match hub.next_due(&lane) {
            None => lane.polls.notified().await,
            Some(due) => {
                tokio::select! {
                    () = hub.clock.sleep_until(due) => {}
                    // A new name may be due earlier than the one this sleeps for.
                    () = lane.polls.notified(), if due > hub.clock.now() + TICK => continue,
                }
                let looks = hub.due(&lane, part);
                if !looks.is_empty() {
                    look(&hub, &lane, looks).await;
                    tokio::time::sleep(TICK).await;
                }
            }
        }
    }
}

/// One script for the names of a slot (all, where there are no slots), and one for their marks.
async fn look(hub: &Hub, lane: &Lane, mut looks: Vec<Look>) {
    let limit: Instant = hub.clock.now() + hub.settings.response_timeout;
    let slot = |look: &Look| hub.topology.slot(&look.key);
    looks.sort_by_key(slot);
    let groups: Vec<&[Look]> = looks.chunk_by(|one, other| slot(one) == slot(other)).collect();
    let mut requests: Vec<_> = groups
        .iter()
        .map(|group| PEEK.with(group.iter().map(|look| look.key.clone())).idempotent().not_after(limit))
        .collect();
    for group in &groups {
        let marks: Vec<_> = group.iter().filter_map(|look| look.mark.clone()).collect();
        if !marks.is_empty() {
            // A user who may not write them polls without being waited for.
            requests.push(marking(marks).not_after(limit));
        }
    }
    let answers = lane.server.call(requests).await;
    for (group, answer) in groups.iter().zip(answers) {
        if !matches!(&answer, Err(error) if error.is_not_sent() || error.is_unknown()) {
            lane.answered(hub.clock.now());
        }
        match answer.and_then(|reply| reply.into_typed::<Vec<i64>>()) {
            Ok(left) => {
                for (look, left) in group.iter().zip(left) {
                    if matches!(left, ABSENT | UNREADABLE) {
                        hub.recheck(&look.channel);
                    }
                }
            }
            // One key that the user may not read refuses the whole call: let each waiter find out itself. So it is where
            // the slot has moved: the try follows it.
            Err(error) if error.code().is_some() => group.iter().for_each(|look| hub.recheck(&look.channel)),
            // Without contact there is nothing to tell.
            Err(_) => {}
        }
    }
}

/// Leaves word that somebody waits. A user who may not write it is not waited for.
pub(super) async fn mark(hub: &Hub, mark: &Bytes) {
    let limit = hub.clock.now() + hub.settings.response_timeout;
    let _ = once(&*hub.topology, marking([mark.clone()]).not_after(limit), limit).await;
}

fn marking(marks: impl IntoIterator<Item = Bytes>) -> Request {
    let lifetime = i64::try_from(MARKED.as_millis()).unwrap_or(i64::MAX);
    MARK.with(marks).int(lifetime).idempotent()
}

/// One look at one key, now.
pub(super) async fn peek(hub: &Hub, key: &Bytes) -> Option<Duration> {
    let request = PEEK.with([key.clone()]).idempotent();
    let answer = once(&*hub.topology, request, hub.clock.now() + hub.settings.response_timeout).await;
    let left = answer.result.and_then(|reply| reply.into_typed::<Vec<i64>>()).ok()?.first().copied()?;
    match left {
        ABSENT | UNREADABLE => None,
        // No lifetime: only a message or the poll will tell.
        ..0 => Some(Duration::MAX),
        left => Some(Duration::from_millis(left.unsigned_abs())),
    }
}
