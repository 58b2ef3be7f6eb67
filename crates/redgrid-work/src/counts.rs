//! Numbers of messages in each state of a queue, and totals since its creation.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Parses the reply of counts.lua.
pub fn parse_counts(reply: &[u64]) -> Option<Counts> {
    let [ready, delayed, in_flight, dead, overdue, oldest, now, paused, totals @ ..] = reply else { return None };
    let &[pushed, first, redelivered, acknowledged, returned, died, expired] = totals else { return None };
    Some(Counts {
        ready: *ready,
        delayed: *delayed,
        in_flight: *in_flight,
        dead: *dead,
        overdue: *overdue,
        oldest_ready_age: (*oldest > 0).then(|| Duration::from_millis(now.saturating_sub(*oldest))),
        paused_since: Some(*paused).filter(|paused| *paused > 0).and_then(time),
        totals: Totals { pushed, received: first + redelivered, redelivered, acknowledged, returned, died, expired },
    })
}

/// Returns a time of the server in milliseconds since 1970.
fn time(millis: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_millis(millis))
}

/// Numbers of messages in each state, and totals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Ready to be received. Expired messages count until a change or a receive drops them.
    pub ready: u64,
    /// Not ready yet.
    pub delayed: u64,
    /// Received, but not settled.
    pub in_flight: u64,
    /// Dead letters: messages that are not delivered any more.
    pub dead: u64,
    /// Of the ready messages, those that were received and not settled within their visibility. The
    /// next receive returns them to the queue, or makes them dead letters.
    pub overdue: u64,
    /// How long the oldest ready message has been ready, by the server's clock, in whole
    /// milliseconds. `None` if none is ready.
    ///
    /// A message is ready from its push or redrive on; if it was delayed or returned, from the end
    /// of its delay; if it was not settled in time, from the end of its visibility. Only the first
    /// ten messages of each priority are compared, so a younger message may be taken for the
    /// oldest if many messages were returned.
    pub oldest_ready_age: Option<Duration>,
    /// Since when the queue is paused, by the server's clock. `None` if it is not.
    pub paused_since: Option<SystemTime>,
    /// Totals since the queue was created.
    pub totals: Totals,
}

/// Totals since a queue was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Totals {
    /// Messages pushed.
    pub pushed: u64,
    /// Messages received.
    pub received: u64,
    /// Received messages that had been delivered earlier.
    pub redelivered: u64,
    /// Messages acknowledged.
    pub acknowledged: u64,
    /// Messages returned, or not settled in time.
    pub returned: u64,
    /// Messages that became dead letters.
    pub died: u64,
    /// Messages whose lifetime ended, including dead letters.
    pub expired: u64,
}
