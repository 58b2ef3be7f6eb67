//! The recorded actions of operators, and the events that processes report.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use maud::{Markup, html};
use redgrid_inspect::{AUDIT_STREAM, InspectError, RecordedAction};

use super::{Content, trouble};
use crate::process_events::{MOST_EVENTS, ProcessEvent, newest};
use crate::text::{ago, count, encoded, millis, moment, name, visible, visible_bytes};
use crate::view::{View, row_id};

/// Shows the page. The actions are those at the time of the request; `None` if this console does
/// not operate, and does not read the record.
pub(super) fn frame(view: &View, actions: Option<&Result<Vec<RecordedAction>, InspectError>>) -> Markup {
    html! {
        h1 { "Events" }
        section aria-labelledby="h-actions" {
            h2 #h-actions { "Actions" }
            @match actions {
                Some(actions) => { (recorded(actions)) }
                None => { p.hint { "This console has no actions, and does not read the record of those of others." } }
            }
        }
        section aria-labelledby="h-processes" {
            h2 #h-processes { "Processes" }
            div #events-note { (view.get("events-note")) }
            div.scroll tabindex="0" role="region" aria-label="Table of events of processes" {
                table {
                    caption { "What processes report of their holds and requests, the newest first" }
                    thead { tr {
                        th scope="col" { "Lock or semaphore" }
                        th scope="col" { "When" }
                        th scope="col" { "Event" }
                        th scope="col" { "Detail" }
                        th scope="col" { "Process" }
                    } }
                    tbody #events { (view.rows("events")) }
                }
            }
        }
    }
}

pub(super) fn view(content: &Content<'_>, view: &mut View) -> Vec<String> {
    let snapshot = content.snapshot;
    let all = snapshot.events.get(content.now, || newest(&snapshot.processes));
    view.part(
        "events-note",
        html! {
            (trouble(&snapshot.living, "the list of clients"))
            (trouble(&snapshot.questions, "the reports of the clients"))
            p.hint {
                (count(all.newest.len(), "event"))
                @if all.is_cut { ", of which there are more: the newest " (MOST_EVENTS) " are listed" }
                ". A process reports its last 64: holds that were lost or taken by force, renewals that failed, and \
                 requests whose outcome is unknown. Those of a process that has ended are shown for a minute."
            }
        },
    );
    view.table("events");
    // Two equal events may happen within a second.
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for event in &all.newest {
        let identity = format!("{}\n{}\n{}\n{}", event.at, event.client, event.what, event.name);
        let nth = seen.entry(identity.clone()).or_default();
        let id = row_id(&format!("{identity}\n{nth}"));
        *nth += 1;
        view.row("events", id.clone(), event_row(&id, event));
    }
    Vec::new()
}

fn event_row(id: &str, event: &ProcessEvent) -> Markup {
    html! {
        tr id=(id) {
            th scope="row" { a href={ "lock?name=" (encoded(&event.name)) } { (name(&event.name)) } }
            td { (ago(event.at)) }
            td.w { strong { (name(&event.what)) } }
            td { (name(&event.detail)) }
            td { (name(&event.process)) }
        }
    }
}

fn recorded(actions: &Result<Vec<RecordedAction>, InspectError>) -> Markup {
    html! {
        p.hint {
            "The newest actions of operators, from the last 100 entries of the stream " code { (AUDIT_STREAM) } ". "
            a href="events" { "Refresh" }
        }
        @match actions {
            Err(error) => { p.fault { "Could not read the record: " (visible(&error.to_string())) "." } }
            Ok(actions) => { (table(actions)) }
        }
    }
}

fn table(actions: &[RecordedAction]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Table of actions" {
            table {
                caption { "Actions, the newest first" }
                thead { tr {
                    th scope="col" { "Time" }
                    th scope="col" { "Object" }
                    th scope="col" { "Action" }
                    th scope="col" { "Outcome" }
                    th scope="col" { "Who" }
                    th scope="col" { "Reason" }
                    th scope="col" { "Before" }
                } }
                tbody { @for action in actions { (row(action)) } }
            }
        }
    }
}

fn row(action: &RecordedAction) -> Markup {
    html! {
        tr {
            td { (moment(unix_ms(action.at))) }
            th scope="row" { bdi.name { (visible_bytes(&action.object)) } }
            td.w { (name(&action.action)) @if !action.target.is_empty() { br; span.id { (visible(&action.target)) } } }
            td {
                @match &action.outcome {
                    Some(ended) => {
                        strong { (visible(&ended.outcome)) }
                        @if !ended.detail.is_empty() { ": " (name(&ended.detail)) }
                    }
                    None => { strong { "none recorded" } ": it is running, or its outcome is unknown" }
                }
            }
            td { (name(&action.who)) br; (name(&action.from)) }
            td { (name(&action.reason)) }
            td { (name(&action.before)) }
        }
    }
}

fn unix_ms(at: SystemTime) -> u64 {
    millis(at.duration_since(UNIX_EPOCH).unwrap_or_default())
}
