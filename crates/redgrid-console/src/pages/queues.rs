//! The list of reliable queues.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use maud::{Markup, html};
use redgrid_inspect::QueueView;

use super::Content;
use super::listed::{Column, Row, fill, frame as list_frame};
use crate::listed::{Detail, Group};
use crate::text::{encoded, millis, name, number, since, whole_seconds};
use crate::view::View;

const COLUMNS: [Column; 9] = [
    ("Name", false),
    ("State", false),
    ("Ready", true),
    ("Oldest", false),
    ("In flight", true),
    ("Overdue", true),
    ("Delayed", true),
    ("Dead letters", true),
    ("Waiting clients", true),
];

pub(super) fn frame(content: &Content<'_>, view: &View) -> Markup {
    html! {
        (list_frame(content, view, Group::Queues, "Reliable queues", &COLUMNS))
        p.hint {
            "Oldest: how long the oldest ready message has been ready. Overdue: received, and not settled within the \
             visibility; these count as ready. Waiting clients: those with a receiver that waits for a message."
        }
    }
}

pub(super) fn view(content: &Content<'_>, view: &mut View) -> Vec<String> {
    fill(content, view, Group::Queues, COLUMNS.len(), |row| {
        let link = html! { a href={ "queue?name=" (encoded(row.name)) } { (name(row.name)) } };
        (link, cells(row))
    })
}

fn cells(row: &Row<'_>) -> Markup {
    let Detail::Queue(queue) = row.detail else { return html! {} };
    let counts = &queue.counts;
    html! {
        td { (state(queue)) }
        td.n { (number(counts.ready)) }
        td { (oldest(queue, row.read_at)) }
        td.n { (number(counts.in_flight)) }
        td.n { (number(counts.overdue)) }
        td.n { (number(counts.delayed)) }
        td.n {
            @if counts.dead == 0 { "0" }
            @else { a href={ "queue?name=" (encoded(row.name)) "&state=dead" } { (number(counts.dead)) } }
        }
        td.n { (waiting(queue)) }
    }
}

/// Shows whether the queue is paused.
pub(super) fn state(queue: &QueueView) -> Markup {
    html! {
        @match queue.counts.paused_since {
            Some(start) => { span.state.silent { "paused" } " " (since(unix_ms(start))) }
            None => { span.state.alive { "running" } }
        }
    }
}

/// Shows since when the oldest ready message is ready.
pub(super) fn oldest(queue: &QueueView, read_at: u64) -> Markup {
    // Whole seconds: the inaccuracy of each reading does not change the page.
    let start = |age: Duration| whole_seconds(read_at.saturating_sub(millis(age)));
    html! { @match queue.counts.oldest_ready_age { Some(age) => { (since(start(age))) } None => { "–" } } }
}

/// Shows the number of clients that wait.
pub(super) fn waiting(queue: &QueueView) -> String {
    queue.waiting_clients.map_or_else(|| "not known".to_owned(), number)
}

/// Returns milliseconds since 1970.
pub(super) fn unix_ms(time: SystemTime) -> u64 {
    millis(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}
