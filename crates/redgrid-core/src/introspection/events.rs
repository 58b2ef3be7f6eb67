//! The last events of a client.

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::Arc;

use redgrid_client::internal::{Core, Mutex};
use redgrid_client::report::EventReport;

use super::gathered::millis;
use crate::clock::Instant;
use crate::config::Introspection;
use crate::name::Name;

/// A hold has ended without a release.
pub(crate) const LOST: &str = "lost";
/// A hold was taken by force.
pub(crate) const FORCED: &str = "forced";
/// A renewal was not confirmed, and is tried again.
pub(crate) const RENEWAL_FAILED: &str = "renewal failed";
/// The outcome of a request is unknown.
pub(crate) const UNKNOWN: &str = "unknown";

/// The number of events that are kept: 64.
const KEPT: usize = 64;

/// Maximum number of characters of an event's detail.
const MAX_DETAIL: usize = 200;

/// The last events of a client.
pub(crate) struct EventLog {
    core: Arc<Core>,
    /// The oldest event first.
    events: Mutex<VecDeque<Event>>,
}

struct Event {
    at: Instant,
    what: &'static str,
    name: Name,
    /// The detail. If several events were joined into one, this is the detail of the latest.
    detail: String,
    /// The number of events that were joined into this one, including itself.
    times: u64,
}

impl EventLog {
    pub(crate) fn new(core: &Arc<Core>) -> Arc<EventLog> {
        Arc::new(EventLog { core: Arc::clone(core), events: Mutex::default() })
    }

    /// Returns whether the client's reports contain lists, such as events and contention.
    pub(crate) fn is_full_report(&self) -> bool {
        self.core.settings.introspection == Introspection::Full
    }

    /// Records an event, unless the client does not report events.
    pub(crate) fn record(&self, what: &'static str, name: &Name, detail: impl Display) {
        if self.is_full_report() {
            let detail = detail.to_string().chars().take(MAX_DETAIL).collect();
            let event = Event { at: self.core.clock.now(), what, name: name.clone(), detail, times: 1 };
            add(&mut self.events.lock(), event);
        }
    }

    /// Returns the events, the newest first.
    pub(crate) fn report(&self, now: Instant) -> Vec<EventReport> {
        let of = |event: &Event| {
            let mut report = EventReport::default();
            report.age_ms = millis(now.since(event.at));
            report.what = event.what.into();
            report.name = event.name.to_string();
            report.detail = match event.times {
                1 => event.detail.clone(),
                times => format!("{} ({times} times)", event.detail),
            };
            report
        };
        self.events.lock().iter().rev().map(of).collect()
    }
}

/// Adds an event. If there are too many events, drops the oldest one of the most frequent kind.
///
/// While the server cannot be reached, renewals fail every second, and each waiting task may end
/// with an unknown outcome. So one event stands for all failed renewals of a name, and another for
/// all its unknown outcomes. Otherwise these events would displace those of lost holds.
fn add(events: &mut VecDeque<Event>, mut event: Event) {
    let is_same = |other: &Event| other.what == event.what && other.name == event.name;
    let is_joined = event.what == RENEWAL_FAILED || event.what == UNKNOWN;
    if is_joined && let Some(earlier) = events.iter().position(is_same).and_then(|at| events.remove(at)) {
        event.times += earlier.times;
    }
    if events.len() == KEPT {
        let count = |what| events.iter().filter(|other| other.what == what).count();
        let most = [LOST, FORCED, RENEWAL_FAILED, UNKNOWN].into_iter().max_by_key(|what| count(*what));
        let oldest = events.iter().position(|other| Some(other.what) == most).unwrap_or_default();
        events.remove(oldest);
    }
    events.push_back(event);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(what: &'static str, name: &str) -> Event {
        Event { at: Instant::MIN, what, name: Name::new(name).unwrap(), detail: String::new(), times: 1 }
    }

    #[test]
    fn the_last_64_events_are_kept_and_one_failed_renewal_per_name() {
        let mut events = VecDeque::new();
        add(&mut events, event(LOST, "a"));
        for _ in 0..100 {
            add(&mut events, event(RENEWAL_FAILED, "a"));
        }
        add(&mut events, event(RENEWAL_FAILED, "b"));
        let all: Vec<_> = events.iter().map(|event| (event.what, event.name.as_str())).collect();
        assert_eq!(all, [(LOST, "a"), (RENEWAL_FAILED, "a"), (RENEWAL_FAILED, "b")]);
        for _ in 0..100 {
            add(&mut events, event(LOST, "c"));
        }
        assert_eq!(events.len(), KEPT);
        assert!(events.iter().all(|event| event.what == RENEWAL_FAILED || event.name.as_str() == "c"));
    }

    #[test]
    fn unknown_outcomes_displace_no_lost_hold() {
        let mut events = VecDeque::new();
        add(&mut events, event(LOST, "a"));
        for n in 0..1_000 {
            add(&mut events, event(UNKNOWN, &format!("{}", n % 100)));
        }
        assert_eq!((events.len(), events[0].what, events[0].name.as_str()), (KEPT, LOST, "a"));
        for _ in 0..9 {
            add(&mut events, event(UNKNOWN, "b"));
        }
        assert_eq!(events.back().map(|last| (last.name.as_str(), last.times)), Some(("b", 9)));
    }
}
