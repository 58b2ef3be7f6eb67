//! The page of one lock: holders, waiters, and the queue.

use std::collections::BTreeSet;

use maud::{Markup, html};
use redgrid_inspect::{HolderState, HolderView, LockKind, LockView, Mode, WaiterView};

use super::locks::state;
use super::{Content, trouble};
use crate::actions::link;
use crate::board::{LockRow, process_text};
use crate::holder_state::{Seen, State, connected_state, state_of};
use crate::object_name::bytes_of;
use crate::snapshot::{Process, Snapshot};
use crate::text::{count, encoded, millis, name, number, since, until};
use crate::view::{View, row_id};

/// Holders and waiters that are listed.
const MOST_ROWS: usize = 100;

pub(super) fn frame(content: &Content<'_>, view: &View) -> Markup {
    let lock = content.query.get("name");
    html! {
        h1 { "Lock " (name(lock)) }
        div #lock { (view.get("lock")) }
        section aria-labelledby="h-holders" {
            h2 #h-holders { "Holders" }
            div.scroll tabindex="0" role="region" aria-label="Table of holders" {
                table {
                    caption { "Who holds the lock" }
                    thead { tr {
                        th scope="col" { "Client" }
                        th scope="col" { "Process" }
                        th scope="col" { "Mode" }
                        th scope="col" { "State" }
                        th scope="col" { "Held" }
                        th scope="col" { "Lease" }
                        th.n scope="col" { "Entries" }
                        @if content.may_operate { th scope="col" { "Actions" } }
                    } }
                    tbody #holders { (view.rows("holders")) }
                }
            }
        }
        section aria-labelledby="h-queue" {
            h2 #h-queue { "Waiting" }
            div #waiting { (view.get("waiting")) }
            div.scroll tabindex="0" role="region" aria-label="Table of waiters" {
                table {
                    caption { "The queue of a fair lock, the next one first, and other clients with waiting tasks" }
                    thead { tr {
                        th.n scope="col" { "Position" }
                        th scope="col" { "Client" }
                        th scope="col" { "Process" }
                        th.n scope="col" { "Tasks" }
                        th scope="col" { "State" }
                        th scope="col" { "Waiting" }
                    } }
                    tbody #queue { (view.rows("queue")) }
                }
            }
        }
    }
}

pub(super) fn view(content: &Content<'_>, view: &mut View) -> Vec<String> {
    let snapshot = content.snapshot;
    let lock = content.query.get("name");
    let lock_name = bytes_of(lock);
    view.table("holders");
    view.table("queue");
    let Some(reading) = snapshot.watched.get(lock) else {
        view.part("lock", html! { p.hint { "The lock is being read." } });
        view.part("waiting", html! {});
        return Vec::new();
    };
    let known = reading.get();
    let listed = snapshot.locks.iter().find(|row| row.name == lock);
    view.part(
        "lock",
        html! {
            (trouble(reading, "the lock"))
            @if let Some(lock) = known { (summary(content, lock, listed, reading.read_at().unwrap_or(content.now))) }
        },
    );
    view.part("waiting", html! { @if let Some(lock) = known { (waiting(lock, listed)) } });
    if let Some(lock) = known {
        let read_at = reading.read_at().unwrap_or(content.now);
        let seen = snapshot.watched_holders.get(content.query.get("name"));
        for holder in lock.holders.iter().take(MOST_ROWS) {
            let mode = holder.mode.as_str();
            let id = row_id(&format!("{}:{}:{mode}", holder.client, holder.number.unwrap_or_default()));
            let seen = seen.and_then(|seen| seen.get(&(holder.client.clone(), holder.number))).copied();
            let shown = shown_state(snapshot, &holder.client, holder.state, seen.unwrap_or(Seen::first(read_at, None)));
            view.row("holders", id.clone(), holder_row(&id, content, lock, holder, shown, read_at));
        }
        for (place, waiter) in lock.queue.iter().enumerate().take(MOST_ROWS) {
            let id = row_id(&format!("{}:{}", waiter.client, waiter.number.unwrap_or_default()));
            let shown = shown_state(snapshot, &waiter.client, waiter.state, Seen::waiting(read_at));
            let html = waiter_row(&id, snapshot, &lock_name, Some(place + 1), &waiter.client, Some(waiter), shown);
            view.row("queue", id, html);
        }
        // Other locks have no queue on the server. Their waiters are known from reports.
        let queued: BTreeSet<&str> = lock.queue.iter().map(|waiter| waiter.client.as_str()).collect();
        let others = snapshot.connected().filter(|(client, process)| {
            !queued.contains(client.as_str()) && waiting_tasks(&lock_name, Some(process)).is_some()
        });
        for (client, _) in others.take(MOST_ROWS) {
            let id = row_id(client);
            let shown = shown_state(snapshot, client, HolderState::Alive, Seen::waiting(read_at));
            let html = waiter_row(&id, snapshot, &lock_name, None, client, None, shown);
            view.row("queue", id, html);
        }
    }
    Vec::new()
}

/// Returns the tasks of a client that wait for the lock: how many, and since when.
fn waiting_tasks(lock_name: &[u8], process: Option<&Process>) -> Option<(u64, u64)> {
    let process = process?;
    let (report, at) = process.report.as_ref()?;
    let name = process.name_in_report(lock_name)?;
    let wait = report.waits.iter().find(|wait| wait.name.as_bytes() == name)?;
    Some((wait.tasks, at.saturating_sub(wait.longest_ms)))
}

/// Says in short what is stored under the name.
fn summary(content: &Content<'_>, lock: &LockView, listed: Option<&LockRow>, read_at: u64) -> Markup {
    let kind = match &lock.kind {
        LockKind::Free => "free",
        LockKind::Plain => "lock",
        LockKind::Fair => "fair lock",
        LockKind::ReadWrite => "read-write lock",
        LockKind::Election => "lock of an election",
        LockKind::NotALock { type_name, fields } => {
            return html! {
                p {
                    "This is not a lock, but "
                    @if type_name == "hash" { "a map of " (count(usize::try_from(*fields).unwrap_or(usize::MAX), "field")) }
                    @else if type_name.is_empty() { "a value of another type" }
                    @else { "a value of the type " (name(type_name)) }
                    ". " a href={ "objects?pattern=" (encoded(content.query.get("name"))) } { "Search for objects of this name" }
                }
            };
        }
        _ => "lock of another kind",
    };
    // The end that the list shows does not change with the inaccuracy of each measurement.
    let measured = lock.lease_left.map(|left| read_at.saturating_add(millis(left)));
    let end =
        measured.map(|end| listed.and_then(|row| row.until).filter(|one| one.abs_diff(end) < 2_000).unwrap_or(end));
    html! {
        dl.numbers {
            div { dt { "Kind" } dd { (kind) } }
            div { dt { "Holders" } dd { (number(lock.holder_count)) } }
            div {
                dt { "Lease" }
                dd {
                    @if let Some(end) = end { (until(end / 1_000 * 1_000)) }
                    @else if lock.is_held() && !lock.has_lifetime { span.state.gone { "no lifetime" } }
                    @else { "–" }
                }
            }
            @if let Some(token) = lock.token { div { dt { "Last fencing token" } dd { (token) } } }
        }
        @if lock.is_held() && !lock.has_lifetime {
            p.fault {
                "The key of the lock has no lifetime, so a dead holder keeps it for ever. Another program has removed \
                 the lifetime, or took the lock without one."
            }
        }
        @if !content.snapshot.living.is_known() { p.hint { "The list of clients was not read yet." } }
    }
}

fn waiting(lock: &LockView, listed: Option<&LockRow>) -> Markup {
    if matches!(lock.kind, LockKind::NotALock { .. }) {
        return html! {};
    }
    html! {
        p {
            @match lock.waiting_clients {
                Some(clients) => { (count(usize::try_from(clients).unwrap_or(usize::MAX), "client")) " waiting" }
                None => { "How many clients wait is not known: this user may not count subscribers" }
            }
            @if let Some(row) = listed.filter(|row| row.waiting_tasks > 0) {
                "; known from reports: " (count(usize::try_from(row.waiting_tasks).unwrap_or(usize::MAX), "task"))
            }
            @if let Some(len) = lock.queue_len.filter(|len| *len > MOST_ROWS as u64) {
                "; the queue has " (number(len)) " positions, of which " (MOST_ROWS) " are listed"
            }
            "."
        }
    }
}

/// Returns the state of a client of the lock. The lock itself does not show which clients are
/// silent, and a single check does not show which are gone.
fn shown_state(snapshot: &Snapshot, client: &str, read: HolderState, seen: Seen) -> State {
    match read {
        HolderState::Alive | HolderState::Silent => connected_state(snapshot.processes.get(client)),
        HolderState::Gone => state_of(client, &seen, &snapshot.living, &snapshot.processes),
        HolderState::NotRedgrid => State::Foreign,
        _ => State::Unknown,
    }
}

fn holder_row(
    id: &str,
    content: &Content<'_>,
    lock: &LockView,
    holder: &HolderView,
    shown: State,
    read_at: u64,
) -> Markup {
    let snapshot = content.snapshot;
    let lock_name = bytes_of(content.query.get("name"));
    let process = snapshot.processes.get(&holder.client);
    let report = process.and_then(|process| process.report.as_ref());
    let reported_name = process.and_then(|process| process.name_in_report(&lock_name));
    let held = report.and_then(|(report, at)| {
        let is_it = |held: &&redgrid_core::report::HeldReport| {
            Some(held.number) == holder.number && reported_name == Some(held.name.as_bytes())
        };
        report.held.iter().find(is_it).map(|held| (held, at.saturating_sub(held.held_for_ms)))
    });
    let lease = holder.reader_lease_left.or(lock.lease_left).map(|left| read_at.saturating_add(millis(left)));
    html! {
        tr id=(id) {
            th scope="row" { span.id { (name(&holder.client)) } @if let Some(n) = holder.number { ", number " (n) } }
            td {
                @match report {
                    Some((report, _)) => { (name(&process_text(report))) }
                    None => { "not known" }
                }
                @if let Some(label) = held.and_then(|(held, _)| held.label.as_ref()) { " " span.label { (name(label)) } }
            }
            td {
                @match holder.mode { Mode::Read => "read", Mode::Write => "write", _ => "exclusive" }
                @if holder.is_retained { ", released; the lock stays taken" }
            }
            td { (state(shown)) }
            td { @if let Some((_, start)) = held { (since(start)) } @else { "–" } }
            td { @if let Some(end) = lease { (until(end / 1_000 * 1_000)) } @else { "–" } }
            td.n { (number(holder.entries)) }
            @if content.may_operate {
                td.actions {
                    // An action needs a name that is text.
                    @if !holder.is_retained && std::str::from_utf8(&lock_name).is_ok() {
                        a href=(link("force", &lock_name, &[("holder", &holder.field())])) { "Take away" }
                    }
                }
            }
        }
    }
}

fn waiter_row(
    id: &str,
    snapshot: &Snapshot,
    lock_name: &[u8],
    place: Option<usize>,
    client: &str,
    waiter: Option<&WaiterView>,
    shown: State,
) -> Markup {
    let process = snapshot.processes.get(client);
    let tasks = waiting_tasks(lock_name, process);
    html! {
        tr id=(id) {
            td.n { (place.map_or_else(|| "–".to_owned(), |place| place.to_string())) }
            td {
                span.id { (name(client)) }
                @if let Some(n) = waiter.and_then(|waiter| waiter.number) { ", number " (n) }
            }
            td {
                @match process.and_then(Process::report) {
                    Some(report) => { (name(&process_text(report))) }
                    None if waiter.is_none_or(|waiter| waiter.is_redgrid) => { "not known" }
                    None => { "a client of Redisson" }
                }
            }
            td.n { (tasks.map_or_else(|| "–".to_owned(), |(tasks, _)| number(tasks))) }
            td { (state(shown)) }
            td.w { @if let Some((_, start)) = tasks { (since(start)) } @else { "–" } }
        }
    }
}
