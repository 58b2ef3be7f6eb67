//! The names that tasks wait for the longest, and the longest holds.

use std::time::Duration;

use maud::{Markup, html};

use super::{Content, trouble};
use crate::board::is_lock;
use crate::contention::{Contention, LongHold, MOST_HOLDS, MOST_PROCESSES, NameRow, Waits, contention};
use crate::text::{count, duration, encoded, name, number, since, visible};
use crate::view::{View, row_id};

/// Names on a page.
const PAGE: usize = 50;

pub(super) fn frame(content: &Content<'_>, view: &View) -> Markup {
    html! {
        h1 { "Contention" }
        form.filter method="get" action="contention" role="search" aria-label="Filter of the names" {
            label { "Name contains" input type="search" name="q" value=(content.query.get("q")); }
            button type="submit" { "Filter" }
            a href="contention" { "Show all" }
        }
        div #contention-note { (view.get("contention-note")) }
        div.scroll tabindex="0" role="region" aria-label="Table of waits" {
            table {
                caption { "Locks and semaphores, that with the most waiting time first" }
                thead { tr {
                    th scope="col" { "Name" }
                    th scope="col" { "Kind" }
                    th.n scope="col" { "Waiting time" }
                    th.n scope="col" { "Waits" }
                    th.n scope="col" { "Mean" }
                    th.n scope="col" { "Longest" }
                    th.n scope="col" { "Waiting now" }
                    th scope="col" { "First of them" }
                    th scope="col" { "Processes" }
                } }
                tbody #contention { (view.rows("contention")) }
            }
        }
        div #contention-pages { (view.get("contention-pages")) }
        p.hint {
            "Waiting time: the sum of the waits that have ended. A wait counts half after 10 minutes, a quarter after \
             20, and so on. Each process reports the 20 names with the most waiting time."
        }
        section aria-labelledby="h-holds" {
            h2 #h-holds { "Longest holds" }
            div.scroll tabindex="0" role="region" aria-label="Table of the longest holds" {
                table {
                    caption { "The " (MOST_HOLDS) " locks and permits that are held for the longest time" }
                    thead { tr {
                        th scope="col" { "Name" }
                        th scope="col" { "Kind" }
                        th scope="col" { "Held" }
                        th scope="col" { "Process" }
                    } }
                    tbody #holds { (view.rows("holds")) }
                }
            }
        }
    }
}

pub(super) fn view(content: &Content<'_>, view: &mut View) -> Vec<String> {
    let snapshot = content.snapshot;
    let all = snapshot.contention.get(content.now, || contention(&snapshot.processes, content.now));
    let text = content.query.get("q");
    let has_text = |row: &&NameRow| row.name.contains(text) || visible(&row.name).contains(text);
    let matching: Vec<&NameRow> = all.names.iter().filter(has_text).collect();
    let pages = matching.len().div_ceil(PAGE).max(1);
    let page = content.query.page().min(pages);
    view.part("contention-note", note(content, &all, matching.len()));
    view.part("contention-pages", pager(text, page, pages));
    view.table("contention");
    for row in matching.into_iter().skip((page - 1) * PAGE).take(PAGE) {
        let id = row_id(&format!("{}\n{}", row.kind, row.name));
        view.row("contention", id.clone(), name_row(&id, row));
    }
    view.table("holds");
    for hold in &all.holds {
        let id = row_id(&format!("{}\n{}\n{}", hold.client, hold.number, hold.name));
        view.row("holds", id.clone(), hold_row(&id, hold));
    }
    Vec::new()
}

/// Says how complete the list is.
fn note(content: &Content<'_>, all: &Contention, matching: usize) -> Markup {
    let snapshot = content.snapshot;
    let is_complete = snapshot.living.get().is_none_or(|living| living.is_complete);
    let silent = snapshot.connected().filter(|(_, process)| process.report.is_none()).count();
    html! {
        (trouble(&snapshot.living, "the list of clients"))
        (trouble(&snapshot.questions, "the reports of the clients"))
        p.hint {
            (count(matching, "name"))
            @if matching != all.names.len() { " of " (number(all.names.len() as u64)) }
            @if all.is_cut { " or more: the reports have more entries than are listed" }
            "."
            @if !is_complete { " A part of the clients is not known." }
            @if silent > 0 { " Not reported: " (count(silent, "client")) "." }
            " Clients of Redisson do not report."
        }
    }
}

fn pager(text: &str, page: usize, pages: usize) -> Markup {
    let address = |page: usize| format!("contention?q={}&p={page}", encoded(text));
    html! {
        @if pages > 1 {
            nav.pages aria-label="Pages of the list" {
                @if page > 1 { a rel="prev" href=(address(page - 1)) { "Previous" } }
                span { "Page " (page) " of " (pages) }
                @if page < pages { a rel="next" href=(address(page + 1)) { "Next" } }
            }
        }
    }
}

fn name_row(id: &str, row: &NameRow) -> Markup {
    let sum = &row.sum;
    html! {
        tr id=(id) {
            th scope="row" { (link(&row.name, &row.kind)) }
            td.w { (kind(&row.kind)) }
            td.n { (time(sum.total_ms)) }
            td.n { (number(sum.ended)) }
            td.n { @match sum.total_ms.checked_div(sum.ended) { Some(mean) => { (time(mean)) } None => { "–" } } }
            td.n { @if sum.longest_ms > 0 { (time(sum.longest_ms)) } @else { "–" } }
            td.n { (number(sum.tasks)) }
            td { @match sum.since { Some(start) => { (since(start)) } None => { "–" } } }
            td {
                details {
                    summary {
                        @if row.process_count == 1 { "1 process" }
                        @else { (number(row.process_count as u64)) " processes" }
                    }
                    ul {
                        @for (process, waits) in &row.processes { li { (name(process)) ": " (share(waits)) } }
                        @if row.process_count > MOST_PROCESSES {
                            li { "and " (number((row.process_count - MOST_PROCESSES) as u64)) " more" }
                        }
                    }
                }
            }
        }
    }
}

/// Says how long the tasks of a process have waited.
fn share(waits: &Waits) -> Markup {
    let tasks = usize::try_from(waits.tasks).unwrap_or(usize::MAX);
    html! {
        @if waits.total_ms > 0 || waits.ended > 0 {
            (time(waits.total_ms)) " in " (count(usize::try_from(waits.ended).unwrap_or(usize::MAX), "wait"))
            ", at most " (time(waits.longest_ms))
        }
        @if let Some(start) = waits.since {
            @if waits.total_ms > 0 || waits.ended > 0 { "; " }
            (count(tasks, "task")) " waiting, the first " (since(start))
        }
    }
}

fn hold_row(id: &str, hold: &LongHold) -> Markup {
    html! {
        tr id=(id) {
            th scope="row" { (link(&hold.name, &hold.kind)) }
            td.w { (kind(&hold.kind)) }
            td { (since(hold.since)) }
            td { (name(&hold.process)) @if let Some(label) = &hold.label { " " span.label { (name(label)) } } }
        }
    }
}

/// Names an object; a lock with a link to its page.
fn link(object: &str, kind: &str) -> Markup {
    html! {
        @if is_lock(kind) { a href={ "lock?name=" (encoded(object)) } { (name(object)) } }
        @else { (name(object)) }
    }
}

fn kind(kind: &str) -> Markup {
    name(&kind.replace('_', " "))
}

fn time(ms: u64) -> String {
    duration(Duration::from_millis(ms))
}
