//! The page before an action: what will happen, the name to type, and the reason.

use axum::http::StatusCode;
use maud::{Markup, html};
use redgrid_inspect::{DeadSelection, HolderState, HolderView, InspectError, LockView, Mode, ObjectView};

use super::Written;
use super::intent::{Intent, Kind};
use crate::board::process_text;
use crate::console::App;
use crate::object_name::id_of;
use crate::snapshot::Process;
use crate::text::{count, duration, encoded, field_of_bytes, name, visible, visible_bytes};

/// The page without a form, with its status.
type Impossible = (StatusCode, Markup);

/// Returns the page with the form.
///
/// # Errors
///
/// The page that says why the action is not possible.
pub(super) async fn page(app: &App, intent: &Intent, written: &Written<'_>) -> Result<Markup, Impossible> {
    let effect = effect(app, intent).await?;
    let shown = visible_bytes(intent.object());
    Ok(html! {
        h1 { (intent.title()) ": " bdi.name { (shown) } }
        (effect)
        @if let Some(fault) = &written.fault { p.fault role="alert" { (fault) } }
        form.confirm method="post" action="action" {
            input type="hidden" name="do" value=(intent.word());
            input type="hidden" name="object" value=(field_of_bytes(intent.object()));
            (fields(intent))
            label { span { "Type the name of the object, as it is shown: " bdi.name { (shown) } }
                input type="text" name="typed" value=(written.typed) required autocomplete="off" spellcheck="false";
            }
            label { span { "The reason, for the record: up to 200 characters" }
                input type="text" name="reason" value=(written.reason) required maxlength="200" autocomplete="off";
            }
            p.hint { "The action is recorded with this reason before it is begun." }
            div.pages {
                button type="submit" { (intent.title()) }
                a href=(back(intent)) { "Cancel" }
            }
        }
    })
}

/// Returns the page from which the action was chosen.
pub(super) fn back(intent: &Intent) -> String {
    match intent.kind {
        Kind::Force { .. } => format!("lock?name={}", encoded(&id_of(intent.object()))),
        Kind::Pause | Kind::Resume => format!("queue?name={}", encoded(&id_of(intent.object()))),
        Kind::Redrive(_) | Kind::Remove(_) => {
            format!("queue?name={}&state=dead", encoded(&id_of(intent.object())))
        }
        _ => "objects".to_owned(),
    }
}

/// Returns the fields of the form that belong to the kind.
fn fields(intent: &Intent) -> Markup {
    let messages = |selection: &DeadSelection| match selection {
        DeadSelection::Marked(ids) => ids.iter().map(ToString::to_string).collect(),
        _ => vec!["all".to_owned()],
    };
    html! {
        @match &intent.kind {
            Kind::Force { holder } => { input type="hidden" name="holder" value=(holder); }
            Kind::Delete | Kind::Pause | Kind::Resume => {}
            Kind::Lifetime { text } => {
                label { span { "The time from now, such as 30s, 5min or 2days; or none for no lifetime" }
                    input type="text" name="lifetime" value=(text) required autocomplete="off";
                }
            }
            Kind::Permit { id } => {
                label { span { "The id of the permit: 32 hexadecimal digits" }
                    input type="text" name="id" value=(id) required autocomplete="off" spellcheck="false";
                }
            }
            Kind::Redrive(selection) | Kind::Remove(selection) => {
                @for id in messages(selection) { input type="hidden" name="id" value=(id); }
            }
        }
    }
}

/// Describes the effect of the action, from the present state of the object.
async fn effect(app: &App, intent: &Intent) -> Result<Markup, Impossible> {
    let inspector = &app.collector.inspector;
    match &intent.kind {
        Kind::Force { holder } => {
            let lock = inspector.lock(intent.text()).await.map_err(|error| unreadable(intent, &error))?;
            match lock.holders.iter().find(|one| one.field() == *holder) {
                Some(holder) => Ok(losing(app, &lock, holder)),
                None => Err(passed(intent, &lock)),
            }
        }
        Kind::Delete | Kind::Lifetime { .. } => {
            let object = inspector.object(intent.object()).await.map_err(|error| unreadable(intent, &error))?;
            Ok(of_object(intent, object.as_ref()))
        }
        Kind::Permit { .. } => Ok(html! {
            p { "The permit becomes available to others. Its holder may still be working: a redgrid holder notices the \
                 loss at its next renewal, one of Redisson when it gives the permit back." }
        }),
        Kind::Redrive(selection) => Ok(html! {
            p { (dead_letters(selection)) " will be ready again, with no attempts, and consumers receive them." }
        }),
        Kind::Remove(selection) => Ok(html! {
            p { (dead_letters(selection)) " will be removed for good." }
        }),
        Kind::Pause => Ok(html! {
            p { "The server delivers no message of the queue to any process until it is resumed. Consumers keep the \
                 messages that they have. Versions of redgrid that know no pause ignore it." }
        }),
        Kind::Resume => Ok(html! {
            p { "The server delivers the messages of the queue again, and waiting consumers continue." }
        }),
    }
}

fn dead_letters(selection: &DeadSelection) -> String {
    match selection {
        DeadSelection::Marked(ids) => count(ids.len(), "dead letter"),
        _ => "All dead letters of the queue".to_owned(),
    }
}

/// Describes the holder that loses the lock, and how it is notified.
fn losing(app: &App, lock: &LockView, holder: &HolderView) -> Markup {
    let snapshot = app.collector.snapshot();
    let process = snapshot.processes.get(&holder.client).and_then(Process::report).map(process_text);
    html! {
        p {
            "The holder " span.id { (visible(&holder.field())) }
            @if let Some(process) = process { " (" (name(&process)) ")" }
            " loses the lock"
            @if let Some(left) = holder.reader_lease_left.or(lock.lease_left) {
                ", " (duration(left)) " before the end of its lease"
            }
            ". Another holder keeps it: if the lock has passed on when you confirm, nothing changes."
        }
        p {
            @match holder.state {
                HolderState::Alive | HolderState::Silent => {
                    "Its client is connected, and is notified at once. Until it notices, it may still be working."
                }
                HolderState::Gone => { "Its client is gone, so nothing is interrupted." }
                HolderState::NotRedgrid => {
                    "It is a client of Redisson, which is not notified: it notices the loss only when it unlocks. \
                     Until then it may be working beside the next holder."
                }
                _ => { "Whether its client lives is not known. It may still be working." }
            }
            " A store that checks fencing tokens refuses its later writes."
        }
        @if holder.is_retained {
            p.fault { "The holder has released the lock, which stays taken until its minimum time ends. This cannot be \
                       cut short here." }
        }
        @if holder.mode == Mode::Read {
            p.hint { "The hold of a reader ends at once. A waiting writer enters after the last reader." }
        } @else {
            p.hint { "The lock is free half a second later, and the next waiter enters." }
        }
    }
}

/// Says that the holder does not have the lock any more.
fn passed(intent: &Intent, lock: &LockView) -> Impossible {
    let holders: Vec<_> = lock.holders.iter().take(5).map(HolderView::field).collect();
    let main = html! {
        h1 { (intent.title()) ": " bdi.name { (visible_bytes(intent.object())) } }
        p.fault role="alert" {
            @if holders.is_empty() { "This holder does not have the lock any more: it is free." }
            @else {
                "This holder does not have the lock any more: it has passed to " (visible(&holders.join(", "))) "."
            }
        }
        p { a href=(back(intent)) { "Look at the lock" } }
    };
    (StatusCode::CONFLICT, main)
}

fn of_object(intent: &Intent, object: Option<&ObjectView>) -> Markup {
    html! {
        p {
            @match object {
                Some(object) => {
                    "It is now: " (object.kind.as_str())
                    @if let Some(size) = object.size { ", size " (size) }
                    @match object.lifetime {
                        Some(left) => { ", expires in " (duration(left)) }
                        None => { ", without a lifetime" }
                    }
                    "."
                }
                None => { "Nothing is stored under the name itself now." }
            }
        }
        @if intent.kind == Kind::Delete {
            p { "The object and all keys that belong to it are deleted for good. Fences and token counters stay." }
        } @else {
            p { "The object and all keys that belong to it expire at that time." }
        }
        @if object.is_some_and(|object| object.kind.is_lock()) {
            p.fault { "It is a lock, so this is refused. Use the page of the lock: an action there notifies the holder." }
        }
    }
}

fn unreadable(intent: &Intent, error: &InspectError) -> Impossible {
    let main = html! {
        h1 { (intent.title()) ": " bdi.name { (visible_bytes(intent.object())) } }
        p.fault role="alert" { "The object cannot be read: " (visible(&error.to_string())) "." }
        p { a href=(back(intent)) { "Back" } }
    };
    (StatusCode::BAD_GATEWAY, main)
}
