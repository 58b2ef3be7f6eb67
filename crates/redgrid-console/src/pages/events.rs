//! The recorded actions of operators.

use std::time::{SystemTime, UNIX_EPOCH};

use maud::{Markup, html};
use redgrid_inspect::{AUDIT_STREAM, InspectError, RecordedAction};

use crate::text::{millis, moment, name, visible, visible_bytes};

pub(super) fn frame(actions: &Result<Vec<RecordedAction>, InspectError>) -> Markup {
    html! {
        h1 { "Events" }
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
        div.scroll tabindex="0" role="region" aria-label="Actions" {
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
