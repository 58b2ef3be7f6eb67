//! A lock as text for people.

use std::fmt::Write as _;

use redgrid_inspect::{Answer, HolderState, HolderView, LockView, Mode};

use super::{SHOWN, hold, millis, report};
use crate::text::{holder_text, lease_text, printable, process_text, time_text};

/// Formats a lock with its holders and waiters.
pub(super) fn text(view: &LockView, answers: &[Answer]) -> String {
    let mut text = format!("{}: {}", printable(&view.name), if view.is_held() { "held" } else { "free" });
    // Writing to a `String` cannot fail.
    for holder in view.holders.iter().take(SHOWN) {
        let _ = write!(text, "\n  holder   {}", holder_text(&holder.client, holder.number));
        let _ = write!(text, "\n  entered  {}", times_text(holder.entries));
        if holder.mode != Mode::Exclusive {
            let _ = write!(text, "\n  mode     {}", holder.mode.as_str());
        }
        let _ = write!(text, "\n  state    {}", state_text(view, holder));
        if let Some(report) = report(holder, answers) {
            let (label, held_for) = hold(&view.name, holder, report);
            let label = label.map(|label| format!(", label `{}`", printable(&label))).unwrap_or_default();
            let held_for = held_for.map(|time| format!(", for {}", time_text(time))).unwrap_or_default();
            let _ = write!(text, "\n  process  {}{label}{held_for}", process_text(report));
        }
    }
    let shown = u64::try_from(view.holders.len().min(SHOWN)).unwrap_or(u64::MAX);
    if view.holder_count > shown {
        let _ = write!(text, "\n  holder   and {} more", view.holder_count - shown);
    }
    if view.is_held() {
        let _ = write!(text, "\n  lease    {}", lease_text(view.lease_left.map(millis)));
    }
    if let Some(token) = view.token {
        let _ = write!(text, "\n  token    {token}");
    }
    let _ = match view.waiting_clients {
        Some(0) => write!(text, "\n  waiting  no client"),
        Some(1) => write!(text, "\n  waiting  1 client"),
        Some(count) => write!(text, "\n  waiting  {count} clients"),
        None => write!(text, "\n  waiting  unknown: this user lacks the permission"),
    };
    for (nth, waiter) in (1..).zip(view.queue.iter().take(SHOWN)) {
        let whose = match (waiter.is_redgrid, waiter.state) {
            (false, _) => ", of Redisson",
            (true, HolderState::Gone) => ", not connected",
            (true, _) => "",
        };
        let _ = write!(text, "\n  queue    {nth}. {}{whose}", holder_text(&waiter.client, waiter.number));
    }
    let shown = u64::try_from(view.queue.len().min(SHOWN)).unwrap_or(u64::MAX);
    match view.queue_len {
        Some(len) if len > shown => {
            let _ = write!(text, "\n  queue    and {} more", len - shown);
        }
        Some(_) => {}
        None => text.push_str("\n  queue    unknown: this user lacks the permission"),
    }
    text
}

fn state_text(view: &LockView, holder: &HolderView) -> String {
    let left = holder.reader_lease_left.or(view.lease_left).map(|left| time_text(millis(left)));
    match (holder.is_retained, holder.state, left) {
        (true, _, Some(left)) => format!("released; the lock stays taken for {left}"),
        (_, HolderState::Gone, Some(left)) => format!("not connected: free in {left}, unless the lease is renewed"),
        (_, HolderState::Gone, None) => {
            "not connected, and its lease has no end: take the lock away with `redgrid unlock`".into()
        }
        (_, HolderState::Silent, _) => "silent: no answer to two questions".into(),
        (_, HolderState::NotRedgrid, _) => "not a client of redgrid".into(),
        (_, HolderState::Unknown, _) => {
            "unknown: whether its client is connected could not be read, or was contradictory".into()
        }
        (_, state, _) => state.as_str().into(),
    }
}

fn times_text(entries: u64) -> String {
    if entries == 1 { "once".into() } else { format!("{entries} times") }
}
