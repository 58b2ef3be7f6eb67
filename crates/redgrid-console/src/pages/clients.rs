//! The client processes: what each of them holds, and what its tasks wait for.

use maud::{Markup, html};
use redgrid_core::report::ClientReport;

use super::locks::state;
use super::{Content, trouble};
use crate::board::process_text;
use crate::holder_state::connected_state;
use crate::object_name::full_id;
use crate::snapshot::Process;
use crate::text::{ago, clock, count, encoded, name, number, since, whole_seconds};
use crate::view::{View, row_id};

/// Clients on a page.
const PAGE: usize = 50;

/// Names in the details of a client.
const MOST_NAMES: usize = 20;

pub(super) fn frame(view: &View) -> Markup {
    html! {
        h1 { "Clients" }
        div #clients-note { (view.get("clients-note")) }
        div.scroll tabindex="0" role="region" aria-label="Clients" {
            table {
                caption { "Connected clients of redgrid, and what they report" }
                thead { tr {
                    th scope="col" { "Process" }
                    th scope="col" { "Client" }
                    th scope="col" { "State" }
                    th scope="col" { "Version" }
                    th scope="col" { "Started" }
                    th.n scope="col" { "Holds" }
                    th.n scope="col" { "Waiting" }
                    th scope="col" { "Details" }
                } }
                tbody #clients { (view.rows("clients")) }
            }
        }
        div #clients-pages { (view.get("clients-pages")) }
    }
}

pub(super) fn view(content: &Content<'_>, view: &mut View) -> Vec<String> {
    let snapshot = content.snapshot;
    let total = snapshot.connected().count();
    let pages = total.div_ceil(PAGE).max(1);
    let page = content.query.page().min(pages);
    let is_complete = snapshot.living.get().is_none_or(|living| living.is_complete);
    view.part("clients-note", html! {
        (trouble(&snapshot.living, "the list of clients"))
        (trouble(&snapshot.questions, "the reports of the clients"))
        p.hint {
            (count(total, "client"))
            @if !is_complete { " or more: a node did not answer or has too many channels, or there are more than 10 000" }
            ". Clients of Redisson are not listed: they have no channel of their own."
        }
    });
    view.part(
        "clients-pages",
        html! {
            @if pages > 1 {
                nav.pages aria-label="Pages of the list" {
                    @if page > 1 { a rel="prev" href={ "clients?p=" (page - 1) } { "Previous" } }
                    span { "Page " (page) " of " (pages) }
                    @if page < pages { a rel="next" href={ "clients?p=" (page + 1) } { "Next" } }
                }
            }
        },
    );
    view.table("clients");
    for (client, process) in snapshot.connected().skip((page - 1) * PAGE).take(PAGE) {
        let id = row_id(client);
        let shown = connected_state(Some(process));
        let html = html! {
            tr id=(id) {
                th scope="row" {
                    @match process.report() {
                        Some(report) => { (name(&process_text(report))) }
                        None if process.is_asked => { "has not answered" }
                        None => { "not asked yet" }
                    }
                }
                td { span.id { (name(&process.namespace)) (name(client)) } }
                td {
                    (state(shown))
                    @if let Some(start) = process.silent_since { " since " (clock(start)) " UTC" }
                }
                (reported(process))
            }
        };
        view.row("clients", id, html);
    }
    Vec::new()
}

/// The cells of what a process reports.
fn reported(process: &Process) -> Markup {
    let Some((report, at)) = &process.report else {
        return html! { td { "–" } td { "–" } td.n { "–" } td.n { "–" } td { "–" } };
    };
    let has_details = !(report.held.is_empty() && report.waits.is_empty() && report.events.is_empty());
    html! {
        td { (name(&report.version)) }
        td { @if report.started_ms > 0 { (ago(report.started_ms)) } @else { "–" } }
        td.n { (number(report.holds)) }
        td.n { (number(report.waiting)) }
        td {
            @if has_details {
                details {
                    summary { "Show" }
                    (details(report, *at, &process.namespace))
                }
            } @else { "–" }
        }
    }
}

fn details(report: &ClientReport, at: u64, namespace: &str) -> Markup {
    let link = |one: &str| {
        html! { a href={ "lock?name=" (encoded(&full_id(namespace, one))) } { (name(&full_id("", one))) } }
    };
    html! {
        @if !report.held.is_empty() {
            p { strong { "Holds" } }
            ul {
                @for held in report.held.iter().take(MOST_NAMES) {
                    li {
                        (link(&held.name)) " (" (name(&held.kind.replace('_', " "))) ") "
                        (since(whole_seconds(at.saturating_sub(held.held_for_ms))))
                        @if let Some(label) = &held.label { " " span.label { (name(label)) } }
                    }
                }
                (more(report.held.len()))
            }
        }
        @if !report.waits.is_empty() {
            p { strong { "Waits for" } }
            ul {
                @for wait in report.waits.iter().take(MOST_NAMES) {
                    li {
                        (link(&wait.name)) ", " (count(usize::try_from(wait.tasks).unwrap_or(0), "task")) ", the first "
                        (since(whole_seconds(at.saturating_sub(wait.longest_ms))))
                    }
                }
                (more(report.waits.len()))
            }
        }
        @if !report.events.is_empty() {
            p { strong { "Events" } }
            ul {
                @for event in report.events.iter().take(MOST_NAMES) {
                    li {
                        (ago(whole_seconds(at.saturating_sub(event.age_ms)))) ": " (name(&event.what)) ", " (link(&event.name))
                        @if !event.detail.is_empty() { ": " (name(&event.detail)) }
                    }
                }
                (more(report.events.len()))
            }
        }
        @if report.is_truncated { p.hint { "The process knows more than its report has room for." } }
    }
}

fn more(len: usize) -> Markup {
    html! { @if len > MOST_NAMES { li { "and " (number((len - MOST_NAMES) as u64)) " more" } } }
}
