//! Looking at keys for waiters whose message may have been lost: many names in one script, under a budget per node.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::hub::Hub;
use crate::clock::Instant;
use crate::error::ServerError;
use crate::script::BulkScript;

static PEEK: BulkScript = BulkScript::new("wait/peek", include_str!("peek.lua"));

/// How often the poll runs while names are due. The budget of a second is spent in ten parts.
const TICK: Duration = Duration::from_millis(100);

/// What `peek.lua` answers for a key that is gone.
const ABSENT: i64 = -2;
/// What it answers for a key that can not be read; the waiter is to find out itself.
const UNREADABLE: i64 = -3;

/// Runs for as long as the hub's tasks do.
pub(super) async fn run(hub: Arc<Hub>) {
    let part = usize::try_from(hub.settings.poll_budget.div_ceil(10)).unwrap_or(usize::MAX);
    loop {
        match hub.next_due() {
            None => hub.polls.notified().await,
            Some(due) => {
                tokio::select! {
                    () = hub.clock.sleep_until(due) => {}
                    // A new name may be due earlier than the one this sleeps for.
                    () = hub.polls.notified(), if due > hub.clock.now() + TICK => continue,
                }
                let names = hub.due(part);
                if !names.is_empty() {
                    look(&hub, names).await;
                    tokio::time::sleep(TICK).await;
                }
            }
        }
    }
}

async fn look(hub: &Hub, names: Vec<(Bytes, Bytes)>) {
    let request = PEEK.with(names.iter().map(|(_, key)| key.clone())).idempotent();
    let limit: Instant = hub.clock.now() + hub.settings.timeout;
    let answer = hub.server.call(vec![request.not_after(limit)]).await.pop();
    if answer
        .as_ref()
        .is_some_and(|answer| !matches!(answer, Err(ServerError::NotSent { .. } | ServerError::Unknown { .. })))
    {
        hub.answered();
    }
    match answer.map(|answer| answer.and_then(|reply| reply.into_typed::<Vec<i64>>())) {
        Some(Ok(left)) => {
            for ((channel, _), left) in names.iter().zip(left) {
                if matches!(left, ABSENT | UNREADABLE) {
                    hub.recheck(channel);
                }
            }
        }
        // One key that the user may not read refuses the whole call: let each waiter find out itself.
        Some(Err(error)) if error.code().is_some() => names.iter().for_each(|(channel, _)| hub.recheck(channel)),
        // Without contact there is nothing to tell.
        _ => {}
    }
}
