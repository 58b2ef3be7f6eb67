//! The last events of a client.

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redgrid_client::internal::Core;
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

/// The most characters of an event's detail.
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
    detail: String,
}

impl EventLog {
    pub(crate) fn new(core: &Arc<Core>) -> Arc<EventLog> {
        Arc::new(EventLog { core: Arc::clone(core), events: Mutex::default() })
    }

    fn events(&self) -> MutexGuard<'_, VecDeque<Event>> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an event, unless the client does not report events.
    pub(crate) fn record(&self, what: &'static str, name: &Name, detail: impl Display) {
        if self.core.settings.introspection == Introspection::Full {
            let detail = detail.to_string().chars().take(MAX_DETAIL).collect();
            let event = Event { at: self.core.clock.now(), what, name: name.clone(), detail };
            add(&mut self.events(), event);
        }
    }

    /// Returns the events, the newest first.
    pub(crate) fn report(&self, now: Instant) -> Vec<EventReport> {
        let of = |event: &Event| {
            let mut report = EventReport::default();
            report.age_ms = millis(now.since(event.at));
            report.what = event.what.into();
            report.name = event.name.to_string();
            report.detail = event.detail.clone();
            report
        };
        self.events().iter().rev().map(of).collect()
    }
}

/// Adds an event, and drops the oldest one if there are too many.
///
/// Failed renewals of a name are repeated every second. Only the last one is kept, so that they
/// displace nothing else.
fn add(events: &mut VecDeque<Event>, event: Event) {
    if event.what == RENEWAL_FAILED {
        events.retain(|other| other.what != event.what || other.name != event.name);
    }
    if events.len() == KEPT {
        events.pop_front();
    }
    events.push_back(event);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(what: &'static str, name: &str) -> Event {
        Event { at: Instant::MIN, what, name: Name::new(name).unwrap(), detail: String::new() }
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
        assert!(events.len() == KEPT && events.iter().all(|event| event.name.as_str() == "c"));
    }
}
