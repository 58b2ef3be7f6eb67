//! The newest events that processes report: holds that were lost or taken by force, renewals that
//! failed, and requests with an unknown outcome.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use redgrid_core::report::{ClientReport, EventReport};

use crate::board::process_text;
use crate::snapshot::Process;
use crate::text::whole_seconds;

/// The most events that are kept.
pub(crate) const MOST_EVENTS: usize = 200;

/// The most events of all reports that are read, so that the list takes bounded memory and time.
const MOST_ENTRIES: usize = 50_000;

/// An event of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessEvent {
    /// When it happened, in milliseconds since 1970.
    pub(crate) at: u64,
    /// The event, in the words of the process.
    pub(crate) what: String,
    /// The lock or semaphore.
    pub(crate) name: String,
    pub(crate) detail: String,
    pub(crate) client: String,
    pub(crate) process: String,
}

/// The newest events of all processes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProcessEvents {
    /// The events, the newest first.
    pub(crate) newest: Vec<ProcessEvent>,
    /// Whether there are more.
    pub(crate) is_cut: bool,
}

/// Returns the newest events in the last reports, also those of processes that have left within a
/// minute.
pub(crate) fn newest(processes: &BTreeMap<String, Process>) -> ProcessEvents {
    let mut left = MOST_ENTRIES;
    let mut all: Vec<(u64, &str, &Process, &ClientReport, &EventReport)> = Vec::new();
    for (client, process) in processes {
        let Some((report, at)) = &process.report else { continue };
        for event in report.events.iter().take(left) {
            left -= 1;
            let at = whole_seconds(at.saturating_sub(event.age_ms));
            all.push((at, client, process, report, event));
        }
    }
    all.sort_by_key(|(at, ..)| Reverse(*at));
    let is_cut = left == 0 || all.len() > MOST_EVENTS;
    let newest = all.into_iter().take(MOST_EVENTS).map(|(at, client, process, report, event)| ProcessEvent {
        at,
        what: event.what.clone(),
        name: format!("{}{}", process.namespace, event.name),
        detail: event.detail.clone(),
        client: client.to_owned(),
        process: process_text(report),
    });
    ProcessEvents { newest: newest.collect(), is_cut }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn event(name: &str, age_ms: u64) -> EventReport {
        let mut event = EventReport::default();
        (event.what, event.name, event.age_ms) = ("lost".to_owned(), name.to_owned(), age_ms);
        event
    }

    fn process(events: Vec<EventReport>, at: u64) -> Process {
        let mut report = ClientReport::default();
        (report.events, report.program, report.host, report.pid) = (events, "worker".into(), "web".into(), 7);
        Process { report: Some((Arc::new(report), at)), ..Process::default() }
    }

    #[test]
    fn the_newest_events_of_all_processes_come_first() {
        let mut other = process(vec![event("b", 1_500), event("d", 90_000)], 100_000);
        other.namespace = "prod:".into();
        // This process has left, and is remembered for a minute.
        other.left_at = Some(101_000);
        let one = process(vec![event("a", 400), event("c", 60_000)], 100_000);
        let found = newest(&BTreeMap::from([("one".to_owned(), one), ("other".to_owned(), other)]));
        let names: Vec<_> = found.newest.iter().map(|event| (event.name.as_str(), event.at)).collect();
        assert_eq!(names, [("a", 99_000), ("prod:b", 98_000), ("c", 40_000), ("prod:d", 10_000)]);
        assert_eq!(
            (found.newest[1].client.as_str(), found.newest[1].process.as_str()),
            ("other", "worker on web, pid 7")
        );
        assert!(!found.is_cut);
    }

    #[test]
    fn the_events_are_bounded() {
        let many = |n: usize| (format!("{n:05}"), process(vec![event("a", 0); 64], 100_000));
        let found = newest(&(0..4).map(many).collect());
        assert_eq!((found.newest.len(), found.is_cut), (MOST_EVENTS, true));
        assert!(newest(&(0..1_000).map(many).collect()).is_cut);
        assert_eq!(newest(&BTreeMap::new()), ProcessEvents::default());
    }
}
