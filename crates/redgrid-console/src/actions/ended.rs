//! The page after an action, with its outcome.

use axum::http::StatusCode;
use maud::{Markup, html};
use redgrid_inspect::{ActionError, ActionOutcome, ActionReport, Refusal};

use super::confirm::back;
use super::intent::{Intent, Kind};
use crate::text::{visible, visible_bytes};

/// The title of the page.
pub(super) const TITLE: &str = "Outcome";

/// Returns the status and the page.
pub(super) fn page(intent: &Intent, result: &Result<ActionReport, ActionError>) -> (StatusCode, Markup) {
    let (status, heading, text) = match result {
        Ok(report) => outcome(intent, &report.outcome),
        Err(error) => (status_of(error), "Refused", format!("{error}. Nothing has changed.")),
    };
    let is_done = matches!(result, Ok(report) if report.outcome.is_done());
    let main = html! {
        h1 { (heading) ": " bdi.name { (visible_bytes(intent.object())) } }
        p.fault[!is_done] role="status" { (visible(&text)) }
        @if let Ok(report) = result {
            p.hint {
                "It is action " span.id { (report.id) } " in " a href="events" { "the record" } "."
                @if !report.is_recorded { " The outcome could not be recorded." }
            }
        }
        p { a href=(back(intent)) { (back_text(intent)) } }
    };
    (status, main)
}

fn back_text(intent: &Intent) -> &'static str {
    match intent.kind {
        Kind::Force { .. } => "Look at the lock",
        Kind::Pause | Kind::Resume => "Look at the queue",
        Kind::Redrive(_) | Kind::Remove(_) => "Look at the dead letters",
        _ => "Back to the objects",
    }
}

fn is_force(intent: &Intent) -> bool {
    matches!(intent.kind, Kind::Force { .. })
}

fn outcome(intent: &Intent, outcome: &ActionOutcome) -> (StatusCode, &'static str, String) {
    match outcome {
        ActionOutcome::Done { .. } if is_force(intent) => {
            let text = "The holder has lost the lock. The hold of a reader ends at once; any other lock is free \
                        half a second later.";
            (StatusCode::OK, "Done", text.to_owned())
        }
        ActionOutcome::Done { .. } if intent.kind == Kind::Pause => {
            (StatusCode::OK, "Done", "The queue is paused.".to_owned())
        }
        ActionOutcome::Done { .. } if intent.kind == Kind::Resume => {
            (StatusCode::OK, "Done", "The queue is resumed.".to_owned())
        }
        ActionOutcome::Done { count } => (StatusCode::OK, "Done", format!("Changed: {count}.")),
        ActionOutcome::Refused(Refusal::Failed { why }) => {
            (StatusCode::BAD_GATEWAY, "Refused", format!("{why}. Nothing has changed."))
        }
        ActionOutcome::Refused(refusal) => {
            (StatusCode::CONFLICT, "Not done", format!("Nothing has changed: {refusal}."))
        }
        other => {
            let text = format!(
                "The outcome is unknown: {other}. It may have been done. Look at the object before you try again."
            );
            (StatusCode::GATEWAY_TIMEOUT, "Outcome unknown", text)
        }
    }
}

fn status_of(error: &ActionError) -> StatusCode {
    match error {
        ActionError::NotRecorded { .. } => StatusCode::SERVICE_UNAVAILABLE,
        ActionError::NotALock { .. } | ActionError::IsLock { .. } => StatusCode::CONFLICT,
        ActionError::IsRecord { .. } => StatusCode::FORBIDDEN,
        _ => StatusCode::BAD_GATEWAY,
    }
}
